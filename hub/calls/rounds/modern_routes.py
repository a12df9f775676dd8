"""Cached routes of modern requests. The roots that a request brings are part of its cache key.

A modern request has no session. Two requests share a route if they come from one identity, bring
the same roots (or rely on the same kept roots), and children may use the same of their clients. The
route is valid while these roots are unchanged on disk. A request without roots is asked for them
at once if a `RootsRequirement` of the same key applies to it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final, TypeAlias, TypeVar

from msgspec import Raw

from hub.calls.addressing import called, label_of
from hub.calls.judging import JudgingContext
from hub.calls.results import completed
from hub.calls.rounds.roots_needed import RootsRequirement
from hub.calls.routes import CallRoute, KnownAnswer, ResolvedRoute
from hub.catalog.merge import Listing
from hub.catalog.search import Expose
from hub.children.slot import ChildSlot
from hub.guard.decide import Admitted, Refused
from hub.jsonrpc.exact_json import encode
from hub.jsonrpc.messages import Request
from hub.paths.file_uris import uri_from_path
from hub.protocol.constants import (
    CLIENT_CAPABILITIES_META,
    CLIENT_INFO_META,
    MODERN_VERSIONS,
    PROTOCOL_VERSION_META,
)
from hub.protocol.http_headers import AnnotationError, ParamHeader, declared, mismatch
from hub.protocol.input_requests import ROOTS_KEY, wanting_roots
from hub.roots.roots import Announcement, RootPresence
from hub.sessions.client import Client
from hub.sessions.services import Services
from hub.sessions.session import Session
from hub.values import Json, JsonObject, object_or_empty

KEPT: Final = 4096
"""How many routes are kept, and how many requirements; the least recently used makes room."""
MAX_KEY: Final = 16_384
"""Characters and bytes of a key that is kept: clients write keys, so their size is limited."""
_NEEDED: Final = {PROTOCOL_VERSION_META, CLIENT_CAPABILITIES_META}
_ENVELOPE: Final = {*_NEEDED, CLIENT_INFO_META, "progressToken"}
_OWN_PARAMS: Final = {
    "tools/call": {"name", "arguments"},
    "prompts/get": {"name", "arguments"},
    "resources/read": {"uri"},
    "completion/complete": {"ref", "argument", "context"},
}
_PARAMS: Final = {method: own | {"_meta", "inputResponses"} for method, own in _OWN_PARAMS.items()}

_NONE: Final = b"none"
_NOT_BROUGHT: Final = b"not brought"
_KEPT: Final = b"kept"

Kept = TypeVar("Kept")
Headers: TypeAlias = Iterable[tuple[str, str]]
RequestKey: TypeAlias = tuple[str, str, bytes, bytes]
"""Identity, label of the tool, the roots, and the capabilities that children may use.

