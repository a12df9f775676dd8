"""Tell the hub's own descendants: its servers, and all that they start."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final

from hub.children.process import watchdog

_FIRST: Final = 1
"""The process id of the system's first process, which adopts orphans."""


def is_descendant(pid: int, ancestor: int | None = None) -> bool:
    """Return whether a process descends from `ancestor` (default: this process), or is gone.

    A server's orphans become children of its subreaper, so they are found as well. A process that
    left all that behind is told by its limit of real-time CPU time, which all descendants inherit.

    Raises: OSError if no file descriptor is free.
    """
    hub = os.getpid() if ancestor is None else ancestor
    if pid == hub or pid <= 0:
        return True
    if not watchdog.HAS_PROC:
        return _is_below(pid, hub, _parents_by_ps())
    number = _number()
    seen: set[int] = set()
    while pid > _FIRST and pid not in seen:
        found = watchdog.row(pid)
        if found is None:
            # The one that asks must be there; further up, others' processes may be hidden.
            return not seen
        if found.parent == hub or (number and watchdog.child_of(pid, number)):
            return True
        seen.add(pid)
        pid = found.parent
    return False


def _number() -> int:
    """Return the number that marks this hub's children; 0 if it marks none."""
    if sys.platform != "linux":
        return 0
    from resource import RLIM_INFINITY, RLIMIT_RTTIME, getrlimit  # noqa: PLC0415 - not everywhere

    hard = getrlimit(RLIMIT_RTTIME)[1]
    return 0 if hard == RLIM_INFINITY else hard


def _is_below(pid: int, ancestor: int, parents: dict[int, int]) -> bool:
    if pid not in parents:
        return True
    while pid > _FIRST:
        pid = parents.pop(pid, 0)
        if pid == ancestor:
            return True
    return False


def _parents_by_ps() -> dict[int, int]:
    """Return the parent of each process, where there is no `/proc`."""
    said = subprocess.run(
        ["/bin/ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=False
    ).stdout
    rows = (line.split() for line in said.splitlines())
    return {int(row[0]): int(row[1]) for row in rows if len(row) == 2}  # noqa: PLR2004 - pid and parent
