"""An HTTP server for tests: it answers by a script, and records the requests."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from itertools import count
from typing import Generic, TypeAlias, TypeVar

import anyio
import httpx2

from hub.children.remote.resumption import Pauses
from hub.children.remote.sse import SseLink
from hub.children.remote.streamable_http import HttpLink
from hub.jsonrpc.messages import Message, Request
from hub.jsonrpc.peer_conduct import BURST_OF_ALL, SHARE_OF_ALL, LoopShare, TimeBudget
from tests.kit.fakes import Signals

AnyLink = TypeVar("AnyLink", HttpLink, SseLink)

URL = "http://child.example/mcp"
AT_ONCE = Pauses(usual=0.0, shortest=0.0)
"""For a broken stream that is requested again without a pause."""


def steady_pace() -> LoopShare:
    """Return a pace whose clock moves by a look at it: other programs make no child slower.

    With the time of the machine, a flood would be given long rests for what others took.
    """
    clock = count(0.0, 2e-6).__next__
    return LoopShare(clock, TimeBudget(BURST_OF_ALL, SHARE_OF_ALL, clock))


class Feed(httpx2.AsyncByteStream):
    """An answer's body that the test writes piece by piece."""

    def __init__(self, *chunks: bytes) -> None:
        self._chunks: list[bytes | None] = list(chunks)
        self._signals = Signals()
        self.is_closed = False

    def write(self, chunk: bytes) -> None:
        self._chunks.append(chunk)
        self._signals.moved()

    def end(self) -> Feed:
        self._chunks.append(None)
        self._signals.moved()
        return self

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        while True:
            await self._signals.until(lambda: bool(self._chunks))
            chunk = self._chunks.pop(0)
            if chunk is None:
                return
            if chunk == b"BREAK":
                raise httpx2.ReadError("reset")
            yield chunk

    async def aclose(self) -> None:
        self.is_closed = True
        self._signals.moved()

    async def closed(self) -> None:
        await self._signals.until(lambda: self.is_closed)


@dataclass(frozen=True)
class Sent:
    """A request as it went out."""

    method: str
    url: str
    headers: dict[str, str]
    body: bytes


Answer: TypeAlias = httpx2.Response | Exception
Script: TypeAlias = Callable[[Sent], Answer | Awaitable[Answer]]


class ScriptedHttp(httpx2.AsyncBaseTransport):
    """Answers each request as the script says."""

    def __init__(self, script: Script) -> None:
        self.sent: list[Sent] = []
        self._script = script
        self._signals = Signals()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        assert isinstance(request.stream, httpx2.AsyncByteStream)
        body = b"".join([piece async for piece in request.stream])
        sent = Sent(request.method, str(request.url), dict(request.headers), body)
        self.sent.append(sent)
        self._signals.moved()
        answer = self._script(sent)
        if isinstance(answer, Awaitable):
            answer = await answer
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def until_sent(self, count: int, method: str | None = None) -> Sent:
        """Return the request that is the `count`-th of its method, once it is there."""

        def found() -> list[Sent]:
            return [one for one in self.sent if method in {None, one.method}]

        await self._signals.until(lambda: len(found()) >= count)
        return found()[count - 1]


def json_body(body: bytes | str, status: int = 200, **headers: str) -> httpx2.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx2.Response(
        status, headers={"content-type": "application/json", **named}, content=body
    )


def events(*chunks: bytes | Feed, **headers: str) -> httpx2.Response:
    """Return an event stream: one that is fed, or one that ends after the chunks."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    first = chunks[0] if chunks else b""
    stream = first if isinstance(first, Feed) else Feed(*_bytes(chunks)).end()
    return httpx2.Response(
        200, headers={"content-type": "text/event-stream; charset=utf-8", **named}, stream=stream
    )


def _bytes(chunks: tuple[bytes | Feed, ...]) -> list[bytes]:
    return [chunk for chunk in chunks if isinstance(chunk, bytes)]


class ScriptedRemote(Generic[AnyLink]):
    """A link to a scripted child; `feed` is the event stream that its script may answer with."""

    def __init__(self, link: AnyLink, http: ScriptedHttp, feed: Feed | None = None) -> None:
        self.link = link
        self.http = http
        self.feed = feed or Feed()

    async def ask(self, request: Request) -> Message:
        await self.link.outlet.send(request)
        return await self.next()

    async def next(self) -> Message:
        with anyio.fail_after(20):  # a flood takes seconds where others use the processors, too
            return await self.link.next()


async def never() -> httpx2.Response:
    """Answer nothing."""
    await anyio.sleep_forever()
    raise AssertionError
