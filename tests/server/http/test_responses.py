from __future__ import annotations

from functools import partial

import anyio
import pytest

from hub.jsonrpc.errors import GoneError
from hub.jsonrpc.messages import Failure, Notification, Response
from hub.jsonrpc.parsing import parse_child
from hub.server.http.responses import PostResponse, event, respond, until_disconnected
from tests.kit.asgi import Connection
from tests.kit.loops import all_tasks_blocked

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


async def test_a_response_that_never_has_content_tells_neither_its_kind_nor_its_length() -> None:
    connection = Connection()
    await respond(connection.send, 204, b"", {"x-more": "1"})
    assert (connection.status, connection.headers) == (204, {"x-more": "1"})


def test_an_event_stands_on_one_line() -> None:
    assert event(parse_child(b'{\r\n"id":1,"result":{\n"a":"x\\ny"\r}}')).split(b"\r\n") == [
        b"event: message",
        b'data: {"jsonrpc":"2.0","id":1,"result":{ "a":"x\\ny" }}',
        b"",
        b"",
    ]


# The response to a POST


async def test_an_answer_that_comes_first_is_plain_json() -> None:
    connection = Connection()
    await PostResponse(connection.send, {"mcp-session-id": "k"}).finish(ANSWER, status=201)
    assert (connection.status, connection.is_stream, connection.is_over) == (201, False, True)
    assert connection.json == {"jsonrpc": "2.0", "id": 7, "result": {"x": 1}}
    assert connection.headers["mcp-session-id"] == "k"


async def test_an_answer_after_something_else_is_the_end_of_a_stream() -> None:
    connection = Connection()
    response = PostResponse(connection.send, {"mcp-session-id": "k"})
    await response.send(TOLD)
    assert connection.is_stream
    assert not connection.is_over
    await response.finish(Failure(7, {"code": -1, "message": "no"}), status=400)
    assert (connection.status, connection.is_over) == (200, True)
    assert [one.get("method", "error" in one) for one in connection.events] == [TOLD.method, True]
    assert connection.headers["mcp-session-id"] == "k"
    assert "no-cache" in connection.headers["cache-control"]
    assert "content-length" not in connection.headers


async def test_a_ping_keeps_the_stream_without_saying_anything() -> None:
    connection = Connection()
    response = PostResponse(connection.send)
    await response.ping()
    await response.ping()
    await response.finish(ANSWER)
    assert connection.body.startswith(b": ping\r\n\r\n: ping\r\n\r\n")
    assert len(connection.events) == 1


@pytest.mark.parametrize("streamed", [True, False])
async def test_without_an_answer_the_stream_just_ends(*, streamed: bool) -> None:
    connection = Connection()
    response = PostResponse(connection.send)
    if streamed:
        await response.ping()
    await response.finish(None)
    assert connection.is_stream
    assert connection.is_over
    assert connection.events == []


async def test_after_the_end_nothing_is_sent() -> None:
    connection = Connection()
    response = PostResponse(connection.send)
    await response.finish(ANSWER)
    sent = len(connection.sent)
    for late in (response.send(TOLD), response.ping()):
        with pytest.raises(GoneError):
            await late
    await response.finish(ANSWER)
    assert len(connection.sent) == sent


async def test_a_client_that_is_gone_gets_no_answer() -> None:
    connection = Connection()
    response = PostResponse(connection.send)
    await response.lost()
    await response.finish(ANSWER)
    with pytest.raises(GoneError):
        await response.send(TOLD)
    assert connection.sent == []


async def test_two_who_send_at_once_begin_one_stream() -> None:
    connection = Connection()
    connection.accepts = anyio.Event()
    response = PostResponse(connection.send)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(response.send, TOLD)
            await all_tasks_blocked()
            connection.accepts.set()
    assert [message["type"] for message in connection.sent].count("http.response.start") == 1
    assert len(connection.events) == 3


async def test_disconnecting_is_noticed_after_the_rest_of_the_body() -> None:
    """What it shows is that the wait ends."""
    connection = Connection(b"1", b"2")
    connection.disconnect()
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            await until_disconnected(connection.receive, tasks, partial(anyio.sleep, 0))
