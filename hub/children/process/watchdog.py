"""The watchdog: finds and ends all processes of a hub's children, by marks that processes keep.

Part of `forkserver.py`, a program that outlives the hub. Where that cannot run, also a program of
its own: `python -I -S -B watchdog.py HUB SINCE` reads from a pipe which children there are, and
which folders were made for them. When the pipe is closed, by whatever cause, it ends what is left
of the children, and removes what is left of the folders. `HUB` is the hub's number in
marks, `SINCE` the start time of the hub's process. So this file imports nothing of the hub, and
nothing that is slow to load.

A child has its mark in two places. One is `VARIABLE` in its environment, which a process may clear.
The other is its limit of real-time CPU time: too high to limit anything, but no other process has
the same number. The hard limit is the hub's number, the soft one the child's. All descendants
inherit limits, through `setsid`, a second fork and an empty environment.
"""

# ruff: noqa: PTH123, PTH208 - pathlib takes longer to load than the rest of this file
from __future__ import annotations

import errno
import os
import signal
import sys
import time

VARIABLE = "ROOTS_HUB_CHILD"
GRACE = 1.0
"""Seconds between SIGTERM and SIGKILL for processes that a lost hub has left."""
PATIENCE = 2.0
"""Seconds after SIGKILL until a process that does not end is given up."""
LOOK_EVERY = 0.01
LONGEST_LINE = 4096
"""Bytes of what the hub tells at once, which a pipe takes as a whole."""
SCARCE = 60.0
"""Seconds that a watchdog waits for a free file descriptor to look for processes."""
HAS_PROC = sys.platform.startswith("linux") and os.path.exists("/proc/self/stat")  # noqa: PTH110 - see above
_LIMIT = b"Max realtime timeout"
_NONE_FREE = (errno.EMFILE, errno.ENFILE)
SIGTERM = signal.SIGTERM
SIGKILL = getattr(signal, "SIGKILL", SIGTERM)
"""SIGTERM on Windows, which has no SIGKILL."""
_UNENDING = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGTSTP")


Parent = tuple[int, int]
"""A process id, and the start time of that process."""


class Mark:
    """Identifies the processes of one child of a hub; children are counted from 1."""

    __slots__ = ("child", "hub")

    def __init__(self, hub: int, child: int) -> None:
        self.hub = hub
        self.child = child

    @property
    def text(self) -> str:
        """The value of `VARIABLE`."""
        return f"{self.hub:x}-{self.child:x}"

    @property
    def limit(self) -> tuple[int, int]:
        """The soft and the hard limit. The hub's own two are equal: it is not a child."""
        return self.hub - self.child, self.hub


class Row:
    """One process in the process table."""

    __slots__ = ("parent", "session", "start")

    def __init__(self, parent: int, session: int, start: int) -> None:
        self.parent = parent
        self.session = session
        self.start = start


def _read(pid: int, name: str) -> bytes:
    """Return a file of `/proc/<pid>`; empty if the process has ended or belongs to another user.

    Raises: OSError if no file descriptor is free; so do all functions here that call this one.
    """
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError as exc:
        if exc.errno in _NONE_FREE:
            raise
        return b""


def _limit(limits: bytes) -> tuple[int, int] | None:
    for line in limits.splitlines():
        if line.startswith(_LIMIT):
            soft, hard = line[len(_LIMIT) :].split()[:2]
            return (int(soft), int(hard)) if soft.isdigit() and hard.isdigit() else None
    return None


def row(pid: int) -> Row | None:
    """Return a process's row in the process table; None if it has ended, reaped or not."""
    said = _read(pid, "stat")
    fields = said[said.rfind(b")") + 1 :].split()
    if not fields or (fields[0] in {b"Z", b"X"} and int(fields[17]) <= 1):
        return None  # with several threads, only the first one has ended
    return Row(int(fields[1]), int(fields[3]), int(fields[19]))


def start_of(pid: int) -> int | None:
    """Return the start time of a process; with its id, that identifies the process for good."""
    found = row(pid)
    return None if found is None else found.start


def child_of(pid: int, hub: int) -> int:
    """Return the number of the hub's child in a process's present mark; 0 if it has no mark."""
    child = child_by_limits(_read(pid, "limits"), hub)
    if child:
        return child
    begins = f"\0{VARIABLE}={hub:x}-".encode()
    number = (b"\0" + _read(pid, "environ")).partition(begins)[2].partition(b"\0")[0]
    try:
        return int(number, 16)
    except ValueError:  # no mark, or a forged one
        return 0


def child_by_limits(limits: bytes, hub: int) -> int:
    """Return the number of the hub's child that `/proc/<pid>/limits` tells; 0 if it tells none."""
    limit = _limit(limits)
    return hub - limit[0] if limit is not None and limit[1] == hub else 0


class Table:
    """The processes at one moment that began after the hub; `children` has those with marks."""

    __slots__ = ("children", "rows")

    def __init__(self, rows: dict[int, Row], children: dict[int, int]) -> None:
        self.rows = rows
        self.children = children

    def find(self, child: int, leaders: dict[int, int], parent: Parent = (0, 0)) -> dict[int, int]:
        """Return the processes of `child` (0: of all children), with their start times.

        These are the marked ones, the `leaders`, the children of `parent` (not itself), and all
        that descend from these or are in a session of theirs.
        """
        rows = self.rows
        ours = {pid for pid, number in self.children.items() if child in {number, 0}}
        ours |= {pid for pid in leaders if pid in rows and rows[pid].start == leaders[pid]}
        not_theirs = {0, os.getsid(0)}
        above = rows.get(parent[0])
        if above is not None and above.start == parent[1]:
            ours |= {pid for pid, found in rows.items() if found.parent == parent[0]}
            not_theirs.add(above.session)
        while True:
            sessions = {rows[pid].session for pid in ours} - not_theirs
            more = {
                pid
                for pid in rows
                if pid not in ours and (rows[pid].parent in ours or rows[pid].session in sessions)
            }
            if not more:
                return {pid: rows[pid].start for pid in ours}
            ours |= more


