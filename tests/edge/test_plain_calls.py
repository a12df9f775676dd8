from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import anyio
import pytest
from starlette.types import Receive, Send

from hub.core.values import JsonObject
from hub.edge import plain_calls
from hub.edge.exchange import Exchange
from hub.edge.plain_calls import CallReply, answer_plainly
from hub.runtime.express import Express, Passage
from hub.runtime.wire import Notification, Request
from tests.edge.asgi import Connection
from tests.fakes import ECHO, SILENT, FakeChild
from tests.runtime.rigs import FakeClient, Rig, remote, rig


class Posts:
    """A client over HTTP whose calls of `echo` are plain."""

    def __init__(self, at: Rig, client: FakeClient) -> None:
        self.at = at
        self.client = client
        self.express = Express(client.peer.backlog, at.tasks)
        self.plain: list[bool] = []

    async def answer(self, request: Request, receive: Receive, send: Send) -> bool:
        """Answer a request if it is a plain call."""

        def passing(reply: CallReply) -> Passage | None:
            way = self.at.relay.session_lanes.find(self.client.session, request)
            return self.express.take(request, way, reply)

        return await answer_plainly(passing, receive, Exchange(send))

    def post(self, id_: int, **params: Any) -> Connection:
        """Send a call on a connection of its own."""
        connection = Connection()
        request = Request(id_, "tools/call", {"name": "echo", "arguments": {}, **params})

        async def app(scope: Any, receive: Any, send: Any) -> None:
            self.plain.append(await self.answer(request, receive, send))

        scope: dict[str, Any] = {}
        self.at.tasks.start_soon(connection.serve, app, scope)
        return connection


@asynccontextmanager
async def posting(fake: FakeChild, **spec: Any) -> AsyncGenerator[Posts]:
    async with rig({"files": replace(remote("files"), **spec)}, {"files": fake}) as at:
        client = at.client()
        answer, fake.answers["tools/call"] = fake.answers["tools/call"], {}
        await client.call("echo", {})
        fake.answers["tools/call"] = answer
        yield Posts(at, client)


async def test_a_plain_call_is_answered_as_json() -> None:
    fake = FakeChild(ECHO)
    fake.answers["tools/call"] = b'{"content":[],"n":1e400}'
    async with posting(fake) as posts:
        connection = posts.post(7)
        await connection.served()
        assert connection.status == 200
        assert connection.body == b'{"jsonrpc":"2.0","id":7,"result":{"content":[],"n":1e400}}'
        assert posts.plain == [True]


async def test_a_call_that_is_not_plain_is_left_alone() -> None:
    fake = FakeChild(ECHO)
    async with posting(fake) as posts:
        connection = posts.post(7, name="unknown")
        await connection.served()
        assert connection.sent == []
        assert posts.plain == [False]


async def test_reports_make_the_response_a_stream_that_the_answer_ends() -> None:
    fake = FakeChild(ECHO)
    fake.answers["tools/call"] = SILENT
    async with posting(fake) as posts:
        meta: JsonObject = {"progressToken": "mine"}
        connection = posts.post(7, _meta=meta)
        asked = await fake.link.request("tools/call", nth=2)
        under = asked["params"]["_meta"]["progressToken"]
        fake.link.notify("notifications/progress", {"progressToken": under, "progress": 1})
        fake.link.answer(asked["id"], {"a": 1})
        await connection.served()
        first, last = connection.events
        assert first["params"] == {"progressToken": "mine", "progress": 1}
        assert last == {"jsonrpc": "2.0", "id": 7, "result": {"a": 1}}


async def test_a_client_that_goes_cancels_its_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_calls, "PATIENCE", 0.0)
    fake = FakeChild(ECHO)
    fake.answers["tools/call"] = SILENT
    async with posting(fake) as posts:
        connection = posts.post(7)
        asked = await fake.link.request("tools/call", nth=2)
        connection.disconnect()
        told = await fake.link.request("notifications/cancelled")
        assert told["params"]["requestId"] == asked["id"]
        await connection.served()
        assert connection.sent == []


async def test_a_call_that_its_client_takes_back_has_no_answer() -> None:
    fake = FakeChild(ECHO)
    fake.answers["tools/call"] = SILENT
    async with posting(fake) as posts:
        connection = posts.post(7)
        await fake.link.request("tools/call", nth=2)
        back = Notification("notifications/cancelled", {"requestId": 7})
        await posts.client.peer.receive(back)
        await connection.served()
        assert connection.events == []


async def test_a_slow_call_is_answered_when_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_calls, "PATIENCE", 0.0)
    fake = FakeChild(ECHO)
    fake.answers["tools/call"] = SILENT
    async with posting(fake) as posts:
        connection = posts.post(7)
        asked = await fake.link.request("tools/call", nth=2)
        await anyio.wait_all_tasks_blocked()
        fake.link.answer(asked["id"], {"a": 1})
        await connection.served()
        assert connection.json == {"jsonrpc": "2.0", "id": 7, "result": {"a": 1}}


async def test_a_call_whose_lane_closes_while_it_waits_goes_the_general_way() -> None:
    fake = FakeChild(ECHO)
    fake.answers["tools/call"] = SILENT
    async with posting(fake, concurrency=1) as posts:
        first = posts.post(1)
        asked = await fake.link.request("tools/call", nth=2)
        posts.post(2)
        await anyio.wait_all_tasks_blocked()
        posts.at.services.operator.version += 1
        fake.link.answer(asked["id"], {})
        await first.served()
        await anyio.wait_all_tasks_blocked()
        assert sorted(posts.plain) == [False, True]
        assert len(fake.link.requests("tools/call")) == 2
        assert posts.client.peer.backlog.takes(2)


async def test_a_server_that_gives_a_request_up_cancels_its_call() -> None:
    fake = FakeChild(ECHO)
    fake.answers["tools/call"] = SILENT
    request, connection = Request(1, "tools/call", {"name": "echo", "arguments": {}}), Connection()
    asked: Any = None
    async with posting(fake) as posts, anyio.create_task_group() as tasks:
        tasks.start_soon(posts.answer, request, connection.receive, connection.send)
        asked = await fake.link.request("tools/call", nth=2)
        tasks.cancel_scope.cancel()
    told = await fake.link.request("notifications/cancelled")
    assert told["params"]["requestId"] == asked["id"]
    assert connection.sent == []
