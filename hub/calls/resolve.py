"""Resolves a call in a task: where it leads, its verdict, its child; then it is in flight."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, cast

import anyio

from hub.calls.addressing import address, label_of
from hub.calls.audit_trail import CallAudit, note_refusal, turned_away
from hub.calls.builtin_tools import answer, get_roots
from hub.calls.in_flight import AwaitedReply, InFlightCall
from hub.calls.judging import JudgingContext
from hub.calls.listings import Listings
from hub.calls.lookup import CallLookup, CallRequest, ForHub, MakeInFlight, check_before_route
from hub.calls.questions.consent import decide_or_ask
from hub.calls.results import too_large
from hub.calls.rounds.modern_routes import ModernRoutes
from hub.calls.rounds.roots_needed import StatefulServers, need_before_deciding
from hub.calls.routes import (
    JudgedRoute,
    ResolvedRoute,
    SessionRoute,
    SessionRoutes,
    resolved_route_of,
)
from hub.catalog.search import SearchError
from hub.children.child import Child, log_from
from hub.children.clients import MovedError, StaleError
from hub.children.failures import denied, failed, tool_error
from hub.errors import ChildError, RouteError
from hub.guard.decide import Admitted, Refused
from hub.jsonrpc.messages import Payload
from hub.jsonrpc.peer import Asked
from hub.jsonrpc.requests import token_in
from hub.protocol.constants import CALLS
from hub.protocol.input_requests import NO_RETRY, RetryInput
from hub.sessions.logins import ServerLogins
from hub.sessions.services import Services
from hub.sessions.session import Session
from hub.usage.principals import underway
from hub.values import CallMethod

MAX_JUDGEMENTS = 4
"""How many times one call is judged if its roots or its child change while it waits."""
TOO_FAST = "its roots, or its server, change faster than the call can be sent"

if TYPE_CHECKING:
    from hub.calls.questions.login_first import LoginFirst


class Relay:
    """Resolves the calls of all sessions, starts them, and caches the resolved routes."""

    def __init__(self, services: Services) -> None:
        self.listings = Listings(services)
        self.session_routes = SessionRoutes()
        self.modern_routes = ModernRoutes(services)
        self.lookup = CallLookup(services, self.listings, self.session_routes, self.modern_routes)
        self._services = services
        self._stateful = StatefulServers(services.guards)
        self._login_first: LoginFirst | None = None

    async def call(
        self,
        session: Session,
        asked: Asked,
        retry: RetryInput = NO_RETRY,
        make: MakeInFlight = InFlightCall,
    ) -> Payload:
        """Return the child's result for one call, or the guard's refusal.

        A legacy client gets the result unchanged. `retry` is the input of a modern client's retry.

        Raises: RouteError for a name without a route; RpcError that the child answered;
            InputNeededError if a modern client must be asked for input first,
            RootsNeededError if it must be asked for its roots; InsufficientScopeError.
        """
        method = cast("CallMethod", asked.request.method)
        try:
            named = address(method, asked.request.params, expose=self._services.expose)
            check_before_route(session, asked, named)
            request = CallRequest(session, asked, named, retry, make)
            with self._underway(request):
                return await self._settled(request)
        except SearchError as exc:
            return tool_error(str(exc))
        except ChildError as exc:
            return failed(method, str(exc))

    def check_scopes(self, session: Session, asked: Asked) -> None:
        """Check the scopes that a call needs, as far as its name tells where it leads.

        Raises: InsufficientScopeError.
        """
        method = cast("CallMethod", asked.request.method)
        with suppress(RouteError):  # `call` raises it
            named = address(method, asked.request.params, expose=self._services.expose)
            check_before_route(session, asked, named)

    def _underway(self, request: CallRequest) -> AbstractContextManager[None]:
        """Return the context that counts a call as under way for the limits of its principal.

        Raises: ChildError if the principal has as many under way as it may.
        """
        session = request.session
        services = session.services
        usage = services.usage.of(session.principal, services.profile)
        if usage is None:
            return nullcontext()
        over = usage.in_flight_objection()
        if over is not None:
            turned_away(session, request.owners, request.named.name, over.why)
            raise ChildError(over.why)
        return underway(usage)

    async def _settled(self, request: CallRequest) -> Payload:
        """Return a call's result; resolve the call again while it is stale before it is sent.

        Raises: ChildError after `MAX_JUDGEMENTS` stale verdicts, or if no server can take it.
        """
        logins = self._services.logins
        if logins is not None:
            with self.lookup.recording(request):
                await self._log_in_first(request, logins)
        judged, backlog = 0, request.asked.backlog
        while judged < MAX_JUDGEMENTS:
            await backlog.wait_for_room()
            try:
                return await self._resolved(request)
            except MovedError:
                continue  # what it waited for was given up: it is not judged anew by itself
            except StaleError:
                # A client that does not read is waited for, however often.
                judged += int(backlog.has_room)
        with self.lookup.recording(request):
            raise ChildError(TOO_FAST)

    async def _resolved(self, request: CallRequest) -> Payload:
        """Resolve the route of a call, and return the call's result."""
        cached = self.lookup.cached(request)
        if cached is not None:
            return await self._judged(request, self.lookup.case_at(cached, request), cached)
        found = await self.lookup.find(request)
        if isinstance(found, JudgingContext):
            return await self._judged(request, found)
        return self._answered(request, found)

    def _answered(self, request: CallRequest, found: ForHub) -> Payload:
        """Return the result of one of the hub's own tools."""
        session, question = request.session, request.named.question
        if question is None:
            return get_roots(session, found.effective, request.asked.granted)
        result = answer(question, session, found.catalog, self.listings.missing)
        objection = too_large(result, self._services.max_result, "the hub")
        return result if objection is None else tool_error(objection)

    async def _log_in_first(self, request: CallRequest, logins: ServerLogins) -> None:
        """Have the client's user log in at the call's server, if that is needed and possible."""
        if request.named.question is not None:
            return
        specs = (self._services.servers.get(name) for name in request.owners or ())
        for spec in [one for one in specs if one is not None and one.has_login]:
            if self._login_first is None:
                from hub.calls.questions.login_first import LoginFirst  # noqa: PLC0415 - few servers have logins

                self._login_first = LoginFirst(logins)
            await self._login_first.ask(request.session, request.asked, request.retry, spec)

    async def _judged(
        self, request: CallRequest, case: JudgingContext, cached: SessionRoute | None = None
    ) -> Payload:
        """Return the child's result if the guard admits the call, or the refusal; audit both.

        `cached` is the call's route, if it needs not be resolved.
        """
        need = need_before_deciding(case, self._stateful)
        if need is not None:
            self.lookup.ask_first(request, need)
        call, spec = case.call, case.to.spec
        with CallAudit.of(case.session, spec.name, call.name) as audit:
            verdict = await decide_or_ask(case, audit)
            if isinstance(verdict, Refused):
                if cached is None:
                    self._keep_of_refused(request, case)
                return _refused(case, audit, verdict)
            if verdict.would_refuse is not None:
                note_refusal(
                    case.session, call, case.circumstances, verdict.would_refuse, audit.consent
                )
            with case.snapshot.slot.trying():
                child = await self._obtain(case)
                resolved = self._keep(request, case, child, cached)
                return await self._in_flight(request, case, resolved, audit, verdict)

    async def _obtain(self, case: JudgingContext) -> Child:
        try:
            child = await self._services.children.obtain(case.snapshot.slot)
        except ChildError:
            if case.is_still_valid():
                raise
            raise (StaleError if case.snapshot.slot.is_kept else MovedError) from None
        log_level = case.session.notifier.log_level
        if log_level is not None and case.session.is_modern:
            await log_from(child, log_level)
        return child

    def _keep(
        self,
        request: CallRequest,
        case: JudgingContext,
        child: Child,
        cached: SessionRoute | None,
    ) -> ResolvedRoute:
        """Return the resolved route of a call, and cache it for the next calls of the same name.

        Raises: StaleError if the child is gone, or if the verdict no longer holds.
        """
        if cached is not None and _is_still_of(cached, case, child):
            return cached.resolved
        resolved, known = resolved_route_of(case, child), case.known_if_valid()
        if resolved is None or known is None:
            raise StaleError
        if known == case.snapshot.here:
            self._cache(request, case, resolved)
        return resolved

    def _keep_of_refused(self, request: CallRequest, case: JudgingContext) -> None:
        """Cache the route of a refused call if its child runs, so that the next one is quick."""
        child = case.snapshot.slot.child
        resolved = None if child is None else resolved_route_of(case, child)
        if resolved is not None and case.known_if_valid() == case.snapshot.here:
            self._cache(request, case, resolved)

    def _cache(self, request: CallRequest, case: JudgingContext, resolved: ResolvedRoute) -> None:
        if case.session.is_modern:
            self.modern_routes.keep(case, resolved)
        elif case.call.method in CALLS:
            params = request.asked.request.params
            label = label_of(case.call.method, params, self._services.expose)
            if label is not None:
                self.session_routes.keep(case.session, label, resolved)

    async def _in_flight(
        self,
        request: CallRequest,
        case: JudgingContext,
        resolved: ResolvedRoute,
        audit: CallAudit,
        admitted: Admitted,
    ) -> Payload:
        reply = AwaitedReply(request.asked)
        in_flight = request.make(
            case.session,
            reply.outlet,
            token_in(request.asked.request.params),
            self._services.tasks,
            retry=request.retry,
            consented=case.consented,
            granted=case.granted,
            route=JudgedRoute(resolved, case.session, case.session.is_modern, case=case),
            call=admitted.call,
            request=request.asked.request,
            reply=reply,
            register=reply,
            audit=audit,
        )
        in_flight.start()
        result = await result_of(in_flight, reply, request.asked)
        if in_flight.unanswered is not None:
            raise in_flight.unanswered
        return result

    async def judge_again(self, case: JudgingContext, audit: CallAudit) -> Payload | None:
        """Return the refusal of a call in flight, which `audit` records; None if it may go on.

        Raises: RpcError for the refusal of a prompt or a resource.
        """
        verdict = (await case.judge(case.granted)).verdict
        return _refused(case, audit, verdict) if isinstance(verdict, Refused) else None


