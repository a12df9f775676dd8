"""Counters of what happens over time: a bucket that empties steadily, and the last minute.

Both keep what was used, and get the limit with each question: a changed limit counts at once.
"""

from __future__ import annotations

from collections import deque
from typing import Final

MINUTE: Final = 60


class LeakyBucket:
    """A bucket that empties at a steady rate; what does not fit has to wait.

    It is a token bucket that counts the tokens which are taken. It may be filled beyond its brim:
    then nothing fits for the longer.
    """

    def __init__(self) -> None:
        self._level = 0.0
        self._at = 0.0

    def level(self, now: float, rate: float) -> float:
        """Return what is in it, if it empties by `rate` in a second."""
        return max(0.0, self._level - (now - self._at) * rate)

    def wait(self, now: float, rate: float, most: float, amount: float = 1) -> float:
        """Return the seconds until `amount` fits below `most`; 0 if it does now."""
        # Less than a billionth too much is an error of rounding.
        over = self.level(now, rate) + amount - most - 1e-9
        return max(0.0, over / rate)

    def add(self, now: float, rate: float, amount: float = 1) -> None:
        """Put `amount` in."""
        self._level = self.level(now, rate) + amount
        self._at = now


class LastMinute:
    """Counts what happened in the last minute, to the second: nothing is forgotten too early."""

    def __init__(self) -> None:
        self._seconds: deque[list[int]] = deque()
        self._total = 0

    def total(self, now: float) -> int:
        """Return how many happened in the last minute."""
        while self._seconds and self._forgotten(self._seconds[0][0]) <= now:
            self._total -= self._seconds.popleft()[1]
        return self._total

    @staticmethod
    def _forgotten(second: int) -> int:
        return second + 1 + MINUTE

    def wait(self, now: float, most: int) -> float:
        """Return the seconds until one more makes no more than `most` in a minute; 0 if now."""
        too_many = self.total(now) + 1 - most
        for second, count in self._seconds:
            if too_many <= 0:
                break
            too_many -= count
            if too_many <= 0:
                return self._forgotten(second) - now
        return 0.0

    def add(self, now: float) -> None:
        """Count one."""
        self.total(now)
        second = int(now)
        if self._seconds and self._seconds[-1][0] == second:
            self._seconds[-1][1] += 1
        else:
            self._seconds.append([second, 1])
        self._total += 1
