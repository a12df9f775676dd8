"""What is written on one occasion, as one write: one system call, one wake-up.

An occasion is something that has arrived, or a turn of the event loop.
"""

from __future__ import annotations

import asyncio  # noqa: TID251 - the transport's own turn of the loop
from typing import Final

import structlog

LARGE: Final = 64 * 1024
"""Bytes from which on copying pieces into one costs more than writing them one by one."""

log = structlog.stdlib.get_logger(__name__)


class Arrival:
    """What is written while something that has arrived is dealt with, within one callback."""

    def __init__(self) -> None:
        self.is_under_way = False
        self._waiting: list[Gathering] = []

    def __enter__(self) -> None:
        self.is_under_way = True

    def let_wait(self, gathering: Gathering) -> None:
        """Let a gathering be written at the end."""
        self._waiting.append(gathering)

    def __exit__(self, *_: object) -> None:
        self.is_under_way = False
        waiting, self._waiting = self._waiting, []
        for gathering in waiting:
            try:
                gathering.flush()
            except Exception:
                # It is another connection than the one on which something arrived.
                log.exception("not written")


arrival: Final = Arrival()
"""That of the loop that runs: callbacks do not interrupt each other."""


class Gathering:
    """Writes into a transport in order, when what has arrived is dealt with or the turn is over."""

    def __init__(self, transport: asyncio.WriteTransport) -> None:
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._pieces: list[bytes] = []
        self._size = 0

    def write(self, piece: bytes) -> None:
        """Write `piece` after what was given before it; a large one at once."""
        if not self._pieces:
            self._wait()
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > LARGE:
            self.flush()

    def _wait(self) -> None:
        if arrival.is_under_way:
            arrival.let_wait(self)
        else:
            self._loop.call_soon(self.flush)

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
            self._transport.write(pieces[0] if len(pieces) == 1 else b"".join(pieces))
