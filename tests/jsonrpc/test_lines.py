import asyncio  # noqa: TID251 - a transport
import tracemalloc
from collections.abc import Iterable
from typing import cast

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given
from hypothesis import strategies as st

from hub.jsonrpc import messages
from hub.jsonrpc.errors import GoneError
from hub.jsonrpc.lines import PORTION, PORTIONS, SMALL, Lines, LineSplitter, TruncatedLine
from hub.jsonrpc.peer_conduct import (
    BURST,
    BYTE,
    MAX_WASTE,
    READ,
    LoopShare,
    PeerConduct,
    TimeBudget,
)
from tests.kit.fakes import FakeClock, batched_writer, taken_into


def shown(lines: Iterable[bytes]) -> list[bytes | None]:
    return [None if isinstance(line, TruncatedLine) else line for line in lines]


def split(chunks: list[bytes], limit: int = 100) -> list[bytes | None]:
    splitter = LineSplitter(limit)
    return shown(line for chunk in chunks for line in splitter.feed(chunk))


def test_lines_are_cut_where_they_end() -> None:
    assert split([b"a\nb\n"]) == [b"a", b"b"]
    assert split([b"a", b"b", b"\nc", b"\n"]) == [b"ab", b"c"]
    assert split([b"a\r\nb"]) == [b"a\r"]


def test_empty_lines_are_left_out() -> None:
    assert split([b"\n\r\n  \na\n\n"]) == [b"a"]


def test_the_last_line_needs_no_end() -> None:
    for chunk, last in ((b"a\nb", [b"b"]), (b"a\n", []), (b"a\n  ", []), (b"x" * 9, [None])):
        splitter = LineSplitter(8)
        splitter.feed(chunk)
        assert shown(splitter.finish()) == last
        assert splitter.finish() == [], "it is told once"


def test_a_line_that_is_too_long_is_reported_once_and_the_next_one_is_read() -> None:
    assert split([b"x" * 8 + b"\nab\n"], limit=8) == [b"x" * 8, b"ab"]
    assert split([b"x" * 9 + b"\nab\n"], limit=8) == [None, b"ab"]
    assert split([b"xxxxx", b"xxxxx", b"x" * 100, b"xx\nab\n"], limit=8) == [None, b"ab"]


@given(
    st.lists(st.binary(max_size=20).map(lambda line: line.replace(b"\n", b"")), max_size=10),
    st.integers(1, 7),
)
def test_how_a_stream_is_chunked_makes_no_difference(lines: list[bytes], size: int) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    chunks = [stream[at : at + size] for at in range(0, len(stream), size)]
    expected = [line if len(line) <= 8 else None for line in lines]
    assert split(chunks, limit=8) == [line for line in expected if line is None or line.strip()]


@pytest.mark.parametrize("size", [1, 7, 100, 1000, 10_000])
def test_of_a_line_that_is_too_long_both_ends_are_kept(size: int) -> None:
    line = b"<" + b"a" * 400 + b"b" * 400 + b">"
    stream = b"ok\n" + line + b"\nok\n"
    splitter = LineSplitter(500)
    chunks = [stream[at : at + size] for at in range(0, len(stream), size)]
    first, cut, last = (found for chunk in chunks for found in splitter.feed(chunk))
    assert (first, last) == (b"ok", b"ok")
    assert isinstance(cut, TruncatedLine)
    assert cut == line[:256] + line[-256:]
    assert cut.size == len(line)


@pytest.mark.long
def test_a_line_that_comes_in_little_pieces_takes_little_more_memory_than_its_bytes() -> None:
    splitter = LineSplitter()
    pieces = [b"%02d" % (number % 100) for number in range(200_000)]
    splitter.feed(b"x" * SMALL)
    tracemalloc.start()
    try:
        for piece in pieces:
            splitter.feed(bytes(bytearray(piece)))
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert kept < 1_000_000
    splitter.feed(b"y" * SMALL)
    assert splitter.feed(b"\n") == [b"x" * SMALL + b"".join(pieces) + b"y" * SMALL]


async def test_without_a_transport_more_can_be_fed_than_waits_elsewhere() -> None:
    lines = Lines(backlog=1)
    lines.data_received(b"1\n2\n3\n")
    lines.connection_lost(None)
    assert [await lines.next() for _ in range(2)] == [b"1", b"2"]
    lines.close()
    with pytest.raises(GoneError):
        await lines.next()


async def test_a_taker_is_offered_lines_only_when_all_before_them_are_done_with() -> None:
    taken: list[bytes] = []

    def take(line: bytes) -> bool:
        if line.startswith(b"slow"):
            return False
        taken.append(line)
        return True

    lines = Lines()
    lines.taker = take
    lines.data_received(b"fast 1\nslow 1\nfast 2\nslow 2\nfast 3\n")
    assert taken == [b"fast 1"]
    assert await lines.next() == b"slow 1"
    lines.data_received(b"fast 4\n")
    assert taken == [b"fast 1"], "the slow line is still being worked on"
    assert await lines.next() == b"slow 2"
    assert taken == [b"fast 1", b"fast 2"]
    lines.eof_received()
    with pytest.raises(GoneError):
        await lines.next()
    assert taken == [b"fast 1", b"fast 2", b"fast 3", b"fast 4"]


async def test_a_line_that_was_not_taken_is_offered_once() -> None:
    offered: list[bytes] = []

    def refuse(line: bytes) -> bool:
        offered.append(line)
        return False

    lines = Lines()
    lines.taker = refuse
    lines.data_received(b"a\nb\n")
    assert [await lines.next(), await lines.next()] == [b"a", b"b"]
    assert offered == [b"a", b"b"]


