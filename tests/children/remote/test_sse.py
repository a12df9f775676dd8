from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import anyio
import httpx2
import pytest
from anyio.lowlevel import checkpoint
from msgspec import Raw
from structlog.testing import capture_logs

from hub.children.remote.http_client import Endpoint
from hub.children.remote.sse import SseLink
from hub.errors import ChildError, leaves
from hub.jsonrpc.errors import GoneError
from hub.jsonrpc.messages import (
    MAX_MESSAGE_BYTES,
    Failure,
    Lost,
    Message,
    Notification,
    Request,
    Response,
    lost,
    to_bytes,
)
from hub.jsonrpc.peer_conduct import MAX_STRAYS, MAX_WASTE, PeerConduct
from hub.launch.templates import FileSecret, SecretText
from hub.specs import RemoteTarget
from hub.values import JsonObject
from tests.kit.fakes import taken_into
from tests.kit.loops import all_tasks_blocked, virtual_time
from tests.kit.scripted_http import (
    URL,
    Answer,
    Feed,
    ScriptedHttp,
    ScriptedRemote,
    Sent,
    events,
    never,
    steady_pace,
)

BEGIN = b"event: endpoint\ndata: /messages?id=1\n\n"
CALL = Request(7, "tools/call", {"name": "n"})
TOLD = Notification("notifications/initialized", {})
CANCELLED = Notification("notifications/cancelled", {"requestId": 7})
RESULT = b'{"n":1e400,"m":1.0,"big":123456789012345678901234567890}'
ANSWER = b'data: {"jsonrpc":"2.0","id":7,"result":' + RESULT + b"}\n\n"
TAKEN = httpx2.Response(202, content=b"Accepted")


@asynccontextmanager
async def scripted_remote(
    answer: Callable[[Sent], object] = lambda _: TAKEN, stream: Answer | None = None
) -> AsyncGenerator[ScriptedRemote[SseLink]]:
    feed = Feed(BEGIN)

    def script(sent: Sent) -> Answer:
        if sent.method == "GET":
            return events(feed) if stream is None else stream
        return answer(sent)  # pyright: ignore[reportReturnType] - what the script says

    http = ScriptedHttp(script)
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            target = RemoteTarget(URL, {"X-Key": "k"})
            conduct = PeerConduct("far", pace=steady_pace())
            link = SseLink(Endpoint(target, http, conduct), tasks)
            await tasks.start(link.listen)
            yield ScriptedRemote(link, http, feed)
            tasks.cancel_scope.cancel()


async def test_messages_go_where_the_child_says_and_come_by_its_events() -> None:
    async with scripted_remote() as child:
        await child.link.outlet.send(CALL)
        child.feed.write(b"event: message\n" + ANSWER)
        assert await child.next() == Response(7, Raw(RESULT))
        await child.link.outlet.send(TOLD)
        opened, *sent = child.http.sent
    assert opened.headers["accept"] == "text/event-stream"
    assert [one.url for one in sent] == ["http://child.example/messages?id=1"] * 2
    assert {one.headers["content-type"] for one in sent} == {"application/json"}
    assert {one.headers["x-key"] for one in (opened, *sent)} == {"k"}
    assert sent[0].body == to_bytes(CALL)


async def test_requests_and_notifications_of_the_child_are_received() -> None:
    async with scripted_remote() as child:
        child.feed.write(b'data: {"jsonrpc":"2.0","id":1,"method":"ping"}\n\n' + BEGIN)
        assert await child.next() == Request(1, "ping", {})
        await child.link.outlet.send(Response(1, {}))
        child.feed.write(b'data: {"jsonrpc":"2.0","method":"m"}\n\n')
        assert await child.next() == Notification("m", {})


async def test_a_request_can_be_posted_without_waiting_and_nothing_else() -> None:
    async with scripted_remote() as child:
        assert child.link.outlet.post(CALL)
        child.feed.write(ANSWER)
        assert await child.next() == Response(7, Raw(RESULT))
        assert not child.link.outlet.post(TOLD)


async def test_answers_are_handed_over_where_they_arrive() -> None:
    settled: list[Message] = []
    async with scripted_remote() as child, anyio.create_task_group() as tasks:
        child.link.hand_answers_to(taken_into(settled))
        tasks.start_soon(child.link.next)
        await all_tasks_blocked()
        child.feed.write(ANSWER)
        await all_tasks_blocked()
        assert settled == [Response(7, Raw(RESULT))]
        tasks.cancel_scope.cancel()


def refused(error: JsonObject | None) -> httpx2.Response:
    if error is None:
        return httpx2.Response(500, content=b"<html>")
    return httpx2.Response(400, json={"jsonrpc": "2.0", "id": None, "error": error})


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (httpx2.ConnectError("refused"), lost(7, "it cannot be reached (refused)")),
        (refused(None), lost(7, "it answered with HTTP status 500")),
        (refused({"code": -1, "message": "no"}), Failure(7, Raw(b'{"code":-1,"message":"no"}'))),
    ],
)
async def test_a_message_that_is_not_taken_fails_its_own_request(
    answer: Answer, expected: Failure
) -> None:
    async with scripted_remote(lambda _: answer) as child:
        await child.link.outlet.send(CALL)
        assert await child.next() == expected
        with capture_logs() as logs:
            await child.link.outlet.send(TOLD)
        failed = isinstance(expected.error, dict)
        assert [entry["event"] for entry in logs] == ["message lost"] * failed


