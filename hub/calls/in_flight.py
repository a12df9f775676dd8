"""The common call without a task: decided and sent where its line arrives, answered likewise.

It is the same way through as the relay's, for a tool whose last call went it a moment ago: client
request, session, guard, route, child, response. Whatever is not plain goes the relay's way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from anyio.abc import TaskGroup

from hub.audit.record import AuditRecord, CallOutcome, milliseconds, moment
from hub.calls.caller import ClientCaller
from hub.calls.era_bridge import send_to_urls
from hub.calls.rounds.child_rounds import ChildRounds, RoundsOutcome
from hub.calls.rounds.modern_routes import ModernRoute, RootsRequested
from hub.calls.routes import ResolvedRoute
from hub.children.clients import Caller, InputNeededError
from hub.children.failures import no_slot_free, tool_error
from hub.errors import ChildError
from hub.guard.decide import Admitted
from hub.jsonrpc.exact_json import RequestId
from hub.jsonrpc.messages import Failure, Payload, Request, Response
from hub.jsonrpc.outgoing import UNSAID, Answer, Cancellable, token_in
from hub.jsonrpc.peer import GoneError, LostError, Outlet, RpcError, SilentError
from hub.protocol.constants import INTERNAL_ERROR
from hub.sessions.session import Session
from hub.values import Call, JsonObject


class ReplySink(Protocol):
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


class InFlightRegistry(Protocol):
    """Keeps what one side has asked: a peer's backlog does."""

    @property
    def has_room(self) -> bool:
        """Whether an answer would be sent soon, or may wait until it is read."""
        ...

    def accepts(self, id_: RequestId) -> bool:
        """Return whether a request with this id can be taken, and its answer sent, now."""
        ...

    def enter(self, id_: RequestId, underway: Cancellable) -> None:
        """Register a request, so that it is waited for, and can be cancelled."""
        ...

    def leave(self, id_: RequestId, underway: Cancellable) -> None:
        """Take note that a request has had its answer sent, or will never have."""
        ...


class CallRoute(Protocol):
    """How one plain call goes."""

    @property
    def resolved(self) -> ResolvedRoute:
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


class CallDispatcher:
    """Takes plain calls through; `register` keeps them while they are under way.

    `modern` makes the passages of modern calls.
    """

    def __init__(
        self,
        register: InFlightRegistry,
        tasks: TaskGroup,
        modern: Callable[..., InFlightCall] | None = None,
    ) -> None:
        self.register = register
        self.tasks = tasks
        self._modern = modern or InFlightCall

    def take(
        self, request: Request, route: CallRoute | RootsRequested | None, reply: ReplySink
    ) -> Cancellable | None:
        """Take a request if it is a plain call, and return what it is then, until it is answered.

        One that is asked for roots has its answer at once.
        """
        if route is None or not self.register.accepts(request.id):
            return None
        # `isinstance` takes its time to say no of a Struct.
        if type(route) is RootsRequested:
            return route if reply.give(Response(request.id, route.result)) else None
        admitted = route.admit(request.params)
        if admitted is None:
            return None
        owner = route.owner
        begin = self._modern if type(route) is ModernRoute else InFlightCall
        passage = begin(
            owner,
            reply.outlet,
            token_in(request.params),
            tasks=self.tasks,
            dispatcher=self,
            route=route,
            request=request,
            call=admitted.call,
            reply=reply,
            began=owner.services.machine.clock(),
        )
        return passage if passage.begin() else None


