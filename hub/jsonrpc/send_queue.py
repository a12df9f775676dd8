"""Messages to one reader that nobody waits for: sent in order, by a task of the reader's own."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import anyio
import structlog
from anyio.abc import TaskGroup

LIMIT, MAX_WEIGHT = 1024, 64 * 1024 * 1024
"""How many messages may wait for one that does not read, and bytes of them.

The oldest are dropped first; one that is larger by itself waits all the same, and alone.
"""

log = structlog.stdlib.get_logger(__name__)

Send: TypeAlias = Callable[[], Awaitable[None]]


class SendQueue:
    """Keeps who does not read, client or child, from holding up the other that speaks to it."""

    def __init__(self, tasks: TaskGroup) -> None:
        self._tasks = tasks
        self._waiting: deque[tuple[Send, int]] = deque()
        self._weight = 0
        self._is_sending = False
        self._dropped = 0
        self._taken = 0
        self._done = 0
        self._moved = anyio.Event()

    def put(self, send: Send, weight: int = 0) -> None:
        """Let `send` have its turn, which sends so many bytes; returns at once."""
        while self._waiting and (len(self._waiting) >= LIMIT or self._weight + weight > MAX_WEIGHT):
            self._drop()
        self._waiting.append((send, weight))
        self._weight += weight
        self._taken += 1
        if not self._is_sending:
            self._is_sending = True
            self._tasks.start_soon(self._send_all)

    @property
    def is_empty(self) -> bool:
        """Whether everything that was put so far is sent."""
        return self._done >= self._taken

    async def flush(self) -> None:
        """Return once everything that was put so far is sent, so that an answer can follow it."""
        mine = self._taken
        while self._done < mine:
            await self._moved.wait()

    def _drop(self) -> None:
        self._next()
        self._done += 1
        if not self._dropped:
            log.warning("messages are not read: the oldest are dropped", kept=len(self._waiting))
        self._dropped += 1

    def _next(self) -> Send:
        send, weight = self._waiting.popleft()
        self._weight -= weight
        return send

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                await self._next()()
                self._done += 1
                moved, self._moved = self._moved, anyio.Event()
                moved.set()
        finally:
            self._is_sending = False
            if self._dropped:
                log.warning("messages were dropped", dropped=self._dropped)
            self._dropped = 0
