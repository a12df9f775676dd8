"""The fork server: a program that forks each child's parent (subreaper) and outlives the hub.

Run as `python -I -S -B forkserver.py HUB SINCE`; `watchdog` explains the arguments. Its stdin is a
socket of packets: `fork`, with a child's streams and the control socket of its subreaper; and
`+ PID START` and `- PID START` for children that came and went, and so for folders. When the
hub's end of the socket is closed, by whatever cause, it waits for the subreapers to end their
children. Then it ends the processes that are left, which it finds by their marks, and removes the
folders.

If a subreaper is killed or fails, its descendants become children of this process, which ends them.
"""

# ruff: noqa: PTH120 - pathlib takes long to load
from __future__ import annotations

import _socket
import gc
import os
import select
import signal
import sys
import time

if __name__ == "__main__":
    # `-I` leaves this program's directory out of `sys.path`. The directory that holds `hub` goes
    # last, so that no module in it hides the standard library.
    above = os.path.abspath(__file__)  # noqa: PTH100
    for _ in range(4):  # from this file up to the directory that holds `hub`
        above = os.path.dirname(above)
    sys.path.append(above)

from hub.children.process.subreaper import (
    Subreaper,
    become_subreaper,
    children_of,
    drain,
    kill,
    tell,
    unending,
    wake_pipe,
)
from hub.children.process.watchdog import GRACE, LONGEST_LINE, LOOK_EVERY, PATIENCE, Belongings

FORK = b"fork"
_STREAMS = 3
_DESCRIPTORS = _STREAMS + 1
_INT = 4
"""Bytes of a file descriptor in an ancillary message."""
LOOK_AGAIN = 0.1
"""Seconds until orphans are looked for again after no file descriptor was free."""


class ForkServer:
    """Forks subreapers for the hub at the other end of the socket `hub`, and tracks them.

    `belongings` is what the hub has told of its children.
    """

    def __init__(self, hub: _socket.socket) -> None:
        self.belongings = Belongings()
        self._hub = hub
        self._reset = unending()
        self._wake = wake_pipe()
        self._subreapers: set[int] = set()
        self._has_orphans = False

    def serve(self) -> None:
        """Serve the hub until it is gone; then wait for the subreapers (`GRACE + PATIENCE` s)."""
        become_subreaper(b"roots-hub: fork")
        poll = select.poll()
        poll.register(self._hub.fileno(), select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        while True:
            again = LOOK_AGAIN * 1000 if self._has_orphans else None
            ready = {descriptor for descriptor, _ in poll.poll(again)}
            self._take_away()
            if self._hub.fileno() in ready and not self._asked():
                break
        for pid in self._subreapers:
            os.kill(pid, signal.SIGCONT)  # a child may have stopped its subreaper (SIGSTOP)
        until = time.monotonic() + GRACE + PATIENCE
        while self._take_away() and time.monotonic() < until:
            select.select([self._wake], [], [], LOOK_EVERY)

    def _asked(self) -> bool:
        """Handle one packet of the hub; return False if the hub has closed the socket."""
        try:
            packet, passed, _, _ = self._hub.recvmsg(
                LONGEST_LINE, _socket.CMSG_LEN(_DESCRIPTORS * _INT), _socket.MSG_CMSG_CLOEXEC
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
                self.belongings.update(packet)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        return bool(packet)

    def _fork(self, descriptors: list[int]) -> None:
        *streams, control = descriptors
        try:
            pid = os.fork()
        except OSError as exc:
            tell(control, b"failed %d\n" % (exc.errno or 0))
            return
        if pid:
            self._subreapers.add(pid)
            return
        code = 1
        try:
            self._hub.close()
            os.close(self._wake)
            Subreaper(control, (streams[0], streams[1], streams[2]), self._reset).run()
            code = 0
        finally:
            os._exit(code)

    def _take_away(self) -> bool:
        """Reap ended processes; return whether any child process is left.

        Children that are not subreapers belonged to a subreaper that was killed or has failed: they
        are killed.
        """
        drain(self._wake)
        while True:
            try:
                ended, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self._has_orphans = False
                return False
            if not ended:
                break
            self._subreapers.discard(ended)
            self._has_orphans |= bool(status)
        if self._has_orphans:
            self._kill_orphans()
        return True

    def _kill_orphans(self) -> None:
        try:
            for pid in set(children_of(os.getpid())) - self._subreapers:
                kill(pid)
        except OSError:  # no descriptor is free: `serve` tries again
            return
        self._has_orphans = False


def main(arguments: list[str]) -> int:
    """Serve the hub at the other end of stdin; then end what is left of its children."""
    hub, since = map(int, arguments)
    server = ForkServer(_socket.socket(fileno=os.dup(0)))
    os.dup2(1, 0)  # keeps descriptor 0 taken: no file opened later becomes stdin
    gc.collect()
    gc.freeze()  # memory that the collector never touches stays shared with subreapers
    gc.disable()
    server.serve()
    return 0 if server.belongings.end(hub, since) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
