"""Cached checks of request heads: POSTs with the same headers are checked once.

A client sends the same headers with each of its requests. The result of the checks is cached by all
headers but `content-length` and `mcp-session-id`. The result for a refused head is not cached: the
endpoint checks the head again, and says why it is refused. Where a connection repeats a head byte
for byte, it is not even parsed again.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace
from starlette.types import Scope

from hub.calls.addressing import is_modern
from hub.jsonrpc.messages import MAX_MESSAGE_BYTES, Message, Request
from hub.protocol.constants import HANDSHAKE_VERSIONS
from hub.server.http.access import BLANKS, AccessCheck, ProxiedTo, Refusal, RequestHeaders
from hub.server.http.auth.admission import Admission, Unverified
from hub.server.http.bounds.failed_logins import FailedLogins
from hub.server.http.bounds.forwarded import Proxies, network_of
from hub.server.http.modern import RoutingHeaders, routing_headers_of
from hub.server.http.responses import Field
from hub.usage.fair_parts import Owner

KEPT: Final = 1024
"""How many results are cached; at this number all are forgotten."""
MAX_KEPT_BYTES: Final = 4096
"""How many bytes the headers may have whose result is cached."""
UNAUTHORIZED: Final = 401
_SESSION: Final = b"mcp-session-id"
_LENGTH: Final = re.compile(rb"\r\n(?i:content-length):[ \t]*(\d{1,8})(?=\r\n)")
_END: Final = b"\r\n\r\n"
_SHOWN: Final = 64
"""How many characters of a URL a refusal repeats."""
NO_PROFILE: Final = Refusal(403, "No profile of this hub is for you; its operator can add one")


class CheckedHeaders(Struct, frozen=True):
    """What the checked headers of a POST say, and whose it is; the POST may be read.

    `client` is the address that a trusted proxy tells; None: that of the connection counts.
    """

    admission: Admission
    told: RoutingHeaders
    prefers_stream: bool
    client: str | None = None

    @classmethod
    def by(
        cls, headers: RequestHeaders, admission: Admission, client: str | None = None
    ) -> CheckedHeaders:
        """Return what these headers say; their request was let in."""
        return cls(admission, routing_headers_of(headers), headers.prefers_stream, client)

    def owner_at(self, peer: str) -> Owner:
        """Return whose part of what all clients share a request from this address takes."""
        return self.admission.owner_at(self.client or network_of(peer))

    def is_legacy(self, message: Message) -> bool:
        """Return whether a message with these headers belongs to a legacy session."""
        if isinstance(message, Request) and is_modern(message):
            return False  # with the version header of a session it contradicts itself
        return self.told.version is None or self.told.version in HANDSHAKE_VERSIONS


class RequestHead(Struct, eq=False):
    """The head of one POST that may be read; `session` is the session id in it.

    `owner`: whose it is where all clients share something. `since`: what was to be checked then
    (`AccessCheck.changes`).
    """

    checked: CheckedHeaders
    session: str | None
    fields: list[Field]
    owner: Owner
    since: tuple[int, int]

    def __repr__(self) -> str:
        return f"RequestHead({self.checked!r})"  # the other fields are secrets


class RepeatedHead(Struct, frozen=True):
    """The bytes of a head that was let in, `before` and `after` the length of the body in it."""

    head: RequestHead
    before: bytes
    after: bytes

    @classmethod
    def of(cls, head: RequestHead, data: bytes, body: bytes) -> RepeatedHead | None:
        """Return the bytes of `head` if `data` is that one request with `body`, else None.

        Each connection may keep some: not those of a large head.
        """
        end = len(data) - len(body)
        if end > 2 * MAX_KEPT_BYTES:
            return None
        lengths = list(_LENGTH.finditer(data, 0, end))
        if not data.startswith(b"POST ") or data.find(_END) != end - len(_END):
            return None
        if len(lengths) != 1 or int(lengths[0][1]) != len(body):
            return None
        start, stop = lengths[0].span(1)
        return cls(head, data[:start], data[stop:end])

    def body_in(self, data: bytes) -> bytes | None:
        """Return the body if `data` is one whole request with this head, else None."""
        if not data.startswith(self.before):
            return None
        start = len(self.before)
        stop = data.find(b"\r", start, start + 9)
        if not data.startswith(self.after, stop) or not data[start:stop].isdigit():
            return None
        body = data[stop + len(self.after) :]
        return body if len(body) == int(data[start:stop]) else None


class HeaderChecks:
    """Checks request heads for one endpoint: its `path`, and who may use it.

    What `proxies` say about a request is believed. `failed_logins` counts refused tokens.
    `clock` gives seconds since 1970.
    """

    def __init__(
        self,
        gatekeeper: AccessCheck,
        path: str,
        proxies: Proxies | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._clock = clock
        self._gatekeeper = gatekeeper
        self._path = path
        self._proxies = proxies or Proxies()
        self.failed_logins = FailedLogins()
        self._kept: dict[tuple[object, ...], CheckedHeaders] = {}
        self._kept_since = gatekeeper.changes

    async def admission(self, scope: Scope, headers: RequestHeaders) -> Admission | Refusal:
        """Return who sent a request, or why `gatekeeper` or its path refuses it."""
        found = self.looked_at(scope, headers)
        if isinstance(found, Unverified) and found.has_let_in:
            found = await self._gatekeeper.verified(found)
        if isinstance(found, Unverified) or _is_wrong_token(found, headers):
            found = await self._tried(found, headers, self.client(scope, headers))
        return found if isinstance(found, Refusal) else self._served(scope, found)

    async def _tried(
        self, found: Admission | Refusal | Unverified, headers: RequestHeaders, address: str
    ) -> Admission | Refusal:
        """Return the same for a token that is unknown or wrong, unless its address has to wait."""
        async with self.failed_logins.attempt(address) as later:
            if later is not None:
                return later
            if isinstance(found, Unverified):
                found = await self._gatekeeper.verified(found)
            if _is_wrong_token(found, headers):
                self._gatekeeper.end_lapsed()
                self.failed_logins.note(address)
            return found

    async def admitted_still(
        self, scope: Scope, headers: RequestHeaders, admission: Admission, since: tuple[int, int]
    ) -> Admission | Refusal:
        """Return who sent a request of which the body has come only now, or why it is refused.

        `since`: `changes` of the access check when the request was let in.
        """
        if since == self._gatekeeper.changes and admission.counts_at(self._clock):
            return admission
        return await self.admission(scope, headers)

    def _served(self, scope: Scope, admission: Admission) -> Admission | Refusal:
        """Return a client that was let in with its profile for the URL, or why it has none."""
        profiles, asked = self._gatekeeper.profiles, self._profile_at(scope)
        if isinstance(asked, Refusal) or not profiles:
            return asked if isinstance(asked, Refusal) else admission
        held = profiles.of(admission)
        if asked is None and not held:
            return NO_PROFILE
        if asked is not None and asked not in held:
            return Refusal(404, f"You have no profile {asked[:_SHOWN]!a} at this hub")
        return replace(admission, profile=asked or held[0])

    def _profile_at(self, scope: Scope) -> str | Refusal | None:
        """Return the profile that a URL names, None for the endpoint's own; else a refusal."""
        path, own = scope["path"].rstrip("/"), self._path.rstrip("/")
        if path == own:
            return None
        name = path.removeprefix(f"{own}/")
        if self._gatekeeper.profiles and name != path and "/" not in name:
            return name
        return Refusal(404, f"There is nothing here; the MCP endpoint is {self._path}")

    def looked_at(self, scope: Scope, headers: RequestHeaders) -> Admission | Refusal | Unverified:
        """Return who sent a request, or why it is refused, as far as is known now."""
        return self._gatekeeper.admission(headers, self.proxied(scope, headers))

    def place_refusal(self, scope: Scope, headers: RequestHeaders) -> Refusal | None:
        """Return why a request is refused by where it was sent to or by its page, or None."""
        return self._gatekeeper.place_refusal(headers, self.proxied(scope, headers))

    def proxied(self, scope: Scope, headers: RequestHeaders) -> ProxiedTo:
        """Return what a trusted proxy says that it was asked for."""
        return self._proxies.proxied(_peer(scope), headers)

    def client(self, scope: Scope, headers: RequestHeaders) -> str:
        """Return the client address that a request counts for, behind a trusted proxy too."""
        return self._proxies.client(_peer(scope), headers)

    def elsewhere(self, scope: Scope) -> Refusal | None:
        """Return why a request to another path is refused; None for the endpoint's paths."""
        asked = self._profile_at(scope)
        return asked if isinstance(asked, Refusal) else None

    def of(self, scope: Scope) -> RequestHead | None:
        """Return the head of a POST that may be read and states an allowed length; else None."""
        if scope["method"] != "POST":
            return None
        fields: list[Field] = scope["headers"]
        peer = _peer(scope) or ""
        key: list[object] = [scope["path"], peer if self._proxies.includes(peer) else None]
        length = session = None
        for field in fields:
            if field[0] == b"content-length":
                length = field[1]
            elif field[0] == _SESSION:
                if session is not None:
                    return None
                session = field[1].strip(BLANKS).decode("latin-1")
            else:
                key.append(field)
        if length is None or int(length) > MAX_MESSAGE_BYTES:
            return None
        checked = self._settled(scope, tuple(key))
        if checked is None:
            return None
        return RequestHead(checked, session, fields, checked.owner_at(peer), self._kept_since)

    def still_counts(self, head: RequestHead) -> bool:
        """Return whether a request may be served by its head: its body may have come much later."""
        is_same = head.since == self._gatekeeper.changes
        return is_same and head.checked.admission.counts_at(self._clock)

    def _settled(self, scope: Scope, key: tuple[object, ...]) -> CheckedHeaders | None:
        if self._kept_since != self._gatekeeper.changes:
            self._kept.clear()  # some may have been let in by a token that has ended
            self._kept_since = self._gatekeeper.changes
        found = self._kept.get(key)
        if found is not None and found.admission.counts_at(self._clock):
            return found
        headers = RequestHeaders(scope["headers"])
        admitted = self.looked_at(scope, headers)
        if isinstance(admitted, Admission):
            admitted = self._served(scope, admitted)
        if not isinstance(admitted, Admission) or unreadable(headers):
            return None
        if self._gatekeeper.shared_with(headers) is not None:
            return None  # the response needs CORS headers for that page
        client = self.client(scope, headers) if key[1] is not None else None
        found = CheckedHeaders.by(headers, admitted, client)
        if sum(len(name) + len(value) for name, value in scope["headers"]) <= MAX_KEPT_BYTES:
            if len(self._kept) >= KEPT:
                self._kept.clear()
            self._kept[key] = found
        return found


def _peer(scope: Scope) -> str | None:
    """Return the address of a request's connection."""
    peer = scope.get("client")
    return None if peer is None else peer[0]


def _is_wrong_token(found: Admission | Refusal | Unverified, headers: RequestHeaders) -> bool:
    is_refused = isinstance(found, Refusal) and found.status == UNAUTHORIZED
    return is_refused and headers.get("authorization") is not None


def unreadable(headers: RequestHeaders) -> Refusal | None:
    """Return why a POST is refused by what it takes or by how it was sent, or None."""
    if not headers.accepts("application/json") or not headers.accepts("text/event-stream"):
        return Refusal(406, "Accept must name application/json and text/event-stream")
    if (headers.get("content-type") or "").split(";")[0].strip().lower() != "application/json":
        return Refusal(415, "Content-Type must be application/json")
    if (headers.get("content-encoding") or "identity").lower() != "identity":
        return Refusal(415, "A message must be sent as it is: no Content-Encoding is taken")
    return None
