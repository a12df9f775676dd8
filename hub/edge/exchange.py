"""Two ways to a client over HTTP: the response to its request, the event stream it holds open."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

import anyio
from starlette.types import Receive, Send

from hub.core.values import Json
from hub.runtime import strict_json, wire
from hub.runtime.peer import GoneError
from hub.runtime.wire import Failure, Message, Notification, Response

PING_EVERY = 15.0
"""Seconds of silence after which a comment keeps an event stream from being cut by a proxy."""
WAITING_NOTIFICATIONS = 256
"""How many notifications wait for a client's event stream; the oldest are dropped first."""

_PING = b": ping\r\n\r\n"
_STREAM_HEADERS = {
    "content-type": "text/event-stream",
    "cache-control": "no-cache, no-transform",
    "x-accel-buffering": "no",
}


def _raw_headers(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]


async def respond(
    send: Send, status: int, body: Json | bytes, headers: Mapping[str, str] | None = None
) -> None:
    """Send a whole response: `body` as JSON, or the bytes of it."""
    content = body if isinstance(body, bytes) else strict_json.encode(body)
    every = {
        "content-type": "application/json",
        "content-length": str(len(content)),
        **(headers or {}),
    }
    await send({"type": "http.response.start", "status": status, "headers": _raw_headers(every)})
    await send({"type": "http.response.body", "body": content})


def event(message: Message) -> bytes:
    """Return a message as one server-sent event; raw line ends only stand between JSON's tokens."""
    text = wire.to_bytes(message).replace(b"\r", b" ").replace(b"\n", b" ")
    return b"event: message\r\ndata: " + text + b"\r\n\r\n"


class Exchange:
    """The response to a POST: JSON if the answer is the first thing sent, else an event stream."""

    def __init__(self, send: Send, headers: Mapping[str, str] | None = None) -> None:
        self._send = send
        self._headers = dict(headers or {})
        self._turn = anyio.Lock()
        self._streaming = False
        self._over = False

    async def send(self, message: Message) -> None:
        """Send something that is not the answer yet.

        Raises: GoneError when the response is over, or the client has gone.
        """
        await self._stream(event(message))

    async def ping(self) -> None:
        """Show that the answer is still being worked on."""
        await self._stream(_PING)

    async def _stream(self, chunk: bytes) -> None:
        async with self._turn:
            if self._over:
                raise GoneError("the response is over")
            if not self._streaming:
                await self._begin()
            await self._send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def _begin(self) -> None:
        headers = _raw_headers({**_STREAM_HEADERS, **self._headers})
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        self._streaming = True

    def lose(self) -> None:
        """Take note that the client has gone."""
        self._over = True

    async def finish(self, answer: Response | Failure | None, *, status: int = 200) -> None:
        """Send the answer and end the response; `status` counts only if nothing was sent before.

        Without an answer, which a cancelled request has none of, the stream just ends.
        """
        async with self._turn:
            if self._over:
                return
            self._over = True
            if not self._streaming and answer is not None:
                await respond(self._send, status, wire.to_bytes(answer), self._headers)
                return
            if not self._streaming:
                await self._begin()
            last = b"" if answer is None else event(answer)
            await self._send({"type": "http.response.body", "body": last, "more_body": False})


class Standing:
    """A session's standing event stream, which the client opens with GET; there may be none.

    `is_open`: the client holds one open, or is opening it.
    """

    def __init__(self) -> None:
        self.is_open = False
        self._send: Send | None = None
        self._turn = anyio.Lock()
        self._waiting: deque[Message] = deque(maxlen=WAITING_NOTIFICATIONS)
        self._closed = anyio.Event()

    async def send(self, message: Message) -> None:
        """Send over the standing stream; without one, a notification waits for it.

        Raises: GoneError for a request that has no stream to go out on.
        """
        if self._send is None:
            if not isinstance(message, Notification) or self._closed.is_set():
                raise GoneError("the client holds no event stream open")
            self._waiting.append(message)
            return
        await self._write(self._send, event(message))

    async def _write(self, send: Send, chunk: bytes) -> None:
        async with self._turn:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})

    def close(self) -> None:
        """End the stream with its session."""
        self._closed.set()

    async def serve(self, send: Send, receive: Receive, opened: Callable[[], None]) -> None:
        """Hold the stream open until client or session end it; once it carries, call `opened`."""
        self.is_open = True
        try:
            await self._open(send)
            opened()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._keep_alive, send)
                tasks.start_soon(self._until_gone, receive, tasks.cancel_scope)
                await self._closed.wait()
                tasks.cancel_scope.cancel()
        finally:
            self._send = None
            self.is_open = False
        if self._closed.is_set():
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _open(self, send: Send) -> None:
        headers = _raw_headers(_STREAM_HEADERS)
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._write(send, _PING)
        while self._waiting:
            await self._write(send, event(self._waiting.popleft()))
        self._send = send

    async def _keep_alive(self, send: Send) -> None:
        while True:
            await anyio.sleep(PING_EVERY)
            await self._write(send, _PING)

    async def _until_gone(self, receive: Receive, scope: anyio.CancelScope) -> None:
        await until_disconnected(receive)
        scope.cancel()


async def until_disconnected(receive: Receive) -> None:
    """Return when the client has closed its connection."""
    while (await receive())["type"] != "http.disconnect":
        pass
