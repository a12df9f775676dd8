"""The common call without a task: decided and sent where its line arrives, answered likewise.

It is the same way through as the relay's, for a tool whose last call went it a moment ago: client
request, session, guard, route, child, response. Whatever is not plain goes the relay's way.
"""

from __future__ import annotations

from typing import Protocol

from anyio.abc import TaskGroup

from hub.core.audit import Outcome
from hub.core.errors import ChildError
from hub.core.guard import Admitted
from hub.core.values import Call, JsonObject
from hub.runtime.asker import CallAsker
from hub.runtime.lanes import Lane
from hub.runtime.peer import GoneError, LostError, Outlet, Peer, RpcError, SilentError
from hub.runtime.record import note_plain
from hub.runtime.relay import tool_error
from hub.runtime.request_lanes import AskedForRoots
from hub.runtime.session import Session
from hub.runtime.strict_json import RequestId
from hub.runtime.waiting import Answer, Progress, Underway, token_in
from hub.runtime.wire import Failure, Payload, Request, Response


class Reply(Protocol):
    """How one request is answered."""

    @property
    def outlet(self) -> Outlet:
        """Where messages that belong to the request go before its answer."""
        ...

    def give(self, answer: Answer) -> bool:
        """Hand the answer over if it is taken now, and return whether it was.

        None: there will be none, because the request was taken back.
        """
        ...

    async def deliver(self, answer: Response | Failure) -> None:
        """Hand the answer over, waiting until it is taken."""
        ...

    def detour(self, request: Request) -> None:
        """Let the request be answered the general way after all."""
        ...


class Register(Protocol):
    """Keeps what one side has asked: a peer's backlog does."""

    def takes(self, id_: RequestId) -> bool:
        """Return whether a request with this id can be taken, and its answer sent, now."""
        ...

    def enter(self, id_: RequestId, underway: Underway) -> None:
        """Register a request, so that it is waited for, and can be cancelled."""
        ...

    def leave(self, id_: RequestId, underway: Underway) -> None:
        """Take note that a request has had its answer sent, or will never have."""
        ...


class Way(Protocol):
    """How one plain call goes."""

    @property
    def lane(self) -> Lane:
        """Where it goes."""
        ...

    @property
    def owner(self) -> Session:
        """Whose call it is."""
        ...

    @property
    def is_open(self) -> bool:
        """Whether the call would still be looked up to the same end."""
        ...

    def admit(self, params: JsonObject) -> Admitted | None:
        """Return the admitted call; None if there is more to it than that."""
        ...

    def complete(self, result: Payload) -> Payload:
        """Return a result as its client wants it.

        Raises: RpcError for one that cannot be read.
        """
        ...


class Express:
    """Takes plain calls through; `register` keeps them while they are under way."""

    def __init__(self, register: Register, tasks: TaskGroup) -> None:
        self.register = register
        self.tasks = tasks

    def take(
        self, request: Request, way: Way | AskedForRoots | None, reply: Reply
    ) -> Underway | None:
        """Take a request if it is a plain call, and return what it is then, until it is answered.

        One that is asked for roots has its answer at once.
        """
        if way is None or not self.register.takes(request.id):
            return None
        if isinstance(way, AskedForRoots):
            return way if reply.give(Response(request.id, way.result)) else None
        admitted = way.admit(request.params)
        if admitted is None:
            return None
        passage = Passage(self, way, request, admitted.call, reply)
        return passage if passage.begin() else None


