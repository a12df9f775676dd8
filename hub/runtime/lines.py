"""Cuts a stream of bytes into lines."""

from __future__ import annotations

from hub.runtime import wire

ENDS = 256
"""How many bytes of each end of a line are kept of one that was too long."""


class Cut(bytes):
    """What is kept of a line that was too long: its beginning and its end, `ENDS` bytes of each."""


class LineSplitter:
    """Cuts a byte stream into lines; one longer than `limit` is dropped, and None in its place.

    With `keeps_ends` a `Cut` is in its place.
    """

    def __init__(self, limit: int = wire.MAX_MESSAGE_BYTES, *, keeps_ends: bool = False) -> None:
        self._limit = limit
        self._keeps_ends = keeps_ends
        self._head = self._tail = b""
        self._parts: list[bytes] = []
        self._size = 0
        self._skipping = False

    def feed(self, chunk: bytes) -> list[bytes | None]:
        """Return the lines that `chunk` completes, without their ends and without empty ones."""
        if b"\n" not in chunk:  # which is found out several times as fast as by splitting
            self._keep(chunk)
            return []
        *finished, rest = chunk.split(b"\n")
        lines: list[bytes | None] = []
        for piece in finished:
            whole = not (self._size or self._skipping) and len(piece) <= self._limit
            line = piece if whole else self._finish(piece)
            if line is None or (line and not line.isspace()):
                lines.append(line)
        self._keep(rest)
        return lines

    def finish(self) -> list[bytes | None]:
        """Return the last line if it has no end, as that of a file may."""
        line = self._finish(b"")
        return [line] if line is None or (line and not line.isspace()) else []

    def _keep(self, piece: bytes) -> None:
        if self._skipping:
            self._tail = (self._tail + piece[-ENDS:])[-ENDS:]
        if self._skipping or not piece:
            return
        self._size += len(piece)
        if self._size > self._limit:
            self._skipping = True
            whole = b"".join([*self._parts, piece])
            self._head, self._tail = whole[:ENDS], whole[-ENDS:]
            self._parts.clear()
        else:
            self._parts.append(piece)

    def _finish(self, piece: bytes) -> bytes | None:
        self._keep(piece)
        if self._skipping:
            line = Cut(self._head + self._tail) if self._keeps_ends else None
        else:
            line = b"".join(self._parts)
        self._parts, self._size, self._skipping = [], 0, False
        return line
