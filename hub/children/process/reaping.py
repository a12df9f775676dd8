"""Takes away what is left of ended processes that nobody here has started.

A process whose parent has gone becomes a child of process 1. In a container that may be the hub;
until somebody asks how the process ended, it stays there as a zombie and keeps its id.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

import anyio

EVERY: Final = 5.0
"""Seconds between two looks for processes that have ended."""
TURN: Final = 0.05
"""Seconds in which whoever started a process here has learnt of its end, and asked how it was."""


def inherits_orphans() -> bool:
    """Return whether this process is the one that those without a parent are given to."""
    return os.getpid() == 1


async def reap_orphans() -> None:
    """Take away ended processes that are nobody's, until cancelled."""
    while True:
        await anyio.sleep(EVERY)
        while (ended := _ended()) is not None:
            await anyio.sleep(TURN)
            if _ended() == ended:
                _reap(ended)


def _ended() -> int | None:
    """Return a process that has ended and was not asked after yet, and leave it so."""
    try:
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:  # there are no processes at all
        return None
    return None if found is None else found.si_pid


def _reap(ended: int) -> None:
    with suppress(ChildProcessError):  # a thread was quicker that waits for its own
        os.waitpid(ended, os.WNOHANG)
