"""The subreaper: parent of one child; knows all descendants, ends them when the hub is gone.

On Linux a process that loses its parent becomes a child of the nearest ancestor that is a
subreaper. So all that a child starts stays below this process, whatever its session, environment or
limits are: a second fork is no escape. The subreaper is forked from `forkserver.py` and shares
nearly all of its memory; so this file imports nothing that is slow to load.

It holds one end of a socket whose other end only the hub has. When the socket is closed, the hub is
gone, whatever has killed it, and whatever else was killed with it.
"""

# ruff: noqa: PTH123, PTH208 - pathlib takes longer to load than the rest of this file
from __future__ import annotations

import ctypes
import errno
import marshal
import os
import select
import signal
import sys
import time
from collections.abc import Iterable, Mapping

from hub.children.process.watchdog import GRACE, PATIENCE, row, send

if sys.platform == "linux":
    import resource

    _libc = ctypes.CDLL(None)

END_NOW = b"k"
"""The byte that the hub sends when the child's time to exit is over."""
LENGTH_BYTES = 4
"""A request is a length in so many bytes, then so many bytes of `marshal`."""
_SUBREAPER, _NAME = 36, 15
_LOOK_EVERY = 0.01
_CHUNK, _LITTLE = 65536, 64
_UNENDING = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGTSTP", "SIGUSR1", "SIGUSR2")
_IGNORED_BY_PYTHON = ("SIGPIPE", "SIGXFSZ")


def encode(
    argv: Iterable[str], env: Iterable[tuple[str, str]], cwd: str | None, limit: tuple[int, int]
) -> bytes:
    """Return the request to start a process; `limit` is the mark, as soft and hard resource limit.

    Raises: ValueError for a NUL byte, or a `=` in the name of an environment variable.
    """
    words = [os.fsencode(word) for word in argv]
    variables = {os.fsencode(key): os.fsencode(value) for key, value in env}
    where = None if cwd is None else os.fsencode(cwd)
    texts = (*words, *variables, *variables.values(), where or b"")
    if any(b"\0" in text for text in texts):
        raise ValueError("embedded null byte")
    if any(b"=" in key for key in variables):
        raise ValueError("illegal environment variable name")
    body = marshal.dumps((_programs(words[0], variables), words, variables, where, limit))
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


def _programs(name: bytes, env: Mapping[bytes, bytes]) -> list[bytes]:
    """Return the candidate paths of a command: itself, or one in each directory of `PATH`."""
    if b"/" in name:
        return [name]
    folders = env.get(b"PATH", os.fsencode(os.defpath)).split(b":")
    return [os.path.join(folder, name) for folder in folders]  # noqa: PTH118 - see above


def unending() -> list[int]:
    """Ignore all signals that can be ignored and would end this process; let SIGCHLD wake it.

    Return the signals that must be reset to their default in a program that it starts.
    """
    changed = [getattr(signal, name) for name in _IGNORED_BY_PYTHON]
    for name in _UNENDING:
        number = getattr(signal, name)
        if signal.getsignal(number) != signal.SIG_IGN:
            changed.append(number)
            signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, _noticed)
    return changed


def wake_pipe() -> int:
    """Return a descriptor that is readable whenever a signal has arrived.

    Call `unending` before, once for all forked processes: `signal.signal` creates enumerations,
    which would cost each process pages of shared memory.
    """
    reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    return reading


def _noticed(*_: object) -> None:
    """Do nothing: the wake-up descriptor does the waking."""


def drain(descriptor: int) -> None:
    """Read and drop everything in a non-blocking pipe."""
    try:
        while len(os.read(descriptor, _LITTLE)) == _LITTLE:
            pass
    except BlockingIOError:
        return


def become_subreaper(name: bytes) -> None:
    """Make this process the parent of all descendants that lose theirs (Linux 3.4 or later).

    `ps` and `top` show `name`, at most 15 bytes of it.
    """
    _libc.prctl(_SUBREAPER, 1, 0, 0, 0)
    _libc.prctl(_NAME, name, 0, 0, 0)


