from __future__ import annotations

import threading

import anyio
import pytest

from hub.system.own_thread import in_own_thread


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
        assert goes_on.wait(10)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            for _ in range(60):  # more than a shared pool has threads
                tasks.start_soon(in_own_thread, hang, "hangs")
            assert await in_own_thread(lambda: 7, "seven") == 7
            tasks.cancel_scope.cancel()
    assert seen == [True] * 60
    goes_on.set()
