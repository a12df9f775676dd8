"""Counts tokens that were refused, by the address that they came from.

Whoever guesses tokens, or makes the hub verify wrong ones, is told to wait. A token that the hub
knows lets its client in all the same, as many clients may share an address.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Final

import anyio
from msgspec import Struct, field

from hub.server.http.access import Refusal
from hub.usage.counters import LastMinute

MOST: Final = 60
"""How many refused tokens of one address are looked at in a minute."""
AT_ONCE: Final = 8
"""How many unknown tokens of one address are looked at at once; others have room beside it."""
KEPT: Final = 4096
"""How many addresses are counted; with more, those are forgotten that have failed least."""


class _Address(Struct, eq=False):
    """What failed in the last minute, how many are looked at now, and who waits for one of these.

    They are woken one by one: each that wakes only to wait again would cost as much as a call.
    """

    failed: LastMinute = field(default_factory=LastMinute)
    under_way: int = 0
    waiting: deque[anyio.Event] = field(default_factory=deque[anyio.Event])

    async def turn(self) -> None:
        """Wait until another one has ended; `wake_next` must follow."""
        mine = anyio.Event()
        self.waiting.append(mine)
        try:
            await mine.wait()
        except BaseException:
            if mine.is_set():
                self.wake_next()
            else:
                self.waiting.remove(mine)
            raise

    def wake_next(self) -> None:
        """Let the one that waits longest look whether it may go on."""
        if self.waiting:
            self.waiting.popleft().set()


class FailedLogins:
    """The tokens of each address that were refused in the last minute."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, most: int = MOST) -> None:
        self.clock = clock
        self._most = most
        self._of: dict[str, _Address] = {}

    @asynccontextmanager
    async def attempt(self, address: str) -> AsyncGenerator[Refusal | None]:
        """Let an unknown token be looked at; yields why none is looked at now, or None.

        `note` must be called in the context for a token that is refused. No more are looked at at
        once than may still be refused, the others wait: none passes because it came beside others.
        """
        while self._is_full(address):
            later = self.refusal(address)
            if later is not None:
                self._of[address].wake_next()  # it is refused, too
                yield later
                return
            await self._of[address].turn()
        one = self._counted(address)
        one.under_way += 1
        if not self._is_full(address):
            one.wake_next()
        try:
            yield None
        finally:
            one.under_way -= 1
            one.wake_next()
            is_idle = not (one.under_way or one.waiting or one.failed.total(self.clock()))
            if is_idle and self._of.get(address) is one:
                del self._of[address]

    def _is_full(self, address: str) -> bool:
        """Return whether it has as many looked at as may be at once, or as may still be refused."""
        one = self._of.get(address)
        if one is None:
            return False
        return one.under_way >= min(AT_ONCE, self._most - one.failed.total(self.clock()))

    def refusal(self, address: str) -> Refusal | None:
        """Return why no further unknown token of an address is looked at now, or None."""
        one = self._of.get(address)
        wait = 0.0 if one is None else one.failed.wait(self.clock(), self._most)
        if not wait:
            return None
        seconds = math.ceil(wait)
        text = f"{self._most} tokens from {address} were refused in a minute"
        again = {"retry-after": str(seconds)}
        return Refusal(429, f"{text}; try again in {seconds} s", again)

    def note(self, address: str) -> None:
        """Count a token that was refused."""
        self._counted(address).failed.add(self.clock())

    def _counted(self, address: str) -> _Address:
        one = self._of.get(address)
        if one is None:
            if len(self._of) >= KEPT:
                self._make_room(self.clock())
            one = self._of[address] = _Address()
        return one

    def _make_room(self, now: float) -> None:
        """Forget half of the addresses: those that failed least, and that nobody waits for."""

        def count(address: str) -> int:
            return self._of[address].failed.total(now) + self._of[address].under_way

        by_count = sorted(self._of, key=count, reverse=True)
        waited_for = (one for one in by_count[KEPT // 2 :] if self._of[one].waiting)
        self._of = {one: self._of[one] for one in (*by_count[: KEPT // 2], *waited_for)}
