"""The HTTP+SSE transport of MCP 2024-11-05: one event stream from the child, a POST per message."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from functools import partial

from anyio.abc import TaskStatus
from msgspec.structs import replace

from hub.children.remote.exchange import DRAIN, Exchange, ExchangeError
from hub.children.remote.http_client import CONNECT_TIMEOUT, STREAM_WANTED
from hub.children.remote.messages import RemoteLink, events_in, messages_in, refusal_in
from hub.errors import ChildError
from hub.jsonrpc import messages as wire
from hub.jsonrpc.errors import GoneError
from hub.jsonrpc.exact_json import RequestId
from hub.jsonrpc.messages import Failure, Message, Request, Response
from hub.protocol.sse_parser import EventParser, ServerSentEvent

_JSON = {b"content-type": b"application/json"}
_OK, _REDIRECTS = 200, 300


class SseLink(RemoteLink):
    """The connection to a child over HTTP+SSE; a child that refused streamable HTTP may have it."""

    _has_begun = False

    async def listen(self, *, task_status: TaskStatus[None]) -> None:
        """Read the child's event stream to its end; started once messages can be sent.

        Raises: ChildError if the stream or its endpoint cannot be had.
        """
        reason = "the connection ended"
        try:
            exchange = await self._endpoint.open("GET", STREAM_WANTED)
            try:
                await self._read(exchange, task_status)
            finally:
                await exchange.close()
        except (ExchangeError, GoneError) as exc:
            reason = str(exc)
        if not self._has_begun:
            raise ChildError(reason)
        self._inbound.end(reason)

    async def _read(self, exchange: Exchange, task_status: TaskStatus[None]) -> None:
        if exchange.status != _OK:
            raise ExchangeError(exchange.refusal)
        if exchange.kind != "text/event-stream":
            raise ExchangeError(f"it answered with content of type {exchange.kind!r}")
        parser = EventParser(wire.MAX_MESSAGE_BYTES)
        async with aclosing(exchange.chunks()) as chunks:
            async for chunk in chunks:
                async with aclosing(events_in(chunk, parser, self.conduct)) as events:
                    async for event in events:
                        if event.name == "endpoint" and not self._has_begun:
                            self._endpoint.move(exchange, event.text.decode("utf-8", "replace"))
                            self._has_begun = True
                            task_status.started()
                        else:
                            await self._take(event)
        if not self._has_begun:
            raise ExchangeError("it sent no `endpoint` event")

    async def _take(self, event: ServerSentEvent) -> None:
        for message in messages_in(self.conduct, event):
            await self._inbound.put(message)
            if isinstance(message, Response | Failure):
                self.outlet.give_up(message.id, after=DRAIN)

    def asking(self, request: Request, body: bytes) -> Callable[[], Awaitable[None]]:
        # The response arrives on the event stream.
        return partial(self._ask, request.id, body)

    async def _ask(self, id_: RequestId, body: bytes) -> None:
        failed = await self._post(body, None)
        if failed is not None:
            await self._inbound.put(replace(failed, id=id_))

    async def tell(self, message: Message, body: bytes) -> None:
        await self._post(body, CONNECT_TIMEOUT)

    async def _post(self, body: bytes, patience: float | None) -> Failure | None:
        """Post a message; return the JSON-RPC error with which the child refuses it, if any.

        Raises: ExchangeError if the child refuses it in another way, GoneError as `check_login`.
        """
        exchange = await self._endpoint.open("POST", _JSON, body, patience=patience)
        try:
            if exchange.status < _REDIRECTS:
                return None
            self._endpoint.check_login(exchange)
            error = await refusal_in(exchange)
            if error is None:
                raise ExchangeError(exchange.refusal)
            return error
        finally:
            await exchange.finish()
