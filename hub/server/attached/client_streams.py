"""A client's own stdin and stdout, which its attached process has handed over; and its lifeline.

A pipe is opened anew, which gives the hub flags of its own. A socket cannot be. Whether it blocks
is a flag that all who hold it share. Another holder may clear it, and then one client that does not
read would hold up the whole loop. So each call here says itself that it must not wait, which the
loops' own transports do not; the flags that they change are restored at the end.
"""

from __future__ import annotations

import asyncio  # noqa: TID251 - its transports carry lines without worker threads
import fcntl
import logging
import os
import socket
import stat
import sys
import threading
from contextlib import suppress
from contextvars import ContextVar
from typing import Final

import anyio

from hub.attach.frames import END, GO, LOG, frame, is_stream_socket
from hub.children.process.supervised import End
from hub.jsonrpc.lines import Lines
from hub.jsonrpc.pipes import Flow, PipeOutlet
from hub.server.attached.admission import NotServedError

_CHUNK: Final = 256 * 1024
_HIGH_WATER: Final = 64 * 1024


class ClientStreams:
    """The streams of one client; `close` ends them, whatever is still unread or unwritten."""

    def __init__(self) -> None:
        self._ends: list[PipeEnd | SharedSocket] = []
        self._reader: asyncio.BaseTransport | None = None
        self._writer: asyncio.WriteTransport | None = None

    def take(self, stdin: int, stdout: int) -> None:
        """Take a client's descriptors over; nothing is read yet.

        Raises: NotServedError if they are neither pipes nor sockets, or none is free for them.
        """
        rest = [stdin, stdout]
        try:
            for mode in (os.O_RDONLY, os.O_WRONLY):
                self._ends.append(_end(rest[0], mode))
                rest.pop(0)
        except OSError as exc:
            raise NotServedError(f"stdin and stdout: {exc.strerror}", alone=True) from exc
        finally:
            for one in rest:
                os.close(one)

    async def lines(self) -> Lines:
        """Return what the client writes, as it comes."""
        lines, end = Lines(), self._ends[0]
        if isinstance(end, SharedSocket):
            self._reader = SharedSocketReader(end, lines)
        else:
            loop = asyncio.get_running_loop()
            self._reader, _ = await loop.connect_read_pipe(lambda: lines, end.end.taken(loop))
        return lines

    async def outlet(self) -> PipeOutlet:
        """Return where the client reads."""
        flow, end = Flow(), self._ends[1]
        if isinstance(end, SharedSocket):
            self._writer = SharedSocketWriter(end, flow)
        else:
            loop = asyncio.get_running_loop()
            self._writer, _ = await loop.connect_write_pipe(lambda: flow, end.end.taken(loop))
        return PipeOutlet(self._writer, flow)

    def close(self) -> None:
        """Close all at once; unwritten data is lost."""
        if self._reader is not None:
            self._reader.close()
        if self._writer is not None:
            self._writer.abort()
        for number, end in enumerate(self._ends):
            transport = (self._reader, self._writer)[number]
            if isinstance(end, PipeEnd) or transport is None:
                end.close()
        self._ends.clear()
        self._reader = self._writer = None


class PipeEnd:
    """The hub's end of a client's pipe. `kept`: the same, to restore flags that others share."""

    def __init__(self, end: End, kept: int | None = None) -> None:
        self.end = end
        self._kept = kept
        self._blocks = kept is not None and os.get_blocking(kept)

    def close(self) -> None:
        """Close the end, unless a transport has taken it, and restore its flags."""
        self.end.close()
        if self._kept is not None:
            with suppress(OSError):
                os.set_blocking(self._kept, self._blocks)
            os.close(self._kept)
            self._kept = None


def _end(descriptor: int, mode: int) -> PipeEnd | SharedSocket:
    """Return what reads or writes a descriptor, which then is closed with it or at once.

    Raises: OSError if nobody has a pipe's other end open any more, or no descriptor is free;
        NotServedError if it is neither a pipe nor a socket.
    """
    if is_stream_socket(descriptor):
        return SharedSocket(descriptor)
    if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        raise NotServedError("stdin or stdout is neither a pipe nor a socket", alone=True)
    if sys.platform != "linux":
        return PipeEnd(End(descriptor), os.dup(descriptor))
    opened = os.open(f"/proc/self/fd/{descriptor}", mode | os.O_NONBLOCK | os.O_CLOEXEC)
    os.close(descriptor)
    return PipeEnd(End(opened))


class SharedSocket:
    """A socket whose flags are restored when it is closed."""

    def __init__(self, descriptor: int) -> None:
        self._flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
        self.socket: Final = socket.socket(fileno=descriptor)
        self.number: Final = descriptor

    def close(self) -> None:
        """Restore the flags, which an event loop changes, and close the socket."""
        if self.socket.fileno() < 0:
            return
        fcntl.fcntl(self.number, fcntl.F_SETFL, self._flags)
        self.socket.close()


