"""Deadlines: a time limit for many operations at once, with one event loop timer."""

from __future__ import annotations

import asyncio  # noqa: TID251 - a timer without a task
import math
from itertools import islice
from typing import Protocol


class Expiring(Protocol):
    """An operation that ends by itself or at its deadline."""

    def expire(self) -> None:
        """End the operation: its deadline has passed."""
        ...


class Deadlines:
    """Expires each operation that has not ended `allowed` seconds after its `begin`.

    While the time allowed is the same for all, the operation that began first is due first, and one
    timer is enough.
    """

    def __init__(self, allowed: float) -> None:
        self._allowed = allowed
        self._due: dict[Expiring, float] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._looks_at = math.inf
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._due)

    def allow(self, allowed: float) -> None:
        """Replace the time allowed, for the operations that begin from now on."""
        self._allowed = allowed

    def first(self, count: int) -> list[Expiring]:
        """Return up to `count` operations that are under way, oldest first."""
        return list(islice(self._due, count))

    def oldest(self) -> Expiring | None:
        """Return the operation under way that began first; None if there is none."""
        return next(iter(self._due), None)

    def begin(self, one: Expiring) -> None:
        """Start the deadline of `one`; call `end` if the operation is over before that.

        Call `end` also before a second `begin` of `one`, or `one` keeps its old place in the order.
        """
        loop = self._loop
        if loop is None:
            # Looked up once: that takes longer than all the rest of this method.
            loop = self._loop = asyncio.get_running_loop()
        due = self._due[one] = loop.time() + self._allowed
        if due < self._looks_at:
            self._look_at(due, loop)

    def end(self, one: Expiring) -> None:
        """Drop the deadline of `one`: the operation is over."""
        self._due.pop(one, None)

    def _look_at(self, due: float, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._looks_at, self._timer = due, loop.call_at(due, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        late = [one for one, due in self._due.items() if due <= now]
        self._looks_at = now
        try:
            for one in late:
                # An operation that expires may have ended another.
                if self._due.pop(one, None) is not None:
                    one.expire()
        finally:
            self._looks_at = math.inf
            if self._due:
                self._look_at(min(self._due.values()), loop)
