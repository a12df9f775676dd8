from __future__ import annotations

import json

import anyio

from hub.jsonrpc.exact_json import WireError
from hub.jsonrpc.messages import Notification
from hub.server.http.bounds.bodies import LARGE_MESSAGE, MessageReader


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
