"""Messages to one reader that nobody waits for: sent in order, by a task of the reader's own."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import anyio
import structlog
from anyio.abc import TaskGroup

LIMIT = 1024
"""How many messages may wait for one that does not read; the oldest are dropped first."""

log = structlog.stdlib.get_logger(__name__)

Send: TypeAlias = Callable[[], Awaitable[None]]


class Mailbox:
    """Keeps who does not read, client or child, from holding up the other that speaks to it."""

    def __init__(self, tasks: TaskGroup) -> None:
        self._tasks = tasks
        self._waiting: deque[Send] = deque()
        self._is_sending = False
        self._taken = 0
        self._done = 0
        self._moved = anyio.Event()

    def put(self, send: Send) -> None:
        """Let `send` have its turn; returns at once."""
        if len(self._waiting) >= LIMIT:
            self._waiting.popleft()
            self._done += 1
            log.warning("messages are not read: the oldest is dropped", waiting=LIMIT)
        self._waiting.append(send)
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

    async def _send_all(self) -> None:
        while self._waiting:
            await self._waiting.popleft()()
            self._done += 1
            moved, self._moved = self._moved, anyio.Event()
            moved.set()
        self._is_sending = False