def _refused(case: JudgingContext, audit: CallAudit, refused: Refused) -> Payload:
    """Return the result of a call that the guard has refused, and have that recorded.

    Raises: RpcError for a prompt or a resource.
    """
    told = note_refusal(case.session, case.call, case.circumstances, refused, audit.consent)
    audit.verdict = told
    audit.write("refused", told.reason)
    to = case.to
    return denied(case.call, told, to.spec, to.base + told.pointer)


def _is_still_of(cached: SessionRoute, case: JudgingContext, child: Child) -> bool:
    """Return whether a call that was judged in `case` may be sent by this route."""
    its = cached.resolved
    is_same = (
        its.child is child
        and its.slot is case.snapshot.slot
        and its.circumstances.effective == case.snapshot.effective
    )
    return is_same and cached.is_open and case.is_still_valid()


async def result_of(in_flight: InFlightCall, reply: AwaitedReply, asked: Asked) -> Payload:
    """Wait for the answer of a call to one request; if that is cancelled, cancel the call.

    Raises: RpcError in the place of the result; StaleError if the call has to be resolved again.
    """
    try:
        return await reply.result()
    except anyio.get_cancelled_exc_class():
        in_flight.cancel(asked.reason)
        with anyio.CancelScope(shield=True):
            await in_flight.over()
        raise
