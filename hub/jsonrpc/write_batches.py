"""Write batches: all that is written while one received chunk is processed is one system call."""

from __future__ import annotations

import asyncio  # noqa: TID251 - its transports are written into
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
        for writer in waiting:
            try:
                writer.flush()
            except Exception:
                # A failed write must not break the connection that received the data.
                log.exception("not written")


arrival: Final = ReadBatch()
"""The batch of the running loop; one is enough, because callbacks do not interrupt each other."""


class BatchedWriter:
    """Writes into a transport in order: at once, or at the end of the current `ReadBatch`."""

    def __init__(self, transport: asyncio.WriteTransport) -> None:
        self._transport = transport
        self._pieces: list[bytes] = []
        self._size = 0

    def write(self, piece: bytes) -> None:
        """Write `piece` after all earlier pieces."""
        pieces = self._pieces
        if not pieces:
            if not arrival.is_under_way:
                self._transport.write(piece)
                return
            arrival.waiting.append(self)
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
