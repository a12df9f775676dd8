from __future__ import annotations

import json
import socket
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, cast

import anyio
import pytest
import uvicorn
from anyio.abc import SocketStream

from hub.jsonrpc.deadlines import Deadlines, Expiring
from hub.protocol.constants import (
    CLIENT_CAPABILITIES_META,
    CLIENT_INFO_META,
    HEADER_MISMATCH,
    PROTOCOL_VERSION_META,
)
from hub.server.http.app import HttpLimits
from hub.server.http.auth.credentials import BearerTokens
from hub.server.http.bounds.bodies import LARGE_MESSAGE, MOST
from hub.server.http.bounds.connections import Connections, Limits
from hub.server.http.fast_calls import FastCallAcceptor, Line, PlainCall
from hub.server.http.request_heads import RequestHead
from hub.server.http.uvicorn_protocol import DirectHttp
from hub.values import UNNAMED, JsonObject
from tests.kit.fakes import ECHO, SILENT, FakeChild
from tests.kit.loops import all_tasks_blocked
from tests.server.http.bounds.test_bounded_protocol import QuietServer
from tests.server.http.test_app import (
    HEADERS,
    MODERN,
    MODERN_CALL,
    ROOTS,
    TOKEN,
    Web,
    echo,
    enveloped,
    initialize,
    told,
    web,
)

pytestmark = pytest.mark.live

META: JsonObject = {
    PROTOCOL_VERSION_META: MODERN,
    CLIENT_INFO_META: {"name": "test"},
    CLIENT_CAPABILITIES_META: {},
}
AUTHORIZED = {"authorization": f"Bearer {TOKEN}"}
LARGE_BODY = 9000


class Client:
    """A client with a session, on one connection."""

    def __init__(self, site: Web, server: QuietServer, stream: SocketStream) -> None:
        self.site = site
        self.server = server
        self.stream = stream
        self.key = ""
        self.address = ("", 0)
        self.idle = Idle()
        self._got = b""

    def bytes_of(self, message: JsonObject, **more: str) -> bytes:
        body = json.dumps(message).encode()
        named = {name.replace("_", "-"): value for name, value in more.items()}
        own = {"mcp-session-id": self.key} if self.key else {}
        fields = {**HEADERS, **own, **named, "content-length": str(len(body))}
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        return f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + body

    async def post(self, message: JsonObject, **more: str) -> tuple[int, bytes]:
        await self.stream.send(self.bytes_of(message, **more))
        return await self.answer()

    async def answer(self) -> tuple[int, bytes]:
        """Return the status and the body of the next answer."""
        written = await self._until(b"\r\n\r\n")
        head = written.lower()
        status = int(head.split(b" ")[1])
        if b"mcp-session-id: " in head:
            at = head.index(b"mcp-session-id: ") + len(b"mcp-session-id: ")
            self.key = written[at:].split(b"\r\n")[0].decode()
        if b"content-length: " not in head:
            return status, await self._until(b"\r\n0\r\n\r\n")
        size = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
        while len(self._got) < size:
            self._got += await self.stream.receive()
        body, self._got = self._got[:size], self._got[size:]
        return status, body

    async def _until(self, end: bytes) -> bytes:
        while end not in self._got:
            self._got += await self.stream.receive()
        found, _, self._got = self._got.partition(end)
        return found

    @staticmethod
    def message(id_: int, *, modern: bool) -> JsonObject:
        return echo(id_, META if modern else None)

    def connections(self) -> list[Any]:
        return list(self.server.server_state.connections)

    async def call(self, id_: int, **more: str) -> Any:
        """Return the result of a call."""
        message = self.message(id_, modern="mcp_method" in more)
        status, body = await self.post(message, **more)
        assert status == 200
        answer = json.loads(body)
        assert answer["id"] == id_
        return answer["result"]


