"""A call in flight: from the guard's verdict, through the child, to the client's reply sink.

`CallDispatcher` starts a call where its request arrives, if its route is cached. `Relay` resolves
the route of any other call in a task, and starts it then. From there on all calls go one way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

import anyio
import structlog
from anyio.abc import TaskGroup

from hub.calls.audit_trail import CallAudit
from hub.calls.caller import ClientCaller
from hub.calls.era_bridge import send_to_urls
from hub.calls.refusals.scopes import has_scopes
from hub.calls.refusals.told import note_objection, refusal
from hub.calls.results import too_large
from hub.calls.routes import CallRoute, KnownAnswer
from hub.children.child_call import CallResult, ChildCall
from hub.children.clients import InputNeededError, StaleError
from hub.children.failures import failed
from hub.errors import ChildError
from hub.guard.decide import Refused
from hub.jsonrpc.exact_json import RequestId
from hub.jsonrpc.messages import Failure, Payload, Request, Response
from hub.jsonrpc.outgoing import UNSAID, Answer, Cancellable, token_in
from hub.jsonrpc.peer import Asked, GoneError, Outlet, RpcError
from hub.protocol.constants import INTERNAL_ERROR
from hub.protocol.request_state import CallState
from hub.roots.roots import Root
from hub.sessions.services import ResultLimit
from hub.sessions.session import Session
from hub.usage.limits import OverLimit
from hub.usage.principals import ClientUsage
from hub.values import Call

log = structlog.stdlib.get_logger(__name__)


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

    def resolve_again(self, request: Request) -> None:
        """Have the request's route resolved anew, and the call judged again."""
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


