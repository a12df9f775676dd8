"""Responses that pages of other origins may read, in browsers that ask for that (CORS)."""

from __future__ import annotations

from typing import Final

from starlette.types import Message, Send

from hub.server.http.access import RequestHeaders
from hub.server.http.responses import Field

METHODS: Final = "GET, POST, DELETE"
_KEPT: Final = 600
"""Seconds for which a browser need not ask again."""


def asks_first(method: str, headers: RequestHeaders) -> bool:
    """Return whether a browser asks what a page may do, before it lets it."""
    return method == "OPTIONS" and headers.get("access-control-request-method") is not None


def permission(headers: RequestHeaders) -> dict[str, str]:
    """Return the headers that let the page make the request that its browser asks about.

    The headers that it would send may be any: some are named after the arguments of tools.
    """
    wanted = headers.get("access-control-request-headers")
    own_network = headers.get("access-control-request-private-network")
    return {
        "access-control-allow-methods": METHODS,
        "access-control-max-age": str(_KEPT),
        **({} if wanted is None else {"access-control-allow-headers": wanted}),
        **({} if own_network is None else {"access-control-allow-private-network": "true"}),
    }


def readable(send: Send, origin: str) -> Send:
    """Return what sends a response that pages of an origin may read."""
    more: list[Field] = [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-expose-headers", b"mcp-session-id, retry-after, www-authenticate"),
        (b"vary", b"origin"),
    ]

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], *more]}
        await send(message)

    return sent
