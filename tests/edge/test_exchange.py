from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import pytest
from msgspec import Raw
from starlette.types import Message

from hub.edge import exchange as module
from hub.edge.exchange import (
    WAITING_NOTIFICATIONS,
    Exchange,
    Standing,
    event,
    respond,
    until_disconnected,
)
from hub.runtime.peer import GoneError
from hub.runtime.wire import Failure, Notification, Request, Response
from tests.edge.asgi import Connection

TOLD = Notification("notifications/message", {"level": "info"})
ANSWER = Response(7, {"x": 1})


async def test_a_whole_response_is_json_of_its_length() -> None:
    connection = Connection()
    await respond(connection.send, 418, {"a": "ü"}, {"x-more": "1"})
    assert (connection.status, connection.json, connection.is_over) == (418, {"a": "ü"}, True)
    assert connection.headers == {
        "content-type": "application/json",
        "content-length": str(len(connection.body)),
        "x-more": "1",
    }


def test_an_event_stands_on_one_line_whatever_line_ends_a_child_wrote() -> None:
    raw = Raw(b'{\r\n"a":\n"x\\ny"\r}')
    lines = event(Response(1, raw)).split(b"\r\n")
    assert lines[0] == b"event: message"
    assert lines[1].startswith(b"data: ")
    assert b'"x\\ny"' in lines[1]
    assert lines[2:] == [b"", b""]
    assert b"\n" not in lines[1]
    assert b"\r" not in lines[1]


# The response to a POST


async def test_an_answer_that_comes_first_is_plain_json() -> None:
    connection = Connection()
    await Exchange(connection.send, {"mcp-session-id": "k"}).finish(ANSWER, status=201)
    assert (connection.status, connection.is_stream, connection.is_over) == (201, False, True)
    assert connection.json == {"jsonrpc": "2.0", "id": 7, "result": {"x": 1}}
    assert connection.headers["mcp-session-id"] == "k"


async def test_an_answer_after_something_else_is_the_end_of_a_stream() -> None:
    connection = Connection()
    exchange = Exchange(connection.send, {"mcp-session-id": "k"})
    await exchange.send(TOLD)
    assert connection.is_stream
    assert not connection.is_over
    await exchange.finish(Failure(7, {"code": -1, "message": "no"}), status=400)
    assert (connection.status, connection.is_over) == (200, True)
    assert [one.get("method", "error" in one) for one in connection.events] == [TOLD.method, True]
    assert connection.headers["mcp-session-id"] == "k"
    assert "no-cache" in connection.headers["cache-control"]
    assert "content-length" not in connection.headers


async def test_a_ping_keeps_the_stream_without_saying_anything() -> None:
    connection = Connection()
    exchange = Exchange(connection.send)
    await exchange.ping()
    await exchange.ping()
    await exchange.finish(ANSWER)
    assert connection.body.startswith(b": ping\r\n\r\n: ping\r\n\r\n")
    assert len(connection.events) == 1


@pytest.mark.parametrize("streamed", [True, False])
async def test_without_an_answer_the_stream_just_ends(*, streamed: bool) -> None:
    connection = Connection()
    exchange = Exchange(connection.send)
    if streamed:
        await exchange.ping()
    await exchange.finish(None)
    assert connection.is_stream
    assert connection.is_over
    assert connection.events == []


async def test_after_the_end_nothing_is_sent() -> None:
    connection = Connection()
    exchange = Exchange(connection.send)
    await exchange.finish(ANSWER)
    sent = len(connection.sent)
    for late in (exchange.send(TOLD), exchange.ping()):
        with pytest.raises(GoneError):
            await late
    await exchange.finish(ANSWER)
    assert len(connection.sent) == sent


async def test_a_client_that_is_gone_gets_no_answer() -> None:
    connection = Connection()
    exchange = Exchange(connection.send)
    exchange.lose()
    await exchange.finish(ANSWER)
    with pytest.raises(GoneError):
        await exchange.send(TOLD)
    assert connection.sent == []


async def test_two_who_send_at_once_begin_one_stream() -> None:
    connection = Connection()
    connection.takes = anyio.Event()
    exchange = Exchange(connection.send)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(exchange.send, TOLD)
            await anyio.wait_all_tasks_blocked()
            connection.takes.set()
    assert [message["type"] for message in connection.sent].count("http.response.start") == 1
    assert len(connection.events) == 3


async def test_disconnecting_is_noticed_after_the_rest_of_the_body() -> None:
    connection = Connection(b"1", b"2")
    connection.disconnect()
    with anyio.fail_after(5):
        await until_disconnected(connection.receive)


# The stream that a client holds open


