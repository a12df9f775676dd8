"""Takes plain calls from the connections that they arrive on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from starlette.types import ASGIApp, Scope

from hub.jsonrpc import messages
from hub.jsonrpc.deadlines import Deadlines
from hub.jsonrpc.exact_json import WireError
from hub.jsonrpc.messages import Request
from hub.server.http.bounds.bodies import Bodies
from hub.server.http.fast_calls import Line, PlainCall, Post
from hub.server.http.request_heads import Head, Heads

FindPost: TypeAlias = Callable[[Request, Head], Post | None]
"""Returns how a request is to be answered; None if it is to be told why it is not."""


class Desk:
    """Where a connection asks whether a request needs no task.

    `bodies` counts what it collects for that; `no_room` tells a client that there is none for it.
    """

    def __init__(
        self,
        heads: Heads,
        find: FindPost,
        patience: Deadlines,
        *,
        bodies: Bodies,
        no_room: ASGIApp,
    ) -> None:
        self._heads = heads
        self._find = find
        self._patience = patience
        self.bodies = bodies
        self.no_room = no_room

    def head(self, scope: Scope) -> Head | None:
        """Return the head of a request whose body is worth waiting for; None for any other."""
        head = self._heads.of(scope)
        return None if head is None or head.settled.prefers_stream else head

    def take(self, head: Head, body: bytes, line: Line) -> PlainCall | None:
        """Take a request if it is a plain call; its answer goes to `line`."""
        if b'"tools/call"' not in body:
            return None
        try:
            request = messages.parse_client(body)
        except WireError:
            return None
        if not isinstance(request, Request) or request.method != "tools/call":
            return None
        post = self._find(request, head)
        if post is None:
            return None
        call = PlainCall(post, self._patience, line)
        return call if call.begin() else None