@asynccontextmanager
async def connected(
    child: FakeChild | None = None,
    token: str | None = None,
    accepting: Callable[[FastCallAcceptor], Any] = lambda acceptor: acceptor,
    bodies: int = MOST,
) -> AsyncGenerator[Client]:
    """Serve on a socket; a first call has been made."""
    child = child or FakeChild(ECHO)
    script, child.answers["tools/call"] = child.answers["tools/call"], b"{}"
    listener = socket.create_server(("127.0.0.1", 0))
    with anyio.fail_after(20):
        async with (
            # No call takes its time, however busy the machine is.
            web(
                child, tokens=BearerTokens(token), limits=HttpLimits(patience=60, bodies=bodies)
            ) as site,
            anyio.create_task_group() as tasks,
        ):
            idle = Idle()
            connections = Connections(Limits(), site.app.log)
            connections.idle = idle
            noting = cast(
                "type[Any]",
                partial(
                    CountingHttp, acceptor=accepting(site.app.acceptor), connections=connections
                ),
            )
            server = QuietServer(
                uvicorn.Config(site.app, http=noting, lifespan="off", log_config=None)
            )

            async def serve() -> None:
                with anyio.CancelScope(shield=True):
                    await server.serve([listener])

            tasks.start_soon(serve)
            try:
                async with await anyio.connect_tcp(*listener.getsockname()[:2]) as stream:
                    client = Client(site, server, stream)
                    client.idle, client.address = idle, listener.getsockname()
                    more = AUTHORIZED if token else {}
                    await client.post(initialize(), **more)
                    await client.post(told(), **more)
                    await client.call(1, **more)
                    child.answers["tools/call"] = script
                    CountingHttp.served = CountingHttp.parsed = 0
                    yield client
            finally:
                server.should_exit = True


@pytest.mark.skipif(sys.platform != "linux", reason="has only one loopback address")
@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.2"])
@pytest.mark.parametrize("token", [None, TOKEN])
@pytest.mark.parametrize("repeated", [False, True])
async def test_one_address_leaves_room_for_the_bodies_of_others(
    address: str, token: str | None, *, repeated: bool
) -> None:
    more = AUTHORIZED if token else {}
    async with connected(token=token, bodies=16 * LARGE_BODY) as client:
        if repeated:
            await client.call(2, **more)
        whole = client.bytes_of(echo(3, {"padding": "x" * LARGE_BODY}), **more)
        held = [await anyio.connect_tcp(*client.address, local_host=address) for _ in range(20)]
        for one in held:
            await one.send(whole[:-1])
            await all_tasks_blocked()
        status, _ = await client.post(echo(4, {"padding": "x" * LARGE_BODY}), **more)
        assert status == (503 if address == "127.0.0.1" else 200)
        for one in held:
            await one.aclose()


