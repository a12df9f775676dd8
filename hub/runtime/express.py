"""The common call without a task: decided and sent where its line arrives, answered likewise.

It is the same way through as the relay's, for a tool whose last call went it a moment ago: client
request, session, guard, route, child, response. Whatever is not plain goes the relay's way.
"""

from __future__ import annotations

import asyncio  # noqa: TID251 - a deadline without a task
from typing import Protocol

from anyio.abc import TaskGroup

from hub.core.errors import ChildError
from hub.core.guard import Admitted
from hub.runtime.asker import CallAsker
from hub.runtime.lanes import Lane, Lanes
from hub.runtime.peer import GoneError, LostError, Outlet, Peer, RpcError, SilentError
from hub.runtime.record import Record
from hub.runtime.relay import tool_error
from hub.runtime.session import Session
from hub.runtime.waiting import Answer, Progress, token_in
from hub.runtime.wire import Failure, Request, Response


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


class Express:
    """Takes the plain calls of one session."""

    def __init__(self, session: Session, peer: Peer, lanes: Lanes, tasks: TaskGroup) -> None:
        self.session = session
        self.peer = peer
        self.tasks = tasks
        self._lanes = lanes.of(session)

    def take(self, request: Request, reply: Reply) -> Passage | None:
        """Take a request if it is a plain call, and return the passage that it is then."""
        name = request.params.get("name")
        lane = self._lanes.get(name) if isinstance(name, str) else None
        if lane is None or not self.peer.backlog.takes(request.id):
            return None
        if not lane.is_open(self.session):
            self._lanes.pop(str(name))
            return None
        admitted = lane.admit(self.session, request.params)
        if admitted is None:
            return None
        passage = Passage(self, lane, request, admitted, reply)
        return passage if passage.begin() else None


class Passage:
    """One call on its way; it is under way for its client, and waits for its child's answer."""

    can_be_cancelled = True

    def __init__(
        self, express: Express, lane: Lane, request: Request, admitted: Admitted, reply: Reply
    ) -> None:
        session = express.session
        self._express = express
        self._lane = lane
        self._request = request
        self._call = admitted.call
        self._reply = reply
        self._asker = CallAsker(session, reply.outlet, token_in(request.params))
        self._record = Record(session.services, session, lane.place.spec, admitted.call)
        self._record.verdict = admitted
        self._is_settled = False
        self._posted: Request | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def begin(self) -> bool:
        """Send the call to its child, now or when a slot is free; return whether it is taken."""
        lane, express = self._lane, self._express
        slots = lane.child.slots
        if not slots.take():
            slots.line_up(self._begin_late)
        elif not self._post():
            slots.give()
            return False
        lane.place.uses += 1
        lane.place.used_at = express.session.services.machine.clock()
        express.peer.backlog.add(self._request.id, self)
        express.peer.backlog.begun()
        return True

    def _begin_late(self) -> bool:
        if self._lane.is_open(self._express.session) and self._post():
            return True
        # The world is another one by now: the call is looked up and judged again.
        self._over()
        self._reply.detour(self._request)
        return False

    def _post(self) -> bool:
        lane, call = self._lane, self._call
        peer = lane.child.peer
        self._posted = None if peer is None else peer.post(call.method, call.params, self)
        if self._posted is None:
            return False
        lane.child.answers.begin(self._asker)
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(lane.place.spec.timeout, self._expire)
        return True

    # The child's side

    @property
    def progress(self) -> Progress | None:
        """Where progress reports go; None if the client gave no token."""
        return self._asker.progress

    def settle(self, answer: Answer) -> None:
        """Pass the child's answer on to the client."""
        self._served()
        if isinstance(answer, Response):
            self._record.end("admitted")
            self._answer(Response(self._request.id, answer.result))
        else:
            self._fail(answer)

    def _fail(self, answer: Failure | None) -> None:
        child = self._lane.child
        try:
            if child.peer is not None:
                child.peer.result_of(answer)
        except (LostError, GoneError) as exc:
            self._say(child.without_answer(exc))
        except RpcError as exc:
            self._asker.urls(self._lane.place.spec, exc)
            self._record.failed(str(exc))
            self._record.end("failed")
            self._answer(Failure(self._request.id, exc.error))

    def _say(self, error: ChildError) -> None:
        self._record.failed(str(error))
        self._record.end("failed")
        self._answer(Response(self._request.id, tool_error(str(error))))

    def _expire(self) -> None:
        self._withdraw("timed out")
        self._say(self._lane.child.without_answer(SilentError("timed out")))

    # The client's side

    def cancel(self) -> None:
        """Give the call up: its child is told, its client gets no answer."""
        if self._is_settled:
            return  # its answer is on the way
        if self._posted is not None:
            self._withdraw("cancelled by the caller")
        else:
            self._lane.child.slots.step_out(self._begin_late)
        self._record.end("cancelled")
        self._over()
        self._reply.give(None)

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
        peer = self._lane.child.peer
        if peer is not None and self._posted is not None:
            peer.withdraw(self._posted, reason)
        self._served()

    def _served(self) -> None:
        """Take note that the child has nothing to do with the call any more."""
        self._is_settled = True
        if self._deadline is not None:
            self._deadline.cancel()
        self._lane.child.answers.end(self._asker)
        self._lane.child.slots.give()

    def _over(self) -> None:
        self._is_settled = True
        self._lane.place.uses -= 1
        self._express.peer.backlog.remove(self._request.id, self)
        self._express.peer.backlog.ended()
