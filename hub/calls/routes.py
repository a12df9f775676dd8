"""Resolved routes: the child, guard and context of a call, cached for later calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from msgspec import Raw, Struct
from msgspec.structs import replace

from hub.calls.addressing import call_to, called, label_of
from hub.calls.judging import Destination, JudgingContext
from hub.calls.permission import Circumstances
from hub.calls.results import UNCACHED, completed
from hub.catalog.merge import Listing
from hub.children.child import Child, Ready
from hub.children.slot import ChildKey, ChildSlot
from hub.guard.containment import CallContext
from hub.guard.decide import Admitted, Refused, judge_inline
from hub.guard.plain_paths import PlainPathCheck
from hub.jsonrpc.errors import RpcError
from hub.jsonrpc.messages import Failure, Payload, Request, Response
from hub.jsonrpc.peer import Peer
from hub.jsonrpc.requests import UNSAID
from hub.paths.resolve import LinkReader
from hub.roots.roots import RootPresence
from hub.roots.state import SessionClosed, State
from hub.sessions.services import Services
from hub.sessions.session import Session
from hub.values import Json, JsonObject, ServerName, SessionKey

MAX_ROUTES: Final = 256
"""How many routes of one session are cached; the oldest makes room."""


class ResolvedRoute(Struct, frozen=True):
    """What a call needs to reach its child: a ready child, its guard, the context to judge it in.

    `others` are the session's slots with their listings, if another server's listing could move the
    name. The disk of `judged_in` has no cache. `plain_check` admits plain paths without the judge.
    `circumstances` are what calls are refused under. `scopes` are those that an issuer's token
    needs.
    """

    to: Destination
    slot: ChildSlot
    key: ChildKey
    child: Child
    peer: Peer
    ready: Ready
    operator: int
    judged_in: CallContext
    plain_check: PlainPathCheck | None
    circumstances: Circumstances
    others: tuple[tuple[ChildSlot, Listing | None], ...] = ()
    scopes: tuple[str, ...] = ()

    def is_open(self, services: Services) -> bool:
        """Return whether calls of the name would still go to this child, with the same list."""
        child, slot = self.child, self.slot
        return (
            child.state is self.ready
            and slot.child is child
            and slot.key is self.key
            and not child.is_stopping
            and slot.health.is_well
            and services.operator.version == self.operator
            and (not self.others or self._is_unmoved(services))
        )

    def _is_unmoved(self, services: Services) -> bool:
        known = services.children.known.last
        return all(slot.is_kept and known(slot) is listing for slot, listing in self.others)


class CallRoute(Struct, frozen=True):
    """A resolved route for the calls of `owner`.

    `is_modern`: the client is of the modern era. `presences` are those of all roots that a call is
    judged by; None if they are not known.
    """

    resolved: ResolvedRoute
    owner: Session
    is_modern: bool = False
    presences: tuple[RootPresence, ...] | None = None

    @property
    def is_open(self) -> bool:
        """Whether the route would be resolved to the same again, so that verdicts on it hold."""
        raise NotImplementedError

    @property
    def still_holds(self) -> bool:
        """Whether the verdict holds on a call that has waited: the disk is looked at, too."""
        links = self.resolved.judged_in.links
        return self.is_open and (self.presences is None or self.is_current(links))

    def judge(self, params: JsonObject) -> Admitted | Refused | None:
        """Return the verdict on a call with these params; None if it takes long or an answer."""
        resolved, to = self.resolved, self.resolved.to
        its = called(params) if self.owner.services.expose == "search" else params
        if its is None:
            return None
        call = call_to(to.method, to.route.name, to.own, its)
        if call is None:
            return None
        return judge_inline(
            call, to.guard, resolved.plain_check, resolved.judged_in, self.is_current
        )

    def is_current(self, links: LinkReader) -> bool:
        """Return whether all roots that a call is judged by are known, and unchanged on disk."""
        presences, flavour = self.presences, self.resolved.judged_in.flavour
        return presences is not None and all(
            presence.is_unchanged(links, flavour) for presence in presences
        )

    def complete(self, result: Payload) -> Payload:
        """Return a result with the fields that protocol 2026-07-28 requires.

        Raises: RpcError for a result that cannot be read.
        """
        hints = UNCACHED if self.resolved.to.method == "resources/read" else None
        return completed(result, self.owner.services.info, hints)

    def answer(self, request: Request, result: Callable[[], Payload]) -> Response | Failure:
        """Return the answer with what `result` returns, or with the RpcError that it raises."""
        try:
            told = result()
            return Response(request.id, self.complete(told) if self.is_modern else told)
        except RpcError as exc:
            return Failure(request.id, exc.error)


@final
class KnownAnswer(Struct, frozen=True):
    """The result of a request that needs no child and no session."""

    result: Raw
    can_be_cancelled: bool = False

    def cancel(self, reason: str = UNSAID) -> None:
        """Do nothing: the request is answered as soon as it is taken."""


def resolved_route_of(case: JudgingContext, child: Child) -> ResolvedRoute | None:
    """Return the route of a call that was judged in `case`; None if the child is gone."""
    ready, peer, session = child.state, child.peer, case.session
    if peer is None or not isinstance(ready, Ready):
        return None
    judged_in, to = case.around, case.to
    return ResolvedRoute(
        to=to,
        slot=case.snapshot.slot,
        key=case.snapshot.slot.key,
        child=child,
        peer=peer,
        ready=ready,
        operator=session.services.operator.version,
        judged_in=judged_in,
        plain_check=_plain_check(session, to, judged_in),
        circumstances=case.circumstances,
        others=_others(case),
        scopes=to.spec.scopes.of(to.method, to.route.name),
    )


def resolved_beside(beside: SessionRoute, to: Destination) -> ResolvedRoute:
    """Return the route to another name of the same child, for the same session and roots.

    No other server may have the name.
    """
    its, plain_check = beside.resolved, beside.resolved.plain_check
    own, name = its.to.guard, to.route.name
    policy, writes = to.guard.policy.policy, to.guard.needs_write
    is_alike = own.policy.policy is policy and own.needs_write is writes
    if plain_check is None or not (
        is_alike and plain_check.is_for(name, policy, needs_write=writes)
    ):
        plain_check = _plain_check(beside.owner, to, its.judged_in)
    scopes = to.spec.scopes.of(to.method, name)
    return replace(its, to=to, plain_check=plain_check, others=(), scopes=scopes)


def _others(case: JudgingContext) -> tuple[tuple[ChildSlot, Listing | None], ...]:
    session = case.session
    if not case.to.can_move or len(session.services.servers) == 1:
        return ()
    return tuple((slot, session.services.children.known.last(slot)) for slot in session.slots)


def _plain_check(session: Session, to: Destination, context: CallContext) -> PlainPathCheck | None:
    """Return the check that admits plain paths of a call; None if only the judge can admit them."""
    operator, last = session.services.operator, session.roots.state.last
    shared = None if last is None else last.announcement.roots
    bounds = operator.bounds(to.spec.name, shared)
    if bounds is None or not context.enforcing:
        return None
    policy, writes = to.guard.policy.policy, to.guard.needs_write
    return PlainPathCheck.of(context, bounds, policy, needs_write=writes, tool=to.route.name)


class JudgedRoute(CallRoute, frozen=True, kw_only=True):
    """The route of one call that was judged in `case`: it is open while that verdict holds."""

    case: JudgingContext

    @property
    def is_open(self) -> bool:
        return self.case.is_still_valid()


class SessionRoute(CallRoute, frozen=True, kw_only=True):
    """A route of one session, with the state of the session's roots when the route was found."""

    roots: State

    @property
    def is_open(self) -> bool:
        owner = self.owner
        return (
            owner.roots.state is self.roots
            and self.resolved.is_open(owner.services)
            and owner.held.get(self.resolved.to.spec.name) is self.resolved.slot
        )


