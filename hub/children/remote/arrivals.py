"""What a remote child sent, from the several streams that bring it to the one reader."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import anyio
from msgspec import Raw

from hub.jsonrpc.conduct import Conduct
from hub.jsonrpc.messages import Failure, Message, Notification, Response
from hub.jsonrpc.peer import GoneError

QUEUE, MAX_UNREAD = 16, 64 * 1024 * 1024
"""How many messages of a child, and bytes, may wait for the hub; then its streams rest."""


class Arrivals:
    """Messages in the order of their coming; who brings one waits while too many lie there.

    The reader is done with one when it asks for the next, and is paced by `conduct`.
    """

    def __init__(self, conduct: Conduct) -> None:
        self._conduct = conduct
        self._waiting: deque[Message] = deque()
        self._size = 0
        self._came: anyio.Event | None = None
        self._left: anyio.Event | None = None
        self.ended: str | None = None
        self.settle: Callable[[Response | Failure], bool] | None = None

    async def put(self, message: Message) -> None:
        """Bring a message; after the end it is dropped.

        With `settle`, that gets an answer before which no message waits or is worked on; if nobody
        waits for it, it comes as any message.
        """
        if (
            self.settle is not None
            and self._came is not None
            and isinstance(message, Response | Failure)
            and self.settle(message)
        ):
            self._conduct.answered()
            return
        while self._is_full and self.ended is None:
            self._left = self._left or anyio.Event()
            await self._left.wait()
        if self.ended is None:
            self._waiting.append(message)
            self._size += _size(message)
            self._tell()

    @property
    def _is_full(self) -> bool:
        return len(self._waiting) >= QUEUE or self._size >= MAX_UNREAD

    def end(self, reason: str) -> None:
        """Let there be no further messages; the first reason counts."""
        if self.ended is None:
            self.ended = reason
            self._tell()
            self._go_on()

    async def next(self) -> Message:
        """Return the next message.

        Raises: GoneError, with the reason, after the last.
        """
        rest = self._conduct.pace.done()
        if rest is not None:
            await anyio.sleep(rest)
        while not self._waiting:
            if self.ended is not None:
                raise GoneError(self.ended)
            self._came = anyio.Event()
            await self._came.wait()
        message = self._waiting.popleft()
        size = _size(message)
        self._size -= size
        self._conduct.pace.hand(size)
        self._go_on()
        return message

    def _tell(self) -> None:
        if self._came is not None:
            self._came.set()
            self._came = None

    def _go_on(self) -> None:
        if self._left is not None:
            self._left.set()
            self._left = None


def _size(message: Message) -> int:
    """Return the bytes that a message carries; what was read of it already counts for nothing."""
    match message:
        case Response(result=Raw() as carried) | Failure(error=Raw() as carried):
            return memoryview(carried).nbytes
        case Notification(params=Raw() as carried):
            return memoryview(carried).nbytes
        case _:
            return 0
