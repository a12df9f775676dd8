from __future__ import annotations

import gc
import json
import weakref
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from msgspec import Raw
from msgspec.structs import replace
from starlette.types import ASGIApp, Receive, Scope, Send

from hub.calls.dispatch import CallDispatcher
from hub.calls.in_flight import ReplySink
from hub.calls.routes import CallRoute, KnownAnswer
from hub.jsonrpc.deadlines import Deadlines
from hub.jsonrpc.errors import GoneError, InternalError, RpcError
from hub.jsonrpc.messages import Failure, Message, Notification, Request, Response
from hub.jsonrpc.requests import Cancellable
from hub.server.http.fast_calls import PlainCall, answer_post
from hub.server.http.responses import PostResponse
from hub.values import Json, JsonObject
from tests.kit.asgi import Connection
from tests.kit.fakes import ECHO, SILENT, FakeChild
from tests.kit.loops import all_tasks_blocked, virtual_time
from tests.kit.rigs import Rig, RigClient, remote, rig

REPORTED: JsonObject = {"progressToken": "mine"}


class Posted:
    """A request of a client whose calls of `echo` are plain; any other is answered with 418."""

    def __init__(self, posts: Posts, request: Request) -> None:
        self.in_flight = 0
        self.went_generally = False
        self.says: Failure | None = None
        self._posts = posts
        self._request = request

    def begin(self) -> None:
        self.in_flight += 1

    def end(self) -> None:
        self.in_flight -= 1

    def pass_on(self, reply: ReplySink) -> Cancellable | None:
        if self._posts.are_mistaken:
            raise KeyError("ours")
        route: CallRoute | KnownAnswer | None = self._posts.known
        route = route or self._posts.at.relay.session_routes.find(
            self._posts.client.session, self._request
        )
        return self._posts.dispatcher.take(self._request, route, reply)

    def response(self, send: Send) -> PostResponse:
        return PostResponse(send)

    async def converse(self, receive: Receive, response: PostResponse) -> None:
        self.went_generally = True
        await response.finish(Failure(7, {"code": 1, "message": "no"}), status=418)

    def last_word(self) -> Failure | None:
        return self.says

    def status_of(self, failure: Failure) -> int:
        return 500


class Wired:
    """A connection's response, which is written at once if the connection is free."""

    def __init__(self, posts: Posts, connection: Connection) -> None:
        self.written: list[tuple[int, bytes]] = []
        self.is_free = True
        self.connection = connection
        self.send = connection.send
        self._posts = posts

    def answer(self, status: int, body: bytes) -> bool:
        if self.is_free:
            self.written.append((status, body))
        return self.is_free

    def serve(self, app: ASGIApp) -> None:
        scope: Scope = {}
        self._posts.at.tasks.start_soon(self.connection.serve, app, scope)


class Posts:
    """A client over HTTP whose calls of `echo` are plain."""

    def __init__(self, at: Rig, client: RigClient, patience: float) -> None:
        self.at = at
        self.client = client
        self.dispatcher = CallDispatcher(client.peer.backlog, at.tasks)
        self.patience = Deadlines(patience)
        self.posted: list[Posted] = []
        self.known: KnownAnswer | None = None
        self.are_mistaken = False

    def requested(self, id_: int, **params: Any) -> Posted:
        request = Request(id_, "tools/call", {"name": "echo", "arguments": {}, **params})
        self.posted.append(Posted(self, request))
        return self.posted[-1]

    def post(self, id_: int, **params: Any) -> Connection:
        """Send a call on a connection of its own, which a task serves."""
        connection, posted = Connection(), self.requested(id_, **params)

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await answer_post(posted, receive, PostResponse(send), self.patience)

        scope: Scope = {}
        self.at.tasks.start_soon(connection.serve, app, scope)
        return connection

    def take(self, id_: int, **params: Any) -> tuple[PlainCall, Wired]:
        """Send a call on a connection of its own, which no task serves."""
        wired = Wired(self, Connection())
        call = PlainCall(self.requested(id_, **params), self.patience, wired)
        assert call.begin()
        return call, wired


