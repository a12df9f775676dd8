from __future__ import annotations

import json
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import pytest
from anyio.abc import SocketStream
from structlog.testing import capture_logs

from hub.app.running import ConnectionBuilder
from hub.server.http.access import AccessCheck
from hub.server.http.app import HttpServer
from hub.server.http.auth.credentials import BearerTokens, Credentials
from hub.server.http.bounds.connections import KEEP_ALIVE
from hub.server.http.legacy.event_streams import HANG_UP
from hub.server.http.serve import LAST_ANSWERS, serve_http
from hub.system.shutdown import ended_by_signals
from hub.values import Json, JsonObject
from tests.kit.fakes import ECHO, SILENT, FakeChild, FakeLink
from tests.kit.loops import all_tasks_blocked
from tests.kit.scripted import scripted
from tests.server.http.test_app import MODERN_CALL, enveloped

pytestmark = pytest.mark.live

HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


class UvicornSite:
    """A hub in uvicorn on a port of its own, and a client of it."""

    def __init__(self, client: httpx2.AsyncClient, listener: socket.socket) -> None:
        self.address = listener.getsockname()
        self.url = f"http://127.0.0.1:{self.address[1]}/mcp"
        self.ready = anyio.Event()
        self.ended = anyio.Event()
        self.client = client

    async def post(self, method: str, key: str = "", **params: Json) -> httpx2.Response:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        named = {"mcp-session-id": key} if key else {}
        return await self.client.post(
            self.url, content=json.dumps(message), headers={**HEADERS, **named}
        )

    async def session(self, revision: str = "2025-11-25") -> str:
        answer = await self.post("initialize", protocolVersion=revision, capabilities={})
        return answer.headers["mcp-session-id"]

    async def until_ended(self) -> None:
        with anyio.fail_after(20):
            await self.ended.wait()


@asynccontextmanager
async def served(
    child: FakeChild | None = None, *, last_answers: float = LAST_ANSWERS
) -> AsyncGenerator[UvicornSite]:
    """Serve until this process gets a signal, at the latest when this ends."""
    listener = socket.create_server(("127.0.0.1", 0))

    async def serve() -> None:
        keeper = AccessCheck("127.0.0.1", Credentials(BearerTokens()))
        async with ended_by_signals() as shutdown:
            connection = ConnectionBuilder(hub.services)
            await serve_http(
                HttpServer(connection, keeper, path="/mcp"),
                listener,
                last_answers=last_answers,
                ready=site.ready.set,
                shutdown=shutdown,
            )
        site.ended.set()

    async with (
        scripted(child or FakeChild(ECHO)) as hub,
        httpx2.AsyncClient(timeout=60) as client,
        anyio.create_task_group() as tasks,
    ):
        site = UvicornSite(client, listener)
        tasks.start_soon(serve)
        with anyio.fail_after(20):
            await site.ready.wait()
        yield site
        if not site.ended.is_set():
            os.kill(os.getpid(), signal.SIGTERM)
        await site.until_ended()


async def test_a_client_is_served_over_a_socket() -> None:
    async with served() as site:
        key = await site.session()
        call = await site.post("tools/call", key, name="echo", arguments={"text": "hi"})
        assert call.json()["result"]["structuredContent"] == {"text": "hi"}
        assert "server" not in call.headers
        assert (await site.client.get(site.url.replace("/mcp", "/health"))).json() == {
            "status": "ok"
        }


async def test_the_date_of_responses_goes_on() -> None:
    async with served() as site:
        health = site.url.replace("/mcp", "/health")
        first = (await site.client.get(health)).headers["date"]
        with anyio.fail_after(20):
            while (await site.client.get(health)).headers["date"] == first:  # noqa: ASYNC110 - nothing tells of it
                await anyio.sleep(0.05)


async def answer_to_a_large_head() -> int:
    async with served() as site:
        answer = await site.client.get(site.url, headers={"x": "x" * 70_000})
        return answer.status_code


async def test_too_large_a_head_is_refused() -> None:
    assert await answer_to_a_large_head() == 431