class Held:
    def __init__(self, standing: Standing, connection: Connection) -> None:
        self.standing = standing
        self.connection = connection
        self.opened = 0
        self.served = anyio.Event()

    async def serve(self) -> None:
        await self.standing.serve(self.connection.send, self.connection.receive, self._open)
        self.served.set()

    def _open(self) -> None:
        self.opened += 1

    async def until_served(self) -> None:
        with anyio.fail_after(5):
            await self.served.wait()


@asynccontextmanager
async def held(standing: Standing) -> AsyncGenerator[Held]:
    connection = Connection()
    async with anyio.create_task_group() as tasks:
        stream = Held(standing, connection)
        tasks.start_soon(stream.serve)
        await connection.signals.until(lambda: len(connection.sent) >= 2)
        yield stream
        tasks.cancel_scope.cancel()


async def test_a_stream_begins_at_once_and_then_carries() -> None:
    standing = Standing()
    assert not standing.is_open
    async with held(standing) as stream:
        assert (stream.connection.status, stream.connection.is_stream) == (200, True)
        assert stream.connection.body == b": ping\r\n\r\n"
        assert standing.is_open
        assert stream.opened == 1
        await standing.send(Request(1, "roots/list", {}))
        (asked,) = await stream.connection.heard(1)
        assert asked["method"] == "roots/list"


async def test_notifications_wait_for_a_stream_and_requests_do_not() -> None:
    standing = Standing()
    await standing.send(Notification("first", {}))
    await standing.send(Notification("second", {}))
    with pytest.raises(GoneError):
        await standing.send(Request(1, "roots/list", {}))
    async with held(standing) as stream:
        events = await stream.connection.heard(2)
        assert [one["method"] for one in events] == ["first", "second"]


async def test_a_stream_is_claimed_before_the_client_reads_it() -> None:
    standing, connection = Standing(), Connection()
    connection.takes = anyio.Event()
    async with anyio.create_task_group() as tasks:
        stream = Held(standing, connection)
        tasks.start_soon(stream.serve)
        await anyio.wait_all_tasks_blocked()
        assert standing.is_open
        assert (connection.sent, stream.opened) == ([], 0)
        with pytest.raises(GoneError):
            await standing.send(Request(1, "roots/list", {}))
        tasks.cancel_scope.cancel()
    assert not standing.is_open


class Interrupting(Connection):
    """While this client takes what waited for it, there is more to be told."""

    def __init__(self, standing: Standing) -> None:
        super().__init__()
        self._standing = standing

    async def send(self, message: Message) -> None:
        await anyio.wait_all_tasks_blocked()
        await super().send(message)
        for number in (1, 2):
            if f'"n{number}"'.encode() in message.get("body", b""):
                await self._standing.send(Notification(f"n{number + 2}", {}))


async def test_what_is_told_while_a_stream_opens_goes_out_in_order() -> None:
    standing = Standing()
    for number in (1, 2):
        await standing.send(Notification(f"n{number}", {}))
    connection = Interrupting(standing)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(Held(standing, connection).serve)
        events = await connection.heard(4)
        assert [one["method"] for one in events] == ["n1", "n2", "n3", "n4"]
        tasks.cancel_scope.cancel()


async def test_of_too_many_that_wait_the_oldest_are_dropped() -> None:
    standing = Standing()
    for number in range(WAITING_NOTIFICATIONS + 2):
        await standing.send(Notification(f"n{number}", {}))
    async with held(standing) as stream:
        events = await stream.connection.heard(WAITING_NOTIFICATIONS)
        assert events[0]["method"] == "n2"
        assert events[-1]["method"] == f"n{WAITING_NOTIFICATIONS + 1}"


async def test_a_session_that_ends_ends_its_stream() -> None:
    standing = Standing()
    async with held(standing) as stream:
        standing.close()
        await stream.until_served()
        assert stream.connection.is_over
        assert not standing.is_open
    with pytest.raises(GoneError):
        await standing.send(TOLD)


async def test_a_client_that_disconnects_can_come_back() -> None:
    standing = Standing()
    async with held(standing) as stream:
        stream.connection.disconnect()
        await stream.until_served()
        assert not stream.connection.is_over
        assert not standing.is_open
    await standing.send(TOLD)
    async with held(standing) as stream:
        await stream.connection.heard(1)
        assert stream.opened == 1


async def test_a_silent_stream_is_kept_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PING_EVERY", 0.0)
    async with held(Standing()) as stream:
        await stream.connection.signals.until(lambda: len(stream.connection.sent) >= 4)
        assert set(stream.connection.body.split(b"\r\n\r\n")) == {b": ping", b""}
