"""Work that takes long, done beside the loop so that nobody waits for it who does not need it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar
from weakref import WeakValueDictionary

from anyio import CapacityLimiter, Lock, to_thread
from anyio.lowlevel import checkpoint_if_cancelled

from hub.values import SessionKey

Result = TypeVar("Result")


GIVES_WAY = 0.0005
"""Seconds after which the work gives way to the loop; Python's own are 5 ms."""


class FairWorker:
    """Does one piece of work at a time, in the order in which they come, one of each party's.

    So the loop has at least half of the time that Python has, and nobody waits for all that one
    party wants.
    """

    def __init__(self) -> None:
        self._turn = CapacityLimiter(1)
        self._lines: WeakValueDictionary[SessionKey, Lock] = WeakValueDictionary()

    async def run(self, party: SessionKey, work: Callable[[], Result]) -> Result:
        """Return what `work` returns, which touches nothing that changes meanwhile.

        Who is cancelled while it is done waits for its end, and gets nothing of it.
        """
        line = self._lines.get(party)
        if line is None:
            line = self._lines[party] = Lock()
        async with line:
            done = await to_thread.run_sync(_giving_way, work, limiter=self._turn)
        await checkpoint_if_cancelled()
        return done


def _giving_way(work: Callable[[], Result]) -> Result:
    # Not for the whole program: the thread that writes the audit log would slow the loop down.
    usual = sys.getswitchinterval()
    sys.setswitchinterval(GIVES_WAY)
    try:
        return work()
    finally:
        sys.setswitchinterval(usual)
