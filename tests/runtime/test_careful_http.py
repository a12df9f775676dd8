from __future__ import annotations

import json
from collections.abc import AsyncGenerator

import httpx2
import pytest

from hub.runtime.careful_http import CarefulTransport
from hub.runtime.peer import GoneError
from hub.runtime.wire import Failure, lost

URL = "http://child.example/mcp"
ASKED = {"jsonrpc": "2.0", "id": 7, "method": "tools/call"}
TOLD = {"jsonrpc": "2.0", "method": "notifications/initialized"}


class Breaking(httpx2.AsyncByteStream):
    async def __aiter__(self) -> AsyncGenerator[bytes]:
        yield b"{"
        raise httpx2.ReadError("reset")


async def sent(
    answer: httpx2.Response | Exception,
    message: object = ASKED,
    *,
    method: str = "POST",
    headers: dict[str, str] | None = None,
) -> tuple[httpx2.Response, list[Failure | GoneError]]:
    """Send a message through; returns what the SDK gets, and what the hub is told."""
    told: list[Failure | GoneError] = []

    async def tell(item: Failure | GoneError) -> None:
        told.append(item)

    def answered(request: httpx2.Request) -> httpx2.Response:
        if isinstance(answer, Exception):
            raise answer
        return answer

    transport = CarefulTransport(httpx2.MockTransport(answered), tell)
    async with httpx2.AsyncClient(transport=transport) as client:
        content = None if message is None else json.dumps(message)
        got = await client.request(method, URL, content=content, headers=headers)
    return got, told


async def test_an_answer_goes_through() -> None:
    got, told = await sent(httpx2.Response(200, json={"a": 1}))
    assert (got.json(), told) == ({"a": 1}, [])


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (httpx2.ConnectError("refused"), "it cannot be reached (refused)"),
        (httpx2.ReadTimeout(""), "it cannot be reached (ReadTimeout)"),
        (httpx2.Response(500), "it answered with HTTP status 500"),
        (httpx2.Response(503, json={"error": "no"}), "it answered with HTTP status 503"),
        (httpx2.Response(502, stream=Breaking()), "it answered with HTTP status 502"),
        (httpx2.Response(200, stream=Breaking()), "the connection broke (reset)"),
    ],
)
async def test_what_breaks_breaks_its_own_request(
    answer: httpx2.Response | Exception, why: str
) -> None:
    got, told = await sent(answer)
    assert got.status_code in {200, 202}
    assert told == [lost(7, why)]


async def test_a_notification_that_is_lost_is_logged() -> None:
    for message in (TOLD, "no message"):
        got, told = await sent(httpx2.ConnectError("refused"), message)
        assert (got.status_code, told) == (202, [])


async def test_an_error_that_says_more_than_its_status_is_passed_on() -> None:
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32602, "message": "no"}}
    got, told = await sent(httpx2.Response(400, json=error))
    assert (got.status_code, got.json(), told) == (400, error, [])


async def test_an_unknown_method_is_not_the_end_of_a_session() -> None:
    got, told = await sent(httpx2.Response(404))
    assert (got.status_code, told) == (404, [])
    got, told = await sent(httpx2.Response(404), headers={"mcp-session-id": "s"})
    assert [type(one) for one in told] == [GoneError, Failure]
    assert str(told[0]) == "its session has ended"


async def test_an_event_stream_that_breaks_is_the_sdks_to_resume() -> None:
    stream = httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=Breaking())
    _, told = await sent(stream)
    assert told == []


async def test_other_methods_are_left_alone() -> None:
    with pytest.raises(httpx2.ConnectError):
        await sent(httpx2.ConnectError("refused"), None, method="GET")
    got, _ = await sent(httpx2.Response(405), None, method="DELETE")
    assert got.status_code == 405