def look(hub: int, since: int) -> Table:
    """Return the table of present processes. Takes milliseconds."""
    rows: dict[int, Row] = {}
    children: dict[int, int] = {}
    for name in os.listdir("/proc") if HAS_PROC else ():
        found = row(int(name)) if name.isdigit() else None
        if found is not None and found.start >= since:
            rows[int(name)] = found
            child = child_of(int(name), hub)
            if child:
                children[int(name)] = child
    return Table(rows, children)


def send(pid: int, start: int, sign: int) -> None:
    """Signal the process that started at `start`, but no process that got the same id later."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    except (AttributeError, OSError):  # before Linux 5.3
        handle = None
    try:
        if start_of(pid) != start:
            return
        if handle is None:
            os.kill(pid, sign)
        else:
            signal.pidfd_send_signal(handle, sign)
    except (ProcessLookupError, PermissionError):
        return
    finally:
        if handle is not None:
            os.close(handle)


def go_on(pid: int, start: int) -> None:
    """Continue a process if it was stopped (SIGSTOP)."""
    try:
        if start_of(pid) == start:
            os.kill(pid, signal.SIGCONT)
    except OSError:  # it has ended, or no descriptor is free
        return


class Termination:
    """The processes of one mark while they are being ended; `left` may still be running."""

    def __init__(self, child: int, leaders: dict[int, int], parent: Parent = (0, 0)) -> None:
        self.left: dict[int, int] = {}
        self._child = child
        self._leaders = leaders
        self._parent = parent
        self._sign: int = SIGTERM

    def signal_all(self, table: Table, sign: int | None) -> None:
        """Send each process the signal `sign`; None: the last one sent."""
        self._sign = sign = self._sign if sign is None else sign
        if not HAS_PROC:
            self.left = {group: 0 for group in self._leaders if _signal_group(group, sign)}
            return
        self.left = table.find(self._child, self._leaders, self._parent)
        for pid, start in self.left.items():
            send(pid, start, sign)

    def prune(self) -> bool:
        """Return whether all signalled processes have ended. New ones may exist: signal again."""
        if HAS_PROC:
            self.left = {pid: at for pid, at in self.left.items() if _may_be_there(pid, at)}
        else:
            self.left = {group: 0 for group in self.left if _signal_group(group, 0)}
        return not self.left


def _may_be_there(pid: int, start: int) -> bool:
    try:
        return start_of(pid) == start
    except OSError:
        return True


def _signal_group(group: int, sign: int) -> bool:
    """Signal a process group, for systems without `/proc`; return whether it existed."""
    try:
        os.killpg(group, sign)
    except (AttributeError, ProcessLookupError, PermissionError):
        return False
    return True


def end(
    hub: int, since: int, leaders: dict[int, int], grace: float, patience: float = PATIENCE
) -> bool:
    """End all children by SIGTERM, after `grace` seconds by SIGKILL; return whether all ended.

    Killed processes have `patience` seconds to go.
    """
    termination = Termination(0, leaders)
    are_seen = True
    for sign, allowed in ((SIGTERM, grace), (SIGKILL, patience)):
        are_seen = _signalled(termination, hub, since, sign)
        until = time.monotonic() + allowed
        while termination.left and time.monotonic() < until:
            time.sleep(LOOK_EVERY)
            if termination.prune():
                are_seen = _signalled(termination, hub, since)
    return are_seen and not termination.left


def _signalled(termination: Termination, hub: int, since: int, sign: int | None = None) -> bool:
    """Signal all children, once a file descriptor is free to look for them; False if none is."""
    until = time.monotonic() + SCARCE
    while time.monotonic() < until:
        try:
            termination.signal_all(look(hub, since), sign)
        except OSError:
            time.sleep(LOOK_EVERY)
        else:
            return True
    return False


class Belongings:
    """What a hub has told of its children: their `leaders`, and the `folders` made for them."""

    __slots__ = ("folders", "leaders")

    def __init__(self) -> None:
        self.leaders: dict[int, int] = {}
        self.folders: set[bytes] = set()

    def update(self, line: bytes) -> None:
        """Take a line of the hub: `+ PID START` or `+ FOLDER` (new), with `-` the same (gone)."""
        is_new, rest = line[:1] == b"+", line[2:].rstrip(b"\n")
        if not rest[:1].isdigit():  # no absolute path begins with a digit, on any system
            (self.folders.add if is_new else self.folders.discard)(rest)
            return
        pid, start = map(int, rest.split())
        if is_new:
            self.leaders[pid] = start
        else:
            self.leaders.pop(pid, None)

    def end(self, hub: int, since: int) -> bool:
        """End what a lost hub has left; return whether all its processes have ended."""
        have_ended = end(hub, since, self.leaders, GRACE)
        if self.folders:
            import shutil  # noqa: PLC0415 - most hubs leave no folder

            for folder in self.folders:
                shutil.rmtree(folder, ignore_errors=True)
        return have_ended


def main(arguments: list[str]) -> int:
    """Wait for the end of stdin, then end what is left of the hub's children."""
    for name in _UNENDING:
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    hub, since = map(int, arguments)
    belongings = Belongings()
    with open(0, "rb", closefd=False) as hub_says:
        for line in hub_says:
            if line.endswith(b"\n"):
                belongings.update(line)
    return 0 if belongings.end(hub, since) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
