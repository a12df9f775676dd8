from __future__ import annotations

import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any, cast

import anyio
import pytest
import uvicorn
from anyio.abc import SocketStream
from starlette.types import Receive, Scope, Send

from hub.edge.bounded_http import MAX_HEAD, BoundedHttp
from hub.edge.connections import Connections, Limits
from hub.edge.post_response import until_disconnected
from hub.edge.refusal_log import RefusalLog

pytestmark = pytest.mark.live

TOO_MUCH = f"The head of a request may have {MAX_HEAD} bytes at most.".encode()
POST = b"POST /mcp HTTP/1.1\r\nHost: x\r\n"


class Connection:
    """A client's end of a connection, and what serves the other one."""

    def __init__(self) -> None:
        self.begun = anyio.Event()
        self.is_held = False
        self.ended = anyio.Event()
        self.stream: SocketStream

    async def length(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the length of the body; if it is held, write on until the client is gone."""
        size, more = 0, True
        while more:
            message = await receive()
            self.begun.set()
            size, more = size + len(message.get("body", b"")), message.get("more_body", False)
        if self.is_held:
            await self._hold(receive, send)
            return
        text = b"%d" % size
        headers = [(b"content-length", b"%d" % len(text))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": text})

    async def _hold(self, receive: Receive, send: Send) -> None:
        async def write() -> None:
            while True:
                await send({"type": "http.response.body", "body": b"x", "more_body": True})
                await anyio.sleep(0.01)

        await send({"type": "http.response.start", "status": 200, "headers": []})
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(write)
            await until_disconnected(receive)
            tasks.cancel_scope.cancel()
        self.ended.set()

    async def answer(self) -> bytes:
        """Return the body of the next answer."""
        text = b""
        while b"\r\n\r\n" not in text:
            text += await self.stream.receive()
        head, _, body = text.partition(b"\r\n\r\n")
        size = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        while len(body) < size:
            body += await self.stream.receive()
        return body


class QuietServer(uvicorn.Server):
    """A server that leaves signals alone, and says when it begins to end."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ending = anyio.Event()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.ending.set()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


def bounded(limits: Limits | None = None) -> type[Any]:
    """Return what serves connections within limits."""
    connections = Connections(limits or Limits(), RefusalLog())
    return cast("type[Any]", partial(BoundedHttp, connections=connections))


@asynccontextmanager
async def connected() -> AsyncGenerator[Connection]:
    listener, made = socket.create_server(("127.0.0.1", 0)), Connection()
    config = uvicorn.Config(
        made.length, http=bounded(), interface="asgi3", lifespan="off", log_config=None
    )
    server = QuietServer(config)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, [listener])
            async with await anyio.connect_tcp("127.0.0.1", listener.getsockname()[1]) as stream:
                made.stream = stream
                yield made
            server.should_exit = True


async def test_requests_of_any_size_are_read_one_after_the_other() -> None:
    async with connected() as made:
        for size in (0, 1, 10 * MAX_HEAD):
            await made.stream.send(POST + b"Content-Length: %d\r\n\r\n" % size + b"x" * size)
            assert await made.answer() == b"%d" % size


async def test_many_requests_may_come_at_once() -> None:
    one = POST + b"Content-Length: 1\r\n\r\nx"
    async with connected() as made:
        await made.stream.send(one * 3)
        text = b""
        while text.count(b"\r\n\r\n1") < 3:
            text += await made.stream.receive()


async def test_a_request_ends_with_its_client_whatever_came_after_it() -> None:
    one = POST + b"Content-Length: 1\r\n\r\nx"
    async with connected() as made:
        made.is_held = True
        await made.stream.send(one)
        await made.begun.wait()
        await made.stream.send(one)
        await made.stream.aclose()
        await made.ended.wait()


@pytest.mark.parametrize(
    ("begins", "goes_on"),
    [
        pytest.param(b"POST /mcp?", b"x", id="a path"),
        pytest.param(POST + b"A: ", b"x", id="a header"),
        pytest.param(POST, b"A: b\r\n", id="headers"),
    ],
)
async def test_a_head_without_an_end_is_refused(begins: bytes, goes_on: bytes) -> None:
    endless = (begins + goes_on * MAX_HEAD)[: MAX_HEAD + 1]
    async with connected() as made:
        await made.stream.send(endless)
        assert await made.answer() == TOO_MUCH
        with pytest.raises(anyio.EndOfStream):
            await made.stream.receive()


async def test_trailers_without_an_end_are_refused() -> None:
    async with connected() as made:
        await made.stream.send(POST + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
        await made.begun.wait()
        await made.stream.send((b"0\r\n" + b"A: b\r\n" * MAX_HEAD)[: MAX_HEAD + 1])
        assert await made.answer() == TOO_MUCH
