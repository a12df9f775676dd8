"""Cached routes of modern requests. The roots that a request brings are part of its cache key.

A modern request has no session. Two requests share a route if they come from one principal, bring
the same roots (or rely on the same kept roots), and their clients can be asked the same things. The
route is valid while these roots are unchanged on disk. A request without roots is asked for them
at once if a `RootsRequirement` of the same key applies to it.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, TypeAlias, TypeVar, final

from msgspec import Raw, Struct

from hub.calls.addressing import called
from hub.calls.consent import JudgingContext
from hub.calls.results import completed
from hub.calls.rounds.roots_needed import RootsRequirement
from hub.calls.routes import OwnedRoute, ResolvedRoute, resolved_route_of
from hub.catalog.merge import Listing
from hub.catalog.search import Expose
from hub.children.child import Child
from hub.jsonrpc.exact_json import encode
from hub.jsonrpc.messages import Payload, Request
from hub.jsonrpc.outgoing import UNSAID
from hub.paths.file_uris import uri_from_path
from hub.paths.resolve import LinkReader
from hub.protocol.constants import (
    CLIENT_CAPABILITIES_META,
    CLIENT_INFO_META,
    LOG_LEVEL_META,
    MODERN_VERSIONS,
    PROTOCOL_VERSION_META,
)
from hub.protocol.http_headers import AnnotationError, declared
from hub.protocol.input_requests import ROOTS_KEY, wanting_roots
from hub.roots.presence import RootPresence
from hub.roots.roots import Announcement
from hub.sessions.client import Client
from hub.sessions.notifications import RELAYED
from hub.sessions.session import Session
from hub.values import Json, JsonObject, object_or_empty

KEPT: Final = 4096
"""How many routes are kept, and how many requirements; the least recently used makes room."""
MAX_KEY: Final = 16_384
"""Characters and bytes of a key that is kept: clients write keys, so their size is limited."""
_NEEDED: Final = {PROTOCOL_VERSION_META, CLIENT_CAPABILITIES_META}
_ENVELOPE: Final = {*_NEEDED, CLIENT_INFO_META, "progressToken"}
_PARAMS: Final = {"name", "arguments", "_meta", "inputResponses"}
_ASKED: Final = {"name", "arguments", "_meta"}

_NONE: Final = b"none"
_NOT_BROUGHT: Final = b"not brought"
_KEPT: Final = b"kept"

Kept = TypeVar("Kept")
RequestKey: TypeAlias = tuple[str, str, bytes, bytes]
"""Principal, label of the tool, the roots, and what else the client can be asked.

