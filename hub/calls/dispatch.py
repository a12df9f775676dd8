"""Starts the calls whose routes are cached where their requests arrive, without a task.

Any other call is resolved by `Relay`, in a task. From there on all calls go one way.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from hub.calls.audit_trail import CallAudit, note_refusal
from hub.calls.in_flight import InFlightCall, InFlightRegistry, ReplySink
from hub.calls.lookup import has_scopes
from hub.calls.routes import CallRoute, KnownAnswer
from hub.children.failures import denied, failed
from hub.guard.decide import Admitted, Refused
from hub.jsonrpc.exact_json import RequestId
from hub.jsonrpc.messages import Request, Response
from hub.jsonrpc.requests import UNSAID, Cancellable, token_in
from hub.system.tasks import TaskStarter
from hub.values import Call, JsonObject


class RequestRegistry(InFlightRegistry, Protocol):
    """The registry of a client whose requests are read here, before any task."""

    def accepts(self, id_: RequestId) -> bool:
        """Return whether a request with this id can be taken now, and its answer sent now."""
        ...


class CallDispatcher:
    """Starts calls whose route is cached; `register` knows them until they are answered.

    `modern` makes the `InFlightCall` of a modern client's call.
    """

    def __init__(
        self,
        register: RequestRegistry,
        tasks: TaskStarter,
        modern: Callable[..., InFlightCall] | None = None,
    ) -> None:
        self.register = register
        self.tasks = tasks
        self._modern = modern or InFlightCall

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
        return None if verdict is None else self._taken(request, route, verdict, reply)

    def _taken(
        self, request: Request, route: CallRoute, verdict: Admitted | Refused, reply: ReplySink
    ) -> Cancellable:
        """Start a call that was judged; answer one that is refused, or one too many."""
        owner, to, limits = route.owner, route.resolved.to, route.owner.services.usage
        audit = CallAudit.of(owner, to.spec.name, to.route.name, verdict)
        if type(verdict) is Refused:
            return self._answered(request, route, _refused(route, verdict, audit), reply)
        usage = None
        if limits.is_limited:
            usage = limits.of(owner.principal, owner.services.profile)
            over = None if usage is None else usage.in_flight_objection()
            if over is not None:
                audit.write("refused", over.why)
                told = partial(failed, to.method, over.why)
                return self._answered(request, route, told, reply)
        make = self._modern if route.is_modern else InFlightCall
        in_flight = make(
            owner,
            reply.outlet,
            token_in(request.params) if "_meta" in request.params else None,
            self.tasks,
            register=self.register,
            route=route,
            call=verdict.call,
            request=request,
            reply=reply,
            audit=audit,
            usage=usage,
        )
        in_flight.start()
        return in_flight

    def _answered(
        self,
        request: Request,
        route: CallRoute,
        told: Callable[[], JsonObject],
        reply: ReplySink,
    ) -> Cancellable:
        answer = route.answer(request, told)
        if not reply.give(answer):
            self.tasks.start_soon(reply.deliver, answer)
        return ANSWERED


def _refused(route: CallRoute, refused: Refused, audit: CallAudit) -> Callable[[], JsonObject]:
    """Record a refusal; return what makes the result of the call."""
    resolved, to = route.resolved, route.resolved.to
    call = Call(to.method, to.route.name, {}, {})
    told = audit.verdict = note_refusal(route.owner, call, resolved.circumstances, refused, None)
    audit.write("refused", told.reason)
    return partial(denied, call, told, to.spec, to.base + told.pointer)


class _Answered:
    """A request that was answered at once."""

    can_be_cancelled = False

    def cancel(self, reason: str = UNSAID) -> None:
        """Do nothing."""


ANSWERED: Final = _Answered()
