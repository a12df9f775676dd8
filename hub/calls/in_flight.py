"""The fast path of tool calls: `CallDispatcher` sends a call with a cached route, without a task.

The steps are those of `Relay`: client request, session, guard, route, child, response. The call is
decided and sent where its message is read, and its answer is sent where the child's answer is read.
Every other call takes the general path, through `Relay`.
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
    """Takes the answer of one request, and sends it to the client."""

    @property
    def outlet(self) -> Outlet:
        """Where notifications and requests within this request go, before its answer."""
        ...

    def give(self, answer: Answer) -> bool:
        """Hand the answer over if it can be taken now, and return whether it was.

        None means that no answer will come, because the client cancelled the request.
        """
        ...

    async def deliver(self, answer: Response | Failure) -> None:
        """Hand the answer over; wait until it is taken."""
        ...

    def detour(self, request: Request) -> None:
        """Hand the request to the general path, which answers it."""
        ...


class InFlightRegistry(Protocol):
    """Registers one client's requests in flight, as `InboundRequests` does."""

    @property
    def has_room(self) -> bool:
        """Whether few enough answers wait for the client to read them."""
        ...

    def accepts(self, id_: RequestId) -> bool:
        """Return whether a request with this id can be taken now, and its answer sent now."""
        ...

    def enter(self, id_: RequestId, underway: Cancellable) -> None:
        """Register a request, so that it is counted and can be cancelled; `leave` must follow."""
        ...

    def leave(self, id_: RequestId, underway: Cancellable) -> None:
        """Forget a request that was answered or abandoned."""
        ...


class CallRoute(Protocol):
    """A cached route, for one call of its tool: a `SessionRoute` or a `ModernRoute`."""

    @property
    def resolved(self) -> ResolvedRoute:
        """The child, the guard and the context that calls of the tool are judged in."""
        ...

    @property
    def owner(self) -> Session:
        """The session whose call found the route."""
        ...

    @property
    def is_open(self) -> bool:
        """Whether a new lookup of the tool would give the same route."""
        ...

    def admit(self, params: JsonObject) -> Admitted | None:
        """Return the admitted call; None if the general path has to decide."""
        ...

    def complete(self, result: Payload) -> Payload:
        """Return a result with the fields that the client's protocol version requires.

        Raises: RpcError for a result that cannot be read.
        """
        ...


class CallDispatcher:
    """Sends calls whose route is cached; `register` knows them until they are answered.

    `modern` makes the `InFlightCall` of a call with a `ModernRoute`.
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
        """Start a call on its cached route and return it; None if the request was not taken.

        With `RootsRequested` the request is answered at once.
        """
        if route is None or not self.register.accepts(request.id):
            return None
        # `isinstance` is slow to return False for a Struct.
        if type(route) is RootsRequested:
            return route if reply.give(Response(request.id, route.result)) else None
        admitted = route.admit(request.params)
        if admitted is None:
            return None
        owner = route.owner
        begin = self._modern if type(route) is ModernRoute else InFlightCall
        in_flight = begin(
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
        return in_flight if in_flight.begin() else None


class InFlightCall(ClientCaller, eq=False, kw_only=True):
    """One tool call from its request to its answer, without a task.

    To the client it is a cancellable request; to the child's connection, a pending request. The
    child's requests and notifications meanwhile go to this call's client. `began` is in seconds of
    the machine's clock.
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
        """Send the call, or queue it until a slot is free; return False if it cannot be sent."""
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
        """Send the queued call, now that a slot is free; return whether the slot is used."""
        if self.dispatcher.register.has_room and self.route.is_open and self._post():
            return True
        # The client does not read its answers, so the call has to wait; or the route has changed,
        # so the call is looked up and judged again. The general path does both.
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
        """The `Caller` for the child's requests within this call."""
        return self

    def settle(self, answer: Answer) -> None:
        """Pass the answer of a legacy child on to the client."""
        self._served()
        try:
            self._came(self.route.resolved.peer.result_of(answer))
        except (LostError, GoneError) as exc:
            self._unanswered(self.route.resolved.child.without_answer(exc))
        except RpcError as exc:
            self._failed(exc)

    def ended(self, outcome: RoundsOutcome) -> None:
        """Pass the outcome of a modern child's rounds on to the client."""
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
        """Fail with RpcError: only an `AskableCall` can ask its client by the request's result."""
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
        """Fail the call: the child had no free slot in time, or did not answer in time."""
        child = self.route.resolved.child
        if self._posted is None:
            self._is_settled = child.limiter.step_out(self)
            self._say(no_slot_free(child.spec))
        else:
            self._withdraw("timed out")
            self._say(child.without_answer(SilentError("timed out")))

    def _unanswered(self, error: ChildError) -> None:
        """Fail a call that the child may still be working on."""
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
        """Cancel the call: the child is notified, the client gets no answer."""
        if self._is_settled:
            return  # the answer is being sent
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
        """End the call after its rounds, which first cancel their requests to the client."""
        try:
            await rounds.over()
        finally:
            self._over()
            self.reply.give(None)

    def start_over(self) -> None:
        """Cancel the call at its child, and hand the request to the general path."""
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
        """The reason in `notifications/cancelled` when the call is cancelled."""
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
        """Free the child's slot and end its deadline: the child is finished with the call."""
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
    """Restarts a call whose child wants roots that the client was not asked for yet."""

    def __init__(self, in_flight: InFlightCall) -> None:
        self._in_flight = in_flight

    def cancel(self) -> None:
        self._in_flight.start_over()
