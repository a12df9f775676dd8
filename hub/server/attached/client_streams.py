"""A client's own stdin and stdout, which its attached process has handed over.

A pipe is opened anew, which gives the hub flags of its own. A socket cannot be: it is used without
regard to its flags, and these are restored at the end.
"""

from __future__ import annotations

import asyncio  # noqa: TID251 - its transports carry lines without worker threads
import os
import stat
import sys

from hub.children.process.spawn import End
from hub.jsonrpc.lines import Lines
from hub.jsonrpc.pipes import Flow, PipeOutlet
from hub.jsonrpc.shared_sockets import (
    SharedSocket,
    SharedSocketReader,
    SharedSocketWriter,
    is_socket,
)
from hub.server.attached.admission import NotServedError

_Kept = tuple[int, int]


class ClientStreams:
    """The open streams of one client; `close` ends them, whatever is still unread or unwritten."""

    def __init__(self) -> None:
        self._reader: asyncio.BaseTransport | None = None
        self._writer: asyncio.WriteTransport | None = None
        self._idle: list[int] = []
        self._flags: list[_Kept] = []

    async def lines(self, stdin: int) -> Lines:
        """Read what the client writes; takes `stdin` over."""
        lines = Lines()
        if is_socket(stdin):
            self._reader = SharedSocketReader(SharedSocket(self._taken(stdin)), lines)
            return lines
        end = self._own(stdin, os.O_RDONLY)
        loop = asyncio.get_running_loop()
        self._reader, _ = await loop.connect_read_pipe(lambda: lines, end.taken(loop))
        return lines

    async def outlet(self, stdout: int) -> PipeOutlet:
        """Write what the client reads; takes `stdout` over."""
        flow = Flow()
        if is_socket(stdout):
            self._writer = SharedSocketWriter(SharedSocket(self._taken(stdout)), flow)
            return PipeOutlet(self._writer, flow)
        end = self._own(stdout, os.O_WRONLY)
        loop = asyncio.get_running_loop()
        self._writer, _ = await loop.connect_write_pipe(lambda: flow, end.taken(loop))
        return PipeOutlet(self._writer, flow)

    def hold(self, descriptors: tuple[int, ...]) -> None:
        """Keep descriptors until they are taken over, or closed with the rest.

        Raises: NotServedError if they are neither pipes nor sockets.
        """
        self._idle += descriptors
        for one in descriptors:
            if not stat.S_ISFIFO(os.fstat(one).st_mode) and not is_socket(one):
                raise NotServedError("stdin or stdout is neither a pipe nor a socket", alone=True)

    def _taken(self, descriptor: int) -> int:
        self._idle.remove(descriptor)
        return descriptor

    def _own(self, descriptor: int, mode: int) -> End:
        """Return a pipe's end with flags of its own, and close the client's.

        Raises: OSError if nobody has the other end open any more.
        """
        if sys.platform != "linux":
            kept = os.dup(descriptor)
            self._flags.append((kept, int(os.get_blocking(kept))))
            return End(self._taken(descriptor))
        opened = os.open(f"/proc/self/fd/{descriptor}", mode | os.O_NONBLOCK | os.O_CLOEXEC)
        os.close(self._taken(descriptor))
        return End(opened)

    def close(self) -> None:
        """Close all at once; unwritten data is lost."""
        if self._reader is not None:
            self._reader.close()
        if self._writer is not None:
            self._writer.abort()
        self._reader = self._writer = None
        for one in self._idle:
            os.close(one)
        self._idle.clear()
        for kept, blocks in self._flags:
            os.set_blocking(kept, bool(blocks))
            os.close(kept)
        self._flags.clear()
