from __future__ import annotations

import anyio

from hub.system.shutdown import Shutdown
from tests.kit.loops import all_tasks_blocked

FOR_EVER = 3600.0


async def test_a_wait_that_ends_in_time_returns_true() -> None:
    reached = anyio.Event()
    reached.set()
    assert await Shutdown().until(reached.wait, FOR_EVER, FOR_EVER)


async def test_a_wait_takes_no_longer_than_usual() -> None:
    with anyio.fail_after(20):
        assert not await Shutdown().until(anyio.Event().wait, 0.001, FOR_EVER)


async def test_a_wait_is_brief_when_the_hub_ends() -> None:
    shutdown = Shutdown()
    shutdown.begin()
    with anyio.fail_after(20):
        assert not await shutdown.until(anyio.Event().wait, FOR_EVER, 0.001)
    assert not shutdown.pressed.is_set()


async def test_the_start_of_the_shutdown_shortens_a_running_wait() -> None:
    shutdown = Shutdown()
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(shutdown.until, anyio.Event().wait, FOR_EVER, 0.001)
            await all_tasks_blocked()
            shutdown.begin()


async def test_a_wait_ends_when_the_hub_is_pressed() -> None:
    shutdown = Shutdown()
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(shutdown.until, anyio.Event().wait, FOR_EVER, FOR_EVER)
            await all_tasks_blocked()
            shutdown.hurry()
        assert not await shutdown.until(anyio.Event().wait, FOR_EVER, FOR_EVER)
    assert shutdown.begun.is_set()