@pytest.mark.parametrize(
    ("stream", "why"),
    [
        (httpx2.ConnectError("refused"), r"it cannot be reached \(refused\)"),
        (httpx2.Response(401), "it answered with HTTP status 401"),
        (httpx2.Response(200, content=b""), "it answered with content of type ''"),
        (events(), "it sent no `endpoint` event"),
        (events(b"data: x\n\n", b"BREAK"), r"the connection broke \(reset\)"),
        (
            events(b"event: endpoint\ndata: http://other.example/m\n\n"),
            "its `endpoint` event names another server, http://other.example/m",
        ),
    ],
)
async def test_a_child_that_cannot_be_connected_has_a_reason(stream: Answer, why: str) -> None:
    with pytest.raises((ChildError, ExceptionGroup)) as caught:
        async with scripted_remote(stream=stream):
            pytest.fail("it is open")
    (found,) = leaves(caught.value)
    with pytest.raises(ChildError, match=why):
        raise found


@pytest.mark.parametrize(
    ("ends", "why"), [(None, "the connection ended"), (b"BREAK", r"the connection broke \(reset\)")]
)
async def test_the_end_of_the_events_is_the_end_of_the_connection(
    ends: bytes | None, why: str
) -> None:
    async with scripted_remote() as child:
        child.feed.write(ANSWER)
        if ends is None:
            child.feed.end()
        else:
            child.feed.write(ends)
        assert await child.next() == Response(7, Raw(RESULT))
        with pytest.raises(GoneError, match=why):
            await child.next()
        with pytest.raises(GoneError, match=why):
            await child.link.outlet.send(TOLD)


class Hanging:
    """Answers notifications, and no request."""

    def __init__(self) -> None:
        self.ended = anyio.Event()

    async def __call__(self, sent: Sent) -> Answer:
        if b'"id"' not in sent.body:
            return TAKEN
        try:
            return await never()
        finally:
            self.ended.set()


async def test_a_cancelled_request_is_reported_to_the_child_and_not_waited_for() -> None:
    hanging = Hanging()
    async with scripted_remote(hanging) as child:
        await child.link.outlet.send(CALL)
        await child.http.until_sent(1, "POST")
        await child.link.outlet.send(CANCELLED)
        await hanging.ended.wait()
        assert b"notifications/cancelled" in child.http.sent[-1].body
        await child.link.outlet.send(CANCELLED)
        await child.link.outlet.send(Notification("notifications/cancelled", {}))


@virtual_time
async def test_a_request_with_an_answer_does_not_wait_for_the_end_of_its_post() -> None:
    hanging = Hanging()
    async with scripted_remote(hanging) as child:
        await child.link.outlet.send(CALL)
        await child.http.until_sent(1, "POST")
        child.feed.write(ANSWER)
        assert await child.next() == Response(7, Raw(RESULT))
        await hanging.ended.wait()


async def test_an_answer_that_is_too_large_fails_its_own_request() -> None:
    async with scripted_remote() as child:
        child.feed.write(ANSWER[:-3] + b',"x":"' + b"x" * MAX_MESSAGE_BYTES + b'"}\n\n' + ANSWER)
        failed = await child.next()
        assert isinstance(failed, Lost)
        assert failed.id == 7
        assert await child.next() == Response(7, Raw(RESULT))


@pytest.mark.parametrize(
    "event",
    [
        b"data: this is no message\n\n",
        b"event: unheard-of\ndata: {}\n\n",
        b'data: {"jsonrpc":"2.0","id":1}\n\n',
    ],
)
async def test_a_child_that_streams_useless_events_is_ended(event: bytes) -> None:
    async with scripted_remote() as child, anyio.create_task_group() as tasks:
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                await checkpoint()
                turns += 1

        tasks.start_soon(others)
        with capture_logs() as logs:
            child.feed.write(event * (MAX_STRAYS + 1))
            with pytest.raises(GoneError, match="the hub ended it because it misbehaved"):
                await child.next()
        assert turns > 1, "others had their turns meanwhile"
        assert 0 < len(logs) < MAX_STRAYS / 10
        tasks.cancel_scope.cancel()


async def test_an_event_without_an_end_is_the_end_of_the_child() -> None:
    async with scripted_remote() as child:
        child.link.conduct.verdict("before", MAX_WASTE - 500_000)
        child.feed.write(b"data: " + b"x" * MAX_MESSAGE_BYTES)
        for _ in range(20):
            child.feed.write(b"x" * 60_000)
        with pytest.raises(GoneError, match="events that do not end"):
            await child.next()


async def test_a_refused_login_ends_a_connection_whose_secrets_may_have_been_replaced() -> None:
    feed = Feed(BEGIN)
    target = RemoteTarget(URL, secrets={"Authorization": SecretText((FileSecret("/x"),))})
    http = ScriptedHttp(lambda sent: events(feed) if sent.method == "GET" else httpx2.Response(401))
    async with anyio.create_task_group() as tasks:
        link = SseLink(Endpoint(target, http, PeerConduct("far")), tasks)
        await tasks.start(link.listen)
        await link.outlet.send(CALL)
        with anyio.fail_after(20), pytest.raises(GoneError, match="read again at its next start"):
            await link.next()
        tasks.cancel_scope.cancel()
