"""Process trees of children: mark processes at their start, find them by marks, end whole trees.

On Linux each child has a parent of its own, a subreaper (see `subreaper`). The fork server forks
the subreapers: it starts before the first child and ends after the hub, however the hub ends. Where
subreapers are not available, a watchdog takes its place, and finds processes by the marks alone.
"""

from __future__ import annotations

import errno
import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Final, Self

import anyio
import structlog
from anyio import to_thread
from msgspec import Struct

from hub.children.process import watchdog
from hub.children.process.private_folders import PrivateFolders
from hub.children.process.subreaper import encode
from hub.children.process.supervised import (
    ChildPipes,
    ForkServerClient,
    LostForkServerError,
    Started,
    Supervised,
    Watchdog,
    popen,
)
from hub.children.process.watchdog import (
    HAS_PROC,
    LONGEST_LINE,
    LOOK_EVERY,
    PATIENCE,
    SIGKILL,
    SIGTERM,
    VARIABLE,
    Mark,
    Table,
    Termination,
)
from hub.system.shutdown import Shutdown
from hub.system.this_process import limit_files, most_files

_HIGHEST, _LOWEST = 1 << 62, 1 << 60
"""Microseconds of real-time CPU time: 36,000 years are a limit that no process reaches."""

_LOSSES, _TRIES = 5, 20
"""Losses of the fork server after which children are started by the hub itself; and the number of
attempts to start a child."""

log = structlog.stdlib.get_logger(__name__)


class EndGraces(Struct, frozen=True):
    """Seconds that the end of a child's processes may take; `_at_end`: when the hub shuts down."""

    eof: float = 2.0
    """For a child to exit after its stdin is closed."""
    eof_at_end: float = 0.4
    term: float = 2.0
    """Between SIGTERM and SIGKILL for a process tree."""
    term_at_end: float = 0.5
    kill: float = PATIENCE
    """For a process tree to be gone after SIGKILL."""
    exit: float = 1.0
    """To wait for the exit code after the end of the output: another process has to tell it."""
    noticed: float = 1.0
    """To wait until the exit of a terminated process is noticed."""
    look_again: float = 1.0
    """Until the hub looks for processes again after it had no free file descriptor."""