class CallDispatcher:
    """Starts calls whose route is cached; `register` knows them until they are answered.

    `modern` makes the `InFlightCall` of a modern client's call.
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
        self._counted: _CountedRegister | None = None

    def take(
        self,
        request: Request,
        route: CallRoute | KnownAnswer | None,
        reply: ReplySink,
        granted: frozenset[str] | None = None,
    ) -> Cancellable | None:
        """Answer or start a call, and return it; None if its route has to be resolved first.

        `granted` are the scopes of its token. Without what it needs it is not taken: it is refused
        where routes are resolved.
        """
        if route is None or not self.register.accepts(request.id):
            return None
        # `isinstance` is slow to return False for a Struct.
        if type(route) is KnownAnswer:
            return route if reply.give(Response(request.id, route.result)) else None
        needed = route.resolved.scopes
        is_granted = not needed or has_scopes(granted, needed)
        verdict = route.judge(request.params) if is_granted else None
        if verdict is None:
            return None
        owner, resolved = route.owner, route.resolved
        services, server = owner.services, resolved.spec.name
        began = services.machine.clock()
        audit = CallAudit(services, owner, server, resolved.name, began, verdict)
        if type(verdict) is Refused:
            self._refuse(request, route, audit, reply)
            return ANSWERED
        register = self._register_of(owner) if services.usage.is_limited else self.register
        if type(register) is OverLimit:
            self._turn_away(request, route, audit, reply, register.why)
            return ANSWERED
        in_flight = self._made(request, route, reply, register, audit)
        in_flight.start(verdict.call)
        return in_flight

    def _made(
        self,
        request: Request,
        route: CallRoute,
        reply: ReplySink,
        register: InFlightRegistry,
        audit: CallAudit,
    ) -> InFlightCall:
        make = self._modern if route.is_modern else InFlightCall
        return make(
            route.owner,
            reply.outlet,
            token_in(request.params),
            self.tasks,
            register=register,
            route=route,
            request=request,
            reply=reply,
            audit=audit,
        )

    def _refuse(
        self, request: Request, route: CallRoute, audit: CallAudit, reply: ReplySink
    ) -> None:
        resolved = route.resolved
        call = Call(resolved.method, resolved.name, {}, {})
        note_objection(route.owner, resolved.spec, call, audit, resolved.no_overlap)
        try:
            told = refusal(resolved.spec, call, audit, resolved.pointer)
            answer = Response(request.id, route.complete(told))
        except RpcError as exc:
            answer = Failure(request.id, exc.error)
        audit.close(None)
        self._give(answer, reply)

    def _register_of(self, owner: Session) -> InFlightRegistry | OverLimit:
        """Return the registry for a call of `owner`, or why its principal has too many."""
        services = owner.services
        usage = services.usage.of(owner.principal, services.profile)
        if usage is None:
            return self.register
        over = usage.in_flight_objection()
        if over is not None:
            return over
        if self._counted is None or self._counted.usage is not usage:
            self._counted = _CountedRegister(self.register, usage)
        return self._counted

    def _turn_away(
        self, request: Request, route: CallRoute, audit: CallAudit, reply: ReplySink, why: str
    ) -> None:
        """Refuse a call because its principal has as many under way as it may."""
        try:
            told = failed(route.resolved.method, why)
            answer = Response(request.id, route.complete(told))
        except RpcError as exc:
            answer = Failure(request.id, exc.error)
        audit.write("refused", why)
        self._give(answer, reply)

    def _give(self, answer: Response | Failure, reply: ReplySink) -> None:
        if not reply.give(answer):
            self.tasks.start_soon(reply.deliver, answer)


class _CountedRegister:
    """A registry that counts the calls for the limits of their principal, too."""

    __slots__ = ("_register", "usage")

    def __init__(self, register: InFlightRegistry, usage: ClientUsage) -> None:
        self._register = register
        self.usage = usage

    @property
    def has_room(self) -> bool:
        return self._register.has_room

    def accepts(self, id_: RequestId) -> bool:
        return self._register.accepts(id_)

    def enter(self, id_: RequestId, underway: Cancellable) -> None:
        self.usage.begin()
        self._register.enter(id_, underway)

    def leave(self, id_: RequestId, underway: Cancellable) -> None:
        self.usage.end()
        self._register.leave(id_, underway)


class _Answered:
    """A request that was answered at once."""

    can_be_cancelled = False

    def cancel(self, reason: str = UNSAID) -> None:
        """Do nothing."""


ANSWERED: Final = _Answered()


class InFlightCall(ClientCaller, eq=False, kw_only=True):
    """One call from its verdict to its answer, without a task.

    To the client it is a cancellable request; to the child, it is the `Caller`, which the child's
    requests and notifications meanwhile go to. `granted` are the places that the user has agreed to
    in this call. `unanswered`: why the child gave no answer, if that is so.
    """

    route: CallRoute
    request: Request
    reply: ReplySink
    register: InFlightRegistry
    audit: CallAudit
    granted: tuple[Root, ...] = ()
    unanswered: ChildError | None = None
    can_be_cancelled: bool = True
    _at_child: ChildCall | None = None
    _reason: str = UNSAID
    is_settled: bool = False

    def start(self, call: Call) -> None:
        """Send the call, or queue it until a slot is free. Its answer may come at once."""
        resolved = self.route.resolved
        self.audit.is_in_flight = True
        if self.owner.unasked:
            self.for_roots = _StartingOver(self)
        resolved.slot.begin_use(self.audit.began)
        self.register.enter(self.request.id, self)
        self._at_child = ChildCall(
            resolved.child,
            resolved.ready,
            resolved.peer,
            call,
            self,
            self.progress,
            self,
            self.tasks,
        )
        self._at_child.begin()

    # The child's side

    @property
    def may_be_sent(self) -> bool:
        """Whether the verdict still holds, and the client reads its answers."""
        return self.register.has_room and self.route.is_open

    def ended(self, result: CallResult) -> None:
        """Pass the result of the call on to the client."""
        self.is_settled = True
        try:
            if isinstance(result, Exception):
                self._ended_without_result(result)
            else:
                self._pass_on(self.route.complete(result))
        except RpcError as exc:
            self._fail(exc)

    def _pass_on(self, result: Payload) -> None:
        """Answer with the child's result; if that is too large, with an error in its place.

        Raises: RpcError for a too large result of a prompt or a resource.
        """
        limit = self.owner.services.max_result
        objection = None if limit is None else self._objection(result, limit)
        if objection is None:
            self.audit.write("admitted")
        else:
            result = self.route.complete(failed(self.route.resolved.method, objection))
            self.audit.write("failed", objection)
        self._answer(Response(self.request.id, result))

    def _objection(self, result: Payload, limit: ResultLimit) -> str | None:
        resolved = self.route.resolved
        objection = too_large(result, limit, f"server {resolved.spec.name!r}")
        if objection is not None:
            log.warning("result left out", tool=resolved.name, reason=objection)
        return objection

    def _ended_without_result(
        self, error: ChildError | RpcError | InputNeededError | StaleError
    ) -> None:
        match error:
            case StaleError():
                self._resolve_again()
            case ChildError():
                self._say(error)
            case InputNeededError():
                self._ask_by_result(error)
            case RpcError():
                self._fail(error)

    def _ask_by_result(self, needed: InputNeededError) -> None:
        """Fail with RpcError: only an `AskableCall` can ask its client by the request's result."""
        raise RpcError(INTERNAL_ERROR, str(needed))

    def _fail(self, error: RpcError) -> None:
        spec, state = self.route.resolved.spec, CallState(consented=self.consented)
        send_to_urls(self.owner.client, self.owner.notifier, spec, error, state)
        self.audit.write("failed", str(error))
        self._answer(Failure(self.request.id, error.error))

    def _say(self, error: ChildError) -> None:
        self.unanswered = error
        self.audit.write("failed", str(error))
        answer: Response | Failure
        try:
            said = self.route.complete(failed(self.route.resolved.method, str(error)))
            answer = Response(self.request.id, said)
        except RpcError as exc:
            answer = Failure(self.request.id, exc.error)
        self._answer(answer)

    # The client's side

    def cancel(self, reason: str = UNSAID) -> None:
        """Cancel the call: the child is notified, the client gets no answer."""
        if self.is_settled:
            return  # the answer is being sent
        self._take_back(reason)
        self.audit.write("cancelled")
        if self._at_child is None or self._at_child.is_over:
            self._over()
            self.reply.give(None)
        else:
            # Its rounds first cancel their requests to the client.
            self.tasks.start_soon(self._end_late, self._at_child)

    async def _end_late(self, at_child: ChildCall) -> None:
        try:
            await at_child.over()
        finally:
            self._over()
            self.reply.give(None)

    def start_over(self) -> None:
        """Cancel the call at its child, and have its route resolved again."""
        if not self.is_settled:
            self._take_back("it is made again")
            self._resolve_again()

    def _take_back(self, reason: str) -> None:
        self.is_settled = True
        self._reason = reason
        if self._at_child is not None:
            self._at_child.cancel(reason)

    def _resolve_again(self) -> None:
        self._over()
        self.reply.resolve_again(self.request)

    def _answer(self, answer: Response | Failure) -> None:
        if self.has_told_all and self.reply.give(answer):
            self._over()
        else:
            self.tasks.start_soon(self._answer_late, answer)

    async def _answer_late(self, answer: Response | Failure) -> None:
        try:
            await self.flush()
            await self.reply.deliver(answer)
        finally:
            self._over()

    async def over(self) -> None:
        """Return once a call that was cancelled has taken back what it asked its client."""
        if self._at_child is not None:
            await self._at_child.over()

    @property
    def reason(self) -> str:
        """The reason in `notifications/cancelled` when the call is cancelled."""
        return self._reason

    def _over(self) -> None:
        self.is_settled = True
        self._at_child = None  # the two hold each other, and would wait for the garbage collector
        self.route.resolved.slot.end_use(self.owner.services.machine.clock)
        self.register.leave(self.request.id, self)


