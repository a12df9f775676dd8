"""Finds and ends all that a hub's children have started, by marks that a process does not lose.

Also part of a program that outlives the hub, `forkserver.py`, and a program of its own that does so
where there can be none of those: `python -I -S -B watchdog.py HUB SINCE` reads which children there
are from a pipe, and when that is closed, whoever closed it and however, ends what is left of them.
So this file imports nothing of the hub, and nothing that is slow to load.

A child carries its mark twice. `VARIABLE` is in its environment, which a process may clear. And its
limit of real-time CPU time is so high that it limits nothing, but is a number that no other process
has: the hard limit is the hub's, the soft one the child's. Limits pass to all descendants, through
`setsid`, a second fork and an empty environment.
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
"""Seconds that what a lost hub has left gets between SIGTERM and SIGKILL."""
PATIENCE = 2.0
"""Seconds after which a process that SIGKILL did not end is given up."""
LOOK_EVERY = 0.01
HAS_PROC = sys.platform.startswith("linux") and os.path.exists("/proc/self/stat")  # noqa: PTH110 - see above
_LIMIT = b"Max realtime timeout"
_NONE_FREE = (errno.EMFILE, errno.ENFILE)
SIGTERM = signal.SIGTERM
SIGKILL = getattr(signal, "SIGKILL", SIGTERM)
"""Windows has only the one, which is this one there."""
_UNENDING = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGTSTP")


Parent = tuple[int, int]
"""A process id and the start of the process."""


class Mark:
    """What tells the processes of one of a hub's children; those are counted from 1."""

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
        """The soft and the hard limit. The hub's own are equal: it is none of its children."""
        return self.hub - self.child, self.hub


class Row:
    """One line of the table of processes."""

    __slots__ = ("parent", "session", "start")

    def __init__(self, parent: int, session: int, start: int) -> None:
        self.parent = parent
        self.session = session
        self.start = start


def _read(pid: int, name: str) -> bytes:
    """Return what the kernel says of a process; nothing if it has ended, or is another user's.

    Raises: OSError where no descriptor is free to ask with, as all do here that ask.
    """
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError as exc:
        if exc.errno in _NONE_FREE:
            raise
        return b""


def _limit(pid: int) -> tuple[int, int] | None:
    for line in _read(pid, "limits").splitlines():
        if line.startswith(_LIMIT):
            soft, hard = line[len(_LIMIT) :].split()[:2]
            return (int(soft), int(hard)) if soft.isdigit() and hard.isdigit() else None
    return None


def row(pid: int) -> Row | None:
    """Return what the kernel says of a process; None if it has ended, reaped or not."""
    said = _read(pid, "stat")
    fields = said[said.rfind(b")") + 1 :].split()
    if not fields or (fields[0] in {b"Z", b"X"} and int(fields[17]) <= 1):
        return None  # with more threads than one, only the first of them has ended
    return Row(int(fields[1]), int(fields[3]), int(fields[19]))


def start_of(pid: int) -> int | None:
    """Return when a process started: with its id this tells it from all others, for ever."""
    found = row(pid)
    return None if found is None else found.start


def child_of(pid: int, hub: int) -> int:
    """Return which child of the hub a process' mark names now; 0 if it has none."""
    limit = _limit(pid)
    if limit is not None and limit[1] == hub and limit[0] != hub:
        return hub - limit[0]
    begins = f"\0{VARIABLE}={hub:x}-".encode()
    number = (b"\0" + _read(pid, "environ")).partition(begins)[2].partition(b"\0")[0]
    try:
        return int(number, 16)
    except ValueError:  # none, or one that somebody made up
        return 0


class Table:
    """The processes of one moment that have begun since the hub did: `children` by their marks."""

    __slots__ = ("children", "rows")

    def __init__(self, rows: dict[int, Row], children: dict[int, int]) -> None:
        self.rows = rows
        self.children = children

    def find(self, child: int, leaders: dict[int, int], parent: Parent = (0, 0)) -> dict[int, int]:
        """Return who is marked as of `child`, is a leader or descends from them, with its start.

        So are those who descend from `parent`, which is none of them itself.
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
    """Return the processes there are. Takes milliseconds."""
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
    """Signal the process that started at `start`, and no other that may have got its id since."""
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
    """Let a process go on if somebody has stopped it (SIGSTOP)."""
    try:
        if start_of(pid) == start:
            os.kill(pid, signal.SIGCONT)
    except OSError:  # it has ended, or nobody can say whether it has
        return


class Termination:
    """The processes of one mark, on their way to their end."""

    def __init__(self, child: int, leaders: dict[int, int], parent: Parent = (0, 0)) -> None:
        self.left: dict[int, int] = {}
        self._child = child
        self._leaders = leaders
        self._parent = parent
        self._sign: int = SIGTERM

    def signal_all(self, table: Table, sign: int | None = None) -> None:
        """Send each of them the signal, by default the one sent before."""
        self._sign = sign = self._sign if sign is None else sign
        if not HAS_PROC:
            self.left = {group: 0 for group in self._leaders if _signal_group(group, sign)}
            return
        self.left = table.find(self._child, self._leaders, self._parent)
        for pid, start in self.left.items():
            send(pid, start, sign)

    def prune(self) -> bool:
        """Return whether all that were struck have ended. Others may have come: strike again."""
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
    """Signal a process group, where there is no more to go by; return whether it was there."""
    try:
        os.killpg(group, sign)
    except (AttributeError, ProcessLookupError, PermissionError):
        return False
    return True


def end(hub: int, since: int, leaders: dict[int, int], grace: float) -> bool:
    """End all children by SIGTERM, and after `grace` by SIGKILL; return whether that worked."""
    termination = Termination(0, leaders)
    for sign, patience in ((SIGTERM, grace), (SIGKILL, PATIENCE)):
        termination.signal_all(look(hub, since), sign)
        until = time.monotonic() + patience
        while termination.left and time.monotonic() < until:
            time.sleep(LOOK_EVERY)
            if termination.prune():
                termination.signal_all(look(hub, since))
    return not termination.left


def said(leaders: dict[int, int], line: bytes) -> None:
    """Take over one line of the hub: `+ PID START` of a new child, `- PID START` of a gone one."""
    what, pid, start = line.split()
    if what == b"+":
        leaders[int(pid)] = int(start)
    else:
        leaders.pop(int(pid), None)


def main(arguments: list[str]) -> int:
    """Wait for the end of stdin, and end what its writer's children have left."""
    for name in _UNENDING:
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    hub, since = map(int, arguments)
    leaders: dict[int, int] = {}
    with open(0, "rb", closefd=False) as hub_says:
        for line in hub_says:
            if line.endswith(b"\n"):
                said(leaders, line)
    return 0 if end(hub, since, leaders, GRACE) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