class ProcessTree:
    """The processes of one child: its own and all that it starts."""

    def __init__(self, supervisor: ProcessSupervisor) -> None:
        self.shutdown = supervisor.shutdown
        self.graces = supervisor.graces
        self._supervisor = supervisor
        self._mark: Mark | None = None
        self._leader: dict[int, int] = {}
        self._supervised: Supervised | None = None
        self._parent = (0, 0)

    async def start(
        self, argv: Sequence[str], env: Mapping[str, str], cwd: str | None, streams: ChildPipes
    ) -> Started:
        """Start the child: below a subreaper, else of the hub. Raises: OSError, ValueError."""
        for _ in range(_TRIES):
            mark = self._mark = self._supervisor.next_mark()  # a new fork server if one has ended
            server = self._supervisor.server
            if not isinstance(server, ForkServerClient):
                return self.start_here(argv, env, cwd, streams)
            marked = {**env, VARIABLE: mark.text}
            request = encode(argv, marked.items(), cwd, mark.limit)
            try:
                self._supervised = await server.start(request, streams)
            except LostForkServerError:
                await anyio.sleep(LOOK_EVERY)
                continue
            self._parent = (self._supervised.subreaper, _start(self._supervised.subreaper) or 0)
            self.add_leader(self._supervised.pid)
            return self._supervised
        raise ChildProcessError(errno.ECHILD, "the fork server has ended")

    def start_here(
        self, argv: Sequence[str], env: Mapping[str, str], cwd: str | None, streams: ChildPipes
    ) -> subprocess.Popen[bytes]:
        """Start the child as one of the hub, which has the child's mark for that moment."""
        mark = self._mark = self._supervisor.next_mark()
        _set_limit(mark.limit)
        try:
            begun = popen(argv, {**env, VARIABLE: mark.text}, cwd, streams)
        finally:
            self._supervisor.mark_none()
        self.add_leader(begun.pid)
        return begun

    def add_leader(self, pid: int) -> None:
        """Record the child's process, which leads a session of its own."""
        start = _start(pid)
        if start is not None:
            self._leader = {pid: start}
            self._supervisor.leaders[pid] = start
            self._supervisor.tell(f"+ {pid} {start}\n")

    async def end(self) -> None:
        """Send SIGTERM, then SIGKILL, to all processes of the tree; return when none is left.

        This takes at most `graces.term` and `graces.kill`; processes left after that are logged.
        """
        if self._mark is None:
            return
        termination = Termination(self._mark.child, self._leader, self._parent)
        if self._supervised is not None:  # a child may have stopped its subreaper (SIGSTOP)
            watchdog.go_on(*self._parent)
        await self._signal_all(termination, SIGTERM)
        if not await self.shutdown.until(
            lambda: self._over(termination), self.graces.term, self.graces.term_at_end
        ):
            await self._signal_all(termination, SIGKILL)
            with anyio.move_on_after(self.graces.kill):
                await self._over(termination)
        if self._supervised is not None:
            await self._supervised.finish()
            termination.prune()
        if termination.left:
            log.error("processes that cannot be killed were left", pids=sorted(termination.left))
        for pid, start in self._leader.items():
            self._supervisor.leaders.pop(pid, None)
            self._supervisor.tell(f"- {pid} {start}\n")

    async def _over(self, termination: Termination) -> None:
        while termination.left:
            await anyio.sleep(LOOK_EVERY)
            if termination.prune():
                await self._signal_all(termination)

    async def _signal_all(self, termination: Termination, sign: int | None = None) -> None:
        """Signal the whole tree, once a file descriptor is free to look for its processes.

        A hub that shuts down does not wait for a descriptor: its watchdog has its own.
        """
        while not await self._signalled(termination, sign) and not self.shutdown.begun.is_set():
            with anyio.move_on_after(self.graces.look_again):
                await self.shutdown.begun.wait()

    async def _signalled(self, termination: Termination, sign: int | None) -> bool:
        try:
            termination.signal_all(await self._supervisor.look(), sign)
        except OSError as exc:
            self._supervisor.note_obstacle(exc)
            return False
        self._supervisor.note_obstacle(None)
        return True