The roots are the answer in the request as JSON, or `none`, `not brought` or `kept`.
"""


def key_of(identity: str, request: Request, expose: Expose = "tools") -> RequestKey | None:
    """Return the cache key of a call; None if its route is never cached."""
    params = request.params
    meta = params.get("_meta")
    if not isinstance(meta, dict) or not params.keys() <= _PARAMS.get(request.method, set()):
        return None
    if (
        not _NEEDED <= meta.keys() <= _ENVELOPE
        or meta[PROTOCOL_VERSION_META] not in MODERN_VERSIONS
    ):
        return None
    label, capabilities = label_of(request.method, params, expose), meta[CLIENT_CAPABILITIES_META]
    if label is None or not isinstance(capabilities, dict):
        return None
    if not capabilities:
        return (identity, label, _NONE, b"") if params.get("inputResponses") is None else None
    client = Client("modern", MODERN_VERSIONS[-1], capabilities, {})
    roots = _roots_in(client, params)
    return None if roots is None else (identity, label, roots, _asks(client))


def _asks(client: Client) -> bytes:
    """Return, as JSON, the capabilities that children may use, exactly as the client wrote them."""
    declared = {name: client.capabilities[name] for name in client.relayed()}
    return encode(declared) if declared else b""


def _roots_in(client: Client, params: JsonObject) -> bytes | None:
    responses = params.get("inputResponses")
    if not client.declares("roots"):
        return _NONE if responses is None else None
    if "inputResponses" not in params:
        return _NOT_BROUGHT
    if not isinstance(responses, dict) or responses.keys() != {ROOTS_KEY}:
        return None
    return encode(responses[ROOTS_KEY])


class ModernRoute(CallRoute, frozen=True, kw_only=True):
    """A route for the requests that bring the same roots.

    `kept` is the announcement of an earlier request, if that was used. The `owner` session has
    ended: it lasted for the request that found the route. `repeated`: the arguments that HTTP
    headers must repeat. `may_ask`: a call that the guard objects to may be one that needs its
    client's roots.
    """

    kept: Announcement | None = None
    repeated: tuple[ParamHeader, ...] = ()
    may_ask: bool = False
    is_modern: bool = True

    @property
    def is_open(self) -> bool:
        services, slot = self.owner.services, self.resolved.slot
        if self.owner.unasked and services.children.has_asked_for_roots(slot.spec.name):
            return False
        return slot.is_kept and self.resolved.is_open(services)

    def judge(self, params: JsonObject) -> Admitted | Refused | None:
        verdict = super().judge(params)
        return None if self.may_ask and type(verdict) is Refused else verdict

    def accepts(self, request: Request, headers: Headers | None) -> bool:
        """Return whether the HTTP headers of a request repeat its arguments where they must."""
        if headers is None or not self.repeated:
            return True
        arguments = object_or_empty(request.params.get("arguments"))
        return mismatch(self.repeated, arguments, headers) is None


class ModernRoutes:
    """The cached routes and roots requirements of modern requests, by `RequestKey`.

    With `expose: search`, a `call-tool` is looked up by its inner tool.
    """

    def __init__(self, services: Services) -> None:
        self.max_kept = KEPT
        self._services = services
        self._routes: OrderedDict[RequestKey, ModernRoute] = OrderedDict()
        self._needs: OrderedDict[RequestKey, RootsRequirement] = OrderedDict()
        self._needed_at = services.operator.version
        self._asked = KnownAnswer(Raw(encode(completed(wanting_roots(), services.info))))

    def find(
        self,
        identity: str,
        request: Request,
        kept: Announcement | None = None,
        headers: Headers | None = None,
    ) -> ModernRoute | KnownAnswer | None:
        """Return the route of a client's request, or the result that asks for roots.

        None if neither is cached. `kept` is the client's announcement of an earlier request, if it
        is still valid. `headers` are those of the request's POST.
        """
        key = key_of(identity, request, self._services.expose)
        if key is None:
            return None
        if key[2] == _NOT_BROUGHT:
            if kept is not None:
                key = _kept(key)
            elif self._is_asked(key, request):
                return self._asked
        found = self._routes.get(key)
        if found is None or found.resolved.to.method != request.method:
            return None
        if not found.is_open or (key[2] == _KEPT and found.kept is not kept):
            del self._routes[key]
            return None
        self._routes.move_to_end(key)
        return found if found.accepts(request, headers) else None

    def _is_asked(self, key: RequestKey, request: Request) -> bool:
        """Return whether the client of a call without roots is asked for them."""
        if self._needed_at != self._services.operator.version:
            self._needed_at = self._services.operator.version
            self._needs.clear()  # by another config, fewer calls may need roots
        need = self._needs.get(key) if request.method == "tools/call" else None
        # The token may lack a scope, and then nobody is to be asked.
        if need is None or self._services.needs_scopes:
            return False
        if not need.is_open:
            del self._needs[key]
            return False
        self._needs.move_to_end(key)
        params = called(request.params) if self._services.expose == "search" else request.params
        return params is not None and need.is_of(params.get("arguments"))

    def ask(self, session: Session, request: Request, need: RootsRequirement) -> None:
        """Remember the need that made the hub ask a modern client for its roots."""
        services, known = session.services, need.known
        key = key_of(session.identity, request, services.expose)
        if request.method != "tools/call" or key is None or key[2] != _NOT_BROUGHT:
            return
        if not _is_short(key):
            return
        if known is not None:
            if services.can_names_move or not _is_for_others(known.slot, session):
                return
            if known.listing is not None and _repeated(known.listing, known.tool):
                return
        self._add(self._needs, key, need)

    def keep(self, case: JudgingContext, resolved: ResolvedRoute) -> None:
        """Cache the route of a modern call, if other calls may use it."""
        session, request = case.session, case.asked.request
        key = key_of(session.identity, request, self._services.expose)
        if key is None or not _is_short(key) or not _is_for_others(case.snapshot.slot, session):
            return
        found = _found(case, resolved, key[2])
        if found is not None:
            self._add(self._routes, key if found.kept is None else _kept(key), found)

    def _add(self, kept: OrderedDict[RequestKey, Kept], key: RequestKey, one: Kept) -> None:
        kept[key] = one
        kept.move_to_end(key)
        while len(kept) > self.max_kept:
            kept.popitem(last=False)


def _is_for_others(slot: ChildSlot, session: Session) -> bool:
    """Return whether a child may serve other requests with the same `RequestKey`."""
    if slot.key.session is None:
        return True
    return session.services.is_for_one and slot.key.session == session.party


def _kept(key: RequestKey) -> RequestKey:
    """Return `key` for a call that brings no roots and is judged by kept ones."""
    identity, name, _, asks = key
    return identity, name, _KEPT, asks


def _is_short(key: RequestKey) -> bool:
    return sum(map(len, key)) <= MAX_KEY


def _repeated(listing: Listing, name: str) -> tuple[ParamHeader, ...]:
    """Return the headers that must repeat arguments of a tool."""
    for tool in listing.tools:
        if tool.get("name") == name:
            try:
                return declared(tool.get("inputSchema"))
            except AnnotationError:
                return ()
    return ()


def _found(case: JudgingContext, resolved: ResolvedRoute, roots: bytes) -> ModernRoute | None:
    """Return the route, by the source of its request's roots; None if others may not use it."""
    session, responses = case.session, case.asked.request.params.get("inputResponses")
    kept: Announcement | None = None
    if roots != _NOT_BROUGHT:
        if roots != _NONE and session.services.settings.reuse:
            return None  # each request has to be resolved, which keeps the roots that it brings
        presence = _presence_of(session, roots, responses)
        if presence is None:
            return None
    elif session.unasked:
        presence = None
    elif session.roots.state.last is None:
        return None
    else:
        kept = session.roots.state.last.announcement
        presence = RootPresence.of(kept.roots.roots)
    repeated: tuple[ParamHeader, ...] = ()
    if resolved.to.method == "tools/call" and session.services.expose == "tools":
        repeated = _repeated(resolved.ready.listing, resolved.to.route.name)
    effective = case.snapshot.effective
    may_ask = session.unasked or (effective.enforcing and effective.source == "none")
    presences = None
    if presence is not None:
        presences = (presence, *session.services.operator.presences(resolved.to.spec.name))
    return ModernRoute(
        resolved, session, presences=presences, kept=kept, repeated=repeated, may_ask=may_ask
    )


def _presence_of(session: Session, retry: bytes, responses: Json) -> RootPresence | None:
    """Return the roots that a request brought; None if the same answer may mean others later."""
    last = session.roots.state.last
    if retry == _NONE:
        return RootPresence(()) if last is None else None
    if last is None or last.announcement.rejected:
        return None
    roots, flavour = last.announcement.roots, session.services.machine.flavour
    announced = object_or_empty(object_or_empty(responses).get(ROOTS_KEY)).get("roots")
    # A root announced through a link, or twice, may lead to another place next time.
    plain = [root.uri for root in roots.roots if root.uri == uri_from_path(root.path, flavour)]
    if not isinstance(announced, list) or len(plain) != len(announced):
        return None
    return RootPresence.of(roots.roots)