@pytest.mark.parametrize("owner", [(UNNAMED, "127.0.0.1"), ("ben", "")])
@pytest.mark.parametrize("repeated", [False, True])
async def test_who_holds_half_of_the_room_for_bodies_gets_no_more(
    owner: tuple[str, str], *, repeated: bool
) -> None:
    async with connected(token=TOKEN) as client:
        if repeated:
            await client.call(2, **AUTHORIZED)
        held = client.site.app.bodies.load(owner)
        assert held.add(MOST // 2)
        status, _ = await client.post(echo(3, {"padding": "x" * 9000}), **AUTHORIZED)
        assert status == (200 if owner[0] == "ben" else 503)


class Idle(Deadlines):
    """Connections that are idle, until a test says that it was too long."""

    def __init__(self) -> None:
        super().__init__(60)
        self.waiting: set[Expiring] = set()

    def begin(self, one: Expiring) -> None:
        assert one not in self.waiting, "it has to end before it begins again"
        self.waiting.add(one)

    def end(self, one: Expiring) -> None:
        self.waiting.discard(one)

    def all_expire(self) -> None:
        for one in list(self.waiting):
            self.waiting.discard(one)
            one.expire()


class CountingHttp(DirectHttp):
    """Counts the requests that a task serves, and the heads that are parsed."""

    served = 0
    parsed = 0

    def serve(self, cycle: Any, app: Any) -> None:
        CountingHttp.served += 1
        super().serve(cycle, app)

    def on_headers_complete(self) -> None:
        CountingHttp.parsed += 1
        super().on_headers_complete()


async def test_plain_calls_are_answered_without_a_task() -> None:
    async with connected() as client:
        for id_ in (2, 3):
            assert (await client.call(id_))["structuredContent"] == {"text": "hi"}
        assert CountingHttp.served == 0


async def test_a_call_with_the_head_of_the_one_before_is_not_parsed() -> None:
    async with connected() as client:
        for id_ in (2, 30, 400):
            await client.call(id_)
        assert (CountingHttp.parsed, CountingHttp.served) == (1, 0)
        await client.call(5, x_other="a field more")
        await client.call(6)
        assert CountingHttp.parsed == 3


async def test_what_is_no_call_is_served_whole_though_its_head_is_that_of_a_call() -> None:
    async with connected() as client:
        for id_ in (2, 4):
            await client.call(id_)
            status, body = await client.post({"jsonrpc": "2.0", "id": 3, "method": "ping"})
            assert (status, json.loads(body)["result"]) == (200, {})


async def test_a_head_is_parsed_where_part_of_another_request_has_arrived() -> None:
    async with connected() as client:
        whole = client.bytes_of(echo(2))
        await client.stream.send(whole + whole[:40])
        assert json.loads((await client.answer())[1])["id"] == 2
        await client.stream.send(whole[40:])
        assert json.loads((await client.answer())[1])["id"] == 2
        await client.stream.send(b"\r\n")
        await all_tasks_blocked()
        await client.stream.send(whole)
        assert json.loads((await client.answer())[1])["id"] == 2
        await client.stream.send(2 * whole)
        assert [json.loads((await client.answer())[1])["id"] for _ in range(2)] == [2, 2]


async def test_any_other_request_is_served_by_a_task() -> None:
    async with connected() as client:
        status, body = await client.post({"jsonrpc": "2.0", "id": 2, "method": "tools/list"})
        assert status == 200
        assert "echo" in [tool["name"] for tool in json.loads(body)["result"]["tools"]]
        assert CountingHttp.served == 1


async def test_a_request_may_come_in_pieces() -> None:
    async with connected() as client:
        whole = client.bytes_of(echo(2))
        for at in range(0, len(whole), 40):
            await client.stream.send(whole[at : at + 40])
            await all_tasks_blocked()
        _, body = await client.answer()
        assert json.loads(body)["id"] == 2
        assert CountingHttp.served == 0


@pytest.mark.parametrize(("size", "by_a_task"), [(LARGE_MESSAGE // 2, 0), (1 << 20, 1)])
async def test_a_call_is_given_back_whole_and_waits_as_a_task_if_it_is_large(
    size: int, by_a_task: int
) -> None:
    text = "x" * size
    params: JsonObject = {"name": "echo", "arguments": {"text": text}}
    call: JsonObject = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
    async with connected() as client:
        _, body = await client.post(call)
        assert json.loads(body)["result"]["structuredContent"] == {"text": text}
        assert CountingHttp.served == by_a_task
        listing: JsonObject = {"jsonrpc": "2.0", "id": 3, "method": "tools/list"}
        _, body = await client.post({**listing, "params": {"_meta": {"text": text}}})
        assert "tools" in json.loads(body)["result"]
        assert CountingHttp.served == by_a_task + 1


async def test_calls_may_come_at_once_and_are_answered_in_order() -> None:
    async with connected() as client:
        await client.stream.send(b"".join(client.bytes_of(echo(id_)) for id_ in range(2, 8)))
        answers = [json.loads((await client.answer())[1])["id"] for _ in range(6)]
        assert answers == list(range(2, 8))


async def test_a_request_that_comes_before_the_answer_to_another_waits_for_it() -> None:
    child = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with connected(child) as client:
        await client.stream.send(client.bytes_of(echo(2)))
        first = await child.link.request("tools/call", nth=2)
        child.answers["tools/call"] = {"content": []}
        await client.stream.send(client.bytes_of(echo(3)))
        await all_tasks_blocked()
        assert len(child.link.requests("tools/call")) == 2
        child.link.answer(first["id"], {"content": []})
        assert [json.loads((await client.answer())[1])["id"] for _ in range(2)] == [2, 3]


async def test_the_same_headers_with_another_token_are_refused() -> None:
    async with connected(token=TOKEN) as client:
        await client.call(2, **AUTHORIZED)
        for more in ({"authorization": "Bearer other!"}, {}):
            status, _ = await client.post(echo(3), **more)
            assert status == 401
        await client.call(4, **AUTHORIZED)
        assert len(client.site.child.link.requests("tools/call")) == 3


async def test_modern_calls_need_no_task_and_no_session() -> None:
    async with connected() as client:
        client.key = ""
        await client.call(1, **MODERN_CALL)
        CountingHttp.served = 0
        assert (await client.call(2, **MODERN_CALL))["resultType"] == "complete"
        assert CountingHttp.served == 0


@pytest.mark.parametrize(
    "changes",
    [{"mcp_name": "other"}, {"mcp_method": "tools/list"}, {"mcp_protocol_version": "2099-01-01"}],
)
async def test_headers_that_say_something_else_are_refused_on_the_same_connection(
    changes: dict[str, str],
) -> None:
    async with connected() as client:
        client.key = ""
        for id_ in (1, 2):
            await client.call(id_, **MODERN_CALL)
            status, body = await client.post(
                client.message(id_, modern=True), **MODERN_CALL | changes
            )
            assert (status, json.loads(body)["error"]["code"]) == (400, HEADER_MISMATCH)


async def test_a_call_in_a_session_that_is_over_is_told_so() -> None:
    async with connected() as client:
        key, client.key = client.key, "other"
        status, _ = await client.post(echo(2))
        assert status == 404
        client.key = key
        await client.call(3)


async def test_a_connection_that_is_to_end_with_a_call_does() -> None:
    async with connected() as client:
        await client.call(2, connection="close")
        assert CountingHttp.served == 1
        with pytest.raises(anyio.EndOfStream):
            await client.stream.receive()


async def test_who_waits_to_be_told_to_go_on_is_told() -> None:
    async with connected() as client:
        head, _, body = client.bytes_of(echo(2), expect="100-continue").partition(b"\r\n\r\n")
        await client.stream.send(head + b"\r\n\r\n")
        assert b"100 Continue" in await client.stream.receive()
        await client.stream.send(body)
        assert json.loads((await client.answer())[1])["id"] == 2


async def test_a_client_that_goes_takes_its_call_back() -> None:
    child = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with connected(child) as client:
        await client.stream.send(client.bytes_of(echo(2)))
        asked = await child.link.request("tools/call", nth=2)
        await client.stream.aclose()
        gone = await child.link.request("notifications/cancelled")
        assert gone["params"]["requestId"] == asked["id"]


async def test_a_client_may_go_in_the_middle_of_a_request() -> None:
    async with connected() as client:
        await client.stream.send(client.bytes_of(echo(2))[:-5])
        await all_tasks_blocked()
        await client.stream.aclose()
    assert CountingHttp.served == 0


async def test_a_call_that_reports_becomes_a_stream() -> None:
    child = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with connected(child) as client:
        await client.stream.send(client.bytes_of(echo(2, {"progressToken": "p"})))
        asked = await child.link.request("tools/call", nth=2)
        under = asked["params"]["_meta"]["progressToken"]
        child.link.notify("notifications/progress", {"progressToken": under, "progress": 1})
        child.link.answer(asked["id"], {"content": []})
        status, body = await client.answer()
        assert (status, body.count(b"data: {")) == (200, 2)
        child.answers["tools/call"] = {"content": []}
        await client.call(3)


async def test_a_request_of_another_kind_does_not_shape_the_answer_to_the_next_call() -> None:
    child = FakeChild(ECHO)
    async with connected(child) as client:
        await client.call(2)
        child.answers["tools/call"] = SILENT
        await client.stream.send(b"HEAD /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
        while not (await client.stream.receive()).endswith(b"\r\n\r\n"):
            pass
        await client.stream.send(client.bytes_of(echo(3, {"progressToken": "p"})))
        asked = await child.link.request("tools/call", nth=3)
        under = asked["params"]["_meta"]["progressToken"]
        child.link.notify("notifications/progress", {"progressToken": under, "progress": 1})
        child.link.answer(asked["id"], {"content": []})
        status, body = await client.answer()
        assert (status, body.count(b"data: {")) == (200, 2)


async def test_an_answer_waits_for_a_client_that_does_not_read() -> None:
    large = b'{"content":[],"text":"%b"}' % (b"x" * (4 << 20))
    child = FakeChild(ECHO, answers={"tools/call": large})
    async with connected(child) as client:
        await client.stream.send(b"".join(client.bytes_of(echo(id_)) for id_ in range(2, 8)))
        await child.link.request("tools/call", nth=1)
        await all_tasks_blocked()
        for id_ in range(2, 8):
            status, body = await client.answer()
            assert (status, json.loads(body)["id"]) == (200, id_)


async def test_a_connection_that_is_idle_for_too_long_is_closed() -> None:
    child = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with connected(child) as client:
        await client.stream.send(client.bytes_of(echo(2)))
        asked = await child.link.request("tools/call", nth=2)
        client.idle.all_expire()
        for connection in client.connections():
            connection.expire()
        child.link.answer(asked["id"], {"content": []})
        assert json.loads((await client.answer())[1])["id"] == 2
        client.idle.all_expire()
        with pytest.raises(anyio.EndOfStream):
            await client.stream.receive()
        assert not client.idle.waiting


async def test_a_hub_that_ends_answers_the_call_under_way_and_then_hangs_up() -> None:
    child = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with connected(child) as client:
        await client.stream.send(client.bytes_of(echo(2)))
        asked = await child.link.request("tools/call", nth=2)
        client.server.should_exit = True
        await client.server.ending.wait()
        child.link.answer(asked["id"], {"content": []})
        assert json.loads((await client.answer())[1])["id"] == 2
        with pytest.raises(anyio.EndOfStream):
            await client.stream.receive()


async def test_a_call_that_is_asked_for_roots_again_needs_no_task() -> None:
    async with connected() as client:
        body: Any = enveloped(echo(7), ROOTS)
        body["params"]["arguments"] = {"text": "file:///somewhere"}
        client.key = ""
        answers = [await client.post(body, **MODERN_CALL) for _ in range(3)]
        assert json.loads(answers[0][1])["result"]["resultType"] == "input_required"
        assert answers == [answers[0]] * 3
        assert CountingHttp.served == 1
        # Of two that come at once the first is answered before the second is read.
        await client.stream.send(2 * client.bytes_of(body, **MODERN_CALL))
        assert [await client.answer() for _ in range(2)] == answers[:2]
        assert await client.post(body, **MODERN_CALL) == answers[0]


class Mistaken:
    """An acceptor that, once it `breaks`, takes no call because of a mistake of the hub's."""

    def __init__(self, acceptor: FastCallAcceptor) -> None:
        self.bodies, self.head, self.no_room = acceptor.bodies, acceptor.head, acceptor.no_room
        self.breaks = False
        self._acceptor = acceptor

    def take(self, head: RequestHead, body: bytes, line: Line) -> PlainCall | None:
        if self.breaks:
            raise KeyError("ours")
        return self._acceptor.take(head, body, line)


async def test_a_mistake_of_our_own_is_told_as_one(caplog: pytest.LogCaptureFixture) -> None:
    made: list[Mistaken] = []

    def mistaken(acceptor: FastCallAcceptor) -> Mistaken:
        made.append(Mistaken(acceptor))
        return made[0]

    async with connected(accepting=mistaken) as client:
        made[0].breaks = True
        status, _ = await client.post(echo(2))
        assert status == 500
        assert "KeyError: 'ours'" in caplog.text