class InFlightCall(ClientCaller, eq=False, kw_only=True):
    """One call on its way; it is under way for its client, and waits for its child's answer.

    What its child asks and tells meanwhile is asked of and told to the client of this call. `began`
    is by the machine's clock.
    """

    dispatcher: CallDispatcher
    route: CallRoute
    request: Request
    call: Call
    reply: ReplySink
    began: float
    can_be_cancelled: bool = True
    _posted: Request | None = None
    _rounds: ChildRounds | None = None
    _reason: str = UNSAID
    _is_settled: bool = False

    def begin(self) -> bool:
        """Send the call to its child, now or when a slot is free; return whether it is taken."""
        resolved = self.route.resolved
        limiter = resolved.child.limiter
        if not limiter.take():
            limiter.line_up(self)
        elif not self._post():
            limiter.give()
            return False
        if self.owner.unasked:
            self.for_roots = _StartingOver(self)
        resolved.slot.begin_use(self.began)
        self.dispatcher.register.enter(self.request.id, self)
        return True

    def have_turn(self) -> bool:
        """Send the call to its child after all."""
        if self.dispatcher.register.has_room and self.route.is_open and self._post():
            return True
        # Its client does not read, and the call is to wait for that; or the world is another one by
        # now, and it is looked up and judged again.
        self._over()
        self.reply.detour(self.request)
        return False

    def _post(self) -> bool:
        resolved, call, child = self.route.resolved, self.call, self.route.resolved.child
        if resolved.ready.handshake.era == "legacy":
            self._posted = resolved.peer.post(call.method, call.params, self)
        else:
            self._rounds = ChildRounds(resolved, call, self, self.dispatcher.tasks)
            self._posted = self._rounds.post()
        if self._posted is None:
            return False
        child.answers.begin(self)
        child.deadlines.begin(self)
        return True

    # The child's side

    @property
    def request_owner(self) -> Caller:
        """Who is asked what the child asks within the call."""
        return self

    def settle(self, answer: Answer) -> None:
        """Pass the child's answer on to the client."""
        self._served()
        try:
            self._came(self.route.resolved.peer.result_of(answer))
        except (LostError, GoneError) as exc:
            self._unanswered(self.route.resolved.child.without_answer(exc))
        except RpcError as exc:
            self._failed(exc)

    def ended(self, outcome: RoundsOutcome) -> None:
        """Pass on what came of the rounds with a modern child."""
        self._served()
        try:
            match outcome:
                case ChildError():
                    self._unanswered(outcome)
                case RpcError():
                    self._failed(outcome)
                case InputNeededError():
                    self._wants(outcome)
                case _:
                    self._came(outcome)
        except RpcError as exc:
            self._failed(exc)

    def _wants(self, needed: InputNeededError) -> None:
        """Have the client asked by its request's result, where its era wants that."""
        raise RpcError(INTERNAL_ERROR, str(needed))

    def _came(self, result: Payload) -> None:
        complete = self.route.complete(result)
        self._note("admitted")
        self._answer(Response(self.request.id, complete))

    def _failed(self, error: RpcError) -> None:
        send_to_urls(self.owner.client, self.owner.notifier, self.route.resolved.slot.spec, error)
        self._note("failed", str(error))
        self._answer(Failure(self.request.id, error.error))

    def expire(self) -> None:
        """Give the call up, which its child has no slot for in time, or does not answer."""
        child = self.route.resolved.child
        if self._posted is None:
            self._is_settled = child.limiter.step_out(self)
            self._say(no_slot_free(child.spec))
        else:
            self._withdraw("timed out")
            self._say(child.without_answer(SilentError("timed out")))

    def _unanswered(self, error: ChildError) -> None:
        """Give the call up that the child may be at work on still."""
        self.route.resolved.child.answers.preemption.gave_up(self)
        self._say(error)

    def _say(self, error: ChildError) -> None:
        self._note("failed", str(error))
        said = self.route.complete(tool_error(str(error)))
        self._answer(Response(self.request.id, said))

    def _note(self, outcome: CallOutcome, failure: str | None = None) -> None:
        owner, services = self.owner, self.owner.services
        machine = services.machine
        record = AuditRecord(
            moment(machine.wall_clock()),
            owner.key,
            owner.principal,
            self.route.resolved.slot.spec.name,
            self.call.name,
            outcome,
            failure,
            ms=milliseconds(machine.clock() - self.began),
        )
        services.audit.write(record)

    # The client's side

    def cancel(self, reason: str = UNSAID) -> None:
        """Give the call up: its child is told, its client gets no answer."""
        if self._is_settled:
            return  # its answer is on the way
        if self._posted is not None:
            self._withdraw(reason)
        else:
            self.route.resolved.child.limiter.step_out(self)
        self._note("cancelled")
        if self._rounds is None or self._rounds.is_over:
            self._over()
            self.reply.give(None)
        else:
            self.dispatcher.tasks.start_soon(self._end_late, self._rounds)

    async def _end_late(self, rounds: ChildRounds) -> None:
        """Let the client be told first that nothing is asked of it any more."""
        try:
            await rounds.over()
        finally:
            self._over()
            self.reply.give(None)

    def start_over(self) -> None:
        """Give the call up at its child, and let it be answered the general way."""
        if not self._is_settled:
            self._withdraw("it is made again")
            self._over()
            self.reply.detour(self.request)

    def _answer(self, answer: Response | Failure) -> None:
        if self.has_told_all and self.reply.give(answer):
            self._over()
        else:
            self.dispatcher.tasks.start_soon(self._answer_late, answer)

    async def _answer_late(self, answer: Response | Failure) -> None:
        try:
            await self.flush()
            await self.reply.deliver(answer)
        finally:
            self._over()

    # The end

    @property
    def reason(self) -> str:
        """What is told of the call when it is given up."""
        return self._reason

    def _withdraw(self, reason: str) -> None:
        self._reason = reason
        if self._posted is not None:
            self.route.resolved.peer.withdraw(self._posted, reason)
        if self._rounds is not None:
            self._rounds.cancel()
        self._served()
        self.route.resolved.child.answers.preemption.gave_up(self)

    def _served(self) -> None:
        """Take note that the child has nothing to do with the call any more."""
        child = self.route.resolved.child
        self._is_settled = True
        child.deadlines.end(self)
        child.answers.end(self)
        child.limiter.give()

    def _over(self) -> None:
        self._is_settled = True
        self.route.resolved.slot.end_use(self.owner.services.machine.clock)
        self.dispatcher.register.leave(self.request.id, self)


class _StartingOver:
    """Gives a call up whose child turns out to want roots that its client was not asked for."""

    def __init__(self, passage: InFlightCall) -> None:
        self._passage = passage

    def cancel(self) -> None:
        self._passage.start_over()
