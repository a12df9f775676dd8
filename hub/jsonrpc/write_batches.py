"""Write batches: what is written while received data is processed takes few system calls."""

from __future__ import annotations

import asyncio  # noqa: TID251 - its transports are written into
from collections.abc import Iterable
from typing import Final

import structlog

LARGE: Final = 64 * 1024
"""Bytes above which joining the pieces costs more than writing them one by one."""

log = structlog.stdlib.get_logger(__name__)


class ReadBatch:
    """Delays writes while received data is processed within one callback of the loop.

    While `is_under_way`, writers are collected in `waiting`; they are flushed at the end.
    """

    def __init__(self) -> None:
        self.is_under_way = False
        self.waiting: list[BatchedWriter] = []

    def __enter__(self) -> None:
        self.is_under_way = True

    def __exit__(self, *_: object) -> None:
        self.is_under_way = False
        waiting, self.waiting = self.waiting, []
        _flush(waiting)


class SharedTurn:
    """Delays writes in one turn of the loop, in which it may read from many connections.

    What a writer writes first is written at once, and all else together at the end of the turn: so
    a single call loses no time, and the calls of many clients wake their server once.
    """

    def __init__(self) -> None:
        self.is_shared = False
        self._begun: dict[BatchedWriter, None] = {}

    def share(self) -> None:
        """Delay writes until the end of this turn."""
        if not self.is_shared:
            self.is_shared = True
            asyncio.get_running_loop().call_soon(self._end)

    def has_begun(self, writer: BatchedWriter) -> bool:
        """Return whether `writer` has written in this turn; from now on it has."""
        if writer in self._begun:
            return True
        self._begun[writer] = None
        return False

    def _end(self) -> None:
        self.is_shared = False
        begun, self._begun = self._begun, {}
        _flush(begun)


def _flush(writers: Iterable[BatchedWriter]) -> None:
    for writer in writers:
        try:
            writer.flush()
        except Exception:
            # A failed write must not break the connection that received the data.
            log.exception("not written")


arrival: Final = ReadBatch()
"""The batch of the running loop; one is enough, because callbacks do not interrupt each other."""
turn: Final = SharedTurn()
"""The turn of the running loop."""


class BatchedWriter:
    """Writes into a transport in order: at once, or when a `ReadBatch` or `SharedTurn` ends."""

    def __init__(self, transport: asyncio.WriteTransport) -> None:
        self._transport = transport
        self._pieces: list[bytes] = []
        self._size = 0

    def write(self, piece: bytes) -> None:
        """Write `piece` after all earlier pieces."""
        pieces = self._pieces
        if not pieces:
            if arrival.is_under_way:
                arrival.waiting.append(self)
            elif not turn.is_shared or not turn.has_begun(self):
                self._transport.write(piece)
                return
        pieces.append(piece)
        self._size += len(piece)
        if self._size > LARGE:
            self.flush()

    def flush(self) -> None:
        """Write all collected pieces now."""
        pieces, self._pieces = self._pieces, []
        size, self._size = self._size, 0
        if not pieces or self._transport.is_closing():
            return
        if size > LARGE:
            for piece in pieces:
                self._transport.write(piece)
        else:
            self._transport.write(b"".join(pieces))
