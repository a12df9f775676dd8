"""Counts tokens that were refused, by the address that they came from.

Whoever guesses tokens, or makes the hub verify wrong ones, is told to wait. A token that the hub
knows lets its client in all the same, as many clients may share an address.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Final

from hub.server.http.access import Refusal
from hub.usage.counters import LastMinute

MOST: Final = 60
"""How many refused tokens of one address are looked at in a minute."""
KEPT: Final = 4096
"""How many addresses are counted; with more, those are forgotten that have failed least."""


class FailedLogins:
    """The tokens of each address that were refused in the last minute."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, most: int = MOST) -> None:
        self.clock = clock
        self._most = most
        self._of: dict[str, LastMinute] = {}

    def refusal(self, address: str) -> Refusal | None:
        """Return why no further unknown token of an address is looked at now, or None."""
        failed = self._of.get(address)
        wait = 0.0 if failed is None else failed.wait(self.clock(), self._most)
        if not wait:
            return None
        seconds = math.ceil(wait)
        text = f"{self._most} tokens from {address} were refused in a minute"
        again = {"retry-after": str(seconds)}
        return Refusal(429, f"{text}; try again in {seconds} s", again)

    def note(self, address: str) -> None:
        """Count a token that was refused."""
        now = self.clock()
        failed = self._of.get(address)
        if failed is None:
            if len(self._of) >= KEPT:
                self._make_room(now)
            failed = self._of[address] = LastMinute()
        failed.add(now)

    def _make_room(self, now: float) -> None:
        """Forget half of the addresses: those that failed least in the last minute."""
        by_count = sorted(self._of, key=lambda address: -self._of[address].total(now))
        self._of = {address: self._of[address] for address in by_count[: KEPT // 2]}
