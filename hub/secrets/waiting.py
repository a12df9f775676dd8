"""Waits for work that may block, up to a time limit or until nobody needs it any more."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event, Thread
from typing import Final, TypeVar

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
    ended = Event()
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as exc:  # noqa: BLE001 - raised again where it is waited for
            errors.append(exc)
        finally:
            ended.set()

    Thread(target=run, daemon=True, name="secret").start()
    until = time.monotonic() + seconds
    while not ended.wait(_LOOK):
        if scope.is_cancelled or time.monotonic() > until:
            raise TimeoutError
    if errors:
        raise errors[0]
    return results[0]
