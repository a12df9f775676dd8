"""Finds where a call leads: the client's roots, the name's server and tool, and its guard.

And whether the token that the call came with has the scopes that are needed there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NoReturn, TypeAlias, cast

from msgspec import Struct

from hub.calls.addressing import Addressed, address, call_to, check_headers, label_of
from hub.calls.audit_trail import looking_up, turned_away_at
from hub.calls.in_flight import InFlightCall
from hub.calls.judging import Destination, JudgingContext, Snapshot
from hub.calls.listings import Listings
from hub.calls.rounds.modern_routes import ModernRoutes
from hub.calls.rounds.roots_needed import RootsRequirement, need_before_looking
from hub.calls.routes import SessionRoute, SessionRoutes, resolved_beside
from hub.catalog.merge import Catalog
from hub.catalog.names import Names
from hub.children.clients import MovedError, RootsNeededError
from hub.errors import ChildError, InsufficientScopeError, RouteError
from hub.jsonrpc.messages import Request
from hub.jsonrpc.peer import Asked
from hub.protocol.constants import CALLS
from hub.protocol.input_requests import RetryInput
from hub.roots.effective import EffectiveRoots
from hub.sessions.services import Services
from hub.sessions.session import Session
from hub.specs import ServerSpec
from hub.values import BuiltinRoute, Call, CallMethod, ChildRoute, Route, ServerName

Owners: TypeAlias = Collection[ServerName] | None
"""The servers that may own a public name; None if any server may."""
MakeInFlight: TypeAlias = Callable[..., InFlightCall]
"""Makes an `InFlightCall` for a legacy client, an `AskableCall` for a modern one."""


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


class ForHub(Struct, frozen=True):
    """A call of one of the hub's own tools, with the roots and catalog for its answer."""

    effective: EffectiveRoots
    catalog: Catalog


class CallLookup:
    """Finds where the calls of all sessions lead, from cached routes or by asking."""

    def __init__(
        self,
        services: Services,
        listings: Listings,
        session_routes: SessionRoutes,
        modern_routes: ModernRoutes,
    ) -> None:
        self._services = services
        self._listings = listings
        self._session_routes = session_routes
        self._modern_routes = modern_routes

    def route_beside(self, session: Session, request: Request) -> SessionRoute | None:
        """Return, and cache, the route of a name's first call, from an open route at its server.

        The roots, the child and the catalog are those of the other route, so nothing is awaited.
        None if there is none, if the name may lead to several servers or to none, or if the user
        may have to log in first.
        """
        routes, services = self._session_routes, self._services
        if request.method not in CALLS:
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
            route = None if beside is None else named.route(beside.resolved.to.catalog)
        except RouteError:
            return None
        if beside is None or not isinstance(route, ChildRoute):
            return None
        spec, catalog = beside.resolved.to.spec, beside.resolved.to.catalog
        if route.server != spec.name or (spec.has_login and services.logins is not None):
            return None
        return routes.keep(session, label, resolved_beside(beside, self._to(named, route, catalog)))

    def cached(self, request: CallRequest) -> SessionRoute | None:
        """Return the route of a call, if nothing has to be awaited for it, and the roots hold."""
        found = self._session_routes.find(request.session, request.asked.request)
        is_usable = found is not None and found.is_current(self._services.machine.links)
        return found if is_usable else None

    def case_at(self, cached: SessionRoute, request: CallRequest) -> JudgingContext:
        """Return the judging context of a call whose route is cached.

        Raises: InsufficientScopeError.
        """
        its, session, to = cached.resolved, request.session, cached.resolved.to
        check_call(session, request.asked, to.spec, to.method, to.route.name)
        return JudgingContext(
            session=session,
            asked=request.asked,
            call=_call_of(request, to),
            to=to,
            snapshot=Snapshot.of(session, to.spec, its.circumstances.effective, its.slot),
            retry=request.retry,
            judged_in=its.judged_in,
        )

    async def find(self, request: CallRequest) -> JudgingContext | ForHub:
        """Return the judging context of a call; for one of the hub's own tools, `ForHub`.

        Raises: RouteError for a name without a route; ChildError; MovedError; RootsNeededError;
            InsufficientScopeError.
        """
        session, named = request.session, request.named
        with self.recording(request):
            effective, catalog = await self._looked_up(request)
            route = self._route(request, catalog)
        if isinstance(route, BuiltinRoute):
            return ForHub(effective, catalog)
        spec = self._services.servers[route.server]
        check_call(session, request.asked, spec, named.method, route.name)
        check_headers(session, named, route)
        to = self._to(named, route, catalog)
        return JudgingContext(
            session=session,
            asked=request.asked,
            call=_call_of(request, to),
            to=to,
            snapshot=Snapshot.of(session, spec, effective),
            retry=request.retry,
        )

    def _to(self, named: Addressed, route: ChildRoute, catalog: Catalog) -> Destination:
        """Return where a name leads that has this route in a catalog."""
        spec = self._services.servers[route.server]
        return Destination(
            method=named.method,
            route=route,
            spec=spec,
            guard=self._services.guards.of(spec, named.method, route),
            own=named.own(catalog, route),
            base=named.base,
            catalog=catalog,
            can_move=named.servers(self._services.names) is None,
        )

    async def _looked_up(self, request: CallRequest) -> tuple[EffectiveRoots, Catalog]:
        """Return the client's effective roots, and the catalog to look the call's name up in.

        Raises: MovedError if the roots changed while the catalog was awaited.
        """
        session, named = request.session, request.named
        outlet = request.asked.outlet
        effective = await session.effective(outlet, is_to_show=named.is_get_roots)
        need = need_before_looking(session, named, request.owners)
        if need is not None:
            self.ask_first(request, need)
        state, operator = session.roots.state, self._services.operator
        version = operator.version
        catalog = await self._catalog_for(request, effective)
        has_moved = session.roots.state is not state or operator.version != version
        if has_moved and session.known_effective() != effective:
            raise MovedError
        return effective, catalog

    @staticmethod
    def recording(request: CallRequest) -> AbstractContextManager[None]:
        """Return the context that records a call which fails before its route is known."""
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
            if owners is None:  # without prefixes it may be a tool of any server
                owners = [*self._services.servers, *(one.name for one in self._services.left_out)]
            trouble = self._listings.missing(request.session, owners)
            if trouble is None:
                raise
            raise ChildError(trouble) from None

    def ask_first(self, request: CallRequest, need: RootsRequirement) -> NoReturn:
        """Remember a need for the client's roots for the next calls of the same kind.

        Raises: RootsNeededError: the client is asked for its roots.
        """
        self._modern_routes.ask(request.session, request.asked.request, need)
        raise RootsNeededError

    async def _catalog_for(self, request: CallRequest, effective: EffectiveRoots) -> Catalog:
        """Return the catalog that a call's route is looked up in.

        What the cache has is for questions about tools. A call is judged by what its running child
        lists: the cache may only tell which child to start.
        """
        session, named, owners = request.session, request.named, request.owners
        catalog = self._listings.catalog
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
        spec = self._services.servers[route.server]
        check_call(session, request.asked, spec, named.method, route.name)
        found = await self._listings.catalog(session, effective, (route.server,), for_call=True)
        trouble = self._listings.missing(session, (route.server,))
        if trouble is not None:
            raise ChildError(trouble)
        try:
            return found if named.route(found) else None
        except RouteError:
            return None


