"""Waits for work that may block, up to a time limit or until nobody needs it any more."""

from __future__ import annotations

import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Event
from typing import Final, TypeVar

from hub.system.threads import in_daemon_thread

_LOOK: Final = 0.05
"""Seconds between two looks whether the work is still needed."""

T = TypeVar("T")


class ReadingScope:
    """Tells a reading, in another thread, that nobody waits for it any more."""

    def __init__(self) -> None:
        self._event = Event()

    def cancel(self) -> None:
        self._event.set()

    @property
    def is_cancelled(self) -> bool:
        return self._event.is_set()


def within(seconds: float, work: Callable[[], T], scope: ReadingScope) -> T:
    """Return what `work` returns, or raise what it raises.

    It runs in a thread of its own, which keeps no process alive.

    Raises: TimeoutError if it takes longer than `seconds`, or is cancelled.
    """
    outcomes: SimpleQueue[Callable[[], T]] = SimpleQueue()
    in_daemon_thread(work, "secret", outcomes.put)
    until = time.monotonic() + seconds
    while not scope.is_cancelled and time.monotonic() < until:
        try:
            outcome = outcomes.get(timeout=_LOOK)
        except Empty:
            continue
        return outcome()
    raise TimeoutError