@asynccontextmanager
async def posting(fake: FakeChild, *, patience: float = 60, **spec: Any) -> AsyncGenerator[Posts]:
    async with rig({"files": replace(remote("files"), **spec)}, {"files": fake}) as at:
        client = at.client()
        answer, fake.answers["tools/call"] = fake.answers["tools/call"], {}
        await client.call("echo", {})
        fake.answers["tools/call"] = answer
        posts = Posts(at, client, patience)
        yield posts
        assert not any(posted.in_flight for posted in posts.posted)


async def test_a_plain_call_is_answered_as_json() -> None:
    fake = FakeChild(ECHO)
    fake.answers["tools/call"] = b'{"content":[],"n":1e400}'
    async with posting(fake) as posts:
        connection = posts.post(7)
        await connection.served()
        assert connection.status == 200
        assert connection.body == b'{"jsonrpc":"2.0","id":7,"result":{"content":[],"n":1e400}}'
        assert not posts.posted[0].went_generally


async def test_a_call_whose_answer_is_known_is_over_as_soon_as_it_is_taken() -> None:
    fake = FakeChild(ECHO)
    answer = b'{"jsonrpc":"2.0","id":7,"result":{}}'
    async with posting(fake) as posts:
        posts.known = KnownAnswer(Raw(b"{}"))
        call, wired = posts.take(7)
        assert wired.written == [(200, answer)]
        assert posts.posted[0].in_flight == 0
        assert not posts.patience._due  # pyright: ignore[reportPrivateUsage] - nothing is to come
        call.lost()
        connection = posts.post(7)
        await connection.served()
        assert (connection.status, connection.body) == (200, answer)
        assert len(fake.link.requests("tools/call")) == 1


async def test_a_known_answer_waits_for_a_client_that_does_not_read() -> None:
    async with posting(FakeChild(ECHO)) as posts:
        posts.known = KnownAnswer(Raw(b"{}"))
        wired = Wired(posts, Connection())
        wired.is_free = False
        assert PlainCall(posts.requested(7), posts.patience, wired).begin()
        await wired.connection.served()
        assert wired.connection.body == b'{"jsonrpc":"2.0","id":7,"result":{}}'
        assert wired.written == []


async def test_a_call_that_is_not_plain_is_left_alone() -> None:
    fake = FakeChild(ECHO)
    async with posting(fake) as posts:
        connection = posts.post(7, name="unknown")
        await connection.served()
        assert connection.status == 418


async def test_a_call_that_a_mistake_of_our_own_stops_is_not_waited_for() -> None:
    async with posting(FakeChild(ECHO)) as posts:
        posts.are_mistaken = True
        with pytest.raises(KeyError):
            posts.take(7)
        assert posts.posted[0].in_flight == 0


def broken(message: Message) -> bool:
    raise KeyError("ours")


async def test_a_fault_in_sending_ends_its_call_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with posting(fake, concurrency=1) as posts:
        posts.post(1)
        asked = await fake.link.request("tools/call", nth=2)
        second = posts.post(2)
        await all_tasks_blocked()
        with monkeypatch.context() as patch:
            patch.setattr(fake.link, "post", broken)
            fake.link.answer(asked["id"], {})
            await second.served()
            third = posts.post(3)
            await third.served()
        for connection in (second, third):
            assert connection.json["error"]["message"] == str(InternalError())
        assert [posts.client.peer.backlog.accepts(id_) for id_ in (1, 2, 3)] == [True] * 3
        fourth = posts.post(4)
        fake.link.answer((await fake.link.request("tools/call", nth=3))["id"], {"a": 1})
        await fourth.served()
        assert fourth.json["result"] == {"a": 1}


async def test_reports_make_the_response_a_stream_that_the_answer_ends() -> None:
    fake = FakeChild(ECHO)
    fake.answers["tools/call"] = SILENT
    async with posting(fake) as posts:
        connection = posts.post(7, _meta=REPORTED)
        asked = await fake.link.request("tools/call", nth=2)
        under = asked["params"]["_meta"]["progressToken"]
        fake.link.notify("notifications/progress", {"progressToken": under, "progress": 1})
        fake.link.answer(asked["id"], {"a": 1})
        await connection.served()
        first, last = connection.events
        assert first["params"] == {"progressToken": "mine", "progress": 1}
        assert last == {"jsonrpc": "2.0", "id": 7, "result": {"a": 1}}


async def test_a_client_that_goes_cancels_its_call() -> None:
    fake = FakeChild(ECHO)
    fake.answers["tools/call"] = SILENT
    async with posting(fake, patience=0) as posts:
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


