"""Pipe transport: JSON lines over pipes, files and terminals, without worker threads for pipes.

A pipe is an asyncio transport: received bytes are split into lines at once, and writers wait
while the pipe is full.
"""

from __future__ import annotations

import asyncio  # noqa: TID251 - its protocols carry lines without worker threads
import os
from collections.abc import Callable, Iterable
from typing import BinaryIO, Final

import anyio
import structlog

from hub.jsonrpc.errors import GoneError
from hub.jsonrpc.exact_json import UNWRITABLE, encoder
from hub.jsonrpc.messages import Message, to_bytes

WRITE_HIGH_WATER = 1024 * 1024
LARGE: Final = 64 * 1024
"""Bytes above which joining the pieces costs more than writing them one by one."""

log = structlog.stdlib.get_logger(__name__)


def to_line(message: Message) -> bytes:
    """Return a message as JSON with a newline; otherwise as `to_bytes`."""
    try:
        return encoder.encode_lines([message])
    except UNWRITABLE:
        return to_bytes(message) + b"\n"


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


class Flow(asyncio.BaseProtocol):
    """Flow control of a written pipe: writers wait while its reader does not read.

    `is_free`: the pipe accepts more now; `is_lost`: the pipe is closed, of which `told` is called.
    """

    def __init__(self, told: Callable[[], None] = lambda: None) -> None:
        self._told = told
        self.is_free = True
        self.is_lost = False
        self._free = anyio.Event()
        self._free.set()
        self._lost = anyio.Event()

    def pause_writing(self) -> None:
        self._free = anyio.Event()
        self.is_free = False

    def resume_writing(self) -> None:
        self._free.set()
        self.is_free = not self.is_lost

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost, self.is_free = True, False
        self._lost.set()
        self._free.set()
        self._told()

    async def lost(self) -> None:
        """Return once the pipe is closed."""
        await self._lost.wait()

    async def drained(self) -> None:
        """Wait until the pipe accepts more.

        Raises: GoneError if the pipe is closed.
        """
        while True:
            await self._free.wait()
            if self.is_lost:
                raise GoneError("the pipe is closed")
            if self.is_free:
                return  # otherwise another writer has filled the pipe again


class PipeOutlet:
    """Writes messages into a pipe, one line each."""

    def __init__(self, transport: asyncio.WriteTransport, flow: Flow) -> None:
        transport.set_write_buffer_limits(high=WRITE_HIGH_WATER)
        self._transport = transport
        self._writer = BatchedWriter(transport)
        self._flow = flow

    @property
    def gone(self) -> bool:
        """Whether the pipe is closed or closing."""
        return self._flow.is_lost or self._transport.is_closing()

    async def lost(self) -> None:
        """Return once the pipe is closed."""
        await self._flow.lost()

    def post(self, message: Message) -> bool:
        """Write `message` if the pipe accepts it now; return whether it was written."""
        if not self._flow.is_free or self._transport.is_closing():
            return False
        self._writer.write(to_line(message))
        return True

    async def send(self, message: Message) -> None:
        # Wait before writing, too: otherwise each sender adds a message to a full pipe's buffer.
        while not self.post(message):
            if self._transport.is_closing():
                raise GoneError("the pipe is closed")
            await self._flow.drained()
        await self._flow.drained()

    def abort(self) -> None:
        """Close the pipe at once; unwritten data is lost."""
        if not self._flow.is_lost:
            self._transport.abort()

    def end(self) -> None:
        """Have the pipe closed once all data is written."""
        self._writer.flush()
        self._transport.close()

    async def close(self) -> None:
        """Close the pipe once all data is written."""
        self.end()
        await self._flow.lost()


class FileOutlet:
    """Writes messages into a file, one line each: standard output redirected to a file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._lost = anyio.Event()

    async def lost(self) -> None:
        """Return once the file cannot be written, as on a full disk."""
        await self._lost.wait()

    def post(self, message: Message) -> bool:
        """Write and flush `message`; return whether that was possible."""
        line = to_line(message)
        if self._lost.is_set():
            return False  # what was written last may be half a line
        try:
            self._file.write(line)
            self._file.flush()
        except OSError as exc:
            log.warning("the client's file cannot be written", reason=exc.strerror)
            self._lost.set()
        return not self._lost.is_set()

    async def send(self, message: Message) -> None:
        if not self.post(message):
            raise GoneError("the file cannot be written")

    async def close(self) -> None:
        """Do nothing: all messages are written."""


class TerminalOutlet(FileOutlet):
    """Writes messages into a terminal or into a socket that is standard input as well.

    It is no asyncio transport: one that writes also reads, to notice the end, and would take the
    client's input.
    """

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file)
        self._turn = anyio.Lock()

    def post(self, message: Message) -> bool:
        return False

    async def send(self, message: Message) -> None:
        number, rest = self._file.fileno(), memoryview(to_line(message))
        async with self._turn:
            with anyio.CancelScope(shield=True):  # a partial line would break the next message
                while rest:
                    rest = rest[await _written(number, rest) :]


async def _written(number: int, text: memoryview) -> int:
    try:
        return os.write(number, text)
    except BlockingIOError:  # the reader of the same terminal or socket set it to non-blocking
        await anyio.wait_writable(number)
        return 0
    except OSError as exc:
        raise GoneError(f"it cannot be written: {exc}") from exc
