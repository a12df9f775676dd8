from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
from structlog.testing import capture_logs

from hub.jsonrpc.send_queue import LIMIT, MAX_WEIGHT, SendQueue
from tests.kit.loops import all_tasks_blocked


class Post:
    """A send queue, and a client that reads from it while `open` is set."""

    def __init__(self, send_queue: SendQueue) -> None:
        self.send_queue = send_queue
        self.sent: list[int] = []
        self.open = anyio.Event()
        self.open.set()

    def put(self, *numbers: int, weight: int = 0) -> None:
        for number in numbers:
            self.send_queue.put(lambda number=number: self._send(number), weight)

    async def _send(self, number: int) -> None:
        await self.open.wait()
        self.sent.append(number)


@asynccontextmanager
async def post(limit: int = LIMIT, max_weight: int = MAX_WEIGHT) -> AsyncGenerator[Post]:
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            yield Post(SendQueue(tasks, limit=limit, max_weight=max_weight))
            tasks.cancel_scope.cancel()


async def test_messages_go_out_in_the_order_they_came_in() -> None:
    async with post() as at:
        at.put(*range(100))
        assert at.sent == [], "nobody waits for it"
        await at.send_queue.flush()
        assert at.sent == list(range(100))
        at.put(100)
        await at.send_queue.flush()
        assert at.sent[-1] == 100


async def test_flushing_an_empty_queue_does_not_wait() -> None:
    async with post() as at:
        await at.send_queue.flush()
        assert at.sent == []


async def test_a_message_that_comes_while_one_is_sent_has_its_turn_after_it() -> None:
    async with post() as at:

        async def first() -> None:
            at.put(2)
            await anyio.lowlevel.checkpoint()
            at.sent.append(1)

        at.send_queue.put(first)
        await at.send_queue.flush()
        await at.send_queue.flush()
        assert at.sent == [1, 2]


async def test_a_message_that_cannot_be_sent_holds_up_no_other() -> None:
    async with post() as at:

        async def fail() -> None:
            raise ValueError("it cannot be written")

        at.send_queue.put(fail)
        at.put(1)
        with capture_logs() as logs:
            await at.send_queue.flush()
        assert (at.sent, at.send_queue.is_empty) == ([1], True)
        assert [entry["event"] for entry in logs] == ["a message is not sent"]


async def test_flushing_waits_for_what_was_put_before_and_for_nothing_after() -> None:
    async with post() as at:
        at.open = anyio.Event()
        at.put(1, 2)
        flushed: list[list[int]] = []

        async def flush() -> None:
            await at.send_queue.flush()
            flushed.append(list(at.sent))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(flush)
            await all_tasks_blocked()
            assert flushed == []

            async def never() -> None:
                await anyio.sleep_forever()

            at.send_queue.put(never)
            at.open.set()
        assert flushed == [[1, 2]]


async def test_a_client_that_does_not_read_loses_its_oldest_messages() -> None:
    async with post(limit=3) as at:
        at.open = anyio.Event()
        at.put(0)
        await all_tasks_blocked()
        with capture_logs() as logs:
            at.put(1, 2, 3, 4, 5)
            at.open.set()
            await at.send_queue.flush()
        assert at.sent == [0, 3, 4, 5], "the one on its way, and the newest"
        assert [(entry["log_level"], entry.get("dropped")) for entry in logs] == [
            ("warning", None),
            ("warning", 2),
        ]


async def test_an_unread_flood_is_logged_in_two_lines() -> None:
    with capture_logs() as logs:
        async with anyio.create_task_group() as tasks:
            send_queue = SendQueue(tasks, limit=3)
            for _ in range(1000):
                send_queue.put(anyio.sleep_forever)
            await all_tasks_blocked()
            for _ in range(1000):
                send_queue.put(anyio.sleep_forever)
            tasks.cancel_scope.cancel()
    assert [entry.get("dropped") for entry in logs] == [None, 997 + 999]


async def test_a_client_that_does_not_read_loses_no_more_for_large_messages_than_must_be() -> None:
    async with post(max_weight=10) as at:
        at.open = anyio.Event()
        at.put(0, weight=100)
        await all_tasks_blocked()
        at.put(1, 2, weight=4)
        at.put(3, weight=3)
        at.put(4, weight=100)
        at.put(5, weight=1)
        at.put(6, weight=9)
        at.open.set()
        await at.send_queue.flush()
        assert at.sent == [0, 5, 6], "the one on its way weighs nothing any more"


async def test_a_flush_ends_although_messages_were_dropped() -> None:
    async with post(limit=1) as at:
        at.open = anyio.Event()
        at.put(0)
        await all_tasks_blocked()
        at.put(1)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(at.send_queue.flush)
            await all_tasks_blocked()
            at.put(2)
            at.open.set()
        await at.send_queue.flush()
        assert at.sent == [0, 2]
