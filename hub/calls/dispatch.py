"""Starts the calls whose routes are cached where their requests arrive, without a task.

Any other call is resolved by `Relay`, in a task. From there on all calls go one way.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from hub.calls.audit_trail import CallAudit
from hub.calls.in_flight import InFlightCall, InFlightRegistry, ReplySink
from hub.calls.refusals.scopes import has_scopes
from hub.calls.refusals.told import note_objection, refusal
from hub.calls.routes import CallRoute, KnownAnswer
from hub.children.failures import failed
from hub.guard.decide import Refused
from hub.jsonrpc.exact_json import RequestId
from hub.jsonrpc.messages import Failure, Request, Response
from hub.jsonrpc.requests import UNSAID, Cancellable, token_in
from hub.sessions.session import Session
from hub.system.tasks import TaskStarter
from hub.usage.principals import ClientUsage, OverLimit
from hub.values import Call


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
        audit = CallAudit(
            services, owner.key, owner.principal, server, resolved.name, began, verdict
        )
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
        told = partial(refusal, resolved.spec, call, audit, resolved.pointer)
        answer = route.answer(request, told)
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
        audit.write("refused", why)
        self._give(route.answer(request, partial(failed, route.resolved.method, why)), reply)

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
