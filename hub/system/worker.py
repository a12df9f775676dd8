"""Run slow work in a thread beside the event loop, fairly among parties (`FairWorker`)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar
from weakref import WeakValueDictionary

from anyio import CapacityLimiter, Lock, to_thread
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
