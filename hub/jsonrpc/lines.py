"""Line splitter and line reader: cuts the bytes of a pipe into lines and delivers them in order."""

from __future__ import annotations

import asyncio  # noqa: TID251 - its protocols carry lines without worker threads
from collections import deque
from collections.abc import Callable, Iterator
from typing import cast

import anyio

from hub.jsonrpc import messages
from hub.jsonrpc.errors import GoneError
from hub.jsonrpc.peer_conduct import READ, PeerConduct
from hub.jsonrpc.pipes import arrival

ENDS = 256
"""Bytes that are kept of the start and of the end of a line that is too long."""
MAX_UNREAD = 64 * 1024 * 1024
"""Bytes of lines that may wait for `Lines.next`; beyond, the pipe is not read and fills up."""
MANY_LINES = 256
"""Lines that one chunk may have to be split at once; a chunk with more is split in portions."""
LAST_LINES = 1.0
"""Seconds that reading the remaining output of an ended process may take."""
QUIET = 0.05
"""Seconds without data after which the output of an ended process counts as read."""
SMALL = 4096
"""Bytes below which what was read at once is put together: each object takes some fifty more."""
PORTION, PORTIONS = 1024, 8
"""Bytes in one portion of a chunk with many lines, and portions in one turn of the loop."""


def end_of_lines(data: bytes, start: int, count: int) -> int:
    """Return where `count` lines from `start` on end; the end of `data` if it has fewer."""
    for _ in range(count):
        start = data.find(b"\n", start) + 1
        if not start:
            return len(data)
    return start


class TruncatedLine(bytes):
    """The start and the end of a line that was too long, `ENDS` bytes each; it had `size` bytes."""

    size: int = 0


class UnfinishedLine(bytes):
    """The last line of a stream that has no newline: perhaps the writer ended inside it."""


def _size_of(line: bytes) -> int:
    return line.size if isinstance(line, TruncatedLine) else len(line)


