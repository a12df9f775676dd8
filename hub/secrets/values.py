"""What a secret's value must be, whatever it is read from, and how long a reading may take."""

from __future__ import annotations

import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Event
from typing import Final, TypeVar

from hub.errors import HubError
from hub.system.tasks import in_daemon_thread

MAX_BYTES: Final = 64 * 1024
"""The largest value of a secret."""
_LOOK: Final = 0.05
"""Seconds between two looks whether a reading is still needed."""

T = TypeVar("T")


class SecretError(HubError):
    """A secret cannot be read: `what` says why, without any value, `fix` what to do."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(f"{what}. {fix}")
        self.what = what
        self.fix = fix


def value_in(content: bytes, source: str) -> str:
    """Return the value in what was read from `source`: without the newline at its end.

    Raises: SecretError if it is empty, too large or no text.
    """
    if len(content) > MAX_BYTES:
        raise SecretError(f"{source} has more than 64 KiB", "Name the secret alone.")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise SecretError(
            f"{source} is not UTF-8 text", "Encode it, for example as base64."
        ) from None
    if "\0" in text:
        raise SecretError(f"{source} has a NUL character", "Encode it, for example as base64.")
    value = text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text
    if not value:
        raise SecretError(f"{source} is empty", "Put the secret there.")
    return value


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
