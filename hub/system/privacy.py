"""Keeps other programs of the same user from reading what this process knows."""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress
from typing import Final

_SET_DUMPABLE: Final = 4


def hide_from_others() -> bool:
    """Let nobody but root read this process' environment and memory; return whether that works.

    A server that does not inherit a secret could otherwise read it where the hub has it, in
    /proc/PID/environ. A process that is started is hidden too until it has become its own program.
    There are no core dumps then, and debuggers need root. Elsewhere than on Linux nothing is done.
    """
    if sys.platform != "linux":
        return False
    with suppress(OSError, AttributeError):
        return ctypes.CDLL(None).prctl(_SET_DUMPABLE, 0, 0, 0, 0) == 0
    return False
