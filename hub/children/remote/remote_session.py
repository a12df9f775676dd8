"""What was agreed with a remote child, and goes with each request over streamable HTTP."""

from __future__ import annotations

import structlog

from hub.children.remote.http_client import Exchange, Headers
from hub.jsonrpc import messages
from hub.jsonrpc.messages import Payload, Request
from hub.protocol.request_headers import Marked, modern_version, offered, request_headers

log = structlog.stdlib.get_logger(__name__)


class RemoteSession:
    """The headers of both eras: the legacy session's, or those that repeat a modern request."""

    def __init__(self, server: str) -> None:
        self._server = server
        self.is_modern = False
        self._id: Headers = {}
        self._version: Headers = {}
        self._marked: Marked = {}

    @property
    def has_id(self) -> bool:
        """Whether the child keeps a session, which it may end."""
        return bool(self._id)

    def headers(self) -> Headers:
        """Return what goes with all that is no modern request."""
        return {**self._id, **self._version}

    def headers_of(self, request: Request) -> Headers:
        """Return what goes with a request, whose envelope tells its era until one is agreed."""
        version = None if self._version else modern_version(request.params)
        self.is_modern = version is not None
        if version is None:
            return self.headers()
        return request_headers(version, request.method, request.params, self._marked)

    def begin(self, request: Request, exchange: Exchange) -> None:
        """Notice the session that begins with the answer to a greeting."""
        if request.method == "initialize":
            id_ = exchange.header("mcp-session-id")
            self._id = {b"mcp-session-id": id_.encode("latin-1", "replace")} if id_ else {}

    def learn(self, request: Request, result: Payload) -> Payload:
        """Notice what a result says of how to send further requests; return what to pass on.

        Raises: WireError if it cannot be read.
        """
        if request.method == "initialize":
            version = messages.as_object(result).get("protocolVersion")
            if isinstance(version, str) and version.isascii() and version.isprintable():
                self._version = {b"mcp-protocol-version": version.encode()}
        elif self.is_modern and request.method == "tools/list":
            found = offered(messages.as_object(result))
            self._marked = {**self._marked, **found.marked}
            for name, why in found.refused.items():
                log.warning("tool left out", server=self._server, tool=name, error=why)
            if found.refused:
                return found.listing
        return result
