"""What the heads of POSTs settle, found out once for those that say the same.

A client sends the same headers with each of its requests. What depends on them alone is kept by the
headers themselves, all but those that say how long one body is and whose session it belongs to. A
head that is turned away is not kept: it is looked at again, and the endpoint says why.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from starlette.types import Scope

from hub.jsonrpc.messages import MAX_MESSAGE_BYTES, Message, Request
from hub.protocol.constants import HANDSHAKE_VERSIONS
from hub.server.http.access import BLANKS, AccessCheck, Refusal, RequestHeaders
from hub.server.http.modern import RoutingHeaders, routing_headers_of
from hub.server.http.responses import Field
from hub.server.modern import is_modern

KEPT: Final = 1024
"""How many are kept; then all are forgotten."""
MAX_KEPT_BYTES: Final = 4096
"""How long the headers may be that are kept."""
_SESSION: Final = b"mcp-session-id"


class CheckedHeaders(Struct, frozen=True):
    """What headers settle that let a POST be read."""

    told: RoutingHeaders
    prefers_stream: bool

    @classmethod
    def by(cls, headers: RequestHeaders) -> CheckedHeaders:
        """Return what these headers settle."""
        return cls(routing_headers_of(headers), headers.prefers_stream)

    def is_legacy(self, message: Message) -> bool:
        """Return whether a message with such headers belongs to a session."""
        version = self.told.version
        if version is None:
            return not (isinstance(message, Request) and is_modern(message))
        return version in HANDSHAKE_VERSIONS


class RequestHead(Struct, eq=False):
    """The head of one POST that may be read; `session` is the one that it names."""

    checked: CheckedHeaders
    session: str | None
    fields: list[Field]

    def __repr__(self) -> str:
        return f"RequestHead({self.checked!r})"  # the rest are secrets


class HeaderChecks:
    """Looks at heads for one endpoint: its `path`, and who may speak to it."""

    def __init__(self, gatekeeper: AccessCheck, path: str) -> None:
        self._gatekeeper = gatekeeper
        self._path = path
        self._kept: dict[tuple[object, ...], CheckedHeaders] = {}

    def refusal(self, scope: Scope, headers: RequestHeaders) -> Refusal | None:
        """Return why a request is turned away by where it goes and by whom it is, if it is."""
        return self._gatekeeper.refusal(headers) or self.elsewhere(scope)

    def elsewhere(self, scope: Scope) -> Refusal | None:
        """Return why a request is turned away that goes to another path, if it does."""
        if scope["path"].rstrip("/") == self._path.rstrip("/"):
            return None
        return Refusal(404, f"There is nothing here; the MCP endpoint is {self._path}")

    def of(self, scope: Scope) -> RequestHead | None:
        """Return the head of a POST that may be read and says how long it is; else None."""
        if scope["method"] != "POST":
            return None
        fields: list[Field] = scope["headers"]
        key: list[object] = [scope["path"]]
        length = session = None
        for field in fields:
            if field[0] == b"content-length":
                length = field[1]
            elif field[0] == _SESSION:
                session = _text(field[1]) if session is None else session
            else:
                key.append(field)
        if length is None or int(length) > MAX_MESSAGE_BYTES:
            return None
        checked = self._settled(scope, tuple(key))
        return None if checked is None else RequestHead(checked, session, fields)

    def _settled(self, scope: Scope, key: tuple[object, ...]) -> CheckedHeaders | None:
        found = self._kept.get(key)
        if found is not None:
            return found
        headers = RequestHeaders(scope["headers"])
        if self.refusal(scope, headers) or unreadable(headers):
            return None
        if self._gatekeeper.shared_with(headers) is not None:
            return None  # what its response says beside depends on the page
        found = CheckedHeaders.by(headers)
        if sum(len(name) + len(value) for name, value in scope["headers"]) <= MAX_KEPT_BYTES:
            if len(self._kept) >= KEPT:
                self._kept.clear()
            self._kept[key] = found
        return found


def _text(value: bytes) -> str:
    return value.strip(BLANKS).decode("latin-1")


def unreadable(headers: RequestHeaders) -> Refusal | None:
    """Return why a POST with such headers is turned away before its body is read, if it is."""
    if not headers.accepts("application/json") or not headers.accepts("text/event-stream"):
        return Refusal(406, "Accept must name application/json and text/event-stream")
    if (headers.get("content-type") or "").split(";")[0].strip().lower() != "application/json":
        return Refusal(415, "Content-Type must be application/json")
    return None
