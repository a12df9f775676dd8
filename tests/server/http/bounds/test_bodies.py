from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable

import anyio

from hub.jsonrpc.exact_json import WireError
from hub.jsonrpc.messages import Notification
from hub.server.http.bounds import bodies as module
from hub.server.http.bounds.bodies import LARGE_MESSAGE, SMALL, BodyLimit, BodyPieces, MessageReader
from hub.usage.fair_parts import Owner
from tests.kit.loops import in_time, virtual_time


async def test_all_bodies_have_one_bound() -> None:
    bodies = BodyLimit(most=12 * SMALL)
    first, second = bodies.load(), bodies.load()
    assert first.add(5 * SMALL)
    assert first.add(SMALL)
    assert not second.add(2 * SMALL)
    first.release()
    assert bodies.held == 0
    assert bodies.load().add(2 * SMALL)


async def test_each_owner_leaves_as_much_as_it_takes() -> None:
    bodies = BodyLimit(most=12 * SMALL)
    first = bodies.load("ann")
    assert first.add(4 * SMALL)
    assert not bodies.load("ann").add(3 * SMALL)
    assert bodies.load("ben").add(4 * SMALL)
    assert not bodies.load("ann").add(2 * SMALL), "a third is all that it may have now"
    assert bodies.load("cy").add(2 * SMALL)
    first.release()
    assert bodies.load("ann").add(3 * SMALL)


async def test_small_bodies_are_never_turned_away() -> None:
    bodies = BodyLimit(most=2 * SMALL + 2)
    assert bodies.load().add(SMALL + 1)
    assert bodies.load().add(SMALL)


async def test_one_that_comes_too_slowly_makes_room() -> None:
    bodies = BodyLimit(most=12 * SMALL)
    slow = bodies.load("ann")
    slow.add(6 * SMALL)

    def drop(gives_way: Callable[[Owner], bool]) -> None:
        if gives_way("ann"):
            slow.release()

    bodies.make_room = drop
    assert bodies.load("ann").add(6 * SMALL)
    assert not bodies.load("ann").add(6 * SMALL)


async def test_who_has_less_does_not_give_way_to_who_has_more() -> None:
    bodies, asked = BodyLimit(most=12 * SMALL), list[bool]()
    bodies.make_room = lambda gives_way: asked.extend(map(gives_way, ("ann", "ben", "cy")))
    for owner, size in (("ann", 5 * SMALL), ("ben", 3 * SMALL), ("cy", 2 * SMALL)):
        bodies.load(owner).add(size)
    assert not bodies.load("ben").add(2 * SMALL)
    assert asked == [True, True, False]


async def test_one_that_is_given_up_to_make_room_for_itself_counts_nothing_in_the_end() -> None:
    bodies = BodyLimit(most=10 * SMALL)
    slow = bodies.load()
    slow.add(4 * SMALL)
    bodies.make_room = lambda _: slow.release()
    slow.add(5 * SMALL)
    slow.release()  # the connection that it came on is lost
    assert bodies.held == 0


def test_the_pieces_of_a_body_are_put_together_whatever_their_sizes() -> None:
    pieces, large = BodyPieces(), b"L" * SMALL
    for piece in (b"a", b"b", b"", large, b"c", b"d", large, large, b"e"):
        pieces.add(piece)
    assert pieces.taken() == b"ab" + large + b"cd" + 2 * large + b"e"
    assert pieces.taken() == b"", "they are forgotten"
    whole = b"the usual body"
    pieces.add(whole)
    assert pieces.taken() is whole


def test_tiny_pieces_take_no_more_memory_than_their_bytes() -> None:
    pieces, count = BodyPieces(), 100_000
    tracemalloc.start()
    try:
        for number in range(count):
            pieces.add(b"%02d" % (number % 100))
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < 2 * 2 * count


async def test_a_load_is_released_once() -> None:
    bodies = BodyLimit()
    load = bodies.load()
    load.add(2 * SMALL)
    load.release()
    load.release()
    assert bodies.held == 0


@virtual_time
async def test_memory_goes_back_once_much_of_it_is_free() -> None:
    given = anyio.Event()
    bodies = BodyLimit(give_back=given.set)
    one, other = bodies.load(), bodies.load()
    one.add(module.MUCH)
    other.add(module.MUCH // 4)
    one.release()
    assert not given.is_set()
    with in_time():
        await given.wait()


def message(size: int) -> bytes:
    params = {"text": "x" * size}
    return json.dumps({"jsonrpc": "2.0", "method": "n", "params": params}).encode()


class SlowClock:
    """A clock by which everything takes ten seconds."""

    def __init__(self) -> None:
        self._now = 0.0

    def __call__(self) -> float:
        self._now += 10
        return self._now


async def test_large_messages_wait_once_others_have_taken_long_and_small_ones_do_not() -> None:
    reader, found = MessageReader(SlowClock()), list[object]()

    async def read(size: int) -> None:
        found.append(await reader.read(message(size)))

    async with anyio.create_task_group() as tasks:
        for _ in range(2):
            tasks.start_soon(read, LARGE_MESSAGE)
        await anyio.wait_all_tasks_blocked()
        assert len(found) == 1, "the second one waits"
        await read(10)
        assert isinstance(found[1], Notification)
        tasks.cancel_scope.cancel()


async def test_large_messages_are_read_at_once_where_that_takes_little() -> None:
    reader = MessageReader(lambda: 0.0)
    with anyio.fail_after(20):
        for _ in range(100):
            assert isinstance(await reader.read(message(LARGE_MESSAGE)), Notification)


async def test_a_refusal_is_the_result_whatever_the_size() -> None:
    reader = MessageReader()
    for size in (1, LARGE_MESSAGE):
        assert isinstance(await reader.read(message(size) + b"x"), WireError)


async def test_nobody_waits_for_its_turn_once_the_hub_ends() -> None:
    reader, found = MessageReader(SlowClock()), list[object]()

    async def read() -> None:
        found.append(await reader.read(message(LARGE_MESSAGE)))

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(read)
        await anyio.wait_all_tasks_blocked()
        reader.end()
    assert isinstance(found[0], Notification)
    assert found[1:] == [None, None]
    assert isinstance(await reader.read(message(10)), Notification)
    assert await reader.read(message(LARGE_MESSAGE)) is None
