"""Send queue: messages to one reader, sent in order by a task, so that senders do not wait."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import anyio
import structlog

from hub.system.tasks import TaskStarter

LIMIT, MAX_WEIGHT = 1024, 64 * 1024 * 1024
"""Number of messages, and their bytes, that may wait for a reader that does not read.

Beyond, the oldest are dropped. A message larger than the limit is queued, but alone.
"""

log = structlog.stdlib.get_logger(__name__)

Send: TypeAlias = Callable[[], Awaitable[None]]


class SendQueue:
    """Queues messages for one client or child, so that a slow reader does not block the sender."""

    def __init__(
        self, tasks: TaskStarter, *, limit: int = LIMIT, max_weight: int = MAX_WEIGHT
    ) -> None:
        self._tasks = tasks
        self._limit, self._max_weight = limit, max_weight
        self._waiting: deque[tuple[Send, int]] = deque()
        self._weight = 0
        self._is_sending = False
        self._dropped = 0
        self._taken = 0
        self._done = 0
        self._moved = anyio.Event()

    def put(self, send: Send, weight: int = 0) -> None:
        """Queue `send`, which sends about `weight` bytes; returns at once."""
        while self._waiting and (
            len(self._waiting) >= self._limit or self._weight + weight > self._max_weight
        ):
            self._drop()
        self._waiting.append((send, weight))
        self._weight += weight
        self._taken += 1
        if not self._is_sending:
            self._is_sending = True
            self._tasks.start_soon(self._send_all)

    @property
    def is_empty(self) -> bool:
        """Whether all messages put so far are sent or dropped."""
        return self._done >= self._taken

    async def flush(self) -> None:
        """Return once all messages put so far are sent or dropped; a response can follow."""
        mine = self._taken
        while self._done < mine:
            await self._moved.wait()

    def _drop(self) -> None:
        self._next()
        self._done += 1
        if not self._dropped:
            log.warning(
                "messages are not read in time: the oldest are dropped",
                kept=len(self._waiting),
            )
        self._dropped += 1

    def _next(self) -> Send:
        send, weight = self._waiting.popleft()
        self._weight -= weight
        return send

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                try:
                    await self._next()()
                except Exception:
                    log.exception("a message is not sent")
                finally:
                    self._done += 1
                    moved, self._moved = self._moved, anyio.Event()
                    moved.set()
        finally:
            self._is_sending = False
            if self._dropped:
                log.warning("messages were dropped", dropped=self._dropped)
            self._dropped = 0
