"""What is written because of what arrived at once, as one write: one system call, one wake-up."""

from __future__ import annotations

import asyncio  # noqa: TID251 - its transports are written into
from typing import Final

import structlog

LARGE: Final = 64 * 1024
"""Bytes from which on copying pieces into one costs more than writing them one by one."""

log = structlog.stdlib.get_logger(__name__)


class ReadBatch:
    """What is written while something that has arrived is dealt with, within one callback.

    `is_under_way`: those that are `waiting` are written at its end.
    """

    def __init__(self) -> None:
        self.is_under_way = False
        self.waiting: list[BatchedWriter] = []

    def __enter__(self) -> None:
        self.is_under_way = True

    def __exit__(self, *_: object) -> None:
        self.is_under_way = False
        waiting, self.waiting = self.waiting, []
        for gathering in waiting:
            try:
                gathering.flush()
            except Exception:
                # It is another connection than the one on which something arrived.
                log.exception("not written")


arrival: Final = ReadBatch()
"""That of the loop that runs: callbacks do not interrupt each other."""


class BatchedWriter:
    """Writes into a transport in order: at once, or when what has arrived is dealt with."""

    def __init__(self, transport: asyncio.WriteTransport) -> None:
        self._transport = transport
        self._pieces: list[bytes] = []
        self._size = 0

    def write(self, piece: bytes) -> None:
        """Write `piece` after what was given before it."""
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
        """Write now what has been given."""
        pieces, self._pieces = self._pieces, []
        size, self._size = self._size, 0
        if not pieces or self._transport.is_closing():
            return
        if size > LARGE:
            for piece in pieces:
                self._transport.write(piece)
        else:
            self._transport.write(b"".join(pieces))
