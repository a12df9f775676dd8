"""Socket transport for descriptors that another process may hold as well.

Whether a descriptor blocks is a flag of what it refers to, which all holders share. Another holder
may clear it, and then one client that does not read would hold up the whole loop. So each call here
says itself that it must not wait. The loops' own transports rely on the flag.
"""

from __future__ import annotations

import asyncio  # noqa: TID251 - its transports carry lines without worker threads
import fcntl
import socket
from typing import Final

_CHUNK: Final = 256 * 1024
_HIGH_WATER: Final = 64 * 1024


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
        except (BlockingIOError, InterruptedError):
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
        except (BlockingIOError, InterruptedError):
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

    def can_write_eof(self) -> bool:
        return False

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
