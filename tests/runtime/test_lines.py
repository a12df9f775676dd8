import asyncio  # noqa: TID251 - a transport
from collections.abc import Iterable
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.runtime.gathering import Gathering
from hub.runtime.lines import Cut, Lines, LineSplitter
from hub.runtime.peer import GoneError


def shown(lines: Iterable[bytes]) -> list[bytes | None]:
    return [None if isinstance(line, Cut) else line for line in lines]


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
    assert isinstance(cut, Cut)
    assert cut == line[:256] + line[-256:]


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


async def test_a_line_that_nobody_took_is_offered_once() -> None:
    offered: list[bytes] = []

    def refuse(line: bytes) -> bool:
        offered.append(line)
        return False

    lines = Lines()
    lines.taker = refuse
    lines.data_received(b"a\nb\n")
    assert [await lines.next(), await lines.next()] == [b"a", b"b"]
    assert offered == [b"a", b"b"]


class Pieces:
    """A transport that keeps what is written into it."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def write(self, piece: bytes) -> None:
        self.written.append(piece)

    def is_closing(self) -> bool:
        return False


def test_what_answers_lines_that_came_at_once_is_one_write() -> None:
    lines, pieces = Lines(), Pieces()
    answers = Gathering(cast("asyncio.WriteTransport", pieces))

    def answer(line: bytes) -> bool:
        answers.write(line.upper())
        return True

    lines.taker = answer
    lines.data_received(b"a\nb\nc\n")
    assert pieces.written == [b"ABC"]
    lines.data_received(b"d\n")
    lines.data_received(b"e\nf")
    assert pieces.written == [b"ABC", b"D", b"E"]