class SessionRoutes:
    """The cached routes of all legacy sessions, by session and by the label of the request."""

    def __init__(self) -> None:
        self._routes: dict[SessionKey, dict[str, SessionRoute]] = {}
        self._newest: dict[SessionKey, dict[ServerName, SessionRoute]] = {}

    def find(self, session: Session, request: Request) -> SessionRoute | None:
        """Return the cached route of what a session calls; None if there is none open."""
        own = self._routes.get(session.key)
        if own is None:
            return None
        label: Json
        if request.method == "tools/call" and session.services.expose == "tools":
            label = request.params.get("name")  # at once, as most calls are of this kind
        else:
            label = label_of(request.method, request.params, session.services.expose)
        if not isinstance(label, str):
            return None
        found = own.get(label)
        if found is None or found.resolved.to.method != request.method:
            return None  # a tool may be called as the label of a prompt
        if found.is_open:
            return found
        del own[label]
        return None

    def at_server(self, session: Session, server: ServerName) -> SessionRoute | None:
        """Return the session's newest route at a server, if it is open and its roots are unmoved.

        What it was found by holds for other calls at the server, too.
        """
        found = self._newest.get(session.key, {}).get(server)
        if found is None or not found.is_open:
            return None
        return found if found.is_current(session.services.machine.links) else None

    def keep(self, session: Session, label: str, resolved: ResolvedRoute) -> SessionRoute | None:
        """Cache and return a route.

        None, and nothing is cached, if the session is closed, or its roots are awaited or failed.
        """
        state = session.roots.state
        is_settled = state.awaits is None and state.failed is None
        if not is_settled or isinstance(state.phase, SessionClosed):
            return None
        own = self._routes.setdefault(session.key, {})
        operator = session.services.operator
        presences = (session.roots.presence, *operator.presences(resolved.to.spec.name))
        own[label] = route = SessionRoute(resolved, session, presences=presences, roots=state)
        if len(own) > MAX_ROUTES:
            del own[next(iter(own))]
        self._newest.setdefault(session.key, {})[resolved.to.spec.name] = route
        return route

    def forget(self, session: Session) -> None:
        """Forget all routes of a session that is closed."""
        self._routes.pop(session.key, None)
        self._newest.pop(session.key, None)
