"""On which CPUs processes run, so that the scheduler's choice is not what is measured.

A message that goes to a process on another CPU has to wake that CPU first, which on a virtual
machine takes longer than a relay does. Left to itself a scheduler does now this, now that.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

CPUS = sorted(os.sched_getaffinity(0))
OURS = CPUS[0]
NICE = os.nice(0)
"""The priority of this process, which the kernel may count within each group of processes alone.

Every program is in a group of its own (see "autogroup" in sched(7)), so the groups get it too.
"""


def children(pid: int) -> list[int]:
    """Return the processes that `pid` started."""
    found: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    return found


def cpu_seconds(pid: int) -> float:
    """Return how long a process has run on a CPU, without what it started."""
    return (
        sum(
            int((task / "schedstat").read_text().split()[0])
            for task in Path(f"/proc/{pid}/task").iterdir()
        )
        / 1e9
    )


def prioritise(pid: int) -> None:
    """Give a process' group the priority of this process."""
    if NICE:
        with suppress(OSError):
            Path(f"/proc/{pid}/autogroup").write_text(str(NICE))


def place_us() -> None:
    """Put this process on its CPU."""
    _put(os.getpid(), OURS)


def place_anywhere() -> None:
    """Let this process, and what it starts from now on, run on all CPUs again."""
    os.sched_setaffinity(0, CPUS)


def place(pid: int, *, apart: bool) -> None:
    """Put a program on our CPU, or on another one; what it started stays with us."""
    _put(pid, CPUS[-1] if apart else OURS)
    for child in children(pid):
        _put_all(child, OURS)


def _put_all(pid: int, cpu: int) -> None:
    _put(pid, cpu)
    for child in children(pid):
        _put_all(child, cpu)


def _put(pid: int, cpu: int) -> None:
    prioritise(pid)
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                os.sched_setaffinity(int(task.name), {cpu})