async def test_without_httptools_another_parser_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hub.server.http.uvicorn_protocol", None)
    with capture_logs() as logs:
        await test_a_client_is_served_over_a_socket()
        assert await answer_to_a_large_head() == 400
    assert len([line for line in logs if "httptools cannot be imported" in line["event"]]) == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_it(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    async with served() as site:
        await site.session()
        os.kill(os.getpid(), number)
        await site.until_ended()
        with pytest.raises(httpx2.ConnectError):
            await site.session()
    assert signal.getsignal(number) is before


async def test_a_stream_that_is_held_open_does_not_hold_it_up() -> None:
    async with served(last_answers=0) as site:
        key = await site.session()
        headers = {**HEADERS, "mcp-session-id": key}
        async with site.client.stream("GET", site.url, headers=headers) as stream:
            assert stream.status_code == 200
            os.kill(os.getpid(), signal.SIGTERM)
            await site.until_ended()


async def test_a_second_signal_waits_for_nothing() -> None:
    child = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with served(child) as site, anyio.create_task_group() as tasks:
        key = await site.session()

        async def call() -> None:
            answer = await site.post("tools/call", key, name="echo", arguments={})
            assert answer.json()["error"]["message"].startswith("the hub is ending")

        tasks.start_soon(call)
        link = await child.connected()
        await link.request("tools/call")
        os.kill(os.getpid(), signal.SIGTERM)
        await all_tasks_blocked()
        os.kill(os.getpid(), signal.SIGTERM)
        await site.until_ended()


@asynccontextmanager
async def calling(
    site: UvicornSite, child: FakeChild, key: str, **more: str
) -> AsyncGenerator[tuple[SocketStream, FakeLink, Any]]:
    """Make a call over a connection of its own; yields what asks the child, too."""
    params: JsonObject = {"name": "echo", "arguments": {"text": "hi"}}
    message: JsonObject = {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params}
    body = json.dumps(enveloped(message) if "mcp_method" in more else message)
    named = {"mcp-session-id": key} if key else {}
    fields = {"host": "127.0.0.1", **HEADERS, **named, "content-length": str(len(body))}
    fields |= {name.replace("_", "-"): value for name, value in more.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    before = len(child.link.requests("tools/call")) if child.links else 0
    async with await anyio.connect_tcp(*site.address) as stream:
        await stream.send(f"POST /mcp HTTP/1.1\r\n{head}\r\n{body}".encode())
        link = await child.connected()
        asked = await link.request("tools/call", nth=before + 1)
        yield stream, link, asked["id"]


async def until_ended(stream: SocketStream) -> bytes:
    """Return all that comes before the hub closes the connection."""
    return b"".join([part async for part in stream])


WAYS = [{}, {"accept": "text/event-stream, application/json"}, MODERN_CALL]


@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize("more", WAYS)
async def test_a_client_that_sends_no_more_gets_its_answer(
    more: dict[str, str], *, is_known: bool
) -> None:
    child = FakeChild(ECHO)
    async with served(child) as site:
        key = "" if "mcp_method" in more else await site.session()
        if is_known:
            async with calling(site, child, key, **more) as (stream, *_):
                assert b" 200 OK" in await stream.receive()
        child.answers["tools/call"] = SILENT
        async with calling(site, child, key, **more) as (stream, link, id_):
            await stream.send_eof()
            got = b""
            while b": ping" not in got:
                got += await stream.receive()
            link.answer(id_, {"content": []})
            got += await until_ended(stream)
            assert b'"id":5,"result":{' in got
            assert link.requests("notifications/cancelled") == []


@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize("more", WAYS)
async def test_the_call_of_a_client_that_has_gone_is_cancelled(
    more: dict[str, str], *, is_known: bool
) -> None:
    child = FakeChild(ECHO)
    async with served(child) as site:
        key = "" if "mcp_method" in more else await site.session(revision="2025-06-18")
        if is_known:
            async with calling(site, child, key, **more) as (stream, *_):
                assert b" 200 OK" in await stream.receive()
        child.answers["tools/call"] = SILENT
        async with calling(site, child, key, **more) as (stream, link, _):
            await stream.aclose()
            await link.request("notifications/cancelled")


async def large_answer(site: UvicornSite) -> SocketStream:
    """Call for an answer of six megabytes, as an event stream, and begin to read it."""
    key = await site.session()
    size, params = 3_000_000, {"name": "echo", "arguments": {"text": "x" * 3_000_000}}
    message = {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params}
    body = json.dumps(message)
    socket_ = socket.socket()
    socket_.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    socket_.connect(site.address)
    stream = await SocketStream.from_socket(socket_)
    head = (
        f"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\nmcp-session-id: {key}\r\n"
        "content-type: application/json\r\naccept: text/event-stream, application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    await stream.send(f"{head}{body}".encode())
    got = 0
    while got < size // 10:
        got += len(await stream.receive())
    return stream


async def rest_of(stream: SocketStream) -> bytes:
    whole = b""
    with anyio.fail_after(20):
        while not whole.endswith(b"\r\n0\r\n\r\n"):
            whole += await stream.receive()
    return whole


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR]


async def test_a_stream_that_is_read_slowly_is_whole(caplog: pytest.LogCaptureFixture) -> None:
    async with served() as site, await large_answer(site) as stream:
        await anyio.sleep(HANG_UP + 0.3)
        assert b'x"}}' in (await rest_of(stream))[-100:]
    assert errors(caplog) == []


async def test_a_client_that_reads_slowly_is_no_error_at_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with served() as site, await large_answer(site):
        os.kill(os.getpid(), signal.SIGTERM)
        await site.until_ended()
    assert errors(caplog) == []


@pytest.mark.parametrize("is_known", [False, True])
async def test_an_answer_that_comes_soon_after_a_signal_is_passed_on(*, is_known: bool) -> None:
    child = FakeChild(ECHO)
    async with served(child) as site, anyio.create_task_group() as tasks:
        key = await site.session()
        if is_known:  # then the call is answered where it arrives
            await site.post("tools/call", key, name="echo", arguments={})
        child.answers["tools/call"] = SILENT

        async def call() -> None:
            answer = await site.post("tools/call", key, name="echo", arguments={})
            assert answer.json()["result"] == {"content": []}

        tasks.start_soon(call)
        link = await child.connected()
        sent = await link.request("tools/call", nth=1 + is_known)
        os.kill(os.getpid(), signal.SIGTERM)
        await all_tasks_blocked()
        link.answer(sent["id"], {"content": []})
        await site.until_ended()


def test_connections_are_kept_for_longer_than_clients_keep_them() -> None:
    kept = httpx2.Limits().keepalive_expiry
    assert kept is not None
    assert kept + 1 < KEEP_ALIVE