def test_what_answers_lines_that_came_at_once_is_one_write() -> None:
    lines, (answers, pieces) = Lines(), batched_writer()

    def answer(line: bytes) -> bool:
        answers.write(line.upper())
        return True

    lines.taker = answer
    lines.data_received(b"a\nb\nc\n")
    assert pieces.written == [b"ABC"]
    lines.data_received(b"d\n")
    lines.data_received(b"e\nf")
    assert pieces.written == [b"ABC", b"D", b"E"]


class Readable:
    """A transport that remembers whether it is read."""

    is_read = True

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True

    def close(self) -> None:
        self.is_read = False


def read_from(transport: Readable, lines: Lines) -> None:
    lines.connection_made(cast("asyncio.BaseTransport", transport))


async def test_many_lines_are_split_in_portions_and_reading_pauses_meanwhile() -> None:
    lines, transport = Lines(), Readable()
    read_from(transport, lines)
    preemption = [b"%d" % number for number in range(5 * PORTION)]
    lines.data_received(b"\n".join(preemption[:-1]) + b"\n" + preemption[-1])
    assert not transport.is_read
    lines.eof_received()
    found: list[bytes] = []
    with anyio.fail_after(20):
        while len(found) < len(preemption):
            found.append(await lines.next())
        with pytest.raises(GoneError):
            await lines.next()
    assert found == preemption


async def test_many_lines_that_are_taken_are_taken_in_portions_too() -> None:
    taken: list[bytes] = []
    lines, transport = Lines(conduct=PeerConduct("files")), Readable()
    lines.taker = taken_into(taken)
    read_from(transport, lines)
    preemption = b"answer\n" * 10_000
    lines.data_received(preemption)
    assert taken == []
    with anyio.fail_after(20):
        while len(taken) < 10_000:
            before = len(taken)
            await checkpoint()
            assert len(taken) - before <= PORTION * PORTIONS
        while not transport.is_read:
            await checkpoint()


@pytest.mark.parametrize("begins", [b"\n", b"x" * (messages.MAX_MESSAGE_BYTES - 30_000)])
async def test_too_many_empty_lines_or_an_endless_line_end_the_stream(begins: bytes) -> None:
    conduct, transport = PeerConduct("files"), Readable()
    lines = Lines(conduct=conduct)
    read_from(transport, lines)
    conduct.verdict("before", MAX_WASTE - 200_000)
    lines.data_received(begins)
    with anyio.fail_after(10):
        while lines.failure is None:
            if transport.is_read:
                lines.data_received(begins[:1] * 60_000)
            await checkpoint()
        with pytest.raises(GoneError, match="the hub ended it because it misbehaved: it writes"):
            await lines.next()
    lines.data_received(b"more\n")
    assert not transport.is_read


@pytest.mark.parametrize("is_taken", [True, False])
async def test_looking_at_a_line_that_is_not_taken_uses_up_the_childs_time(is_taken: bool) -> None:
    clock = FakeClock(100.0)
    pace = LoopShare(clock, TimeBudget(1e9, 1.0, clock))
    lines = Lines(conduct=PeerConduct("files", pace=pace))

    def look(line: bytes) -> bool:
        clock.now += 10.0
        return is_taken

    lines.taker = look
    lines.data_received(b"large\n")
    assert (pace.rest() is None) == is_taken
    lines.close()


async def test_reading_a_line_in_little_pieces_uses_up_the_childs_time() -> None:
    clock = FakeClock(100.0)
    pace = LoopShare(clock, TimeBudget(1e9, 1.0, clock))
    lines, transport = Lines(conduct=PeerConduct("files", pace=pace)), Readable()
    read_from(transport, lines)
    for _ in range(1000):
        lines.data_received(b"x" * SMALL)
    assert transport.is_read, "large pieces are those of a large answer"
    reads = 0
    while transport.is_read:
        reads += 1
        lines.data_received(b"x")
    assert reads < BURST / READ + 10
    lines.close()


async def test_a_line_that_is_too_long_uses_up_the_childs_time_for_all_its_bytes() -> None:
    clock = FakeClock(100.0)
    all_of_it = TimeBudget(0.0, 1.0, clock)
    pace = LoopShare(clock, all_of_it)
    lines = Lines(conduct=PeerConduct("files", pace=pace))
    for _ in range(messages.MAX_MESSAGE_BYTES // 1_000_000):
        lines.data_received(b"x" * 1_000_000)
    lines.data_received(b"x" * 1_000_000 + b"\n")
    assert isinstance(await lines.next(), TruncatedLine)
    before = all_of_it.debt()
    pace.done()
    assert all_of_it.debt() - before > messages.MAX_MESSAGE_BYTES * BYTE
    lines.close()


async def test_reading_unsolicited_lines_lets_other_tasks_run() -> None:
    lines = Lines(conduct=PeerConduct("files"))
    lines.data_received(b"junk\n" * 100_000)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await checkpoint()
            turns += 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(others)
        for _ in range(2000):
            await lines.next()
        tasks.cancel_scope.cancel()
    assert turns > 1


async def test_the_end_is_soon_when_who_wrote_has_ended() -> None:
    lines = Lines(quiet=0.001)
    lines.data_received(b"last\n")
    lines.end_soon()
    with anyio.fail_after(20):
        assert await lines.next() == b"last"
        with pytest.raises(GoneError):
            await lines.next()
    lines.data_received(b"of another\n")
    with pytest.raises(GoneError):
        await lines.next()


async def test_the_end_comes_also_if_another_writes_on() -> None:
    lines = Lines(quiet=0.001, last_lines=0.05)
    lines.taker = lambda _: True
    lines.end_soon()

    async def write() -> None:
        while True:
            lines.data_received(b"again\n")
            await checkpoint()

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(write)
            with pytest.raises(GoneError):
                await lines.next()
            tasks.cancel_scope.cancel()
