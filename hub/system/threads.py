"""Work in threads beside the event loop: slow work in a fair queue, what may hang in its own."""

from __future__ import annotations

import asyncio  # noqa: TID251 - a thread wakes the loop
import sys
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

from anyio import CapacityLimiter, Event, Lock, to_thread
from anyio.lowlevel import checkpoint_if_cancelled

Result = TypeVar("Result")


GIVES_WAY = 0.0005
"""Seconds after which the thread yields to the loop (switch interval). Python's default: 5 ms."""


class FairWorker:
    """A worker thread that runs one job at a time. Each party has at most one job in the queue.

    So the event loop gets at least half of the interpreter's time, and no party, which a key tells
    from others, waits for all the jobs of another one.
    """

    def __init__(self) -> None:
        self._turn = CapacityLimiter(1)
        self._lines: WeakValueDictionary[str, Lock] = WeakValueDictionary()

    async def run(self, party: str, work: Callable[[], Result]) -> Result:
        """Return the result of `work`, run in the thread. `work` must not use state that changes.

        A caller that is cancelled while `work` runs waits for its end and gets no result.
        """
        line = self._lines.get(party)
        if line is None:
            line = self._lines[party] = Lock()
        async with line:
            done = await to_thread.run_sync(_giving_way, work, limiter=self._turn)
        await checkpoint_if_cancelled()
        return done


def _giving_way(work: Callable[[], Result]) -> Result:
    # Not set for ever: then the thread that writes the audit log would slow down the loop.
    usual = sys.getswitchinterval()
    sys.setswitchinterval(GIVES_WAY)
    try:
        return work()
    finally:
        sys.setswitchinterval(usual)


class OwnThread(Generic[Result]):
    """Work under way in a thread that takes no place of a shared pool and keeps no process alive.

    Several may wait for its result; what it does when nobody waits any more is lost. `when_done` is
    called in the event loop before they go on.

    Raises: RuntimeError if no thread can be started.
    """

    def __init__(
        self, work: Callable[[], Result], name: str, when_done: Callable[[], object] = lambda: None
    ) -> None:
        self._when_done = when_done
        self._ended = Event()
        self._results: list[Result] = []
        self._errors: list[BaseException] = []
        loop = asyncio.get_running_loop()

        def run() -> None:
            try:
                self._results.append(work())
            except BaseException as exc:  # noqa: BLE001 - raised again where it is waited for
                self._errors.append(exc)
            with suppress(RuntimeError):  # the loop is closed already
                loop.call_soon_threadsafe(self._end)

        Thread(target=run, name=name, daemon=True).start()

    async def result(self) -> Result:
        """Return what the work returns, or raise what it raises."""
        await self._ended.wait()
        if self._errors:
            raise self._errors[0]
        return self._results[0]

    def _end(self) -> None:
        self._when_done()
        self._ended.set()


async def in_own_thread(work: Callable[[], Result], name: str) -> Result:
    """Return what `work` returns in a thread of its own, or raise what it raises."""
    return await OwnThread(work, name).result()
