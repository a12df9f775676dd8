"""What one side has asked and not been answered: counted, so that nobody piles it up."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import anyio

MAX_UNSENT = 64
"""How many answers may wait for somebody who does not read, before he is not read any more."""


class Backlog:
    """Counts the requests whose answers are being made, and of these the answers being sent."""

    def __init__(self) -> None:
        self._answering = 0
        self._unsent = 0
        self._moved = anyio.Event()
        self._is_closed = False

    def begun(self) -> None:
        """Count a request; `ended` must follow."""
        self._answering += 1

    def ended(self) -> None:
        """Take note that a request has had its answer sent, or will never have."""
        self._answering -= 1
        self._move()

    @contextmanager
    def sending(self) -> Generator[None]:
        """Count an answer for as long as it is being sent."""
        self._unsent += 1
        try:
            yield
        finally:
            self._unsent -= 1
            self._move()

    async def room(self) -> None:
        """Return once there are not too many answers on their way, or there will be none."""
        while self._unsent >= MAX_UNSENT and not self._is_closed:
            await self._moved.wait()

    async def idle(self) -> None:
        """Return once everything has its answer sent."""
        while self._answering:
            await self._moved.wait()

    def close(self) -> None:
        """Let go who waits for room."""
        self._is_closed = True
        self._move()

    def _move(self) -> None:
        moved, self._moved = self._moved, anyio.Event()
        moved.set()
