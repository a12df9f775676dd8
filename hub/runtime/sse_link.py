"""The HTTP transport of 2024-11-05: one stream of events from the child, a POST per message."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing

import anyio
import structlog
from anyio.abc import TaskGroup, TaskStatus
from msgspec.structs import replace

from hub.core.errors import ChildError
from hub.core.events import Event, EventParser
from hub.runtime import wire
from hub.runtime.arrivals import Arrivals
from hub.runtime.endpoint import CONNECT_TIMEOUT, DRAIN, Endpoint, Exchange, ExchangeError
from hub.runtime.peer import GoneError
from hub.runtime.received import messages_in, refusal_in
from hub.runtime.strict_json import RequestId
from hub.runtime.wire import Failure, Message, Notification, Request, Response, lost
from hub.runtime.written import to_bytes

_ACCEPTS = {b"accept": b"text/event-stream", b"cache-control": b"no-store"}
_JSON = {b"content-type": b"application/json"}
_OK, _REDIRECTS = 200, 300

log = structlog.stdlib.get_logger(__name__)


class SseLink:
    """A child that sends events; it is its own outlet. `tasks` run what is under way."""

    private_directory: str | None = None

    def __init__(self, server: str, endpoint: Endpoint, tasks: TaskGroup) -> None:
        self.outlet = self
        self._server = server
        self._endpoint = endpoint
        self._tasks = tasks
        self._arrivals = Arrivals()
        self._posts: dict[RequestId, anyio.CancelScope] = {}
        self._has_begun = False

    async def next(self) -> Message:
        return await self._arrivals.next()

    def hand_answers_to(self, settle: Callable[[Response | Failure], None]) -> None:
        self._arrivals.settle = settle

    async def listen(self, *, task_status: TaskStatus[None]) -> None:
        """Read the child's events to their end; started once messages can be sent.

        Raises: ChildError if they cannot.
        """
        reason = "the connection ended"
        try:
            exchange = await self._endpoint.open("GET", _ACCEPTS)
            try:
                await self._read(exchange, task_status)
            finally:
                await exchange.close()
        except ExchangeError as exc:
            reason = str(exc)
        if not self._has_begun:
            raise ChildError(reason)
        self._arrivals.end(reason)

    async def _read(self, exchange: Exchange, task_status: TaskStatus[None]) -> None:
        if exchange.status != _OK:
            raise ExchangeError(exchange.refusal)
        if exchange.kind != "text/event-stream":
            raise ExchangeError(f"it answered with content of type {exchange.kind!r}")
        parser = EventParser(wire.MAX_MESSAGE_BYTES)
        async with aclosing(exchange.chunks()) as chunks:
            async for chunk in chunks:
                for event in parser.feed(chunk):
                    if event.name == "endpoint" and not self._has_begun:
                        self._endpoint.move(exchange, event.text.decode("utf-8", "replace"))
                        self._has_begun = True
                        task_status.started()
                    else:
                        await self._take(event)
        if not self._has_begun:
            raise ExchangeError("it did not say where messages go")

    async def _take(self, event: Event) -> None:
        for message in messages_in(self._server, event):
            await self._arrivals.put(message)
            if isinstance(message, Response | Failure) and message.id in self._posts:
                self._posts[message.id].deadline = anyio.current_time() + DRAIN

    async def send(self, message: Message) -> None:
        """Send a request and return; send anything else and return once it is taken.

        What cannot be sent fails its own request; of anything else the log tells.

        Raises: GoneError when the connection has ended; WireError for what cannot be written.
        """
        if self._arrivals.ended is not None:
            raise GoneError(self._arrivals.ended)
        if self.post(message):
            return
        body = to_bytes(message)
        match message:
            case Notification("notifications/cancelled", params):
                await self._tell(body)
                id_ = wire.as_object(params).get("requestId")
                if isinstance(id_, int | str) and id_ in self._posts:
                    self._posts[id_].cancel()
            case _:
                await self._tell(body)

    def post(self, message: Message) -> bool:
        """Send a request, which nobody has to wait for; return whether it is one."""
        if not isinstance(message, Request) or self._arrivals.ended is not None:
            return False
        body = to_bytes(message)
        scope = self._posts[message.id] = anyio.CancelScope()
        self._tasks.start_soon(self._ask, message.id, scope, body)
        return True

    async def _ask(self, id_: RequestId, scope: anyio.CancelScope, body: bytes) -> None:
        try:
            with scope:
                failed = await self._post(body, None)
                if failed is not None:
                    await self._arrivals.put(replace(failed, id=id_))
        except ExchangeError as exc:
            await self._arrivals.put(lost(id_, str(exc)))
        finally:
            if self._posts.get(id_) is scope:
                del self._posts[id_]

    async def _tell(self, body: bytes) -> None:
        try:
            await self._post(body, CONNECT_TIMEOUT)
        except ExchangeError as exc:
            log.warning("message lost", server=self._server, error=str(exc))

    async def _post(self, body: bytes, patience: float | None) -> Failure | None:
        """Send a message; return the JSON-RPC error it is refused with.

        Raises: ExchangeError if it is not taken for another reason.
        """
        exchange = await self._endpoint.open("POST", _JSON, body, patience=patience)
        try:
            if exchange.status < _REDIRECTS:
                return None
            error = await refusal_in(exchange)
            if error is None:
                raise ExchangeError(exchange.refusal)
            return error
        finally:
            await exchange.finish()
