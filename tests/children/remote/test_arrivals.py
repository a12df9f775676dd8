from __future__ import annotations

import anyio
import pytest
from msgspec import Raw

from hub.children.remote.messages import QUEUE, InboundQueue
from hub.jsonrpc.errors import GoneError
from hub.jsonrpc.messages import Failure, Message, Notification, Request, Response
from hub.jsonrpc.peer_conduct import PeerConduct
from tests.kit.loops import all_tasks_blocked


def said(number: int) -> Notification:
    return Notification(f"n{number}", {})


async def test_messages_come_out_as_they_came_in() -> None:
    arrivals = InboundQueue(PeerConduct("far"))
    await arrivals.put(said(1))
    await arrivals.put(said(2))
    assert [await arrivals.next(), await arrivals.next()] == [said(1), said(2)]


async def test_who_reads_waits_for_the_next() -> None:
    arrivals = InboundQueue(PeerConduct("far"))
    found: list[object] = []

    async def read() -> None:
        found.append(await arrivals.next())

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await all_tasks_blocked()
            assert found == []
            await arrivals.put(said(1))
    assert found == [said(1)]


async def test_who_brings_more_than_fits_waits_until_there_is_room() -> None:
    arrivals = InboundQueue(PeerConduct("far"))
    retry: list[int] = []
    read: list[Message] = []

    async def bring(number: int) -> None:
        await arrivals.put(said(number))
        retry.append(number)

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            for number in range(QUEUE + 3):
                tasks.start_soon(bring, number)
            await all_tasks_blocked()
            assert len(retry) == QUEUE
            read.append(await arrivals.next())
            await all_tasks_blocked()
            assert len(retry) == QUEUE + 1
            read += [await arrivals.next() for _ in range(QUEUE + 2)]
    assert len({message.method for message in read if isinstance(message, Notification)}) == len(
        read
    )


async def test_who_brings_more_bytes_than_may_wait_waits_too() -> None:
    large = Raw(b'{"a":"' + b"x" * 100 + b'"}')
    arrivals = InboundQueue(PeerConduct("far"), max_unread=100)
    brought: list[Message] = []

    async def bring(message: Message) -> None:
        await arrivals.put(message)
        brought.append(message)

    request = Request(1, "m", {"a": ["x" * 100]})
    for first in (Response(1, large), Failure(1, large), Notification("n", large), request):
        await arrivals.put(first)
        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(bring, said(2))
                await all_tasks_blocked()
                assert not brought
                assert await arrivals.next() == first
            assert brought.pop() == await arrivals.next() == said(2)


async def test_what_waits_for_room_at_the_end_is_not_lost() -> None:
    arrivals = InboundQueue(PeerConduct("far"))
    brought = [*map(said, range(QUEUE)), Response(1, {}), Response(2, {})]
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            for message in brought:
                tasks.start_soon(arrivals.put, message)
            await all_tasks_blocked()
            arrivals.end("over")
            assert [await arrivals.next() for _ in brought] == brought
            with pytest.raises(GoneError, match="over"):
                await arrivals.next()


async def test_what_waits_for_room_is_dropped_if_it_is_given_up() -> None:
    arrivals = InboundQueue(PeerConduct("far"))
    for number in range(QUEUE):
        await arrivals.put(said(number))
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(arrivals.put, said(99))
            await all_tasks_blocked()
            tasks.cancel_scope.cancel()
        assert [await arrivals.next() for _ in range(QUEUE)] == [*map(said, range(QUEUE))]
        for number in range(QUEUE):
            await arrivals.put(said(number))
        assert await arrivals.next() == said(0)


async def test_after_the_end_comes_what_was_there_and_then_why() -> None:
    arrivals = InboundQueue(PeerConduct("far"))
    await arrivals.put(said(1))
    arrivals.end("over")
    arrivals.end("twice")
    await arrivals.put(said(2))
    assert await arrivals.next() == said(1)
    for _ in range(2):
        with pytest.raises(GoneError, match="over"):
            await arrivals.next()


async def test_the_end_reaches_who_waits_on_either_side() -> None:
    arrivals, full = InboundQueue(PeerConduct("far")), InboundQueue(PeerConduct("far"))
    for number in range(QUEUE):
        await full.put(said(number))
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(full.put, said(99))

            async def read() -> None:
                with pytest.raises(GoneError):
                    await arrivals.next()

            tasks.start_soon(read)
            await all_tasks_blocked()
            arrivals.end("over")
            full.end("over")


async def test_an_answer_is_handed_over_at_once_if_nothing_is_before_it() -> None:
    arrivals = InboundQueue(PeerConduct("far"))
    settled: list[object] = []
    wanted = {1}

    def settle(answer: Response | Failure) -> bool:
        settled.append(answer)
        return answer.id in wanted

    arrivals.settle = settle
    answer = Response(1, {})
    await arrivals.put(answer)
    assert await arrivals.next() == answer
    await arrivals.put(answer)  # its reader works on the one before
    assert settled == []
    assert await arrivals.next() == answer
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(arrivals.next)
            await all_tasks_blocked()
            await arrivals.put(answer)
            assert settled == [answer]
            wanted.clear()
            await arrivals.put(answer)  # nobody waits for it: it comes as any message
            await arrivals.put(said(1))