class ProcessSupervisor:
    """All process trees of a hub; what is left of them ends with its context.

    `leaders` are the children's processes with their start times.
    `read_table` reads the table of processes; `fork_server` starts one, where there can be one.
    """

    def __init__(
        self,
        shutdown: Shutdown,
        graces: EndGraces | None = None,
        *,
        read_table: Callable[[int, int], Table] = watchdog.look,
        fork_server: Callable[[int, int], ForkServerClient] = ForkServerClient,
    ) -> None:
        self._read_table = read_table
        self._fork_server = fork_server
        self.shutdown = shutdown
        self.graces = graces or EndGraces()
        self.leaders: dict[int, int] = {}
        self.folders = PrivateFolders(self._tell_folder)
        self._files = most_files()
        self._since = 0
        self._hub = 0
        self._numbers = count(1)
        self.server: Watchdog | None = None
        self._losses = 0
        self._looking = anyio.Lock()
        self._looks = self._seen = 0
        self._table = Table({}, {})
        self._is_blind = False

    def prepare(self) -> None:
        """Start the fork server or watchdog, so that the first child does not wait for it."""
        if not self._hub:
            self._since = watchdog.start_of(os.getpid()) or 0
            self._hub = _claimed()
        self._watch()

    def next_mark(self) -> Mark:
        """Return the mark for the next child; the fork server or watchdog is running then."""
        self.prepare()
        return Mark(self._hub, next(self._numbers))

    def mark_none(self) -> None:
        """Start processes without a child's mark from now on."""
        _set_limit((self._hub, self._hub))

    def tell(self, line: str) -> None:
        """Tell the fork server or watchdog what came or went: see `watchdog.Belongings`."""
        if self.server is not None:
            self.server.tell(line)

    def _tell_folder(self, folder: str) -> None:
        """Have a folder removed when the hub has ended."""
        if "\n" not in folder and len(os.fsencode(folder)) < LONGEST_LINE - len("+ \n"):
            self.tell(f"+ {folder}\n")

    async def look(self) -> Table:
        """Return the table of processes, read at or after this call.

        Callers that come during a reading share the next one.
        """
        wanted = self._looks + 1
        async with self._looking:
            if self._seen < wanted:
                self._looks = began = self._looks + 1
                self._table = await to_thread.run_sync(self._read_table, self._hub, self._since)
                self._seen = began
            return self._table

    def note_obstacle(self, hindrance: OSError | None) -> None:
        """Record whether an error prevents looking for processes, and log each change of that."""
        if hindrance is not None and not self._is_blind:
            log.error("servers cannot be ended for now: raise `ulimit -n`", error=str(hindrance))
        elif hindrance is None and self._is_blind:
            log.info("servers can be ended again")
        self._is_blind = hindrance is not None

    def _watch(self) -> None:
        """Start the fork server or watchdog, without a child's mark, if it is not running."""
        if self.server is not None and self.server.is_there:
            return
        if self.server is not None:
            self.server.close()
            self.server = None
            self._losses += 1
        self.mark_none()
        can_fork = HAS_PROC and self._losses < _LOSSES
        try:
            self.server = (self._fork_server if can_fork else Watchdog)(self._hub, self._since)
        except OSError as exc:
            log.warning("no watchdog: a hub that is killed may leave processes", error=str(exc))
            return
        limit_files(self.server.pid, self._files)  # the hub may have raised its own
        for pid, start in self.leaders.items():
            self.tell(f"+ {pid} {start}\n")
        if self.folders.top is not None:
            self._tell_folder(self.folders.top)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Let the fork server or watchdog end what is left, and wait for its exit."""
        with anyio.CancelScope(shield=True):
            await self.folders.close()
            server, self.server = self.server, None
            if server is not None:
                server.close()
                await to_thread.run_sync(server.wait, watchdog.GRACE + 2 * self.graces.kill)


def _start(pid: int) -> int | None:
    try:
        return watchdog.start_of(pid) if HAS_PROC else 0
    except OSError:  # no free descriptor: only the marks identify the process
        return None


def _claimed() -> int:
    """Return this hub's number, and set it as this process' limit where possible."""
    number = secrets.randbits(48)
    if sys.platform != "linux":
        return number
    from resource import RLIM_INFINITY, RLIMIT_RTTIME, getrlimit  # noqa: PLC0415 - not everywhere

    limits = [limit for limit in getrlimit(RLIMIT_RTTIME) if limit != RLIM_INFINITY]
    hub = min(limits, default=_HIGHEST) - number - 1
    if hub < _LOWEST:  # somebody has set a real limit: leave it
        return number
    _set_limit((hub, hub))
    return hub


def _set_limit(limit: tuple[int, int]) -> None:
    if sys.platform != "linux" or limit[1] < _LOWEST:
        return
    from resource import RLIMIT_RTTIME, setrlimit  # noqa: PLC0415 - not everywhere

    with suppress(ValueError, OSError):  # the mark in the environment remains
        setrlimit(RLIMIT_RTTIME, limit)


EVERY: Final = 5.0
"""Seconds between checks for ended processes."""
TURN: Final = 0.05
"""Seconds for the code that started a process to read its exit status first."""


def inherits_orphans() -> bool:
    """Return whether this process is PID 1, which gets all orphaned processes."""
    return os.getpid() == 1


async def reap_orphans(every: float = EVERY, turn: float = TURN) -> None:
    """Reap ended processes that nobody here waits for, until cancelled."""
    while True:
        await anyio.sleep(every)
        while (ended := _ended()) is not None:
            await anyio.sleep(turn)
            if _ended() == ended:
                _reap(ended)


def _ended() -> int | None:
    """Return an ended process that is not reaped yet, without reaping it; None if there is none."""
    try:
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:  # there are no child processes
        return None
    return None if found is None else found.si_pid


def _reap(ended: int) -> None:
    with suppress(ChildProcessError):  # a thread that waits for its own process was faster
        os.waitpid(ended, os.WNOHANG)