The roots are the answer in the request as JSON, or `none`, `not brought` or `kept`.
"""


def key_of(principal: str, params: JsonObject) -> RequestKey | None:
    """Return the cache key of a call; None if its request has fields for the general path only."""
    name, meta = params.get("name"), params.get("_meta")
    if not isinstance(name, str) or not isinstance(meta, dict) or not params.keys() <= _PARAMS:
        return None
    if (
        not _NEEDED <= meta.keys() <= _ENVELOPE
        or meta[PROTOCOL_VERSION_META] not in MODERN_VERSIONS
    ):
        return None
    capabilities = meta[CLIENT_CAPABILITIES_META]
    if not isinstance(capabilities, dict):
        return None
    if not capabilities:
        return (principal, name, _NONE, b"") if params.get("inputResponses") is None else None
    client = Client("modern", MODERN_VERSIONS[-1], capabilities, {})
    roots = _roots_in(client, params.get("inputResponses"))
    return None if roots is None else (principal, name, roots, _asks(client))


def asked_key(principal: str, params: JsonObject) -> RequestKey | None:
    """Return the key of a call whose client may be asked for roots; None for others and retries."""
    name, meta = params.get("name"), params.get("_meta")
    if not isinstance(name, str) or not isinstance(meta, dict) or not params.keys() <= _ASKED:
        return None
    if LOG_LEVEL_META in meta or meta.get(PROTOCOL_VERSION_META) not in MODERN_VERSIONS:
        return None
    capabilities = meta.get(CLIENT_CAPABILITIES_META)
    if not isinstance(capabilities, dict):
        return None
    client = Client("modern", MODERN_VERSIONS[-1], capabilities, {})
    if not client.declares("roots"):
        return None
    return principal, name, _NOT_BROUGHT, _asks(client)


def _asks(client: Client) -> bytes:
    """Return, as JSON, the capabilities that children may use, exactly as the client wrote them."""
    declared = {name: client.capabilities[name] for name in RELAYED if client.declares(name)}
    return encode(declared) if declared else b""


def _roots_in(client: Client, responses: Json) -> bytes | None:
    if not client.declares("roots"):
        return _NONE if responses is None else None
    if responses is None:
        return _NOT_BROUGHT
    if not isinstance(responses, dict) or responses.keys() != {ROOTS_KEY}:
        return None
    return encode(responses[ROOTS_KEY])


class ModernRoute(OwnedRoute, frozen=True):
    """A route with the `presence` of the request's roots, which is None if they are unknown.

    `kept` is the announcement of an earlier request, if that was used. The `owner` session has
    ended: it lasted for the request that found the route.
    """

    presence: RootPresence | None
    kept: Announcement | None = None

    @property
    def is_open(self) -> bool:
        """Whether a new lookup with the same key would give the same route."""
        services, slot = self.owner.services, self.resolved.slot
        if self.owner.unasked and services.children.has_asked_for_roots(slot.spec.name):
            return False
        return slot.is_kept and self.resolved.is_open(services)

    def is_current(self, links: LinkReader) -> bool:
        services = self.owner.services
        return (
            self.presence is not None
            and self.presence.is_unchanged(links, services.machine.flavour)
            and services.operator.is_current(self.resolved.slot.spec.name, links)
        )

    def complete(self, result: Payload) -> Payload:
        """Return a child's result with the fields that protocol 2026-07-28 requires.

        Raises: RpcError for a result that cannot be read.
        """
        return completed(result, self.owner.services.info)


@final
class RootsRequested(Struct, frozen=True):
    """The `input_required` result that asks a modern client for its roots."""

    result: Raw
    can_be_cancelled: bool = False

    def cancel(self, reason: str = UNSAID) -> None:
        """Do nothing: the request is answered as soon as it is taken."""


class ModernRoutes:
    """The cached routes and roots requirements of modern requests, by `RequestKey`.

    `info` names the hub. With `expose: search`, a `call-tool` is looked up by its inner tool.
    """

    def __init__(self, info: JsonObject, expose: Expose = "tools") -> None:
        self._expose: Expose = expose
        self._routes: OrderedDict[RequestKey, ModernRoute] = OrderedDict()
        self._needs: OrderedDict[RequestKey, RootsRequirement] = OrderedDict()
        self._asked = RootsRequested(Raw(encode(completed(wanting_roots(), info))))

    def find(
        self, principal: str, request: Request, kept: Announcement | None = None
    ) -> ModernRoute | RootsRequested | None:
        """Return the route of a principal's request, or the result that asks for roots.

        None if neither is cached. `kept` is the client's announcement of an earlier request, if it
        is still valid.
        """
        params = self._called(request)
        if params is None:
            return None
        if kept is None and self._is_asked(principal, params):
            return self._asked
        key = key_of(principal, params)
        if key is not None and key[2] == _NOT_BROUGHT and kept is not None:
            key = _kept(key)
        found = self._routes.get(key) if key is not None else None
        if key is None or found is None:
            return None
        if not found.is_open or (key[2] == _KEPT and found.kept is not kept):
            del self._routes[key]
            return None
        self._routes.move_to_end(key)
        return found

    def _called(self, request: Request) -> JsonObject | None:
        """Return the params of the tool call in a request, with the tool's label as `name`."""
        return called(request.params) if self._expose == "search" else request.params

    def _is_asked(self, principal: str, params: JsonObject) -> bool:
        key = asked_key(principal, params) if self._needs else None
        need = self._needs.get(key) if key is not None else None
        if key is None or need is None:
            return False
        if not need.is_open:
            del self._needs[key]
            return False
        self._needs.move_to_end(key)
        return need.is_of(params.get("arguments"))

    def ask(self, session: Session, request: Request, need: RootsRequirement) -> None:
        """Remember the need that made the hub ask a modern client for its roots."""
        services, known = session.services, need.known
        params = self._called(request) if request.method == "tools/call" else None
        key = None if params is None else asked_key(session.principal, params)
        if key is None or not _is_short(key):
            return
        if known is not None:
            if services.can_names_move or known.slot.spec.share == "session":
                return
            if known.listing is not None and _is_repeated(known.listing, known.tool):
                return
        _add(self._needs, key, need)

    def keep(self, case: JudgingContext, child: Child) -> None:
        """Cache the route that a modern call has just used, if other calls may use it."""
        session, request = case.session, case.asked.request
        its = self._called(request)
        key = None if its is None else key_of(session.principal, its)
        if key is None or not _is_short(key) or case.slot.spec.share == "session":
            return
        resolved = resolved_route_of(case, child)
        if resolved is None or _is_repeated(resolved.ready.listing, resolved.name):
            return
        found = _found(resolved, session, key[2], request.params.get("inputResponses"))
        if found is not None:
            _add(self._routes, key if found.kept is None else _kept(key), found)


def _add(kept: OrderedDict[RequestKey, Kept], key: RequestKey, one: Kept) -> None:
    kept[key] = one
    kept.move_to_end(key)
    while len(kept) > KEPT:
        kept.popitem(last=False)


def _kept(key: RequestKey) -> RequestKey:
    """Return `key` for a call that brings no roots and is judged by kept ones."""
    principal, name, _, asks = key
    return principal, name, _KEPT, asks


def _is_short(key: RequestKey) -> bool:
    return sum(map(len, key)) <= MAX_KEY


def _is_repeated(listing: Listing, name: str) -> bool:
    """Return whether HTTP headers must repeat some of a tool's arguments, so need a check."""
    for tool in listing.tools:
        if tool.get("name") == name:
            try:
                return bool(declared(tool.get("inputSchema")))
            except AnnotationError:
                return False
    return False


def _found(
    resolved: ResolvedRoute, session: Session, roots: bytes, responses: Json
) -> ModernRoute | None:
    """Return the route, by the source of its request's roots; None if others may not use it."""
    if roots != _NOT_BROUGHT:
        if roots != _NONE and session.services.settings.reuse:
            return None  # the general path has to keep the roots that each request brings
        presence = _presence_of(session, roots, responses)
        return None if presence is None else ModernRoute(resolved, session, presence)
    if session.unasked:
        return ModernRoute(resolved, session, None)
    last = session.roots.state.last
    if last is None:
        return None
    kept = last.announcement
    return ModernRoute(resolved, session, RootPresence.of(kept.roots), kept)


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
    return RootPresence.of(roots)
