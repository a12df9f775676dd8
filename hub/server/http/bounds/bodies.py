"""One bound for what the bodies of all requests under way take, and what happens beyond it."""

from __future__ import annotations

import asyncio  # noqa: TID251 - a timer without a task
import gc
from collections.abc import Callable
from typing import Final

from hub.system.memory import give_back

MOST: Final = 256 * 1024 * 1024
"""How many bytes the bodies of all requests under way may have together."""
SMALL: Final = 4096
"""Up to how many bytes a body is not counted: there are no more of these than connections."""
RETRY_AFTER: Final = 5
"""Seconds that a client is asked to wait whose body there is no room for."""
MUCH: Final = 16 * 1024 * 1024
"""From how many bytes on memory is given back when they are gone."""
_SOON: Final = 1.0
"""Seconds after which it is, unless there is more by then."""
_SELDOM: Final = 5.0
"""Seconds between two times at least."""


class BodyLoad:
    """What the body of one request takes until the request is answered."""

    def __init__(self, bodies: BodyLimit) -> None:
        self._bodies = bodies
        self.size = 0
        self._counted = 0

    def add(self, size: int) -> bool:
        """Count so many bytes more; False if there is no room for them."""
        self.size += size
        if self.size <= SMALL:
            return True
        if not self._bodies.take(self.size - self._counted):
            return False
        self._counted = self.size
        return True

    def release(self) -> None:
        """Count nothing any more; may be called again."""
        counted, self._counted, self.size = self._counted, 0, 0
        if counted:
            self._bodies.give(counted)


class BodyLimit:
    """What the bodies of one endpoint's requests take.

    `make_room` gives one up that comes too slowly, and returns whether there was one.
    """

    def __init__(self, most: int = MOST, make_room: Callable[[], bool] | None = None) -> None:
        self._most = most
        self.make_room = make_room or _none
        self._peak = 0
        self._is_timed = False
        self._given_back = 0.0
        self.held = 0

    def load(self) -> BodyLoad:
        """Return what counts the body of one request."""
        return BodyLoad(self)

    def take(self, size: int) -> bool:
        """Count so many bytes if there is room for them, and return whether there is."""
        if self.held + size > self._most and not self._is_made(size):
            return False
        self.held += size
        self._peak = max(self._peak, self.held)
        return True

    def _is_made(self, size: int) -> bool:
        return self.make_room() and self.held + size <= self._most

    def give(self, size: int) -> None:
        """Let others have so many bytes; memory goes back to the system once most are free."""
        self.held -= size
        if self._peak >= MUCH and self.held <= self._peak // 2 and not self._is_timed:
            self._is_timed = True
            loop = asyncio.get_running_loop()
            at = max(loop.time() + _SOON, self._given_back + _SELDOM)
            loop.call_at(at, self._give_back, loop)

    def _give_back(self, loop: asyncio.AbstractEventLoop) -> None:
        self._is_timed = False
        if self.held <= self._peak // 2:
            self._peak = self.held
            # What was given up is held by its own traceback, for long if nobody looks.
            gc.collect()
            give_back()
            self._given_back = loop.time()


def _none() -> bool:
    return False
