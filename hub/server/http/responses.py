"""The response to a client's POST: what HTTP makes of an answer and of what comes before it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TypeAlias

import anyio
from starlette.types import Receive, Send

from hub.jsonrpc import exact_json
from hub.jsonrpc.encoding import to_bytes
from hub.jsonrpc.messages import Failure, Message, Response
from hub.jsonrpc.peer import GoneError
from hub.values import Json

Field: TypeAlias = tuple[bytes, bytes]
"""A header as it is on the wire, its name in lower case."""
PING_EVERY = 15.0
"""Seconds of silence after which a comment keeps an event stream from being cut by a proxy."""

PING = b": ping\r\n\r\n"
"""What keeps a stream alive and says nothing."""
_IS_JSON = (b"content-type", b"application/json")
_STREAM_HEADERS = {
    "content-type": "text/event-stream",
    "cache-control": "no-cache, no-transform",
    "x-accel-buffering": "no",
}


def _raw_headers(headers: Mapping[str, str]) -> list[Field]:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]


async def respond(
    send: Send, status: int, body: Json | bytes, headers: Mapping[str, str] | None = None
) -> None:
    """Send a whole response: `body` as JSON, or the bytes of it."""
    content = body if isinstance(body, bytes) else exact_json.encode(body)
    every = [_IS_JSON, (b"content-length", b"%d" % len(content)), *_raw_headers(headers or {})]
    await send({"type": "http.response.start", "status": status, "headers": every})
    await send({"type": "http.response.body", "body": content})


async def begin_stream(send: Send, headers: Mapping[str, str] | None = None) -> None:
    """Begin a response that is an event stream."""
    raw = _raw_headers({**_STREAM_HEADERS, **(headers or {})})
    await send({"type": "http.response.start", "status": 200, "headers": raw})


def event(message: Message) -> bytes:
    """Return a message as one server-sent event; raw line ends only stand between JSON's tokens."""
    text = to_bytes(message).replace(b"\r", b" ").replace(b"\n", b" ")
    return b"event: message\r\ndata: " + text + b"\r\n\r\n"


class PostResponse:
    """The response to a POST: JSON if the answer is the first thing sent, else an event stream."""

    def __init__(self, send: Send, headers: Mapping[str, str] | None = None) -> None:
        self._send = send
        self._headers = dict(headers or {})
        self._turn = anyio.Lock(fast_acquire=True)
        self._streaming = False
        self._over = False

    async def send(self, message: Message) -> None:
        """Send something that is not the answer yet.

        Raises: GoneError when the response is over, or the client has gone.
        """
        await self._stream(event(message))

    async def ping(self) -> None:
        """Show that the answer is still being worked on."""
        await self._stream(PING)

    async def _stream(self, chunk: bytes) -> None:
        async with self._turn:
            if self._over:
                raise GoneError("the response is over")
            if not self._streaming:
                await self._begin()
            await self._send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def _begin(self) -> None:
        await begin_stream(self._send, self._headers)
        self._streaming = True

    async def tend(self) -> None:
        """Keep the client waiting for the answer, until cancelled or the response is over."""
        with suppress(GoneError):
            while True:
                await anyio.sleep(PING_EVERY)
                await self.ping()

    async def lost(self) -> None:
        """Take note that the client is gone; return when nobody will take the answer any more."""
        self._over = True

    async def finish(self, answer: Response | Failure | None, *, status: int = 200) -> None:
        """Send the answer and end the response; `status` counts only if nothing was sent before.

        Without an answer, which a cancelled request has none of, the stream just ends.
        """
        async with self._turn:
            if self._over:
                return
            self._over = True
            if not self._streaming:
                await self._answer_alone(answer, status)
                return
            last = b"" if answer is None else event(answer)
            await self._send({"type": "http.response.body", "body": last, "more_body": False})

    async def _answer_alone(self, answer: Response | Failure | None, status: int) -> None:
        if answer is not None:
            await respond(self._send, status, to_bytes(answer), self._headers)
            return
        await self._begin()
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})


async def until_disconnected(receive: Receive) -> None:
    """Return when the client has closed its connection."""
    while (await receive())["type"] != "http.disconnect":
        pass
