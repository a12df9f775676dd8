"""Counters of what happens over time: a bucket that empties steadily, and the last minute.

Both keep what was used, and get the limit with each question: a changed limit counts at once.
"""

from __future__ import annotations

from collections import deque
from typing import Final

MINUTE: Final = 60
_FORGOTTEN: Final = 1 + MINUTE
"""Seconds after the beginning of a second at which all of it is a minute ago."""


class LeakyBucket:
    """A bucket that empties at a steady rate; what does not fit has to wait.

    It is a token bucket that counts the tokens which are taken. It may be filled beyond its brim:
    then nothing fits for the longer.
    """

    def __init__(self) -> None:
        self._level = 0.0
        self._at = 0.0

    def level(self, now: float, rate: float) -> float:
        """Return the level now, if the bucket empties by `rate` in a second."""
        return max(0.0, self._level - (now - self._at) * rate)

    def wait(self, now: float, rate: float, most: float) -> float:
        """Return the seconds until one more fits below `most`; 0 if it does now."""
        level = self._level - (now - self._at) * rate
        # Less than a billionth too much is an error of rounding.
        over = (level if level > 0 else 0.0) + 1 - most - 1e-9
        return over / rate if over > 0 else 0.0

    def add(self, now: float, rate: float, amount: float = 1) -> None:
        """Put `amount` in."""
        level = self._level - (now - self._at) * rate
        self._level = (level if level > 0 else 0.0) + amount
        self._at = now


class LastMinute:
    """Counts what happened in the last minute, to the second: nothing is forgotten too early."""

    def __init__(self) -> None:
        self._seconds: deque[list[int]] = deque()
        self._total = 0

    def total(self, now: float) -> int:
        """Return how many happened in the last minute."""
        seconds = self._seconds
        while seconds and seconds[0][0] + _FORGOTTEN <= now:
            self._total -= seconds.popleft()[1]
        return self._total

    def wait(self, now: float, most: int) -> float:
        """Return the seconds until one more makes no more than `most` in a minute; 0 if now."""
        if self._total < most:
            return 0.0  # without a look at what may be forgotten
        too_many = self.total(now) + 1 - most
        if too_many <= 0:
            return 0.0
        for second, count in self._seconds:
            too_many -= count
            if too_many <= 0:
                return second + _FORGOTTEN - now
        return 0.0

    def add(self, now: float) -> None:
        """Count one."""
        second = int(now)
        if self._seconds and self._seconds[-1][0] == second:
            self._seconds[-1][1] += 1
        else:
            self.total(now)
            self._seconds.append([second, 1])
        self._total += 1
