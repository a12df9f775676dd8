"""What is written within one turn of the event loop, as one write: one system call, one wake-up."""

from __future__ import annotations

import asyncio  # noqa: TID251 - the transport's own turn of the loop
from typing import Final

LARGE: Final = 64 * 1024
"""Bytes from which on copying pieces into one costs more than writing them one by one."""


class Gathering:
    """Writes into a transport when the turn is over, in order."""

    def __init__(self, transport: asyncio.WriteTransport) -> None:
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._pieces: list[bytes] = []
        self._size = 0

    def write(self, piece: bytes) -> None:
        """Write `piece` after what was given before it; a large one at once."""
        if not self._pieces:
            self._loop.call_soon(self.flush)
        self._pieces.append(piece)
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
            self._transport.write(pieces[0] if len(pieces) == 1 else b"".join(pieces))
