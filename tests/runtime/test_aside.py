from __future__ import annotations

import threading

import anyio
import pytest

from hub.runtime.aside import Aside


async def test_the_loop_goes_on_while_work_is_done_aside() -> None:
    done = threading.Event()

    def work() -> str:
        assert done.wait(5)
        return "done"

    found: list[str] = []

    async def run() -> None:
        found.append(await Aside().run(work))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await anyio.lowlevel.checkpoint()
        assert found == []
        done.set()
    assert found == ["done"]


async def test_one_piece_of_work_is_done_after_the_other() -> None:
    aside, busy, order = Aside(), threading.Lock(), list[int]()

    def work(number: int) -> None:
        assert busy.acquire(blocking=False)
        order.append(number)
        busy.release()

    async def run(number: int) -> None:
        await aside.run(lambda: work(number))

    async with anyio.create_task_group() as tasks:
        for number in range(5):
            tasks.start_soon(run, number)
    assert sorted(order) == list(range(5))


async def test_what_goes_wrong_is_told_to_who_wanted_it() -> None:
    def work() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await Aside().run(work)
