"""HTTP to a remote child where what breaks breaks one call, and not the connection of all.

The SDK's transports end altogether when one of their requests cannot be sent, and say nothing when
one is refused over SSE. This goes beneath them: a failed POST looks to them as if it were taken.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TypeAlias

import httpx2
import structlog

from hub.runtime import wire
from hub.runtime.peer import GoneError
from hub.runtime.strict_json import WireError, decode_strict
from hub.runtime.wire import Failure

log = structlog.stdlib.get_logger(__name__)

Tell: TypeAlias = Callable[[Failure | GoneError], Awaitable[None]]
_TAKEN = 202
_NOT_FOUND = 404
_ERRORS = 400


class CarefulTransport(httpx2.AsyncBaseTransport):
    """Sends requests; `tell` hears of each that will have no answer, and of a session's end."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, tell: Tell) -> None:
        self._inner = inner
        self._tell = tell

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.method != "POST":
            return await self._inner.handle_async_request(request)
        try:
            response = await self._inner.handle_async_request(request)
        except httpx2.TransportError as exc:
            return await self._lost(request, f"it cannot be reached ({_named(exc)})")
        if response.status_code >= _ERRORS:
            return await self._refused(request, response)
        response.stream = _Stream(response.stream, lambda exc: self._broke(request, response, exc))
        return response

    async def _refused(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        has_session = "mcp-session-id" in request.headers
        if response.status_code == _NOT_FOUND and not has_session:
            return response  # to a server of the other era, this is an unknown method
        try:
            body = await response.aread()
        except httpx2.TransportError:
            body = b""
        await response.aclose()
        if _is_error(body):
            return httpx2.Response(
                response.status_code,
                headers={"content-type": "application/json"},
                content=body,
                request=request,
            )
        if response.status_code == _NOT_FOUND:
            await self._tell(GoneError("its session has ended"))
        return await self._lost(request, f"it answered with HTTP status {response.status_code}")

    async def _lost(self, request: httpx2.Request, why: str) -> httpx2.Response:
        id_ = _id_of(request)
        if id_ is not None:
            await self._tell(wire.lost(id_, why))
        else:
            log.warning("message lost", url=request.url.host, error=why)
        return httpx2.Response(_TAKEN, request=request)

    async def _broke(
        self, request: httpx2.Request, response: httpx2.Response, exc: Exception
    ) -> None:
        # Of an event stream the SDK may get the rest.
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            await self._lost(request, f"the connection broke ({_named(exc)})")

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Stream(httpx2.AsyncByteStream):
    """An answer's bytes, which end where the connection breaks."""

    def __init__(self, inner: object, broke: Callable[[Exception], Awaitable[None]]) -> None:
        if not isinstance(inner, httpx2.AsyncByteStream):
            raise TypeError(f"not a stream: {inner!r}")
        self._inner = inner
        self._broke = broke

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        try:
            async for chunk in self._inner:
                yield chunk
        except httpx2.TransportError as exc:
            await self._broke(exc)

    async def aclose(self) -> None:
        await self._inner.aclose()


def _named(exc: Exception) -> str:
    return str(exc) or type(exc).__name__


def _id_of(request: httpx2.Request) -> int | str | None:
    """Return the id of the JSON-RPC request within; None if there is none to be answered."""
    try:
        message = wire.parse_child(request.content)
    except (WireError, httpx2.RequestNotRead):
        return None
    return message.id if isinstance(message, wire.Request) else None


def _is_error(body: bytes) -> bool:
    """Return whether a refusal's body is a JSON-RPC error, which says more than the status."""
    try:
        read = decode_strict(body, repeated_keys=True)
    except WireError:
        return False
    return isinstance(read, dict) and isinstance(read.get("error"), dict) and "jsonrpc" in read