class _StartingOver:
    """Restarts a call whose child wants roots that the client was not asked for yet."""

    def __init__(self, in_flight: InFlightCall) -> None:
        self._in_flight = in_flight

    def cancel(self) -> None:
        self._in_flight.start_over()


class AwaitedReply:
    """The reply sink of a call that a task has resolved, and waits for; also its registry.

    The task's request is registered already.
    """

    def __init__(self, asked: Asked) -> None:
        self.outlet = asked.outlet
        self._backlog = asked.backlog
        self._is_there = anyio.Event()
        self._answer: Answer = None
        self._is_stale = False

    async def result(self) -> Payload:
        """Return the result of the call.

        Raises: RpcError in the place of the result; StaleError if the call has to be resolved
            again.
        """
        await self._is_there.wait()
        if self._is_stale:
            raise StaleError
        match self._answer:
            case Response(result=result):
                return result
            case Failure(error=error):
                raise RpcError.received(error)
            case None:
                raise GoneError("the call was cancelled")

    def give(self, answer: Answer) -> bool:
        self._answer = answer
        self._is_there.set()
        return True

    async def deliver(self, answer: Response | Failure) -> None:
        self.give(answer)

    def resolve_again(self, request: Request) -> None:
        self._is_stale = True
        self._is_there.set()

    @property
    def has_room(self) -> bool:
        """Whether few enough answers wait for the client to read them."""
        return self._backlog.has_room

    def accepts(self, id_: RequestId) -> bool:
        """Return True: the task has accepted the request."""
        return True

    def enter(self, id_: RequestId, underway: Cancellable) -> None:
        """Do nothing: the task's request is registered."""

    def leave(self, id_: RequestId, underway: Cancellable) -> None:
        """Do nothing."""
