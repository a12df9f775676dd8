from __future__ import annotations

from contextlib import aclosing

import anyio
import httpx2
import pytest

from hub.children.remote.exchange import ExchangeError
from hub.children.remote.http_client import Endpoint
from hub.children.remote.resumption import LONGEST_PAUSE, Pauses, SessionEndedError, resumed
from hub.jsonrpc.peer_conduct import PeerConduct
from hub.protocol.sse_parser import EventParser, ServerSentEvent
from hub.specs import RemoteTarget
from tests.kit.scripted_http import AT_ONCE, URL, Answer, Feed, ScriptedHttp, Sent, events

IDENTITY = {b"mcp-session-id": b"s"}


class Streams:
    """Reads the events of a series of scripted responses."""

    def __init__(self, *answers: Answer, session: bool = True) -> None:
        self._answers = list(answers)
        self.http = ScriptedHttp(self._answer)
        self.events: list[bytes] = []
        self._identity = IDENTITY if session else {}

    def _answer(self, _: Sent) -> Answer:
        return self._answers.pop(0)

    async def read(self, *, attempts: int | None = 1) -> None:
        endpoint = Endpoint(RemoteTarget(URL), self.http, PeerConduct("far"))
        parser = EventParser(1000)
        asked = resumed(endpoint, lambda: self._identity, parser, AT_ONCE, attempts=attempts)
        with anyio.fail_after(20):
            async with aclosing(asked) as found:
                async for event in found:
                    assert isinstance(event, ServerSentEvent)
                    self.events.append(event.text)

    @property
    def continued(self) -> list[str | None]:
        return [one.headers.get("last-event-id") for one in self.http.sent]


DOWN = httpx2.ConnectError("refused")


async def test_each_stream_continues_the_one_before() -> None:
    streams = Streams(
        events(b"id: 1\ndata: a\n\nid: 2\ndata: b\n\ndata: cut o"),
        events(b"id: 3\ndata: c\n\n", b"BREAK"),
        DOWN,
    )
    await streams.read()
    assert streams.events == [b"a", b"b", b"c"]
    assert streams.continued == [None, "2", "3"]
    assert {one.headers["mcp-session-id"] for one in streams.http.sent} == {"s"}
    assert {one.headers["accept"] for one in streams.http.sent} == {"text/event-stream"}


async def test_only_failures_in_a_row_are_counted_and_a_byte_is_a_success() -> None:
    streams = Streams(DOWN, events(b":"), events(), httpx2.Response(503), DOWN)
    await streams.read(attempts=3)
    assert len(streams.http.sent) == 5


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 503])
async def test_a_temporary_failure_is_retried(status: int) -> None:
    streams = Streams(httpx2.Response(status), events(b"data: a\n\n"), httpx2.Response(405))
    with pytest.raises(ExchangeError, match="HTTP status 405"):
        await streams.read(attempts=None)
    assert streams.events == [b"a"]


async def test_the_end_of_the_session_is_another_thing_than_a_refusal() -> None:
    with pytest.raises(SessionEndedError, match="its session has ended"):
        await Streams(httpx2.Response(404)).read()
    with pytest.raises(ExchangeError, match="HTTP status 404") as caught:
        await Streams(httpx2.Response(404), session=False).read()
    assert not isinstance(caught.value, SessionEndedError)


async def test_a_stream_that_is_refused_after_it_was_given_is_of_a_session_that_has_ended() -> None:
    refused = httpx2.Response(400)
    with pytest.raises(ExchangeError, match="HTTP status 400") as caught:
        await Streams(refused).read(attempts=None)
    assert not isinstance(caught.value, SessionEndedError)
    with pytest.raises(SessionEndedError, match="its session has ended"):
        await Streams(events(b":"), DOWN, refused).read(attempts=None)
    streams = Streams(events(b"id: 1\ndata: a\n\n"), refused, events(b":"), refused)
    with pytest.raises(SessionEndedError):
        await streams.read(attempts=None)
    assert streams.continued == [None, "1", None, None]


async def test_a_response_that_cannot_be_resumed_does_not_end_the_session() -> None:
    with pytest.raises(ExchangeError, match="HTTP status 400") as caught:
        await Streams(events(b"id: 1\n\n"), httpx2.Response(400)).read(attempts=3)
    assert not isinstance(caught.value, SessionEndedError)


async def test_an_answer_that_is_no_event_stream_is_a_refusal() -> None:
    with pytest.raises(ExchangeError, match="content of type 'text/html'"):
        await Streams(httpx2.Response(200, headers={"content-type": "text/html"})).read()


async def test_a_stream_that_is_not_read_on_is_closed() -> None:
    feed = Feed(b"data: a\n\n")
    endpoint = Endpoint(RemoteTarget(URL), ScriptedHttp(lambda _: events(feed)), PeerConduct("far"))
    asked = resumed(endpoint, lambda: IDENTITY, EventParser(1000), AT_ONCE, attempts=1)
    async with aclosing(asked) as found:
        async for _ in found:
            break
    assert feed.is_closed


def test_pauses_are_what_the_child_asks_within_bounds() -> None:
    pause = Pauses().after
    assert [pause(None, 0), pause(None, 1), pause(2500, 1)] == [1.0, 1.0, 2.5]
    assert pause(0, 1) == 0.1
    assert [pause(None, failures) for failures in (2, 3, 4)] == [2.0, 4.0, 8.0]
    assert pause(10**9, 1) == pause(None, 10**6) == LONGEST_PAUSE