async def test_a_slow_call_is_answered_when_it_is() -> None:
    fake = FakeChild(ECHO)
    fake.answers["tools/call"] = SILENT
    async with posting(fake, patience=0) as posts:
        connection = posts.post(7)
        asked = await fake.link.request("tools/call", nth=2)
        await all_tasks_blocked()
        fake.link.answer(asked["id"], {"a": 1})
        await connection.served()
        assert connection.json == {"jsonrpc": "2.0", "id": 7, "result": {"a": 1}}


async def test_a_call_whose_lane_closes_while_it_waits_goes_the_general_way() -> None:
    fake = FakeChild(ECHO)
    fake.answers["tools/call"] = SILENT
    async with posting(fake, concurrency=1) as posts:
        first = posts.post(1)
        asked = await fake.link.request("tools/call", nth=2)
        second = posts.post(2)
        await all_tasks_blocked()
        posts.at.services.operator.version += 1
        fake.link.answer(asked["id"], {})
        await first.served()
        await second.served()
        assert (first.status, second.status) == (200, 418)
        assert len(fake.link.requests("tools/call")) == 2
        assert posts.client.peer.backlog.accepts(2)


@virtual_time
@pytest.mark.parametrize("is_first", [False, True])
async def test_a_call_whose_client_goes_just_then_does_not_go_the_general_way(
    *, is_first: bool
) -> None:
    fake = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with posting(fake, patience=0) as posts:
        call, wired = posts.take(7)
        await fake.link.request("tools/call", nth=2)
        await anyio.sleep(0.01)
        request = Request(7, "tools/call")
        if is_first:
            wired.connection.disconnect()
            call.resolve_again(request)
        else:
            call.resolve_again(request)
            wired.connection.disconnect()
        await wired.connection.served()
        assert not posts.posted[-1].went_generally
        assert await fake.link.request("notifications/cancelled")


async def test_a_server_that_gives_a_request_up_cancels_its_call() -> None:
    fake = FakeChild(ECHO)
    fake.answers["tools/call"] = SILENT
    connection, asked = Connection(), None
    async with posting(fake) as posts, anyio.create_task_group() as tasks:
        posted, response = posts.requested(1), PostResponse(connection.send)
        tasks.start_soon(answer_post, posted, connection.receive, response, posts.patience)
        asked = await fake.link.request("tools/call", nth=2)
        tasks.cancel_scope.cancel()
    told = await fake.link.request("notifications/cancelled")
    assert asked is not None
    assert told["params"]["requestId"] == asked["id"]
    assert connection.sent == []


# Where no task serves the request


async def test_an_answer_is_written_where_it_arrives() -> None:
    async with posting(FakeChild(ECHO, answers={"tools/call": b'{"content":[]}'})) as posts:
        _, wired = posts.take(7)
        await all_tasks_blocked()
        assert wired.written == [(200, b'{"jsonrpc":"2.0","id":7,"result":{"content":[]}}')]
        assert wired.connection.sent == []


async def test_a_call_that_is_over_is_no_garbage_to_be_looked_for() -> None:
    async with posting(FakeChild(ECHO)) as posts:
        gc.disable()
        try:
            call, wired = posts.take(7)
            left = weakref.ref(call)
            del call
            await all_tasks_blocked()
            assert len(wired.written) == 1
            assert left() is None
        finally:
            gc.enable()


class HeldResult(dict[str, Json]):
    """A result that can be referred to weakly."""


async def test_a_result_that_a_task_has_sent_is_held_no_longer() -> None:
    fake = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with posting(fake, patience=0) as posts:
        gc.disable()  # what the task awaited refers to the call, and to itself
        try:
            call, wired = posts.take(7)
            await fake.link.request("tools/call", nth=2)
            await all_tasks_blocked()
            result = HeldResult(a=1)
            left = weakref.ref(result)
            call.give(Response(7, result))
            del result
            await wired.connection.served()
            assert wired.connection.json["result"] == {"a": 1}
            assert left() is None
        finally:
            gc.enable()


def errors_in_memory() -> list[RpcError]:
    return [one for one in gc.get_objects() if isinstance(one, RpcError)]


