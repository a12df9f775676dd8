"""Cached resolved routes: the child, guard and context of a tool, looked up once for many calls."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from hub.calls.addressing import called, tool_call
from hub.calls.consent import JudgingContext
from hub.children.child import Child, Ready
from hub.children.slot import ChildKey, ChildSlot
from hub.guard.containment import CallContext, RootIndex
from hub.guard.decide import Admitted, ToolGuard, admit
from hub.guard.plain_paths import PlainPathCheck
from hub.jsonrpc.messages import Payload, Request
from hub.jsonrpc.peer import Peer
from hub.paths.resolve import LinkReader
from hub.roots.state import SessionClosed, State
from hub.sessions.services import Services
from hub.sessions.session import Session
from hub.system.disk import CachedDisk
from hub.values import JsonObject, SessionKey


class ResolvedRoute(Struct, frozen=True):
    """The lookup of one tool call, kept for the next ones: a ready child, its guard, the context.

    Valid until the child, its tool list or the operator's roots change. `name` is the child's own
    name of the tool. Each call replaces the `links` of `judged_in`. `plain_check` admits plain
    paths without the judge.
    """

    name: str
    slot: ChildSlot
    key: ChildKey
    child: Child
    peer: Peer
    ready: Ready
    guard: ToolGuard
    operator: int
    judged_in: CallContext
    plain_check: PlainPathCheck | None

    def is_open(self, services: Services) -> bool:
        """Return whether calls of the tool would still go to this child, with the same list."""
        child, slot = self.child, self.slot
        return (
            child.state is self.ready
            and slot.child is child
            and slot.key is self.key
            and not child.is_stopping
            and slot.health.is_well
            and services.operator.version == self.operator
        )

    def context(self, links: LinkReader) -> CallContext:
        """Return the context that one call is judged in, with `links` as its disk."""
        return replace(self.judged_in, links=links)


class OwnedRoute(Struct, frozen=True):
    """A resolved route with the session whose call found it; the `LazyContext` of later calls."""

    resolved: ResolvedRoute
    owner: Session

    def admit(self, params: JsonObject) -> Admitted | None:
        """Return the admitted call of a request; None if the general path has to decide."""
        resolved = self.resolved
        its = called(params) if self.owner.services.expose == "search" else params
        call = None if its is None else tool_call(resolved.name, its)
        return None if call is None else admit(call, resolved.guard, self)

    @property
    def plain_check(self) -> PlainPathCheck | None:
        return self.resolved.plain_check

    @property
    def disk(self) -> LinkReader:
        return self.owner.services.machine.links

    def memory(self) -> LinkReader:
        return CachedDisk(self.disk)

    def context(self, links: LinkReader) -> CallContext | None:
        """Return the context that a call is judged in; None if a root has changed on disk."""
        return self.resolved.context(links) if self.is_current(links) else None

    def is_current(self, links: LinkReader) -> bool:
        """Return whether all roots that a call is judged by are unchanged on disk."""
        raise NotImplementedError


def resolved_route_of(case: JudgingContext, child: Child) -> ResolvedRoute | None:
    """Return the route that a call has just used; None if later calls have to look it up again."""
    ready, peer, services = child.state, child.peer, case.session.services
    if not case.is_current:
        return None  # the effective roots changed during the call
    if peer is None or not isinstance(ready, Ready):
        return None
    if case.call.method != "tools/call":
        return None
    if services.can_names_move:
        return None
    context = case.context()
    judged_in = replace(context, index=RootIndex.of(context.roots, context.cwd))
    return ResolvedRoute(
        name=case.call.name,
        slot=case.slot,
        key=case.slot.key,
        child=child,
        peer=peer,
        ready=ready,
        guard=case.guard,
        operator=services.operator.version,
        judged_in=judged_in,
        plain_check=_plain_check(case, judged_in),
    )


def _plain_check(case: JudgingContext, context: CallContext) -> PlainPathCheck | None:
    """Return the check that admits plain paths of a call; None if only the judge can admit them."""
    operator, last = case.session.services.operator, case.session.roots.state.last
    shared = None if last is None else last.announcement.roots
    bounds = operator.bounds(case.slot.spec.name, shared)
    if bounds is None or not context.enforcing:
        return None
    policy, needs_write = case.guard.policy.policy, case.guard.needs_write
    tool = case.call.name
    return PlainPathCheck.of(context, bounds, policy, needs_write=needs_write, tool=tool)


class SessionRoute(OwnedRoute, frozen=True):
    """A route of one session, with the state of the session's roots when the route was found."""

    roots: State

    @property
    def is_open(self) -> bool:
        """Whether a new lookup for the session would give the same route."""
        owner = self.owner
        return (
            owner.roots.state is self.roots
            and self.resolved.is_open(owner.services)
            and owner.is_using(self.resolved.slot)
        )

    def is_current(self, links: LinkReader) -> bool:
        return self.owner.is_current(self.resolved.slot.spec.name, links)

    def complete(self, result: Payload) -> Payload:
        """Return a child's result unchanged."""
        return result


class SessionRoutes:
    """The cached routes of all legacy sessions, by session and by the tool's label."""

    def __init__(self) -> None:
        self._routes: dict[SessionKey, dict[str, SessionRoute]] = {}

    def find(self, session: Session, request: Request) -> SessionRoute | None:
        """Return the cached route of the tool that a session calls; None if there is none open."""
        own, its = self._routes.get(session.key), request.params
        if session.services.expose == "search":
            its = called(its) or {}
        name = its.get("name")
        found = own.get(name) if own is not None and isinstance(name, str) else None
        if found is None or found.is_open:
            return found
        self._routes[session.key].pop(str(name))
        return None

    def keep(self, session: Session, label: str, resolved: ResolvedRoute) -> None:
        """Cache a route, unless the session is closed, or its roots are awaited or failed."""
        state = session.roots.state
        is_settled = state.awaits is None and state.failed is None
        if is_settled and not isinstance(state.phase, SessionClosed):
            kept = SessionRoute(resolved, session, state)
            self._routes.setdefault(session.key, {})[label] = kept

    def forget(self, session: Session) -> None:
        """Forget all routes of a session that is closed."""
        self._routes.pop(session.key, None)
