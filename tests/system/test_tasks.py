from __future__ import annotations

import sys
import threading

import anyio
import anyio.lowlevel
import pytest
from structlog.testing import capture_logs

from hub.system.tasks import (
    GIVES_WAY,
    FairWorker,
    IndependentTasks,
    TasksUntilClosed,
    in_own_thread,
)
from hub.values import SessionKey


async def fail(error: Exception) -> None:
    await anyio.lowlevel.checkpoint()
    raise error


async def test_a_task_that_fails_ends_no_other_and_is_logged() -> None:
    done = list[int]()

    async def go_on(number: int) -> None:
        await anyio.sleep(0.01)
        done.append(number)

    with capture_logs() as logs:
        async with anyio.create_task_group() as group:
            tasks = IndependentTasks(group)
            tasks.start_soon(go_on, 1)
            tasks.start_soon(fail, KeyError("x"))
            # A coroutine that raises this one fails with RuntimeError.
            tasks.start_soon(fail, StopIteration())
            tasks.start_soon(go_on, 2)
    assert done == [1, 2]
    assert [(one["event"], one["task"]) for one in logs] == [("a task failed", "fail")] * 2


async def test_its_tasks_are_cancelled_with_their_group() -> None:
    ended = list[str]()

    async def wait() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("cancelled")

    with capture_logs() as logs:
        async with anyio.create_task_group() as group:
            IndependentTasks(group).start_soon(wait)
            await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
    assert ended == ["cancelled"]
    assert logs == []


async def test_tasks_until_closed_end_with_whoever_started_them() -> None:
    done = list[str]()

    async def wait(name: str) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            done.append(name)

    with capture_logs() as logs:
        async with anyio.create_task_group() as group:
            tasks = TasksUntilClosed(IndependentTasks(group))
            tasks.start_soon(wait, "begun")
            tasks.start_soon(fail, KeyError("x"))
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(wait, "not begun")
            tasks.close()
            tasks.start_soon(wait, "late")
    assert done == ["begun"]
    assert [one["task"] for one in logs] == ["fail"]


ONE, OTHER = SessionKey("one"), SessionKey("other")


async def test_the_loop_goes_on_while_work_is_done_aside() -> None:
    done = threading.Event()

    def work() -> str:
        assert done.wait(60)
        return "done"

    found: list[str] = []

    async def run() -> None:
        found.append(await FairWorker().run(ONE, work))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await anyio.lowlevel.checkpoint()
        assert found == []
        done.set()
    assert found == ["done"]


async def test_one_piece_of_work_is_done_after_the_other() -> None:
    worker, busy, order = FairWorker(), threading.Lock(), list[int]()

    def work(number: int) -> None:
        assert busy.acquire(blocking=False)
        order.append(number)
        busy.release()

    async def run(number: int) -> None:
        await worker.run(ONE, lambda: work(number))

    async with anyio.create_task_group() as tasks:
        for number in range(5):
            tasks.start_soon(run, number)
    assert sorted(order) == list(range(5))


async def test_an_error_is_raised_to_the_caller_of_the_work() -> None:
    def work() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await FairWorker().run(ONE, work)


async def test_callers_are_served_in_turn() -> None:
    worker, order = FairWorker(), list[str]()

    async def run(party: SessionKey) -> None:
        await worker.run(party, lambda: order.append(party))

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(run, ONE)
        tasks.start_soon(run, OTHER)
    assert order.index(OTHER) == 1


async def test_a_cancelled_waiter_delays_no_other() -> None:
    worker, order, may_end = FairWorker(), list[str](), threading.Event()

    async def run(party: SessionKey, name: str) -> None:
        def work() -> None:
            assert may_end.wait(60)
            order.append(name)

        await worker.run(party, work)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run, ONE, "first")
        await anyio.lowlevel.checkpoint()
        async with anyio.create_task_group() as leaving:
            leaving.start_soon(run, ONE, "left")
            leaving.start_soon(run, OTHER, "left too")
            await anyio.lowlevel.checkpoint()
            leaving.cancel_scope.cancel()
        tasks.start_soon(run, ONE, "last")
        may_end.set()
    assert order == ["first", "last"]


async def test_a_caller_cancelled_during_its_work_gets_no_result() -> None:
    began, may_end, found = threading.Event(), threading.Event(), list[str]()

    def work() -> str:
        began.set()
        assert may_end.wait(60)
        return "done"

    async def run() -> None:
        found.append(await FairWorker().run(ONE, work))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await anyio.to_thread.run_sync(began.wait)
        tasks.cancel_scope.cancel()
        may_end.set()
    assert found == []


async def test_only_the_worker_thread_yields_often() -> None:
    usual = sys.getswitchinterval()
    assert await FairWorker().run(ONE, sys.getswitchinterval) == pytest.approx(GIVES_WAY)
    assert sys.getswitchinterval() == pytest.approx(usual)


# Threads of their own


async def test_what_the_work_returns_or_raises_is_passed_on() -> None:
    def fail() -> int:
        raise FileNotFoundError("gone")

    assert await in_own_thread(lambda: 7, "seven") == 7
    with pytest.raises(FileNotFoundError, match="gone"):
        await in_own_thread(fail, "fails")


async def test_who_gives_up_waits_for_no_work_that_hangs_and_no_process_does() -> None:
    goes_on, seen = threading.Event(), list[bool]()

    def hang() -> None:
        seen.append(threading.current_thread().daemon)
        assert goes_on.wait(60)

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            for _ in range(60):  # more than a shared pool has threads
                tasks.start_soon(in_own_thread, hang, "hangs")
            assert await in_own_thread(lambda: 7, "seven") == 7
            tasks.cancel_scope.cancel()
    assert seen == [True] * 60
    goes_on.set()
