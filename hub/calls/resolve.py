"""Resolves what is called in a task: session, route, guard, child; then the call is in flight."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, TypeAlias, cast

import anyio
from msgspec import Struct

from hub.calls.addressing import Addressed, OwnParam, address, call_to, check_headers, label_of
from hub.calls.audit_trail import CallAudit, looking_up, turned_away
from hub.calls.builtin_tools import answer, get_roots
from hub.calls.in_flight import AwaitedReply, InFlightCall
from hub.calls.judging import JudgingContext
from hub.calls.listings import Listings
from hub.calls.questions.consent import decide_or_ask
from hub.calls.refusals.scopes import check_before_route, check_call
from hub.calls.refusals.told import note_objection, refusal
from hub.calls.results import too_large
from hub.calls.rounds.modern_routes import ModernRoutes
from hub.calls.rounds.roots_needed import (
    RootsRequirement,
    StatefulServers,
    need_before_deciding,
    need_before_looking,
)
from hub.calls.routes import (
    JudgedRoute,
    ResolvedRoute,
    SessionRoute,
    SessionRoutes,
    resolved_beside,
    resolved_route_of,
)
from hub.catalog.merge import Catalog
from hub.catalog.search import SearchError
from hub.children.child import Child, log_from
from hub.children.clients import RootsNeededError, StaleError
from hub.children.failures import failed, tool_error
from hub.errors import ChildError, RouteError
from hub.guard.decide import Admitted, Refused, ToolGuard, compile_tool
from hub.jsonrpc.messages import Payload, Request
from hub.jsonrpc.outgoing import token_in
from hub.jsonrpc.peer import Asked
from hub.protocol.constants import CALLS
from hub.protocol.request_state import NO_RETRY, RetryInput
from hub.roots.effective import EffectiveRoots
from hub.sessions.services import Services
from hub.sessions.session import Session
from hub.specs import ServerSpec
from hub.values import (
    BuiltinRoute,
    Call,
    CallMethod,
    ChildRoute,
    Route,
    ServerName,
)

MAX_JUDGEMENTS = 4
"""How many times one call is judged if its roots or its child change while it waits."""
_TOO_FAST = "its roots, or its server, change faster than the call can be sent"

Owners: TypeAlias = Collection[ServerName] | None
"""The servers that may own a public name; None if any server may."""

if TYPE_CHECKING:
    from hub.calls.questions.login_first import LoginFirst

MakeInFlight: TypeAlias = Callable[..., InFlightCall]
"""Makes the call in flight: of a legacy client an `InFlightCall`."""


class CallRequest(Struct, frozen=True, eq=False):
    """The request of one call, as a task serves it, and what it brought from an earlier round."""

    session: Session
    asked: Asked
    named: Addressed
    retry: RetryInput
    make: MakeInFlight

    @property
    def owners(self) -> Owners:
        """The servers that may own the name; None if any may."""
        return self.named.servers(self.session.services.names)


class Relay:
    """Resolves the calls of all sessions, starts them, and caches the resolved routes."""

    def __init__(self, services: Services) -> None:
        self.listings = Listings(services)
        self.session_routes = SessionRoutes()
        self.modern_routes = ModernRoutes(services)
        self._services = services
        self._stateful = StatefulServers()
        self._login_first: LoginFirst | None = None
        self._guards: dict[tuple[str, str, str], tuple[object, ServerSpec, ToolGuard]] = {}

    def route_beside(self, session: Session, request: Request) -> SessionRoute | None:
        """Return, and cache, the route to what was not called yet, beside another at its server.

        The roots, the child and the catalog are those of the other route, so nothing is awaited.
        None if there is none, if the name may lead to several servers or to none, or if the user
        may have to log in first.
        """
        routes, services = self.session_routes, self._services
        if request.method not in CALLS or not routes.has_any(session):
            return None
        method, params = cast("CallMethod", request.method), request.params
        label = label_of(method, params, services.expose)
        try:
            named = address(method, params, expose=services.expose)
            owners = named.servers(services.names)
            owners = services.servers.keys() if owners is None else owners
            if label is None or named.question is not None or len(owners) != 1:
                return None
            beside = routes.at_server(session, next(iter(owners)))
            route = None if beside is None else named.route(beside.resolved.catalog)
        except (RouteError, SearchError):
            return None
        if beside is None or not isinstance(route, ChildRoute):
            return None
        spec, catalog = beside.resolved.spec, beside.resolved.catalog
        if route.server != spec.name or (spec.has_login and services.logins is not None):
            return None
        guard, own = self._guard(spec, method, route), named.own(catalog, route)
        resolved = resolved_beside(beside, method, route.name, own, guard, named.pointer)
        return routes.keep(session, label, resolved)

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
        with suppress(RouteError, SearchError):  # `call` raises these
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
        return usage.underway()

    async def _settled(self, request: CallRequest) -> Payload:
        """Return a call's result; resolve the call again while it is stale before it is sent.

        Raises: ChildError after `MAX_JUDGEMENTS` stale verdicts, or if no server can take it.
        """
        with self._looking_up(request):
            await self._log_in_first(request)
        judged, backlog = 0, request.asked.backlog
        while judged < MAX_JUDGEMENTS:
            await backlog.wait_for_room()
            with suppress(StaleError):
                return await self._resolved(request)
            # A client that does not read is waited for, however often.
            judged += int(backlog.has_room)
        with self._looking_up(request):
            raise ChildError(_TOO_FAST)

    async def _resolved(self, request: CallRequest) -> Payload:
        """Find out where a call leads, and return its result."""
        session, named = request.session, request.named
        cached = self._cached(request)
        if cached is not None:
            return await self._judged(request, self._case_at(cached, request), cached)
        with self._looking_up(request):
            effective, catalog = await self._looked_up(request)
            route = self._route(request, catalog)
        if isinstance(route, BuiltinRoute):
            if named.question is None:
                return get_roots(session, effective, request.asked.granted)
            result = answer(named.question, session, catalog, self.listings.missing)
            objection = too_large(result, self._services.max_result, "the hub")
            return result if objection is None else tool_error(objection)
        spec = self._permitted(request, self._services.servers[route.server], route.name)
        check_headers(session, named, route)
        slot = session.slot_for(spec, effective)
        own = named.own(catalog, route)
        case = JudgingContext(
            session=session,
            asked=request.asked,
            call=_call_of(request, route.name, own),
            guard=self._guard(spec, named.method, route),
            effective=effective,
            spec=spec,
            slot=slot,
            pointer=named.pointer,
            own=own,
            catalog=catalog,
            can_move=request.owners is None,
            retry=request.retry,
        )
        return await self._judged(request, case)

    def _cached(self, request: CallRequest) -> SessionRoute | None:
        """Return the route of a call, if nothing has to be awaited for it, and the roots hold."""
        session, asked = request.session, request.asked.request
        found = self.session_routes.find(session, asked) or self.route_beside(session, asked)
        if found is None or not found.is_current(self._services.machine.links):
            return None
        return found

    def _case_at(self, cached: SessionRoute, request: CallRequest) -> JudgingContext:
        """Return the context that a call is judged in whose route is cached."""
        its = cached.resolved
        return JudgingContext(
            session=request.session,
            asked=request.asked,
            call=_call_of(request, its.name, its.own),
            guard=its.guard,
            effective=its.effective,
            spec=self._permitted(request, its.spec, its.name),
            slot=its.slot,
            pointer=its.pointer,
            own=its.own,
            catalog=its.catalog,
            can_move=request.owners is None,
            retry=request.retry,
            plan=its.slot.plan,
            judged_in=its.judged_in,
        )

    async def _looked_up(self, request: CallRequest) -> tuple[EffectiveRoots, Catalog]:
        """Return the client's effective roots, and the catalog to look the call's name up in.

        Raises: StaleError if the roots changed while the catalog was awaited.
        """
        session, named = request.session, request.named
        effective = await session.effective(request.asked.outlet)
        self._ask_first(request, need_before_looking(session, named, request.owners))
        state, operator = session.roots.state, self._services.operator
        version = operator.version
        catalog = await self._catalog_for(request, effective)
        has_moved = session.roots.state is not state or operator.version != version
        if has_moved and session.known_effective() != effective:
            raise StaleError
        return effective, catalog

    @staticmethod
    def _permitted(request: CallRequest, spec: ServerSpec, name: str) -> ServerSpec:
        """Return the server of a call of `name` there, for which its token has the scopes.

        Raises: InsufficientScopeError.
        """
        tool = name if request.named.method == "tools/call" else None
        check_call(request.session, request.asked, spec, tool, name)
        return spec

    async def _log_in_first(self, request: CallRequest) -> None:
        """Have the client's user log in at the call's server, if that is needed and possible."""
        logins = self._services.logins
        if logins is None or request.named.question is not None:
            return
        specs = (self._services.servers.get(name) for name in request.owners or ())
        for spec in [one for one in specs if one is not None and one.has_login]:
            if self._login_first is None:
                from hub.calls.questions.login_first import LoginFirst  # noqa: PLC0415 - few servers have logins

                self._login_first = LoginFirst(logins)
            await self._login_first.ask(request.session, request.asked, request.retry, spec)

    def _looking_up(self, request: CallRequest) -> AbstractContextManager[None]:
        if request.named.question is not None:
            return nullcontext()
        return looking_up(request.session, request.owners, request.named.name)

    def _route(self, request: CallRequest, catalog: Catalog) -> Route:
        """Return the route of a call.

        Raises: RouteError if there is none; ChildError if one of its owners is not running.
        """
        try:
            return request.named.route(catalog)
        except RouteError:
            owners = request.owners
            if owners is None:  # without prefixes it may be a tool of a server that is left out
                owners = [one.name for one in self._services.left_out]
            trouble = self.listings.missing(request.session, owners)
            if trouble is None:
                raise
            raise ChildError(trouble) from None

    def _ask_first(self, request: CallRequest, need: RootsRequirement | None) -> None:
        """Do nothing if `need` is None; otherwise remember it for the next calls of the same kind.

        Raises: RootsNeededError if there is a need: the client is asked for its roots.
        """
        if need is not None:
            self.modern_routes.ask(request.session, request.asked.request, need)
            raise RootsNeededError

    async def _catalog_for(self, request: CallRequest, effective: EffectiveRoots) -> Catalog:
        """Return the catalog that a call's route is looked up in.

        What the cache has is for questions about tools. A call is judged by what its running child
        lists: the cache may only tell which child to start.
        """
        session, named, owners = request.session, request.named, request.owners
        catalog = self.listings.catalog
        if named.question is not None:
            return await catalog(session, effective, owners)
        if owners is None:
            known = await catalog(session, effective, (), for_call=True)
            if named.is_listed(known):
                return known
            shown = await catalog(session, effective, ())
            found = None if shown is known else await self._started(request, effective, shown)
            if found is not None:
                return found
        return await catalog(session, effective, owners, for_call=True)

    async def _started(
        self, request: CallRequest, effective: EffectiveRoots, shown: Catalog
    ) -> Catalog | None:
        """Start the server that a name leads to in `shown`; return the catalog with its own list.

        None if the name leads to no server, or its server does not have it any more.

        Raises: ChildError if the server does not start; InsufficientScopeError.
        """
        named, session = request.named, request.session
        try:
            route = named.route(shown)
        except RouteError:
            return None
        if not isinstance(route, ChildRoute):
            return None
        self._permitted(request, self._services.servers[route.server], route.name)
        found = await self.listings.catalog(session, effective, (route.server,), for_call=True)
        trouble = self.listings.missing(session, (route.server,))
        if trouble is not None:
            raise ChildError(trouble)
        try:
            return found if named.route(found) else None
        except RouteError:
            return None

    async def _judged(
        self, request: CallRequest, case: JudgingContext, cached: SessionRoute | None = None
    ) -> Payload:
        """Return the child's result if the guard admits the call, or the refusal; audit both.

        `cached` is the call's route, if it needs not be resolved.
        """
        self._ask_first(request, need_before_deciding(case, self._stateful))
        call, spec = case.call, case.spec
        with CallAudit.of(case.session, spec.name, call.name) as audit:
            verdict = await decide_or_ask(case, audit)
            note_objection(case.session, spec, call, audit, case.no_overlap)
            if isinstance(verdict, Refused):
                if cached is None:
                    self._keep_of_refused(request, case)
                return refusal(spec, case.call, audit, case.pointer)
            with case.slot.in_use(), case.slot.health.trying():
                child = await self._obtain(case)
                resolved = self._keep(request, case, child, cached)
                return await self._in_flight(request, case, resolved, audit, verdict)

    async def _obtain(self, case: JudgingContext) -> Child:
        try:
            child = await self._services.children.obtain(case.slot)
        except ChildError:
            if case.is_still_valid():
                raise
            raise StaleError from None
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
        resolved = resolved_route_of(case, child)
        if resolved is None or not case.is_still_valid():
            raise StaleError
        if case.is_current:
            self._cache(request, case, resolved)
        return resolved

    def _keep_of_refused(self, request: CallRequest, case: JudgingContext) -> None:
        """Cache the route of a refused call if its child runs, so that the next one is quick."""
        child = case.slot.child
        resolved = None if child is None else resolved_route_of(case, child)
        if resolved is not None and case.is_still_valid() and case.is_current:
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
            route=JudgedRoute(resolved, case.session, case),
            request=request.asked.request,
            reply=reply,
            register=reply,
            audit=audit,
        )
        in_flight.start(admitted.call)
        result = await result_of(in_flight, reply, request.asked)
        if in_flight.unanswered is not None:
            raise in_flight.unanswered
        return result

    async def judge_again(self, case: JudgingContext) -> Payload | None:
        """Return, and audit, the refusal of a call in flight; None if the call may go on.

        Raises: RpcError for the refusal of a prompt or a resource.
        """
        verdict, spec = await case.decide(case.granted), case.spec
        if not isinstance(verdict, Refused):
            return None
        with CallAudit.of(case.session, spec.name, case.call.name) as audit:
            audit.verdict = verdict
            note_objection(case.session, spec, case.call, audit, case.no_overlap)
            return refusal(spec, case.call, audit, case.pointer)

    def _guard(self, spec: ServerSpec, method: CallMethod, route: ChildRoute) -> ToolGuard:
        """Return the compiled guard of a call, compiled once for each definition and server."""
        is_tool = method == "tools/call"
        # All prompts of a server have one guard, and so have all its resources.
        definition = route.definition if is_tool else None
        key = (spec.name, method, route.name if is_tool else "")
        kept = self._guards.get(key)
        if kept is not None and kept[0] is definition and kept[1] is spec:
            return kept[2]
        hints = None if definition is None else definition.get("annotations")
        read_only = not is_tool or (isinstance(hints, dict) and hints.get("readOnlyHint") is True)
        schema = None if definition is None else definition.get("inputSchema")
        made = compile_tool(
            schema, read_only=read_only, policy=spec.policy_of(route.name if is_tool else "")
        )
        self._guards[key] = (definition, spec, made)
        return made


def _call_of(request: CallRequest, name: str, own: OwnParam) -> Call:
    """Return the call that the child gets; `name` is its own name of what is called.

    Raises: RouteError for arguments that are not an object.
    """
    method = request.named.method
    call = call_to(method, name, own, request.named.params)
    if call is None:
        raise RouteError(f'{method}: "arguments" must be an object')
    return call


def _is_still_of(cached: SessionRoute, case: JudgingContext, child: Child) -> bool:
    """Return whether a call that was judged in `case` may be sent by this route."""
    its = cached.resolved
    is_same = its.child is child and its.slot is case.slot and its.effective == case.effective
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
