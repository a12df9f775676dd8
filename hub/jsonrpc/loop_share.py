"""How much of the event loop's time goes to what a child says unasked.

Its answers to what it was asked are bounded by what it is asked. All else it can say without end:
notifications, reports, what is no message at all. For that it has some time at once, and from then
on a share of what passes, as all children together have. Who has spent it rests: it is not read
meanwhile, so the pipe gets full and it waits itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

BURST, SHARE = 0.25, 0.15
"""Seconds that one child may have at once, and for each second that passes."""
BURST_OF_ALL, SHARE_OF_ALL = 0.5, 0.3
"""The same of all children together."""
TURN: Final = 0.0001
"""Seconds after which others have their turn, whatever is left."""
SHORTEST_REST: Final = 0.001
"""Seconds that a loop's timers can tell apart."""
MOST_OF_ONE: Final = 0.02
"""Seconds that work on one thing counts for: beyond, it waits for somebody, and costs nobody."""
PASSED_ON: Final = 0.0001
"""Seconds that a notification is counted as besides, which others send on later."""
BYTE: Final = 1e-9
"""Seconds that reading a byte is counted as, which happens before it can be timed."""


class TimeBudget:
    """Time that can be spent: `rate` seconds come in with each that passes, up to `most`."""

    def __init__(self, most: float, rate: float, clock: Callable[[], float]) -> None:
        self._most, self._rate, self._clock = most, rate, clock
        self._left, self._at = most, clock()

    def spend(self, seconds: float) -> None:
        """Take so much out of it, be it there or not."""
        self._left = self._now() - seconds

    def debt(self) -> float:
        """Return in how many seconds nothing is owed any more; 0 if nothing is."""
        self._left = self._now()
        return max(0.0, -self._left / self._rate)

    def _now(self) -> float:
        before, self._at = self._at, self._clock()
        return min(self._most, self._left + (self._at - before) * self._rate)


of_all: Final = TimeBudget(BURST_OF_ALL, SHARE_OF_ALL, time.perf_counter)
"""What the children of this process have together: they have one loop."""


class LoopShare:
    """One child's time; `clock` counts seconds."""

    def __init__(
        self, clock: Callable[[], float] = time.perf_counter, together: TimeBudget = of_all
    ) -> None:
        self.clock = clock
        self._own = TimeBudget(BURST, SHARE, clock)
        self._together = together
        self._turn = 0.0
        self._handed = 0
        self._handed_at: float | None = None

    def hand(self, size: int) -> None:
        """Take note that something of so many bytes is being worked on from now on.

        What was before it cost nothing: it was an answer that somebody waited for.
        """
        self._handed, self._handed_at = size, self.clock()

    def lap(self) -> None:
        """Count in full what was done so far of that work: it has waited for nobody yet."""
        if self._handed_at is not None:
            began, self._handed_at = self._handed_at, self.clock()
            self.spend(self._handed_at - began)

    def done(self) -> float | None:
        """Take note that the work on it, if there was any, is done; return as `rest`."""
        began, self._handed_at = self._handed_at, None
        if began is None:
            return None
        self.spend(min(self.clock() - began, MOST_OF_ONE), self._handed)
        return self.rest()

    def spend(self, seconds: float, size: int = 0) -> None:
        """Count the time that something took, and its bytes."""
        spent = seconds + size * BYTE
        self._turn += spent
        self._own.spend(spent)
        self._together.spend(spent)

    def rest(self) -> float | None:
        """Return for how many seconds others have their turn now; 0: for one turn of the loop.

        None: nothing needs to be waited for yet.
        """
        if self._turn < TURN:
            return None
        self._turn = 0.0
        debt = max(self._own.debt(), self._together.debt())
        return max(debt, SHORTEST_REST) if debt else 0.0