def children_of(pid: int) -> list[int]:
    """Return the child processes of a process, also those that ended and were not reaped."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += map(int, file.read().split())
    except FileNotFoundError:  # the kernel has no such file, or the process has ended
        return looked_for(pid) if os.path.isdir(f"/proc/{pid}") else []  # noqa: PTH112 - see above
    except OSError:  # it ended meanwhile, or no descriptor is free
        return found or looked_for(pid)
    return found


def looked_for(parent: int) -> list[int]:
    """Return the running children of a process by a search of `/proc`."""
    found: list[int] = []
    for name in os.listdir("/proc"):
        there = row(int(name)) if name.isdigit() else None
        if there is not None and there.parent == parent:
            found.append(int(name))
    return found


class Subreaper:
    """Keeps one child and its descendants; `control` is this end of the socket to the hub."""

    def __init__(self, control: int, streams: tuple[int, int, int], reset: list[int]) -> None:
        self._control = control
        self._streams = streams
        self._reset = reset
        self._wake = wake_pipe()
        self._child = 0

    def run(self) -> None:
        """Start the child; return when the child and all that it has started have ended."""
        become_subreaper(b"roots-hub: keep")
        try:
            self._child = self._started()
        except (OSError, ValueError, NotImplementedError) as exc:
            tell(self._control, b"failed %d\n" % (getattr(exc, "errno", None) or errno.EINVAL))
            return
        for stream in self._streams:
            os.close(stream)
        tell(self._control, b"started %d %d\n" % (self._child, os.getpid()))
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        while True:
            ready = poll.poll()
            drain(self._wake)
            if not self._take_away():
                return
            if any(descriptor == self._control for descriptor, _ in ready):
                self._end(0.0 if self._hub_says() == END_NOW else GRACE)
                return

    def _hub_says(self) -> bytes:
        try:
            return os.read(self._control, 1)
        except OSError:
            return b""

    def _started(self) -> int:
        """Read the hub's request, start the child, and return its id. Raises: OSError."""
        size = int.from_bytes(self._read(LENGTH_BYTES), "big")
        programs, argv, env, cwd, limit = marshal.loads(self._read(size))  # noqa: S302 - the hub is the same Python
        if cwd is not None:
            os.chdir(cwd)
        try:
            _set_limit(limit)
            return self._run(programs, argv, env)
        finally:
            _set_limit((limit[1], limit[1]))
            os.chdir("/")

    def _run(self, programs: list[bytes], argv: list[bytes], env: dict[bytes, bytes]) -> int:
        stdin, stdout, stderr = self._streams
        slots = (
            (os.POSIX_SPAWN_DUP2, stdin, 0),
            (os.POSIX_SPAWN_DUP2, stdout, 1),
            (os.POSIX_SPAWN_DUP2, stderr, 2),
        )
        trouble: OSError | None = None
        for program in programs:
            # Look first: catching an exception writes to memory that would stay shared otherwise.
            if program is not programs[-1] and not os.access(program, os.F_OK):
                continue
            try:
                return os.posix_spawn(
                    program, argv, env, file_actions=slots, setsid=True, setsigdef=self._reset
                )
            except OSError as exc:
                if trouble is None or exc.errno not in {errno.ENOENT, errno.ENOTDIR}:
                    trouble = exc
        raise trouble or FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))

    def _read(self, size: int) -> bytes:
        got = b""
        while len(got) < size:
            more = os.read(self._control, min(size - len(got), _CHUNK))
            if not more:
                raise OSError(errno.EPIPE, "the hub has gone")
            got += more
        return got

    def _take_away(self) -> bool:
        """Reap ended processes, report the child's exit code; return whether any are left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if not pid:
                return True
            if pid == self._child:
                self._child = 0
                tell(self._control, b"ended %d\n" % os.waitstatus_to_exitcode(status))

    def _end(self, grace: float) -> None:
        """End all descendants: SIGTERM first unless `grace` (seconds) is 0, then SIGKILL."""
        until = time.monotonic() + grace
        if grace:
            ask_to_end(os.getpid())
        while time.monotonic() < until:
            if not self._take_away():
                return
            select.select([self._wake], [], [], _LOOK_EVERY)
            drain(self._wake)
        # The children of a killed process become our own. So killing our own children, again and
        # again, ends all. A process id is not reused before we reap its process.
        struck: set[int] = set()
        until = time.monotonic() + PATIENCE
        while self._take_away() and time.monotonic() < until:
            found = set(children_of(os.getpid()))
            for pid in found:
                kill(pid)
            if found <= struck:
                select.select([self._wake], [], [], _LOOK_EVERY)
                drain(self._wake)
            else:
                until = time.monotonic() + PATIENCE
            struck = found


def tell(control: int, line: bytes) -> None:
    """Send the hub a line, unless it is gone or has given up this start."""
    try:
        os.write(control, line)
    except OSError:
        return


def ask_to_end(parent: int) -> None:
    """Send SIGTERM to all descendants of a process."""
    left = children_of(parent)
    while left:
        pid = left.pop()
        left += children_of(pid)
        found = row(pid)
        if found is not None:
            send(pid, found.start, signal.SIGTERM)


def kill(pid: int) -> None:
    """Kill a child of this process that was not reaped yet."""
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # ended, or another user's process now
        return


def _set_limit(limit: tuple[int, int]) -> None:
    """Let the processes that this process starts from now on carry a mark."""
    try:
        resource.setrlimit(resource.RLIMIT_RTTIME, limit)
    except (ValueError, OSError):  # the mark in the environment remains
        return
