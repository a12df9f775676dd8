from __future__ import annotations

import anyio
import anyio.lowlevel
from structlog.testing import capture_logs

from hub.system.tasks import IndependentTasks, TasksUntilClosed


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
