"""A client's own stdin and stdout, which its attached process has handed over.

A pipe is opened anew, which gives the hub flags of its own. A socket cannot be: it is used without
regard to its flags, and these are restored at the end.
"""

from __future__ import annotations

import asyncio  # noqa: TID251 - its transports carry lines without worker threads
import os
import stat
import sys
from contextlib import suppress

from hub.attach.frames import is_stream_socket
from hub.children.process.spawn import End
from hub.jsonrpc.lines import Lines
from hub.jsonrpc.pipes import Flow, PipeOutlet
from hub.server.attached.admission import NotServedError
from hub.server.attached.shared_sockets import SharedSocket, SharedSocketReader, SharedSocketWriter


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