class SharedSocketReader(asyncio.ReadTransport):
    """Receives from a socket for a protocol, until its end."""

    def __init__(self, source: SharedSocket, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self._source = source
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        self._is_closing = self._is_paused = False
        protocol.connection_made(self)
        self._loop.add_reader(source.number, self._receive)

    def _receive(self) -> None:
        try:
            data = self._source.socket.recv(_CHUNK, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError as exc:
            self._end(exc)
            return
        if data:
            self._protocol.data_received(data)
        else:
            self._protocol.eof_received()
            self._end(None)

    def is_reading(self) -> bool:
        return not self._is_closing and not self._is_paused

    def pause_reading(self) -> None:
        if self.is_reading():
            self._is_paused = True
            self._loop.remove_reader(self._source.number)

    def resume_reading(self) -> None:
        if self._is_paused and not self._is_closing:
            self._is_paused = False
            self._loop.add_reader(self._source.number, self._receive)

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        self._end(None)

    def _end(self, why: Exception | None) -> None:
        if self._is_closing:
            return
        self._is_closing = True
        self._loop.remove_reader(self._source.number)
        self._loop.call_soon(self._lost, why)

    def _lost(self, why: Exception | None) -> None:
        self._protocol.connection_lost(why)
        self._source.close()


class SharedSocketWriter(asyncio.WriteTransport):
    """Sends into a socket; what it does not accept yet waits, and the protocol is told to pause."""

    def __init__(self, target: SharedSocket, protocol: asyncio.BaseProtocol) -> None:
        super().__init__()
        self._target = target
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        self._waiting = bytearray()
        self._high = _HIGH_WATER
        self._is_closing = self._is_lost = self._is_paused = False
        protocol.connection_made(self)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = _HIGH_WATER if high is None else high

    def get_write_buffer_size(self) -> int:
        return len(self._waiting)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_closing:
            return
        if not self._waiting:
            sent = self._sent(data)
            if sent == len(data) or self._is_closing:
                return
            self._loop.add_writer(self._target.number, self._send)
            data = memoryview(data)[sent:]
        self._waiting += data
        if len(self._waiting) > self._high and not self._is_paused:
            self._is_paused = True
            self._protocol.pause_writing()

    def _sent(self, data: bytes | bytearray | memoryview) -> int:
        """Return how many bytes the socket has accepted; if it is broken, it is closed."""
        try:
            return self._target.socket.send(data, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0
        except OSError as exc:
            self._end(exc)
            return 0

    def _send(self) -> None:
        sent = self._sent(self._waiting)
        if self._is_lost:
            return
        del self._waiting[:sent]
        if self._waiting:
            return
        self._loop.remove_writer(self._target.number)
        if self._is_closing:
            self._end(None)
        elif self._is_paused:
            self._is_paused = False
            self._protocol.resume_writing()

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        self._is_closing = True
        if not self._waiting:
            self._end(None)

    def abort(self) -> None:
        self._end(None)

    def _end(self, why: Exception | None) -> None:
        if self._is_lost:
            return
        self._is_closing = self._is_lost = True
        self._loop.remove_writer(self._target.number)
        self._waiting.clear()
        self._loop.call_soon(self._lost, why)

    def _lost(self, why: Exception | None) -> None:
        self._protocol.connection_lost(why)
        self._target.close()


MOST_WAITING: Final = 64 * 1024
"""Bytes of log lines that may wait for a process that does not read; more are dropped."""
LAST_WORDS: Final = 1.0
"""Seconds for the exit code to be accepted."""
_RELAYED: Final = ("hub.server.", "hub.calls.", "hub.sessions.", "hub.guard.", "hub.audit.")
"""Loggers whose lines are about one client. Those of children, which several may share, are not."""

# A module-level variable, as the logging package knows no other way to say what a line is about.
_current: ContextVar[LifelineEnd | None] = ContextVar("lifeline", default=None)


class LifelineEnd:
    """Sends frames to an attached process without ever waiting for it, and notices its end."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._waiting = b""
        self._turn = threading.Lock()

    async def goes_on(self) -> bool:
        """Return whether the client lets the hub read now; it has closed the connection if not."""
        return await self._heard() == GO

    async def ended(self) -> None:
        """Return once the attached process is gone."""
        while await self._heard():
            pass

    async def _heard(self) -> bytes:
        while True:
            await anyio.wait_readable(self._connection)
            try:
                return self._connection.recv(1)
            except BlockingIOError:
                continue
            except OSError:
                return b""

    def tell(self, line: str) -> None:
        """Send a line of the log, unless too much waits already. May be called by any thread."""
        with self._turn:
            if len(self._waiting) < MOST_WAITING:
                self._send(frame(LOG, line.encode("utf-8", "replace") + b"\n"))

    def send(self, content: bytes) -> bool:
        """Send a frame; return whether the process has accepted all that was sent."""
        with self._turn:
            return self._send(content)

    def _send(self, content: bytes) -> bool:
        self._waiting += content
        try:
            sent = self._connection.send(self._waiting)
        except OSError:  # full, or gone, which `ended` shows
            return False
        self._waiting = self._waiting[sent:]
        return not self._waiting

    async def end(self, code: int) -> None:
        """Send the exit code; a process that reads nothing gets none."""
        with anyio.move_on_after(LAST_WORDS, shield=True):
            is_sent = self.send(frame(END, bytes([code])))
            while not is_sent:
                await anyio.wait_writable(self._connection)
                is_sent = self.send(b"")


def relay_to(lifeline: LifelineEnd) -> None:
    """Send the log of what this task and its tasks do to an attached process, too."""
    _current.set(lifeline)


class RelayedLog(logging.Handler):
    """Sends each line about an attached client to its process."""

    def emit(self, record: logging.LogRecord) -> None:
        lifeline = _current.get()
        if lifeline is not None and record.name.startswith(_RELAYED):
            lifeline.tell(self.format(record))
