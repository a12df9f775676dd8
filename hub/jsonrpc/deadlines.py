"""What may take so long and no longer, with one timer for all of it."""

from __future__ import annotations

import asyncio  # noqa: TID251 - a timer without a task
from itertools import islice
from typing import Protocol


class Expiring(Protocol):
    """Something under way that ends by itself or by its deadline."""

    def expire(self) -> None:
        """End it: its time is over."""
        ...


class Deadlines:
    """Ends what is not over within `allowed` seconds.

    All are allowed the same, so who began first is due first, and a timer for that one is enough.
    """

    def __init__(self, allowed: float) -> None:
        self._allowed = allowed
        self._due: dict[Expiring, float] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_timing = False

    def __len__(self) -> int:
        return len(self._due)

    def first(self, count: int) -> list[Expiring]:
        """Return so many of those that are under way, who began first first."""
        return list(islice(self._due, count))

    def oldest(self) -> Expiring | None:
        """Return who began first of those that are under way."""
        return next(iter(self._due), None)

    def begin(self, one: Expiring) -> None:
        """Let `one` expire in time; if it does not come to that, `end` must follow.

        It must before `one` begins again, too, which would otherwise keep its place in the order.
        """
        loop = self._loop
        if loop is None:
            # Asked for once: it takes longer than all else here.
            loop = self._loop = asyncio.get_running_loop()
        due = self._due[one] = loop.time() + self._allowed
        if not self._is_timing:
            self._is_timing = True
            loop.call_at(due, self._look, loop)

    def end(self, one: Expiring) -> None:
        """Take note that it is over."""
        self._due.pop(one, None)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        late = [one for one, due in self._due.items() if due <= now]
        try:
            for one in late:
                # One that expires may have ended another.
                if self._due.pop(one, None) is not None:
                    one.expire()
        finally:
            self._is_timing = bool(self._due)
            if self._is_timing:
                loop.call_at(next(iter(self._due.values())), self._look, loop)
