"""Lines of JSON over pipes, without worker threads.

Pipes are asyncio transports: what arrives is cut there and then; a full pipe makes writers wait.
"""

from __future__ import annotations

import asyncio  # noqa: TID251 - its protocols carry lines without worker threads
import os
import stat
from typing import BinaryIO

import anyio
import anyio.to_thread

from hub.jsonrpc.encoding import to_line
from hub.jsonrpc.lines import Lines
from hub.jsonrpc.messages import Message
from hub.jsonrpc.peer import GoneError
from hub.jsonrpc.write_batches import BatchedWriter

WRITE_HIGH_WATER = 1024 * 1024
READ_CHUNK = 256 * 1024


class Flow(asyncio.BaseProtocol):
    """Makes writers wait while a pipe's other end does not read.

    `is_free`: the pipe takes more now; `is_lost`: it is closed.
    """

    def __init__(self) -> None:
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

    async def lost(self) -> None:
        """Return once the pipe is closed."""
        await self._lost.wait()

    async def drained(self) -> None:
        """Wait until the pipe takes more.

        Raises: GoneError when it never will.
        """
        while True:
            await self._free.wait()
            if self.is_lost:
                raise GoneError("the pipe is closed")
            if self.is_free:
                return  # else another who waited has filled it again


class PipeOutlet:
    """Messages into a pipe, a line each."""

    def __init__(self, transport: asyncio.WriteTransport, flow: Flow) -> None:
        transport.set_write_buffer_limits(high=WRITE_HIGH_WATER)
        self._transport = transport
        self._gathering = BatchedWriter(transport)
        self._flow = flow

    @property
    def gone(self) -> bool:
        """Whether nobody reads any more."""
        return self._flow.is_lost or self._transport.is_closing()

    async def lost(self) -> None:
        """Return once nobody reads any more."""
        await self._flow.lost()

    def post(self, message: Message) -> bool:
        """Hand `message` over if the pipe takes it now, and return whether it did."""
        if not self._flow.is_free or self._transport.is_closing():
            return False
        self._gathering.write(to_line(message))
        return True

    async def send(self, message: Message) -> None:
        if self.gone:
            raise GoneError("the pipe is closed")
        # Before, so that what waits for somebody who does not read is no more than who sends it.
        await self._flow.drained()
        self._gathering.write(to_line(message))
        await self._flow.drained()

    def abort(self) -> None:
        """Close the pipe at once, whether or not everything is written."""
        if not self._flow.is_lost:
            self._transport.abort()

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

    def post(self, message: Message) -> bool:
        """Write `message`: a file takes everything."""
        self._file.write(to_line(message))
        self._file.flush()
        return True

    async def send(self, message: Message) -> None:
        self.post(message)

    async def close(self) -> None:
        """Do nothing: everything is written."""


class TerminalOutlet(FileOutlet):
    """Messages into what others write to as well: a terminal, a socket for both directions.

    A loop watches what it writes to for its end, and would take for itself what comes from there.
    """

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file)
        self._turn = anyio.Lock()

    def post(self, message: Message) -> bool:
        return False

    async def send(self, message: Message) -> None:
        number, rest = self._file.fileno(), memoryview(to_line(message))
        async with self._turn:
            with anyio.CancelScope(shield=True):  # half a line would spoil the next one
                while rest:
                    rest = rest[await _written(number, rest) :]


async def _written(number: int, text: memoryview) -> int:
    try:
        return os.write(number, text)
    except BlockingIOError:  # who reads from it too has made it one that does not wait
        await anyio.wait_writable(number)
        return 0
    except OSError as exc:
        raise GoneError(f"it cannot be written: {exc}") from exc


def _can_be_watched(file: BinaryIO) -> bool:
    """Return whether a selector can tell when `file` is ready: no regular file, no /dev/null."""
    mode = os.fstat(file.fileno()).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or file.isatty()


async def open_outlet(file: BinaryIO) -> PipeOutlet | FileOutlet:
    """Return where messages to the reader of `file` go."""
    if not _can_be_watched(file):
        return FileOutlet(file)
    if file.isatty() or os.path.samestat(os.fstat(file.fileno()), os.fstat(0)):
        return TerminalOutlet(file)
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
