from __future__ import annotations

from contextlib import suppress
from typing import Any, cast

import anyio.lowlevel

from hub.jsonrpc.pipes import LARGE, BatchedWriter, arrival, turn
from tests.kit.fakes import WrittenTransport, batched_writer


class BrokenTransport(WrittenTransport):
    """Takes nothing."""

    def write(self, piece: bytes) -> None:
        raise RuntimeError("broken")


def test_outside_of_a_batch_data_is_written_at_once() -> None:
    made, transport = batched_writer()
    for piece in (b"a", b"b", b"x" * (LARGE + 1)):
        made.write(piece)
    assert transport.written == [b"a", b"b", b"x" * (LARGE + 1)]


async def test_of_a_shared_turn_the_first_is_written_at_once_and_the_rest_together() -> None:
    (one, first), (other, second) = batched_writer(), batched_writer()
    for _ in range(2):
        turn.share()
        turn.share()
        for piece in (b"a", b"b", b"c"):
            one.write(piece)
            other.write(piece)
        assert (first.written, second.written) == ([b"a"], [b"a"])
        await anyio.lowlevel.checkpoint()
        assert (first.written, second.written) == ([b"a", b"bc"], [b"a", b"bc"])
        assert not turn.is_shared
        del first.written[:], second.written[:]


async def test_a_turn_with_many_writers_does_not_compare_each_with_all() -> None:
    compared = 0

    class Compared(BatchedWriter):
        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return self is other

        __hash__ = BatchedWriter.__hash__

    made = [Compared(cast("Any", WrittenTransport())) for _ in range(100)]
    turn.share()
    for one in made:
        one.write(b"a")
        one.write(b"b")
    await anyio.lowlevel.checkpoint()
    assert compared < len(made)


async def test_what_waits_for_the_end_of_a_turn_stays_in_order() -> None:
    made, transport = batched_writer()
    turn.share()
    made.write(b"a")
    made.write(b"b")
    with arrival:
        made.write(b"c")
    made.write(b"d")
    await anyio.lowlevel.checkpoint()
    made.write(b"e")
    assert b"".join(transport.written) == b"abcde"
    turn.share()
    for piece in (b"x", b"y", b"z" * LARGE):
        made.write(piece)
    assert transport.written[-2:] == [b"y", b"z" * LARGE]
    await anyio.lowlevel.checkpoint()


async def test_a_writer_that_fails_keeps_no_other_back_at_the_end_of_a_turn() -> None:
    (broken, taken), (sound, transport) = batched_writer(BrokenTransport()), batched_writer()
    turn.share()
    with suppress(RuntimeError):
        broken.write(b"a")
    broken.write(b"b")
    sound.write(b"x")
    sound.write(b"y")
    await anyio.lowlevel.checkpoint()
    assert (taken.written, transport.written) == ([], [b"x", b"y"])


def test_a_large_piece_is_written_at_once_after_what_was_before_it() -> None:
    made, transport = batched_writer()
    large = b"x" * (LARGE + 1)
    with arrival:
        made.write(b"a")
        made.write(large)
        assert transport.written == [b"a", large]
        made.write(b"b")
        assert transport.written == [b"a", large]
    assert transport.written == [b"a", large, b"b"]


def test_a_flush_writes_the_waiting_data() -> None:
    made, transport = batched_writer()
    with arrival:
        made.write(b"a")
        made.flush()
        made.flush()
        assert transport.written == [b"a"]
    assert transport.written == [b"a"]


def test_nothing_is_written_into_what_is_closed() -> None:
    made, transport = batched_writer()
    with arrival:
        made.write(b"a")
        transport.closing = True
    assert transport.written == []


def test_what_is_written_on_an_arrival_is_one_write_each_when_that_is_dealt_with() -> None:
    (one, first), (other, second) = batched_writer(), batched_writer()
    with arrival:
        one.write(b"a")
        other.write(b"x")
        one.write(b"b")
        assert first.written == second.written == []
    assert (first.written, second.written) == ([b"ab"], [b"x"])


def test_a_transport_that_fails_keeps_nothing_else_back() -> None:
    (broken, _), (sound, transport) = batched_writer(BrokenTransport()), batched_writer()
    with arrival:
        broken.write(b"a")
        sound.write(b"x")
    assert transport.written == [b"x"]
    with arrival:
        sound.write(b"y")
    assert transport.written == [b"x", b"y"]


def test_what_was_written_is_not_kept_back_by_what_fails_after_it() -> None:
    made, transport = batched_writer()
    with suppress(ValueError), arrival:
        made.write(b"a")
        raise ValueError
    assert transport.written == [b"a"]
    assert not arrival.is_under_way
