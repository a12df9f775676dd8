"""A program that forks the parent of each child, and outlives the hub.

`python -I -S -B forkserver.py HUB SINCE`, where `watchdog` explains the arguments. Its stdin is a
socket of packets: `fork`, with the streams of a child and the control socket of its subreaper;
`+ PID START` and `- PID START`, of children that came and went. When the hub's end of that is
closed, whoever closed it and however, it waits for the subreapers to end their children, and ends
what is left by its mark.

A subreaper that is killed leaves its descendants to this process, which ends them.
"""

# ruff: noqa: PTH120 - as this file says where the others are; pathlib takes long to load
from __future__ import annotations

import _socket
import gc
import os
import select
import signal
import sys
import time

if __name__ == "__main__":
    # `-I` leaves out the directory of the program. Last, so that nothing goes before the standard
    # library.
    above = os.path.abspath(__file__)  # noqa: PTH100
    for _ in range(4):  # the file, process, children, hub
        above = os.path.dirname(above)
    sys.path.append(above)

from hub.children.process.subreaper import (
    Subreaper,
    adopt,
    children_of,
    drain,
    signal_all,
    unending,
    wake_pipe,
)
from hub.children.process.watchdog import GRACE, LOOK_EVERY, PATIENCE, end, said

FORK = b"fork"
_STREAMS = 3
_DESCRIPTORS = _STREAMS + 1
_INT = 4
"""Bytes of a descriptor in a message."""
_LONGEST = 256


class ForkServer:
    """Forks subreapers for the hub at the other end of `hub`, and keeps their list."""

    def __init__(self, hub: _socket.socket) -> None:
        self.leaders: dict[int, int] = {}
        self._hub = hub
        self._reset = unending()
        self._wake = wake_pipe()
        self._subreapers: set[int] = set()

    def serve(self) -> None:
        """Do what the hub asks for until it has gone, and its children with it."""
        adopt(b"roots-hub: fork")
        poll = select.poll()
        poll.register(self._hub.fileno(), select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in poll.poll()}
            self._take_away()
            if self._hub.fileno() in ready and not self._asked():
                break
        for pid in self._subreapers:
            os.kill(pid, signal.SIGCONT)  # a child may have stopped its parent
        until = time.monotonic() + GRACE + PATIENCE
        while self._take_away() and time.monotonic() < until:
            select.select([self._wake], [], [], LOOK_EVERY)

    def _asked(self) -> bool:
        """Take one packet; return whether there was one."""
        try:
            packet, passed, _, _ = self._hub.recvmsg(
                _LONGEST, _socket.CMSG_LEN(_DESCRIPTORS * _INT), _socket.MSG_CMSG_CLOEXEC
            )
        except OSError:
            return False
        descriptors = [
            int.from_bytes(data[at : at + _INT], sys.byteorder, signed=True)
            for level, kind, data in passed
            if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS)
            for at in range(0, len(data) - _INT + 1, _INT)
        ]
        try:
            if packet == FORK and len(descriptors) == _DESCRIPTORS:
                self._fork(descriptors)
            elif packet and packet != FORK:
                said(self.leaders, packet)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        return bool(packet)

    def _fork(self, descriptors: list[int]) -> None:
        *streams, control = descriptors
        try:
            pid = os.fork()
        except OSError as exc:
            os.write(control, b"failed %d\n" % (exc.errno or 0))
            return
        if pid:
            self._subreapers.add(pid)
            return
        try:
            self._hub.close()
            os.close(self._wake)
            Subreaper(control, (streams[0], streams[1], streams[2]), self._reset).run()
        finally:
            os._exit(0)

    def _take_away(self) -> bool:
        """Take away who has ended; return whether anybody is left.

        Children that are no subreapers had one that was killed: they are ended.
        """
        drain(self._wake)
        while True:
            try:
                ended, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if not ended:
                return True
            self._subreapers.discard(ended)
            if status:
                for pid in set(children_of(os.getpid())) - self._subreapers:
                    signal_all(pid)


def main(arguments: list[str]) -> int:
    """Serve the hub at the other end of stdin, and end what its children have left."""
    hub, since = map(int, arguments)
    server = ForkServer(_socket.socket(fileno=os.dup(0)))
    os.dup2(1, 0)  # so that whatever is opened next is no standard stream
    gc.collect()
    gc.freeze()  # what is never looked through is not copied for each subreaper
    gc.disable()
    server.serve()
    return 0 if end(hub, since, server.leaders, GRACE) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
