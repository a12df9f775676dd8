from __future__ import annotations

import ssl
from typing import Any

import httpcore2

from hub.children.remote.connect import LINES_AT_ONCE, USUAL_LINES, PacedStream
from hub.jsonrpc.peer_conduct import BURST, LoopShare
from tests.kit.fakes import FakeClock

TINY_CHUNKS = b"1\r\n \r\n" * 1000


class Pace(LoopShare):
    """A pace whose rests are recorded and take no time; each look at the clock takes 1 ms."""

    def __init__(self) -> None:
        self._time = FakeClock(100.0)
        self.rests: list[float | None] = []
        super().__init__(self._tick)

    def _tick(self) -> float:
        self._time.now += 0.001
        return self._time.now

    def rest(self) -> float | None:
        self.rests.append(super().rest())
        return None


class ScriptedStream(httpcore2.AsyncNetworkStream):
    """A connection that brings what the test says, one item at a time."""

    def __init__(self, *reads: bytes) -> None:
        self.reads = list(reads)
        self.written = b""
        self.is_closed = False

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - its name
        return self.reads.pop(0)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - its name
        self.written += buffer

    async def aclose(self) -> None:
        self.is_closed = True

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - its name
    ) -> httpcore2.AsyncNetworkStream:
        return self

    def get_extra_info(self, info: str) -> Any:
        return {"is_readable": False, "socket": 7}[info]


async def test_data_of_many_lines_is_handed_over_in_portions_and_its_time_counts() -> None:
    pace = Pace()
    stream = PacedStream(ScriptedStream(TINY_CHUNKS, b"HTTP/1.1 200 OK\r\n\r\n"), pace)
    portions = [await stream.read(65536)]
    while stream.get_extra_info("is_readable"):
        portions.append(await stream.read(65536))
    assert b"".join(portions) == TINY_CHUNKS
    assert {portion.count(b"\n") for portion in portions[:-1]} == {LINES_AT_ONCE}
    assert len(pace.rests) == len(portions)
    pace.spend(BURST)
    assert await stream.read(65536) == b"HTTP/1.1 200 OK\r\n\r\n"
    rest = LoopShare.rest(pace)
    assert rest is not None
    assert rest > 0, "the portions have used up what the burst leaves"


async def test_a_response_in_few_lines_is_handed_over_as_it_came_and_costs_nothing() -> None:
    answer = b"X-A: b\r\n" * USUAL_LINES + b"x" * 60_000
    pace = Pace()
    stream = PacedStream(ScriptedStream(answer), pace)
    assert await stream.read(65536) is answer
    assert pace.rests == []


async def test_the_rest_of_a_connection_is_as_it_was() -> None:
    inner = ScriptedStream(TINY_CHUNKS)
    stream = await PacedStream(inner, Pace()).start_tls(ssl.create_default_context())
    assert isinstance(stream, PacedStream), "what comes over TLS is paced, too"
    await stream.write(b"out")
    assert inner.written == b"out"
    assert stream.get_extra_info("socket") == 7
    assert stream.get_extra_info("is_readable") is False
    await stream.aclose()
    assert inner.is_closed
