"""Children behind a URL: the SDK's HTTP and SSE transports, turned into links.

This module is imported only when a remote child is opened, because it loads the SDK.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Protocol, TypeAlias, cast

import anyio
import httpx2
from anyio.streams.memory import MemoryObjectSendStream
from mcp.client._transport import TransportStreams
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    encode_header_value,
)
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from mcp_types import (
    CONNECTION_CLOSED,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)

from hub.core.protocol import PROTOCOL_VERSION_META
from hub.core.specs import RemoteTarget
from hub.core.values import Json, JsonObject
from hub.runtime import wire
from hub.runtime.careful_http import CarefulTransport
from hub.runtime.link import Link
from hub.runtime.peer import GoneError
from hub.runtime.strict_json import WireError
from hub.runtime.wire import Failure, Message, Notification, Request, Response

CONNECT_TIMEOUT = 30.0
"""Seconds a connection, or a pause within one answer's writing, may take."""


QUEUE = 16
"""How many messages of a child may wait for the hub."""
_UNANSWERED = "SSE stream ended without a response"
"""What the SDK says of an answer that broke off."""

Item: TypeAlias = SessionMessage | Exception | Failure


class Reads(Protocol):
    """Where the SDK hands over what it has read."""

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message."""
        ...


class RemoteLink:
    """A child behind a pair of the SDK's message streams; it is its own outlet."""

    private_directory: str | None = None

    def __init__(self, streams: TransportStreams) -> None:
        self._read, self._write = streams
        self._version: str | None = None
        self.outlet = self

    async def next(self) -> Message:
        while True:
            try:
                item = cast("Item", await self._read.receive())
            except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
                raise GoneError("the connection ended") from None
            if isinstance(item, Failure):
                return item
            if isinstance(item, Exception):
                said = str(item)
                raise GoneError(
                    said if isinstance(item, GoneError) else f"the connection broke: {said}"
                ) from item
            message = self._taken(item)
            if message is not None:
                return message

    def _taken(self, item: SessionMessage) -> Message | None:
        fields = cast(
            "JsonObject", item.message.model_dump(by_alias=True, mode="json", exclude_unset=True)
        )
        fields["jsonrpc"] = "2.0"
        try:
            message = wire.message_of(fields)
        except WireError:
            return None
        if isinstance(message, Failure) and message.id is not None:
            error = wire.as_object(message.error)
            if error.get("code") == CONNECTION_CLOSED and error.get("message") == _UNANSWERED:
                return wire.lost(message.id, "the connection broke off")
        version = _agreed_version(message)
        if version is not None:
            self._version = version
        return message

    async def send(self, message: Message) -> None:
        """Hand a message to the transport, with the headers its protocol version wants.

        Raises: GoneError when the connection has ended.
        """
        outgoing = SessionMessage(
            _to_sdk(message), metadata=ClientMessageMetadata(headers=self._headers(message))
        )
        try:
            await self._write.send(outgoing)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            raise GoneError("the connection ended") from None

    def _headers(self, message: Message) -> dict[str, str] | None:
        if not isinstance(message, Request):
            return {MCP_PROTOCOL_VERSION_HEADER: self._version} if self._version else None
        meta = message.params.get("_meta")
        modern = meta.get(PROTOCOL_VERSION_META) if isinstance(meta, dict) else None
        if not isinstance(modern, str):
            return {MCP_PROTOCOL_VERSION_HEADER: self._version} if self._version else None
        headers = {MCP_PROTOCOL_VERSION_HEADER: modern, MCP_METHOD_HEADER: message.method}
        named = message.params.get(NAME_BEARING_METHODS.get(message.method, ""))
        if isinstance(named, str):
            headers[MCP_NAME_HEADER] = encode_header_value(named)
        return headers


def _agreed_version(message: Message) -> str | None:
    """Return the version in an answer to `initialize`, the only result that has one at its top."""
    if not isinstance(message, Response):
        return None
    result: Json = wire.as_object(message.result)
    version = result.get("protocolVersion")
    return version if isinstance(version, str) else None


def _to_sdk(
    message: Message,
) -> JSONRPCRequest | JSONRPCNotification | JSONRPCResponse | JSONRPCError:
    match message:
        case Request(id_, method, params):
            return JSONRPCRequest.model_validate({"id": id_, **_asking(method, params)})
        case Notification(method, params):
            return JSONRPCNotification.model_validate(_asking(method, wire.as_object(params)))
        case Response(id_, result):
            return JSONRPCResponse(jsonrpc="2.0", id=id_, result=wire.as_object(result))
        case Failure(id_, error):
            return JSONRPCError.model_validate(
                {"jsonrpc": "2.0", "id": id_, "error": wire.as_object(error)}
            )


def _asking(method: str, params: JsonObject) -> dict[str, object]:
    """Return the fields of a message; absent params are left out, for null is not the same."""
    asking: dict[str, object] = {"jsonrpc": "2.0", "method": method}
    return {**asking, "params": params} if params else asking


@asynccontextmanager
async def open_remote(target: RemoteTarget, timeout: float) -> AsyncGenerator[Link]:  # noqa: ASYNC109 - for the HTTP client
    """Connect to a remote child; `timeout` is how long an answer may take, in seconds."""
    told, heard = anyio.create_memory_object_stream[Item](QUEUE)
    # Whoever waits for an answer gives up first: what ends here ends without anybody's call.
    limits = httpx2.Timeout(CONNECT_TIMEOUT, read=timeout + CONNECT_TIMEOUT)

    def client(
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        transport = CarefulTransport(httpx2.AsyncHTTPTransport(), told.send)
        return httpx2.AsyncClient(headers=dict(target.headers), timeout=limits, transport=transport)

    with told, heard:
        async with _streams(target, client) as (read, write), anyio.create_task_group() as tasks:
            tasks.start_soon(_forward, read, told)
            yield RemoteLink(cast("TransportStreams", (heard, write)))
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def _streams(
    target: RemoteTarget, client: Callable[..., httpx2.AsyncClient]
) -> AsyncGenerator[TransportStreams]:
    if target.transport == "sse":
        async with sse_client(target.url, httpx_client_factory=client) as streams:
            yield streams
        return
    async with (
        client() as made,
        streamable_http_client(
            target.url, http_client=made, max_sse_event_size=wire.MAX_MESSAGE_BYTES
        ) as streams,
    ):
        yield streams


async def _forward(read: Reads, told: MemoryObjectSendStream[Item]) -> None:
    """Pass on what the SDK reads, until there is no more."""
    with suppress(anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
        while True:
            await told.send(await read.receive())
    told.close()
