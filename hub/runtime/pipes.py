"""Lines of JSON over pipes, without worker threads.

Pipes are asyncio transports: what arrives is cut into lines where it arrives, and a full pipe makes
its writers wait.
"""

from __future__ import annotations

import asyncio  # noqa: TID251 - its protocols carry lines without worker threads
import os
import stat
from contextlib import suppress
from typing import BinaryIO

import anyio
import anyio.to_thread

from hub.runtime import wire
from hub.runtime.peer import GoneError
from hub.runtime.wire import Message

WRITE_HIGH_WATER = 1024 * 1024
READ_CHUNK = 256 * 1024


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
        *finished, rest = chunk.split(b"\n")
        lines: list[bytes | None] = []
        for piece in finished:
            line = self._finish(piece)
            if line is None or line.strip():
                lines.append(line)
        self._keep(rest)
        return lines

    def finish(self) -> list[bytes | None]:
        """Return the last line if it has no end, as that of a file may."""
        line = self._finish(b"")
        return [line] if line is None or line.strip() else []

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


class Lines(asyncio.Protocol):
    """Gives each line of a readable pipe to a queue; reading pauses while the queue is full."""

    def __init__(self, *, backlog: int = 256) -> None:
        self._splitter = LineSplitter(keeps_ends=True)
        self._send, self._receive = anyio.create_memory_object_stream[bytes | None](float("inf"))
        self._backlog = backlog
        self._transport: asyncio.ReadTransport | None = None
        self._paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.ReadTransport):
            self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._take(self._splitter.feed(data))
        if self._waiting() > self._backlog and self._transport is not None:
            self._transport.pause_reading()
            self._paused = True

    def _take(self, lines: list[bytes | None]) -> None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            for line in lines:
                self._send.send_nowait(line)

    def eof_received(self) -> bool:
        self._take(self._splitter.finish())
        self._send.close()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.eof_received()

    @property
    def has_more(self) -> bool:
        """Whether another line has come already."""
        return self._waiting() > 0

    def _waiting(self) -> int:
        return self._receive.statistics().current_buffer_used

    async def next(self) -> bytes | None:
        """Return the next line; a `Cut` stands for one that was too long.

        Raises: GoneError at the end of the stream.
        """
        if self._paused and self._waiting() < self._backlog // 2 and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        try:
            return await self._receive.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            self._receive.close()
            raise GoneError("the stream ended") from None

    def close(self) -> None:
        """Stop reading; what was not taken yet is dropped."""
        self._send.close()
        self._receive.close()
        if self._transport is not None:
            self._transport.close()


class Flow(asyncio.BaseProtocol):
    """Makes writers wait while a pipe's other end does not read."""

    def __init__(self) -> None:
        self._free = anyio.Event()
        self._free.set()
        self._lost = anyio.Event()

    def pause_writing(self) -> None:
        self._free = anyio.Event()

    def resume_writing(self) -> None:
        self._free.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost.set()
        self._free.set()

    @property
    def is_lost(self) -> bool:
        """Whether the pipe is closed."""
        return self._lost.is_set()

    async def lost(self) -> None:
        """Return once the pipe is closed."""
        await self._lost.wait()

    async def drained(self) -> None:
        """Wait until the pipe takes more.

        Raises: GoneError when it never will.
        """
        await self._free.wait()
        if self.is_lost:
            raise GoneError("the pipe is closed")


class PipeOutlet:
    """Messages into a pipe, a line each."""

    def __init__(self, transport: asyncio.WriteTransport, flow: Flow) -> None:
        transport.set_write_buffer_limits(high=WRITE_HIGH_WATER)
        self._transport = transport
        self._flow = flow

    @property
    def gone(self) -> bool:
        """Whether nobody reads any more."""
        return self._flow.is_lost or self._transport.is_closing()

    async def lost(self) -> None:
        """Return once nobody reads any more."""
        await self._flow.lost()

    async def send(self, message: Message) -> None:
        if self.gone:
            raise GoneError("the pipe is closed")
        # Before, so that what waits for somebody who does not read is no more than who sends it.
        await self._flow.drained()
        self._transport.write(wire.to_bytes(message) + b"\n")
        await self._flow.drained()

    async def close(self) -> None:
        """Close the pipe once everything is written."""
        self._transport.close()
        await self._flow.lost()


class FileOutlet:
    """Messages into a file, a line each: what standard output is when it is redirected."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    async def lost(self) -> None:
        """Wait for ever: a file takes everything."""
        await anyio.sleep_forever()

    async def send(self, message: Message) -> None:
        self._file.write(wire.to_bytes(message) + b"\n")
        self._file.flush()

    async def close(self) -> None:
        """Do nothing: everything is written."""


def _can_be_watched(file: BinaryIO) -> bool:
    """Return whether a selector can tell when `file` is ready: not a regular file or /dev/null."""
    mode = os.fstat(file.fileno()).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or file.isatty()


async def open_outlet(file: BinaryIO) -> PipeOutlet | FileOutlet:
    """Return where messages to the reader of `file` go."""
    if not _can_be_watched(file):
        return FileOutlet(file)
    transport, flow = await asyncio.get_running_loop().connect_write_pipe(Flow, file)
    return PipeOutlet(transport, flow)


async def open_lines(file: BinaryIO) -> Lines:
    """Return the lines of `file`; one that nothing can watch is read by a thread."""
    if _can_be_watched(file):
        _, lines = await asyncio.get_running_loop().connect_read_pipe(Lines, file)
        return lines
    lines = Lines()
    while chunk := await anyio.to_thread.run_sync(file.read, READ_CHUNK):
        lines.data_received(chunk)
    lines.eof_received()
    return lines