def _call_of(request: CallRequest, to: Destination) -> Call:
    """Return the call that the child gets."""
    # `address` has checked its arguments.
    return cast("Call", call_to(to.method, to.route.name, to.own, request.named.params))


def has_scopes(granted: frozenset[str] | None, needed: Sequence[str]) -> bool:
    """Return whether a token with the scopes `granted` will do; None: one that has no scopes."""
    return granted is None or granted.issuperset(needed)


def check_call(
    session: Session, asked: Asked, spec: ServerSpec, method: CallMethod, name: str
) -> None:
    """Check the scopes for a call of `name` at a server; a refusal is recorded under that name.

    Raises: InsufficientScopeError.
    """
    error = insufficient(asked, spec, method, name)
    if error is not None:
        turned_away_at(session, spec.name, name, str(error))
        raise error


def insufficient(
    asked: Asked, spec: ServerSpec, method: CallMethod, name: str
) -> InsufficientScopeError | None:
    """Return what the token of a request lacks to call `name` at a server; None if nothing."""
    needed = spec.scopes.of(method, name)
    if not needed or has_scopes(asked.granted, needed):
        return None
    missing = [scope for scope in needed if scope not in (asked.granted or ())]
    return InsufficientScopeError(needed, missing)


def check_before_route(session: Session, asked: Asked, named: Addressed) -> None:
    """Check the scopes of a call whose name alone tells its server, before any lookup.

    Raises: InsufficientScopeError.
    """
    services = session.services
    if asked.granted is None or not services.needs_scopes or named.question is not None:
        return
    spec = _only_owner(session, named)
    if spec is not None:
        name = _own_tool(named, spec, services.names) or named.name
        check_call(session, asked, spec, named.method, name)


def _only_owner(session: Session, named: Addressed) -> ServerSpec | None:
    """Return the server that a name must lead to; None if it may be another one, or the hub."""
    services = session.services
    owners = named.servers(services.names)
    if owners is None:
        owners = services.names.servers
    return services.servers.get(next(iter(owners))) if len(owners) == 1 else None


def _own_tool(named: Addressed, spec: ServerSpec, names: Names) -> str | None:
    """Return a server's own name of a tool that needs scopes of its own, if that is called."""
    if named.method != "tools/call":
        return None
    for tool in spec.scopes.tools:
        if named.name in _public(spec.name, tool, names, is_own=named.server is not None):
            return tool
    return None


def _public(server: ServerName, tool: str, names: Names, *, is_own: bool) -> set[str | None]:
    """Return the names that a tool may be called by."""
    if is_own:
        return {tool}
    return {names.public(server, tool), names.prefixed(server, tool), names.alias(server, tool)}
