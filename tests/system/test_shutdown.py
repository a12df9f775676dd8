from __future__ import annotations

import asyncio  # noqa: TID251 - a timer without a task

import anyio

from hub.system.shutdown import Shutdown
from tests.kit.loops import virtual_time

pytestmark = virtual_time
USUAL, BRIEF = 3600.0, 10.0


async def waited(shutdown: Shutdown, reached: anyio.Event | None = None) -> tuple[bool, float]:
    """Return whether a wait ended in time, and how many seconds it took."""
    began = anyio.current_time()
    in_time = await shutdown.until((reached or anyio.Event()).wait, USUAL, BRIEF)
    return in_time, round(anyio.current_time() - began)


async def test_a_wait_that_ends_in_time_returns_true() -> None:
    reached = anyio.Event()
    reached.set()
    assert await waited(Shutdown(), reached) == (True, 0)


async def test_a_wait_takes_no_longer_than_usual() -> None:
    assert await waited(Shutdown()) == (False, USUAL)


async def test_a_wait_is_brief_when_the_hub_ends() -> None:
    shutdown = Shutdown()
    shutdown.begin()
    assert await waited(shutdown) == (False, BRIEF)
    assert not shutdown.pressed.is_set()


async def test_the_start_of_the_shutdown_shortens_a_running_wait() -> None:
    shutdown = Shutdown()
    asyncio.get_running_loop().call_later(7, shutdown.begin)
    assert await waited(shutdown) == (False, 7 + BRIEF)


async def test_a_wait_ends_when_the_hub_is_pressed() -> None:
    shutdown = Shutdown()
    asyncio.get_running_loop().call_later(7, shutdown.hurry)
    assert await waited(shutdown) == (False, 7)