class Passage:
    """One call on its way; it is under way for its client, and waits for its child's answer."""

    can_be_cancelled = True

    def __init__(
        self, express: Express, way: Way, request: Request, call: Call, reply: Reply
    ) -> None:
        owner = way.owner
        self._express = express
        self._way = way
        self._lane = way.lane
        self._request = request
        self._call = call
        self._reply = reply
        self._asker = CallAsker(owner, reply.outlet, token_in(request.params), tasks=express.tasks)
        self._clock = owner.services.machine.clock
        self._began = self._clock()
        if owner.unasked:
            self._asker.giving_up(_Turn(self))
        self._is_settled = False
        self._childs: Peer
        self._posted: Request | None = None

    def begin(self) -> bool:
        """Send the call to its child, now or when a slot is free; return whether it is taken."""
        lane = self._lane
        slots = lane.child.slots
        if not slots.take():
            slots.line_up(self._begin_late)
        elif not self._post():
            slots.give()
            return False
        lane.place.begin_use(self._began)
        self._express.register.enter(self._request.id, self)
        return True

    def _begin_late(self) -> bool:
        if self._way.is_open and self._post():
            return True
        # The world is another one by now: the call is looked up and judged again.
        self._over()
        self._reply.detour(self._request)
        return False

    def _post(self) -> bool:
        child, call = self._lane.child, self._call
        peer = child.peer
        posted = None if peer is None else peer.post(call.method, call.params, self)
        if peer is None or posted is None:
            return False
        self._childs, self._posted = peer, posted
        child.answers.begin(self._asker)
        child.deadlines.begin(self)
        return True

    # The child's side

    @property
    def progress(self) -> Progress | None:
        """Where progress reports go; None if the client gave no token."""
        return self._asker.progress

    def settle(self, answer: Answer) -> None:
        """Pass the child's answer on to the client."""
        self._served()
        try:
            result = self._way.complete(self._childs.result_of(answer))
        except (LostError, GoneError) as exc:
            self._say(self._lane.child.without_answer(exc))
        except RpcError as exc:
            self._asker.urls(self._lane.place.spec, exc)
            self._note("failed", str(exc))
            self._answer(Failure(self._request.id, exc.error))
        else:
            self._note("admitted")
            self._answer(Response(self._request.id, result))

    def expire(self) -> None:
        """Give the call up, which its child does not answer in time."""
        self._withdraw("timed out")
        self._say(self._lane.child.without_answer(SilentError("timed out")))

    def _say(self, error: ChildError) -> None:
        self._note("failed", str(error))
        said = self._way.complete(tool_error(str(error)))
        self._answer(Response(self._request.id, said))

    def _note(self, outcome: Outcome, failure: str | None = None) -> None:
        owner, spec = self._way.owner, self._lane.place.spec
        note_plain(owner, spec, self._call, (self._began, outcome, failure))

    # The client's side

    def cancel(self) -> None:
        """Give the call up: its child is told, its client gets no answer."""
        if self._is_settled:
            return  # its answer is on the way
        if self._posted is not None:
            self._withdraw("cancelled by the caller")
        else:
            self._lane.child.slots.step_out(self._begin_late)
        self._note("cancelled")
        self._over()
        self._reply.give(None)

    def turn(self) -> None:
        """Give the call up at its child, and let it be answered the general way."""
        if not self._is_settled:
            self._withdraw("it is made again")
            self._over()
            self._reply.detour(self._request)

    def _answer(self, answer: Response | Failure) -> None:
        if self._asker.has_told_all and self._reply.give(answer):
            self._over()
        else:
            self._express.tasks.start_soon(self._answer_late, answer)

    async def _answer_late(self, answer: Response | Failure) -> None:
        try:
            await self._asker.flush()
            await self._reply.deliver(answer)
        finally:
            self._over()

    # The end

    def _withdraw(self, reason: str) -> None:
        if self._posted is not None:
            self._childs.withdraw(self._posted, reason)
        self._served()

    def _served(self) -> None:
        """Take note that the child has nothing to do with the call any more."""
        child = self._lane.child
        self._is_settled = True
        child.deadlines.end(self)
        child.answers.end(self._asker)
        child.slots.give()

    def _over(self) -> None:
        self._is_settled = True
        self._lane.place.end_use(self._clock())
        self._express.register.leave(self._request.id, self)


class _Turn:
    """Gives a call up whose child turns out to want roots that its client was not asked for."""

    def __init__(self, passage: Passage) -> None:
        self._passage = passage

    def cancel(self) -> None:
        self._passage.turn()