async def test_an_error_is_no_garbage_to_be_looked_for_once_it_is_written() -> None:
    error = Failure(None, {"code": -7, "message": "no"})
    async with posting(FakeChild(ECHO, answers={"tools/call": error})) as posts:
        gc.collect()
        gc.disable()
        before = errors_in_memory()  # other tests may have left some
        try:
            _, wired = posts.take(7)
            await all_tasks_blocked()
            assert len(wired.written) == 1
            assert [
                one for one in errors_in_memory() if not any(one is old for old in before)
            ] == []
        finally:
            gc.enable()


async def test_an_error_is_written_with_its_status() -> None:
    error = Failure(None, {"code": -7, "message": "no"})
    async with posting(FakeChild(ECHO, answers={"tools/call": error})) as posts:
        _, wired = posts.take(7)
        await all_tasks_blocked()
        assert [status for status, _ in wired.written] == [500]


async def test_what_is_no_text_in_an_answer_is_replaced() -> None:
    async with posting(FakeChild(ECHO)) as posts:
        call, wired = posts.take(7)
        assert call.give(Failure(7, {"code": 1, "message": "\ud800"}))
        ((_, body),) = wired.written
        assert json.loads(body)["error"]["message"] == "\ufffd"


async def test_an_answer_that_a_connection_cannot_take_is_sent_by_a_task() -> None:
    async with posting(FakeChild(ECHO)) as posts:
        _, wired = posts.take(7)
        wired.is_free = False
        await wired.connection.served()
        assert wired.connection.json["id"] == 7


async def test_what_comes_before_the_answer_makes_a_task_send_both() -> None:
    fake = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with posting(fake) as posts:
        _, wired = posts.take(7, _meta=REPORTED)
        asked = await fake.link.request("tools/call", nth=2)
        under = asked["params"]["_meta"]["progressToken"]
        fake.link.notify("notifications/progress", {"progressToken": under, "progress": 1})
        fake.link.answer(asked["id"], {"a": 1})
        await wired.connection.served()
        first, last = wired.connection.events
        assert first["params"] == {"progressToken": "mine", "progress": 1}
        assert last == {"jsonrpc": "2.0", "id": 7, "result": {"a": 1}}
        assert wired.written == []


async def test_a_call_that_takes_its_time_gets_a_task_that_watches_its_client() -> None:
    fake = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with posting(fake, patience=0) as posts:
        _, wired = posts.take(7)
        asked = await fake.link.request("tools/call", nth=2)
        wired.connection.disconnect()
        told = await fake.link.request("notifications/cancelled")
        assert told["params"]["requestId"] == asked["id"]
        await wired.connection.served()
        assert wired.connection.sent == []


async def test_a_lost_connection_gives_its_call_up() -> None:
    fake = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with posting(fake) as posts:
        call, wired = posts.take(7)
        asked = await fake.link.request("tools/call", nth=2)
        call.lost()
        told = await fake.link.request("notifications/cancelled")
        assert told["params"]["requestId"] == asked["id"]
        with pytest.raises(GoneError):
            await call.send(Notification("notifications/message", {}))
        call.lost()
        assert wired.written == wired.connection.sent == []


async def test_a_call_that_its_client_takes_back_ends_an_empty_stream() -> None:
    fake = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with posting(fake) as posts:
        _, wired = posts.take(7)
        await fake.link.request("tools/call", nth=2)
        back = Notification("notifications/cancelled", {"requestId": 7})
        await posts.client.peer.receive(back)
        await wired.connection.served()
        assert wired.connection.events == []


async def test_a_call_that_its_client_still_waits_for_ends_with_a_last_word() -> None:
    fake = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with posting(fake) as posts:
        _, wired = posts.take(7)
        await fake.link.request("tools/call", nth=2)
        posts.posted[0].says = Failure(7, {"code": 1, "message": "over"})
        posts.client.peer.close("over")
        await wired.connection.served()
        assert wired.connection.json["error"] == {"code": 1, "message": "over"}
        assert wired.connection.status == 500


async def test_a_call_without_a_task_may_have_to_go_the_general_way() -> None:
    fake = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with posting(fake, concurrency=1) as posts:
        _, first = posts.take(1)
        asked = await fake.link.request("tools/call", nth=2)
        _, second = posts.take(2)
        posts.at.services.operator.version += 1
        fake.link.answer(asked["id"], {})
        await second.connection.served()
        assert len(first.written) == 1
        assert second.connection.status == 418
