from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import httpx2
import pytest
from msgspec import Raw

from hub.children.remote.http_client import Endpoint
from hub.children.remote.streamable_http import HttpLink
from hub.jsonrpc import messages as wire
from hub.jsonrpc.errors import GoneError
from hub.jsonrpc.messages import Failure, Notification, Request, Response, lost
from hub.jsonrpc.peer_conduct import PeerConduct
from hub.specs import RemoteTarget
from tests.kit.loops import virtual_time
from tests.kit.scripted_http import URL, Answer, Feed, ScriptedHttp, ScriptedRemote, Sent, events

BEGIN = b"event: endpoint\ndata: /messages?id=1\n\n"
GREETED = b'data: {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2024-11-05"}}\n\n'
INITIALIZE = Request(1, "initialize", {})
TAKEN = httpx2.Response(202, content=b"Accepted")


@asynccontextmanager
async def falling(
    status: int, stream: Answer | None = None, *, falls_back: bool = True, body: bytes = b""
) -> AsyncGenerator[ScriptedRemote[HttpLink]]:
    """Keep a link that may fall back to a child that refuses streamable HTTP with `status`."""
    feed = Feed(BEGIN)

    def script(sent: Sent) -> Answer:
        if sent.method == "GET":
            return events(feed) if stream is None else stream
        if "/messages" not in sent.url:
            return httpx2.Response(status, content=body)
        if b'initialize"' in sent.body:
            feed.write(GREETED)
        return TAKEN

    http = ScriptedHttp(script)
    async with anyio.create_task_group() as tasks:
        endpoint = Endpoint(RemoteTarget(URL), http, PeerConduct("far"))
        link = HttpLink(endpoint, tasks, falls_back=falls_back)
        yield ScriptedRemote(link, http, feed)
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("status", [400, 404, 405])
async def test_a_child_without_streamable_http_is_spoken_to_over_the_older_transport(
    status: int,
) -> None:
    async with falling(status) as child:
        answer = await child.ask(INITIALIZE)
        assert isinstance(answer, Response)
        assert b"2024-11-05" in bytes(Raw(answer.result if isinstance(answer.result, Raw) else b""))
        await child.link.outlet.send(Notification("notifications/initialized", {}))
        sent = [
            (one.method, one.url.removeprefix("http://child.example")) for one in child.http.sent
        ]
        assert sent == [
            ("POST", "/mcp"),
            ("GET", "/mcp"),
            ("POST", "/messages?id=1"),
            ("POST", "/messages?id=1"),
        ]
        child.feed.end()
        with anyio.fail_after(20), pytest.raises(GoneError):
            await child.link.next()
        await child.link.leave()


@pytest.mark.parametrize("status", [401, 403, 500])
async def test_another_refusal_is_no_reason_to_fall_back(status: int) -> None:
    async with falling(status) as child:
        assert isinstance(await child.ask(INITIALIZE), wire.Lost)
        assert [one.method for one in child.http.sent] == ["POST"]


async def test_a_chosen_transport_is_kept() -> None:
    async with falling(405, falls_back=False) as child:
        refusal = "it answered with HTTP status 405 (check its url and transport)"
        assert await child.ask(INITIALIZE) == lost(1, refusal)
        assert [one.method for one in child.http.sent] == ["POST"]


async def test_only_the_first_request_falls_back() -> None:
    async with falling(405) as child:
        await child.ask(Request(1, "tools/list", {}))
        assert [one.method for one in child.http.sent] == ["POST"]


ELSEWHERE = Feed(b"event: endpoint\ndata: http://other.example/\n\n")


@pytest.mark.parametrize(
    "stream",
    [
        httpx2.Response(405),
        httpx2.Response(200, headers={"content-type": "text/html"}),
        httpx2.ConnectError("gone"),
        events(ELSEWHERE),
        events(Feed().end()),
    ],
)
async def test_a_child_that_offers_neither_is_refused_as_before(stream: Answer) -> None:
    async with falling(400, stream) as child:
        assert await child.ask(INITIALIZE) == lost(1, "it answered with HTTP status 400")


@virtual_time
async def test_a_stream_that_names_no_endpoint_is_not_waited_for() -> None:
    async with falling(400, events(Feed())) as child:
        assert await child.ask(INITIALIZE) == lost(1, "it answered with HTTP status 400")


async def test_a_modern_childs_refusal_is_passed_on() -> None:
    body = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}'
    async with falling(400, httpx2.Response(405), body=body) as child:
        answer = await child.ask(INITIALIZE)
        assert isinstance(answer, Failure)
        assert answer.id == 1
