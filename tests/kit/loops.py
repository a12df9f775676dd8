"""The event loops that the hub runs on, and one in virtual time for tests."""

import asyncio  # noqa: TID251 - it says what a loop is
import selectors
import sys
import threading
import warnings
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

import anyio
import pytest
from anyio.to_thread import current_default_thread_limiter

Backend: TypeAlias = tuple[str, dict[str, Any]]


def fast_loop() -> asyncio.AbstractEventLoop:
    """Return the loop that users get, which also ends where a test leaves something open in it.

    Closing it warns of that. Where warnings are errors it would, by itself, then wait for ever.
    """
    import uvloop  # noqa: PLC0415 - not everywhere

    class Loop(uvloop.Loop):
        def close(self) -> None:
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                super().close()
            for one in told:
                warnings.warn(one.message, stacklevel=2)

    return Loop()


PLAIN: Backend = ("asyncio", {"use_uvloop": False})
FAST: Backend = PLAIN if sys.platform == "win32" else ("asyncio", {"loop_factory": fast_loop})
"""The one that users get."""
BOTH = [FAST] if FAST is PLAIN else [FAST, PLAIN]
"""Also the one for where that cannot be had."""


_LOOK_AGAIN = 0.01
_OWN_THREADS = {"login", "cache"}
"""Names of threads of their own that are sure to end."""


def _is_thread_at_work() -> bool:
    pooled = current_default_thread_limiter().borrowed_tokens
    return pooled > 0 or any(one.name in _OWN_THREADS for one in threading.enumerate())


class _JumpingSelector(selectors.DefaultSelector):
    """A selector that moves its clock on by as long as it would have waited for nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        ready = super().select(0)
        while not ready and _is_thread_at_work():
            ready = super().select(_LOOK_AGAIN)  # a thread wakes the loop when it is done
        if not ready:
            self.now += timeout
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """A loop in virtual time: once all tasks wait, its clock jumps to the next timer.

    So a test waits for no timer, and no timer runs out while something can still be done, however
    slow the machine is. The clock waits for work in threads, but not for another process or the
    other end of a socket.
    """

    def __init__(self) -> None:
        self._clock = _JumpingSelector()
        super().__init__(self._clock)

    def time(self) -> float:
        return self._clock.now


def in_time(seconds: float = 20) -> AbstractContextManager[anyio.CancelScope]:
    """Fail a wait of over so long. In virtual time of over a day, which is over at once."""
    is_virtual = isinstance(asyncio.get_running_loop(), VirtualTimeLoop)
    return anyio.fail_after(86_400 if is_virtual else seconds)


async def all_tasks_blocked() -> None:
    """Return once each other task waits for something.

    As anyio's function does, which sleeps for a tenth of a second each time before it looks again.
    """
    this = asyncio.current_task()
    await asyncio.sleep(0)
    while any(_is_ready(task) for task in asyncio.all_tasks() if task is not this):  # noqa: ASYNC110 - nothing tells of it
        await asyncio.sleep(0.001)


def _is_ready(task: asyncio.Task[Any]) -> bool:
    waits_for: asyncio.Future[Any] | None = getattr(task, "_fut_waiter")  # noqa: B009 - no other way
    return waits_for is None or waits_for.done()


VIRTUAL: Backend = ("asyncio", {"loop_factory": VirtualTimeLoop})
virtual_time = pytest.mark.parametrize("anyio_backend", [VIRTUAL], ids=["virtual time"])
"""Marks a test that runs in virtual time."""
