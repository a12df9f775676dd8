"""Cuts a stream of bytes into lines, and hands them on in order."""

from __future__ import annotations

import asyncio  # noqa: TID251 - its protocols carry lines without worker threads
from collections import deque
from collections.abc import Callable, Iterator
from typing import cast

import anyio

from hub.runtime import wire
from hub.runtime.gathering import arrival
from hub.runtime.peer import GoneError

ENDS = 256
"""How many bytes of each end of a line are kept of one that was too long."""
MAX_UNREAD = 64 * 1024 * 1024
"""Bytes of lines that may wait for their reader; then the other end waits too."""


class Cut(bytes):
    """What is kept of a line that was too long: its beginning and its end, `ENDS` bytes of each."""


class LineSplitter:
    """Cuts a byte stream into lines; one longer than `limit` is dropped, a `Cut` in its place."""

    def __init__(self, limit: int = wire.MAX_MESSAGE_BYTES) -> None:
        self._limit = limit
        self._head = self._tail = b""
        self._parts: list[bytes] = []
        self._size = 0
        self._skipping = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that `chunk` completes, without their ends and without empty ones."""
        if b"\n" not in chunk:  # which is found out several times as fast as by splitting
            self._keep(chunk)
            return []
        pieces = chunk.split(b"\n")
        rest = pieces.pop()
        lines: list[bytes]
        if self._size or self._skipping or len(chunk) > self._limit:
            lines = [
                line for line in self._finished(pieces) if isinstance(line, Cut) or line.lstrip()
            ]
        else:
            lines = [*filter(bytes.lstrip, pieces)]
        if rest:
            self._keep(rest)
        return lines

    def _finished(self, pieces: list[bytes]) -> Iterator[bytes]:
        """Yield the lines that pieces are the ends of; only of the first can more have come."""
        yield self._finish(pieces[0])
        for piece in pieces[1:]:
            yield piece if len(piece) <= self._limit else self._finish(piece)

    def finish(self) -> list[bytes]:
        """Return the last line if it has no end, as that of a file may."""
        line = self._finish(b"")
        return [line] if isinstance(line, Cut) or line.lstrip() else []

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

    def _finish(self, piece: bytes) -> bytes:
        self._keep(piece)
        if self._skipping:
            line: bytes = Cut(self._head + self._tail)
        else:
            line = b"".join(self._parts)
        self._parts, self._size, self._skipping = [], 0, False
        return line


def _nobody(line: bytes) -> bool:
    """Take nothing."""
    return False


class Lines(asyncio.Protocol):
    """The lines of a readable pipe, in order; reading pauses while too much of them waits.

    `taker` is offered each line as soon as all before it are done with, and says whether
    it took it. What it leaves waits for `next`, whose caller is done with a line when it asks on.
    """

    def __init__(self, *, backlog: int = 256) -> None:
        self.taker: Callable[[bytes], bool] = _nobody
        self._splitter = LineSplitter()
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._is_left = False
        self._is_worked_on = False
        self._is_over = False
        self._arrived = anyio.Event()
        self._backlog = backlog
        self._transport: asyncio.ReadTransport | None = None
        self._paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not every loop's transports are of this class; a pipe that is read can be paused anyway.
        self._transport = cast("asyncio.ReadTransport", transport)

    def data_received(self, data: bytes) -> None:
        lines = self._splitter.feed(data)
        if len(lines) == 1:
            self._take(lines)
        else:
            with arrival:
                self._take(lines)
        if self._waiting and self._is_too_much and self._transport is not None:
            self._transport.pause_reading()
            self._paused = True

    def _take(self, lines: list[bytes]) -> None:
        if self._is_over:
            return
        for line in lines:
            if self._waiting or self._is_worked_on:
                self._keep(line)
            elif not self._is_taken(line):
                self._keep(line)
                self._is_left = True

    def _is_taken(self, line: bytes) -> bool:
        return line.__class__ is not Cut and self.taker(line)

    def _keep(self, line: bytes) -> None:
        self._waiting.append(line)
        self._size += len(line)
        self._arrived.set()

    @property
    def _is_too_much(self) -> bool:
        return len(self._waiting) > self._backlog or self._size > MAX_UNREAD

    def eof_received(self) -> bool:
        self._take(self._splitter.finish())
        self._is_over = True
        self._arrived.set()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.eof_received()

    @property
    def has_more(self) -> bool:
        """Whether another line has come already."""
        return bool(self._waiting)

    async def next(self) -> bytes:
        """Return the next line that nobody took; a `Cut` stands for one that was too long.

        Raises: GoneError at the end of the stream.
        """
        self._is_worked_on = False
        while True:
            while self._waiting:
                line = self._waiting.popleft()
                self._size -= len(line)
                self._read_on()
                was_left, self._is_left = self._is_left, False
                if was_left or not self._is_taken(line):
                    self._is_worked_on = True
                    return line
            if self._is_over:
                raise GoneError("the stream ended")
            self._arrived = anyio.Event()
            await self._arrived.wait()

    def _read_on(self) -> None:
        few = len(self._waiting) <= self._backlog // 2 and self._size <= MAX_UNREAD // 2
        if self._paused and self._transport is not None and few:
            self._paused = False
            self._transport.resume_reading()

    def close(self) -> None:
        """Stop reading; what was not taken yet is dropped."""
        self._is_over = True
        self._waiting.clear()
        self._arrived.set()
        if self._transport is not None:
            self._transport.close()
