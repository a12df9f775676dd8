"""Cuts a stream of bytes into lines, and hands them on in order."""

from __future__ import annotations

import asyncio  # noqa: TID251 - its protocols carry lines without worker threads
from collections import deque
from collections.abc import Callable, Iterator
from typing import cast

import anyio

from hub.jsonrpc import messages
from hub.jsonrpc.peer import GoneError
from hub.jsonrpc.peer_conduct import PeerConduct
from hub.jsonrpc.write_batches import arrival

ENDS = 256
"""How many bytes of each end of a line are kept of one that was too long."""
MAX_UNREAD = 64 * 1024 * 1024
"""Bytes of lines that may wait for their reader; then the other end waits too."""
CROWD = 256
"""How many lines may come at once to be cut at once; more are cut in portions."""
LAST_LINES = 1.0
"""Seconds that reading may take of what a process has written that has ended."""
QUIET = 0.05
"""Seconds in which nothing comes when all of it was read."""
PORTION, PORTIONS = 1024, 8
"""Bytes of a crowd that are cut at once, and how many such there are in a turn of the loop."""


class TruncatedLine(bytes):
    """What is kept of a line that was too long: its beginning and its end, `ENDS` bytes of each."""


class LineSplitter:
    """Cuts a byte stream into lines; a `TruncatedLine` replaces a line longer than `limit`."""

    def __init__(self, limit: int = messages.MAX_MESSAGE_BYTES) -> None:
        self._limit = limit
        self._head = self._tail = b""
        self._parts: list[bytes] = []
        self._size = 0
        self._skipping = False

    @property
    def is_skipping(self) -> bool:
        """Whether what comes belongs to a line that is too long already."""
        return self._skipping

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that `chunk` completes, without their ends and without empty ones."""
        end = chunk.find(b"\n")
        if end < 0:  # which is found out several times as fast as by splitting
            self._keep(chunk)
            return []
        if end == len(chunk) - 1 <= self._limit and not (self._size or self._skipping):
            line = chunk[:end]  # and so is what nearly always comes: one line
            return [line] if line.lstrip() else []
        pieces = chunk.split(b"\n")
        rest = pieces.pop()
        lines: list[bytes]
        if self._size or self._skipping or len(chunk) > self._limit:
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
        """Yield the lines that pieces are the ends of; only of the first can more have come."""
        yield self._finish(pieces[0])
        for piece in pieces[1:]:
            yield piece if len(piece) <= self._limit else self._finish(piece)

    def finish(self) -> list[bytes]:
        """Return the last line if it has no end, as that of a file may."""
        line = self._finish(b"")
        return [line] if isinstance(line, TruncatedLine) or line.lstrip() else []

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
            line: bytes = TruncatedLine(self._head + self._tail)
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
    With a `conduct`, what `next` returns is paced by it, and so is what makes no lines.
    """

    def __init__(self, *, backlog: int = 256, conduct: PeerConduct | None = None) -> None:
        self.taker: Callable[[bytes], bool] = _nobody
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
        self._transport: asyncio.ReadTransport | None = None
        self._paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not every loop's transports are of this class; a pipe that is read can be paused anyway.
        self._transport = cast("asyncio.ReadTransport", transport)

    def data_received(self, data: bytes) -> None:
        self._has_come = True
        if self._is_over or self._has_ended:
            self._pause()
        elif self._unsplit or (len(data) > CROWD and data.count(b"\n") > CROWD):
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
                    self._waste(data, self._conduct)
        if (self._waiting or self._unsplit) and self._is_too_much:
            self._pause()

    # What comes as a crowd of lines is cut bit by bit, between the turns of others

    def _cut_later(self, rest: float = 0.0) -> None:
        """Have the crowd cut on, if nothing of it waits for its reader first."""
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

    # What makes no lines: empty ones, and the rest of one that is too long

    def _waste(self, data: bytes, conduct: PeerConduct) -> None:
        """Count bytes without a line, if they are of none, and let others have their turn."""
        if not self._is_waste(data):
            return
        self._count(data, conduct)
        conduct.pace.spend(0.0, len(data))
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
        what = "it writes empty lines, or one without an end"
        why = conduct.verdict(what, len(data), data.count(b"\n"))
        if why is not None:
            self.fail(why)

    def fail(self, reason: str) -> None:
        """Let nothing more come, for this reason."""
        if not self._is_over:
            self.failure = reason
            self._unsplit.clear()
            self._waiting.clear()
            self._end()

    # Lines

    def _take(self, lines: list[bytes]) -> None:
        if self._is_over:
            return
        for line in lines:
            if self._waiting or self._is_worked_on:
                self._keep(line)
            elif line.__class__ is TruncatedLine or not self.taker(line):
                self._keep(line)
                self._is_left = True

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
        """End when what is in the pipe has been read: who writes to it now is not who is asked."""
        self._has_come = True
        self._look(asyncio.get_running_loop(), anyio.current_time() + LAST_LINES)

    def _look(self, loop: asyncio.AbstractEventLoop, until: float) -> None:
        if self._has_ended:
            return
        is_read = not (self._has_come or self._waiting or self._unsplit or self._paused)
        if is_read or anyio.current_time() >= until:
            self.eof_received()
        else:
            self._has_come = False
            loop.call_later(QUIET, self._look, loop, until)

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
        """Whether another line has come already."""
        return bool(self._waiting or self._unsplit)

    async def next(self) -> bytes:
        """Return the next line that nobody took; a `TruncatedLine` if it was too long.

        Raises: GoneError at the end of the stream.
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
                    self._conduct.pace.hand(len(line))
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
        """Let others have their turn, if the lines so far took enough time of theirs."""
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
        """Stop reading; what was not taken yet is dropped."""
        self._is_over = True
        self._unsplit.clear()
        self._waiting.clear()
        self._arrived.set()
        if self._transport is not None:
            self._transport.close()