class LineSplitter:
    """Cuts a byte stream into lines; a `TruncatedLine` replaces a line longer than `limit`.

    `is_skipping`: the current line is too long already, so that its next bytes are dropped.
    """

    def __init__(self, limit: int = messages.MAX_MESSAGE_BYTES) -> None:
        self._limit = limit
        self._head = self._tail = b""
        self._parts: list[bytes | bytearray] = []
        self._size = 0
        self.is_skipping = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that `chunk` completes, without newlines and without blank lines."""
        end = chunk.find(b"\n")
        if end < 0:  # several times as fast as `split`
            self._keep(chunk)
            return []
        if end == len(chunk) - 1 <= self._limit and not (self._size or self.is_skipping):
            line = chunk[:end]  # the usual chunk: exactly one line
            return [line] if line.lstrip() else []
        pieces = chunk.split(b"\n")
        rest = pieces.pop()
        lines: list[bytes]
        if self._size or self.is_skipping or len(chunk) > self._limit:
            lines = [
                line
                for line in self._finished(pieces)
                if isinstance(line, TruncatedLine) or line.lstrip()
            ]
        else:
            lines = [*filter(bytes.lstrip, pieces)]
        if rest:
            self._keep(rest)
        return lines

    def _finished(self, pieces: list[bytes]) -> Iterator[bytes]:
        """Yield the completed lines; only the first can have a part from earlier chunks."""
        yield self._finish(pieces[0])
        for piece in pieces[1:]:
            yield piece if len(piece) <= self._limit else self._finish(piece)

    def finish(self) -> list[bytes]:
        """Return the last line if it has no newline, as in a file."""
        line = self._finish(b"")
        if isinstance(line, TruncatedLine):
            return [line]
        return [UnfinishedLine(line)] if line.lstrip() else []

    def _keep(self, piece: bytes) -> None:
        self._size += len(piece)
        if self.is_skipping:
            self._tail = (self._tail + piece[-ENDS:])[-ENDS:]
        if self.is_skipping or not piece:
            return
        if self._size > self._limit:
            self.is_skipping = True
            whole = b"".join([*self._parts, piece])
            self._head, self._tail = whole[:ENDS], whole[-ENDS:]
            self._parts.clear()
        elif len(piece) >= SMALL:
            self._parts.append(piece)
        elif self._parts and isinstance(last := self._parts[-1], bytearray):
            last += piece
        else:
            self._parts.append(bytearray(piece))

    def _finish(self, piece: bytes) -> bytes:
        self._keep(piece)
        if self.is_skipping:
            line: bytes = TruncatedLine(self._head + self._tail)
            line.size = self._size
        else:
            line = b"".join(self._parts)
        self._parts, self._size, self.is_skipping = [], 0, False
        return line


class Lines(asyncio.Protocol):
    """The lines of a readable pipe, in order; reading pauses while too many lines wait.

    Each line is offered to `taker` once all lines before it are done; it returns whether it took
    the line. Other lines wait for `next`; calling `next` again means that the line before is done.
    A `conduct` limits the loop time for lines that were not taken and for data that makes no lines.
    `quiet` and `last_lines` are in seconds.
    """

    def __init__(
        self,
        *,
        backlog: int = 256,
        conduct: PeerConduct | None = None,
        quiet: float = QUIET,
        last_lines: float = LAST_LINES,
    ) -> None:
        self.taker: Callable[[bytes], bool] = lambda _: False  # takes none
        self.failure: str | None = None
        self._conduct = conduct
        self._splitter = LineSplitter()
        self._unsplit: deque[bytes] = deque()
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._is_left = False
        self._is_worked_on = False
        self._has_ended = self._is_over = False
        self._is_resting = self._is_due = False
        self._has_come = False
        self._arrived = anyio.Event()
        self._backlog = backlog
        self._quiet, self._last_lines = quiet, last_lines
        self._transport: asyncio.ReadTransport | None = None
        self._paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Some loops' transports are of another class, but a pipe's can always pause reading.
        self._transport = cast("asyncio.ReadTransport", transport)

    def data_received(self, data: bytes) -> None:
        self._has_come = True
        if self._is_over or self._has_ended:
            self._pause()
        elif self._unsplit or (len(data) > MANY_LINES and data.count(b"\n") > MANY_LINES):
            self._unsplit.append(data)
            self._cut_later()
        else:
            lines = self._splitter.feed(data)
            if len(lines) == 1:
                self._take(lines)
            else:
                with arrival:
                    self._take(lines)
                if not lines and self._conduct is not None:
                    self._no_lines(data, self._conduct)
        if (self._waiting or self._unsplit) and self._is_too_much:
            self._pause()

    # Chunks with many lines are split in portions, between the turns of other tasks

    def _cut_later(self, rest: float = 0.0) -> None:
        """Schedule `_cut` in `rest` seconds, unless a line still waits or is being processed."""
        if self._is_due or self._waiting or self._is_worked_on:
            return
        self._is_due = True
        loop = asyncio.get_running_loop()
        if rest:
            loop.call_later(rest, self._cut)
        else:
            loop.call_soon(self._cut)

    def _cut(self) -> None:
        self._is_due = False
        pace = None if self._conduct is None else self._conduct.pace
        began = 0.0 if pace is None else pace.clock()
        wasted = b""
        with arrival:
            for _ in range(PORTIONS):
                if not self._unsplit or self._waiting or self._is_worked_on:
                    break
                portion = self._portion()
                lines = self._splitter.feed(portion)
                wasted += portion if not lines and self._is_waste(portion) else b""
                self._take(lines)
        rest = 0.0
        if pace is not None and self._conduct is not None and wasted:
            pace.spend(pace.clock() - began)
            rest = pace.rest() or 0.0
            self._count(wasted, self._conduct)
        if self._unsplit:
            self._cut_later(rest)
        else:
            self._all_cut()

    def _portion(self) -> bytes:
        first = self._unsplit.popleft()
        if len(first) > PORTION:
            self._unsplit.appendleft(first[PORTION:])
        return first[:PORTION]

    def _all_cut(self) -> None:
        if self._has_ended:
            self._finish()
        elif not self._is_too_much:
            self._read_on()

    # Data that makes no lines: blank lines, the rest of a line that is too long, a few bytes of one

    def _no_lines(self, data: bytes, conduct: PeerConduct) -> None:
        """Count data that makes no line, and pause reading when the loop time is used up."""
        if self._is_waste(data):
            self._count(data, conduct)
            conduct.pace.spend(0.0, len(data))
        elif len(data) < SMALL:
            conduct.pace.spend(READ)
        else:
            return
        rest = conduct.pace.rest()
        if rest and not self._is_resting and self._transport is not None:
            self._is_resting = True
            self._pause()
            asyncio.get_running_loop().call_later(rest, self._rested)

    def _is_waste(self, data: bytes) -> bool:
        return self._splitter.is_skipping or data.endswith(b"\n")

    def _rested(self) -> None:
        self._is_resting = False
        if not self._is_too_much:
            self._read_on()

    def _count(self, data: bytes, conduct: PeerConduct) -> None:
        what = "it writes empty lines, or a line that does not end"
        why = conduct.verdict(what, len(data), data.count(b"\n"))
        if why is not None:
            self.fail(why)

    def fail(self, reason: str) -> None:
        """End the stream: waiting lines are dropped, and `next` raises GoneError with `reason`."""
        if not self._is_over:
            self.failure = reason
            self._drop()

    # Lines

    def _take(self, lines: list[bytes]) -> None:
        if self._is_over:
            return
        pace = None if self._conduct is None else self._conduct.pace
        for line in lines:
            if self._waiting or self._is_worked_on:
                self._keep(line)
                continue
            began = 0.0 if pace is None else pace.clock()
            if line.__class__ is TruncatedLine or not self.taker(line):
                self._keep(line)
                self._is_left = True
                if pace is not None:
                    pace.spend(pace.clock() - began)

    def _keep(self, line: bytes) -> None:
        self._waiting.append(line)
        self._size += len(line)
        self._arrived.set()

    @property
    def _is_too_much(self) -> bool:
        many = len(self._waiting) > self._backlog or self._size > MAX_UNREAD
        return many or bool(self._unsplit) or self._is_resting

    def eof_received(self) -> bool:
        self._has_ended = True
        if not self._unsplit:
            self._finish()
        return False

    def end_soon(self) -> None:
        """End the stream once the pipe is empty, within about `last_lines` seconds.

        Call it when the child has ended: another process may still hold the pipe open.
        """
        self._has_come = True
        self._look(asyncio.get_running_loop(), anyio.current_time() + self._last_lines)

    def _look(self, loop: asyncio.AbstractEventLoop, until: float) -> None:
        if self._has_ended:
            return
        is_read = not (self._has_come or self._waiting or self._unsplit or self._paused)
        if is_read or anyio.current_time() >= until:
            self.eof_received()
        else:
            self._has_come = False
            loop.call_later(self._quiet, self._look, loop, until)

    def _finish(self) -> None:
        self._take(self._splitter.finish())
        self._end()

    def _end(self) -> None:
        self._is_over = True
        self._arrived.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.eof_received()

    @property
    def has_more(self) -> bool:
        """Whether more has arrived already: lines, or the end."""
        return bool(self._waiting or self._unsplit or self._has_ended)

    async def next(self) -> bytes:
        """Return the next line that `taker` did not take; a `TruncatedLine` if it was too long.

        Raises: GoneError at the end of the stream, or after `fail`.
        """
        self._is_worked_on = False
        await self._give_way()
        while True:
            while self._waiting:
                line = self._waiting.popleft()
                self._size -= len(line)
                self._read_on()
                was_left, self._is_left = self._is_left, False
                if self._conduct is not None:
                    self._conduct.pace.hand(_size_of(line))
                if was_left or line.__class__ is TruncatedLine or not self.taker(line):
                    self._is_worked_on = True
                    return line
            if self._unsplit:
                self._cut_later()
            elif self._is_over:
                raise GoneError(self.failure or "the stream ended")
            self._arrived = anyio.Event()
            await self._arrived.wait()

    async def _give_way(self) -> None:
        """Sleep if the lines so far used enough of the loop's time."""
        rest = None if self._conduct is None else self._conduct.pace.done()
        if rest is not None:
            await anyio.sleep(rest)

    def _pause(self) -> None:
        if not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def _read_on(self) -> None:
        if not self._paused or self._transport is None or self._is_over:
            return
        if self._unsplit or self._is_resting:
            return
        if len(self._waiting) <= self._backlog // 2 and self._size <= MAX_UNREAD // 2:
            self._paused = False
            self._transport.resume_reading()

    def close(self) -> None:
        """Stop reading; lines that wait are dropped."""
        self._drop()
        if self._transport is not None:
            self._transport.close()

    def _drop(self) -> None:
        self._unsplit.clear()
        self._waiting.clear()
        self._end()
