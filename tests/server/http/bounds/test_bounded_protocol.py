from __future__ import annotations

import socket
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any, cast

import anyio
import pytest
import uvicorn
from anyio.abc import SocketStream
from starlette.types import Receive, Scope, Send

from hub.server.http.bounds.bounded_protocol import LINES_AT_ONCE, MAX_FIELDS, MAX_HEAD, BoundedHttp
from hub.server.http.bounds.connections import CONNECTION, Connections, Limits, RefusalLog
from hub.server.http.responses import until_disconnected
from tests.kit.loops import all_tasks_blocked

pytestmark = pytest.mark.live

TOO_MUCH = f"The head of a request may have {MAX_HEAD} bytes at most.".encode()
POST = b"POST /mcp HTTP/1.1\r\nHost: x\r\n"


class BoundedConnection:
    """A client's end of a connection, and what serves the other one."""

    def __init__(self) -> None:
        self.begun = anyio.Event()
        self.is_held = self.is_silent = False
        self.more = b""
        self.ended = anyio.Event()
        self.stream: SocketStream
        self.server: QuietServer
        self.address: tuple[str, int] = ("", 0)
        self.most_waiting = self.count = 0

    async def length(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the length of the body; if it is held, write on until the client is gone.

        If it is silent as well, nothing is written.
        """
        self.count += 1
        waiting = len(scope["state"][CONNECTION].pipeline)
        self.most_waiting = max(self.most_waiting, waiting)
        size, more = 0, True
        while more:
            message = await receive()
            self.begun.set()
            size, more = size + len(message.get("body", b"")), message.get("more_body", False)
        if self.is_held:
            await self.hold(receive, send)
            return
        text = b"%d" % size + self.more
        headers = [(b"content-length", b"%d" % len(text))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": text})

    async def hold(self, receive: Receive, send: Send) -> None:
        async def ping() -> None:
            await send({"type": "http.response.body", "body": b"x", "more_body": True})

        async def write() -> None:
            while not self.is_silent:
                await ping()
                await anyio.sleep(0.01)

        await send({"type": "http.response.start", "status": 200, "headers": []})
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(write)
            await until_disconnected(receive, tasks, ping)
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
async def connected(limits: Limits | None = None) -> AsyncGenerator[BoundedConnection]:
    listener, made = socket.create_server(("127.0.0.1", 0)), BoundedConnection()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await made.length(scope, receive, send)

    config = uvicorn.Config(
        app, http=bounded(limits), interface="asgi3", lifespan="off", log_config=None
    )
    server = QuietServer(config)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, [listener])
            async with await anyio.connect_tcp("127.0.0.1", listener.getsockname()[1]) as stream:
                made.stream, made.server = stream, server
                made.address = listener.getsockname()
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


async def test_of_very_many_requests_at_once_only_some_are_parsed_before_their_turn() -> None:
    one, count = POST + b"Content-Length: 1\r\n\r\nx", 3000
    async with connected() as made:
        await made.stream.send(one * count)
        answers = 0
        while answers < count:
            answers += (await made.stream.receive()).count(b"content-length")
        assert answers == count
        assert 0 < made.most_waiting <= LINES_AT_ONCE
        await made.stream.send(one)
        assert await made.answer() == b"1"


async def test_a_body_in_very_many_chunks_is_read_whole() -> None:
    chunks = 40_000
    async with connected() as made:
        for _ in range(2):
            await made.stream.send(CHUNKED + b"1\r\nx\r\n" * chunks + b"0\r\n\r\n")
            assert await made.answer() == b"%d" % chunks


async def test_what_waits_to_be_parsed_goes_with_its_client() -> None:
    async with connected() as made:
        await made.stream.send(CHUNKED + b"1\r\nx\r\n" * 40_000)
        await made.begun.wait()
        await made.stream.aclose()
        async with await anyio.connect_tcp(*made.address) as made.stream:
            await made.stream.send(POST + b"Content-Length: 1\r\n\r\nx")
            assert await made.answer() == b"1"


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
        pytest.param(POST, b"A: %b\r\n" % (b"b" * 995), id="headers"),
    ],
)
async def test_a_head_without_an_end_is_refused(begins: bytes, goes_on: bytes) -> None:
    endless = (begins + goes_on * MAX_HEAD)[: MAX_HEAD + 1]
    async with connected() as made:
        await made.stream.send(endless)
        refused = await rest(made.stream)
    assert refused.startswith(b"HTTP/1.1 431 ")
    assert refused.endswith(b"\r\n\r\n" + TOO_MUCH)


@pytest.mark.parametrize("more", [-100, 1])
async def test_a_head_that_comes_at_once_is_bounded_as_one_in_parts(more: int) -> None:
    async with connected() as made:
        await made.stream.send(POST + b"Content-Length: 1\r\n\r\nx")
        assert await made.answer() == b"1"
        field = b"A: " + b"a" * (MAX_HEAD + more) + b"\r\n"
        connection: Any = next(iter(made.server.server_state.connections))
        connection.data_received(POST + b"Content-Length: 3\r\n" + field + b"\r\nabc")
        assert await made.answer() == (b"3" if more < 0 else TOO_MUCH)


async def test_fields_without_number_are_refused_though_they_are_short() -> None:
    """Each takes some hundred bytes of memory, and nobody has shown a token yet."""
    async with connected() as made:
        many = b"A:\r\n" * (MAX_FIELDS - LINES_AT_ONCE)
        await made.stream.send(POST + many + b"Content-Length: 1\r\n\r\nx")
        assert await made.answer() == b"1"
        await made.stream.send(POST + b"A:\r\n" * (MAX_FIELDS + LINES_AT_ONCE))
        refused = f"The head of a request may have {MAX_FIELDS} fields at most."
        assert await made.answer() == refused.encode()
        with pytest.raises(anyio.EndOfStream):
            await made.stream.receive()


async def test_trailers_without_an_end_are_refused() -> None:
    async with connected() as made:
        await made.stream.send(POST + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
        await made.begun.wait()
        await made.stream.send((b"0\r\n" + b"A: b\r\n" * MAX_HEAD)[: MAX_HEAD + 1])
        assert await made.answer() == TOO_MUCH


# What takes too long

SOON = Limits(line=0.2, headers=0.2, body=0.2, unread=0.2, linger=0.2, idle=60)
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"


async def rest(stream: SocketStream) -> bytes:
    """Return what comes until the connection is closed."""
    got = b""
    try:
        while True:
            got += await stream.receive()
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        return got


@pytest.mark.parametrize(
    ("begins", "answered"),
    [
        pytest.param(b"", b"", id="nothing"),
        pytest.param(b"\r\n\r\n", b"", id="blank lines"),
        pytest.param(b"POST /mc", b"HTTP/1.1 408 ", id="half a line"),
        pytest.param(POST, b"HTTP/1.1 408 ", id="half a head"),
        pytest.param(POST + b"Content-Length: 9\r\n\r\nhalf", b"HTTP/1.1 408 ", id="half a body"),
        pytest.param(CHUNKED + b"5\r\nhe", b"HTTP/1.1 408 ", id="half a chunk"),
    ],
)
async def test_what_is_not_completed_in_time_is_given_up(begins: bytes, answered: bytes) -> None:
    async with connected(SOON) as made:
        if begins:
            await made.stream.send(begins)
        got = await rest(made.stream)
        assert got[: len(answered)] == answered
        assert bool(got) is bool(answered)
        assert not made.server.server_state.connections


@pytest.mark.parametrize(
    ("begins", "goes_on"),
    [(b"POST /mcp?", b"x"), (POST, b"A: b\r\n"), (CHUNKED, b"1\r\nx\r\n")],
)
async def test_saying_a_little_now_and_then_is_not_enough(begins: bytes, goes_on: bytes) -> None:
    async with connected(SOON) as made, anyio.create_task_group() as tasks:

        async def drip() -> None:
            await made.stream.send(begins)
            while True:
                await made.stream.send(goes_on)
                await anyio.sleep(0.01)

        tasks.start_soon(drip)
        assert (await rest(made.stream)).startswith(b"HTTP/1.1 408 ")
        tasks.cancel_scope.cancel()


async def test_a_large_body_has_its_time_as_long_as_it_comes() -> None:
    limits = Limits(body=1, progress=10)
    async with connected(limits) as made:
        await made.stream.send(POST + b"Content-Length: 300\r\n\r\n")
        for _ in range(30):
            await anyio.sleep(0.05)
            await made.stream.send(b"x" * 10)
        assert await made.answer() == b"300"


async def test_the_second_request_of_a_connection_has_its_time_too() -> None:
    async with connected(SOON) as made:
        await made.stream.send(POST + b"Content-Length: 1\r\n\r\nx" + POST)
        assert await made.answer() == b"1"
        assert (await rest(made.stream)).startswith(b"HTTP/1.1 408 ")


async def test_half_a_request_waits_while_the_one_before_it_is_answered() -> None:
    async with connected(SOON) as made:
        made.is_held = True
        await made.stream.send(POST + b"Content-Length: 1\r\n\r\nx" + POST)
        got = b""
        while got.count(b"x") < 50:
            got += await made.stream.receive()
        assert b" 408 " not in got


@pytest.mark.parametrize("further", [(1, 0), (3, 0), (0, 1)])
async def test_a_client_that_has_gone_is_noticed_though_more_requests_of_it_wait(
    further: tuple[int, int],
) -> None:
    at_once, later = further
    one = POST + b"Content-Length: 1\r\n\r\nx"
    async with connected() as made:
        made.is_held = made.is_silent = True
        await made.stream.send(one * (1 + at_once))
        await made.begun.wait()
        await all_tasks_blocked()
        await made.stream.send(one * later)
        await all_tasks_blocked()
        await made.stream.aclose()
        await made.ended.wait()


async def test_who_does_not_read_a_response_gets_no_other_one() -> None:
    async with connected() as made:
        made.more = b"x" * (16 << 20)
        await made.stream.send(ONE + ONE)
        await made.begun.wait()
        await all_tasks_blocked()
        await made.stream.send(POST + b"Connection: close\r\nContent-Length: 1\r\n\r\nx")
        await all_tasks_blocked()
        assert made.count == 1
        got = b"".join([chunk async for chunk in made.stream])
        assert got.count(b"HTTP/1.1 200 ") == made.count == 3


async def test_who_does_not_read_loses_the_connection() -> None:
    async with connected(SOON) as made:
        made.more = b"x" * (16 << 20)
        await made.stream.send(POST + b"Content-Length: 1\r\n\r\nx")
        await made.begun.wait()
        while made.server.server_state.connections:  # noqa: ASYNC110 - nothing says when
            await anyio.sleep(0.01)
        assert len(await rest(made.stream)) < len(made.more)


async def test_a_connection_that_is_to_end_ends_though_nobody_reads() -> None:
    async with connected(SOON) as made:
        made.more = b"x" * (16 << 20)
        await made.stream.send(POST + b"Connection: close\r\nContent-Length: 1\r\n\r\nx")
        await made.begun.wait()
        while made.server.server_state.connections:  # noqa: ASYNC110 - nothing says when
            await anyio.sleep(0.01)


async def test_new_connections_take_the_places_of_those_that_say_nothing() -> None:
    limits = Limits(connections=4, unproven=4, unproven_of_one=4)
    async with connected(limits) as made:
        silent = [await anyio.connect_tcp(*made.address) for _ in range(9)]
        assert await rest(made.stream) == b""
        for stream in silent[:5]:
            assert await rest(stream) == b""
            await stream.aclose()
        for stream in silent[5:]:
            await stream.send(POST + b"Content-Length: 1\r\n\r\nx")
            assert b"200 OK" in await stream.receive()
            await stream.aclose()


@pytest.mark.skipif(sys.platform != "linux", reason="has only one loopback address")
async def test_who_only_connects_ends_no_request_of_who_has_most_connections() -> None:
    async with connected(Limits(connections=4)) as made:
        begun, ended = list[str](), list[str]()
        all_begun = anyio.Event()

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            scope["state"][CONNECTION].prove("")
            if scope["path"] == "/held":
                begun.append(scope["client"][0])
                if len(begun) == 4:
                    all_begun.set()
                made.is_silent = True
                await made.hold(receive, send)
                ended.append(scope["client"][0])
                return
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        made.length = app  # type: ignore[method-assign]
        most = [await anyio.connect_tcp(*made.address, local_host="127.0.0.2") for _ in range(3)]
        for stream in (made.stream, *most):
            await stream.send(b"GET /held HTTP/1.1\r\nHost: x\r\n\r\n")
        await all_begun.wait()
        new = [await anyio.connect_tcp(*made.address, local_host="127.0.0.3") for _ in range(3)]
        assert [await rest(stream) for stream in new[:2]] == [b"", b""]
        assert ended == []
        await new[2].send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b" 204 " in await new[2].receive()
        assert b" 200 " in await rest(most[0])
        await all_tasks_blocked()
        assert ended == ["127.0.0.2"]
        for stream in (*most, *new):
            await stream.aclose()


async def test_an_absolute_target_has_the_host_that_counts() -> None:
    hosts: list[bytes] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        hosts.extend(value for name, value in scope["headers"] if name == b"host")
        assert scope["path"] == "/mcp"
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async with connected() as made:
        made.length = app  # type: ignore[method-assign]
        await made.stream.send(b"GET http://evil.example:1/mcp HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b" 204 " in await made.stream.receive()
    assert hosts == [b"evil.example:1"]


# What HTTP allows, and the hub does not take part in

UPGRADE = POST + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
ONE = POST + b"Content-Length: 1\r\n\r\nx"


@pytest.mark.parametrize("sized", [True, False])
@pytest.mark.parametrize("cut", [len(UPGRADE), len(UPGRADE) + 24, None])
async def test_a_request_that_offers_an_upgrade_keeps_its_body(
    cut: int | None, *, sized: bool
) -> None:
    size = b"Content-Length: %d\r\n\r\n%b" % (len(ONE), ONE)
    chunk = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(ONE), ONE)
    whole = UPGRADE + (size if sized else chunk)
    async with connected() as made:
        await made.stream.send(whole[:cut])
        if cut is not None:
            await anyio.wait_all_tasks_blocked()
            await made.stream.send(whole[cut:] + ONE)
            assert await made.answer() == b"%d" % len(ONE)
            assert await made.answer() == b"1"
        else:
            await made.stream.send(ONE)
            text = b""
            while text.count(b"content-length") < 2:
                text += await made.stream.receive()
            assert [part.partition(b"\r\n\r\n")[2] for part in text.split(b"HTTP/1.1 200 OK")][
                1:
            ] == [b"%d" % len(ONE), b"1"]


async def test_a_client_of_http_1_0_gets_no_chunks() -> None:
    async with connected() as made:
        made.is_held = True
        await made.stream.send(b"GET /mcp HTTP/1.0\r\nHost: x\r\n\r\n")
        got = b""
        while not got.endswith(b"xx"):
            got += await made.stream.receive()
        await made.stream.aclose()
        await made.ended.wait()
    head, _, body = got.partition(b"\r\n\r\n")
    assert b"connection: close" in head
    assert b"chunked" not in head
    assert body.strip(b"x") == b""


async def test_a_client_of_http_1_0_is_not_told_to_go_on() -> None:
    old = ONE.replace(b"HTTP/1.1\r\n", b"HTTP/1.0\r\nExpect: 100-continue\r\n")
    async with connected() as made:
        await made.stream.send(old)
        assert b" 100 " not in await rest(made.stream)


async def test_a_client_of_http_1_0_is_told_of_an_error() -> None:
    async with connected() as made:
        made.more = cast("bytes", None)
        await made.stream.send(b"GET /mcp HTTP/1.0\r\nHost: x\r\n\r\n")
        assert (await rest(made.stream)).endswith(b"\r\n\r\nInternal Server Error")


async def test_nobody_is_connected_through_the_hub() -> None:
    async with connected() as made:
        await made.stream.send(b"CONNECT /mcp HTTP/1.1\r\nHost: x\r\n\r\n" + ONE)
        got = await rest(made.stream)
    assert got.count(b"HTTP/1.1 ") == 1
    assert b" 400 " in got
    assert b"CONNECT" in got


async def test_fields_behind_a_body_are_no_headers() -> None:
    seen: list[list[tuple[bytes, bytes]]] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive()).get("more_body"):
            pass
        seen.append(scope["headers"])
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async with connected() as made:
        made.length = app  # type: ignore[method-assign]
        await made.stream.send(CHUNKED + b"1\r\nx\r\n0\r\nX-Forwarded-For: 192.0.2.7\r\n\r\n")
        assert b" 204 " in await made.stream.receive()
        await made.stream.send(POST + b"A: b\r\nContent-Length: 0\r\n\r\n")
        assert b" 204 " in await made.stream.receive()
    assert [name for name, _ in seen[0]] == [b"host", b"transfer-encoding"]
    assert [name for name, _ in seen[1]] == [b"host", b"a", b"content-length"]


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (POST + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", b"Content-Length"),
        (POST + b"Content-Length: x\r\n\r\n", b"Content-Length"),
        (b"POST http://[::1/mcp HTTP/1.1\r\n\r\n", b"target"),
        (b"\x16\x03\x01\x02\x00", b"plain HTTP"),
    ],
)
async def test_who_speaks_no_valid_http_is_told_what_is_wrong(sent: bytes, why: bytes) -> None:
    async with connected() as made:
        await made.stream.send(sent)
        assert why in await made.answer()


@pytest.mark.parametrize(
    "coding", [b"gzip, chunked", b"x, Chunked", b"gzip\r\nTransfer-Encoding: chunked"]
)
async def test_a_body_in_a_coding_that_the_hub_does_not_read_is_refused(coding: bytes) -> None:
    async with connected() as made:
        await made.stream.send(
            POST + b"Transfer-Encoding: " + coding + b"\r\n\r\n1\r\nx\r\n0\r\n\r\n"
        )
        got = await rest(made.stream)
    assert got.startswith(b"HTTP/1.1 501 ")
    assert got.count(b"HTTP/1.1 ") == 1
    assert made.count == 0


NO_REQUESTS = [
    pytest.param(b"\x16\x03\x01\x02\x00", b"400", id="no HTTP"),
    pytest.param(POST + b"Content-Length: x\r\n\r\n", b"400", id="no length"),
    pytest.param(POST + b"Transfer-Encoding: gzip\r\n\r\n", b"501", id="another coding"),
    pytest.param(POST + b"A: b\r\n" * (MAX_FIELDS + 1), b"431", id="fields"),
    pytest.param(CHUNKED + b"no size\r\n", b"400", id="no chunk"),
]


@pytest.mark.parametrize("several", [1, 3])
@pytest.mark.parametrize(("sent", "status"), NO_REQUESTS)
async def test_what_is_no_request_is_answered_in_its_turn(
    sent: bytes, status: bytes, several: int
) -> None:
    go_on = anyio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        made.count += 1
        await go_on.wait()
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async with connected() as made:
        made.length = app  # type: ignore[method-assign]
        one = POST + b"Content-Length: 1\r\n\r\nx"
        await made.stream.send(one * several + sent)
        await all_tasks_blocked()
        await made.stream.send(one * 9)
        await all_tasks_blocked()
        go_on.set()
        got = await rest(made.stream)
    found = [line.split(b" ")[1] for line in got.split(b"\r\n") if line.startswith(b"HTTP/1.1 ")]
    assert found == [b"204"] * several + [status]
    assert made.count == several


async def test_no_error_goes_into_an_answer_that_has_begun() -> None:
    async with connected() as made:

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await made.hold(receive, send)

        made.length = app  # type: ignore[method-assign]
        await made.stream.send(CHUNKED)
        text = await made.stream.receive()
        await made.stream.send(b"no size\r\n")
        text += await rest(made.stream)
    assert text.count(b"HTTP/1.1 ") == 1


async def test_a_request_that_was_answered_early_gets_no_second_answer() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async with connected() as made:
        made.length = app  # type: ignore[method-assign]
        await made.stream.send(CHUNKED)
        text = await made.stream.receive()
        await made.stream.send(b"no size\r\n")
        text += await rest(made.stream)
    assert text.count(b"HTTP/1.1 ") == 1


async def test_the_name_of_a_coding_may_be_in_capitals() -> None:
    async with connected() as made:
        await made.stream.send(POST + b"Transfer-Encoding:  Chunked \r\n\r\n1\r\nx\r\n0\r\n\r\n")
        assert await made.answer() == b"1"


async def test_a_request_for_the_whole_server_has_the_host_that_it_says() -> None:
    async with connected() as made:
        hosts: list[bytes] = []

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            hosts.extend(value for name, value in scope["headers"] if name == b"host")
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        made.length = app  # type: ignore[method-assign]
        await made.stream.send(b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b" 204 " in await made.stream.receive()
    assert hosts == [b"localhost"]


async def test_all_whole_requests_of_a_client_that_sends_no_more_are_answered() -> None:
    async with connected() as made:
        many = 300  # so many that they are parsed in portions
        await made.stream.send(many * (POST + b"Content-Length: 2\r\n\r\nhi") + POST)
        await made.stream.send_eof()
        got = b"".join([part async for part in made.stream])
        assert got.count(b" 200 OK") == many


@pytest.mark.parametrize("part", [b"", POST, POST + b"Content-Length: 9\r\n\r\nhi"])
async def test_a_client_that_sends_no_more_than_a_part_is_not_waited_for(part: bytes) -> None:
    async with connected() as made:
        await made.stream.send(part)
        await made.stream.send_eof()
        with pytest.raises(anyio.EndOfStream):
            await made.stream.receive()


async def test_a_request_whose_client_sends_no_more_and_has_gone_ends() -> None:
    async with connected() as made:
        made.is_held = True
        await made.stream.send(POST + b"Content-Length: 2\r\n\r\nhi")
        await made.begun.wait()
        await made.stream.aclose()
        await made.ended.wait()
