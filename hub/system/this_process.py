"""Ask the kernel about this process: file limit, unsent bytes; hide its memory from others."""

from __future__ import annotations

import asyncio  # noqa: TID251 - for the type of its transports
import ctypes
import struct
import sys
from contextlib import suppress
from typing import Final


def most_files() -> int | None:
    """Return how many files this process may have open; None if unlimited or not known."""
    try:
        from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit  # noqa: PLC0415 - not everywhere
    except ImportError:
        return None
    soft = getrlimit(RLIMIT_NOFILE)[0]
    return None if soft == RLIM_INFINITY else soft


def unsent(transport: asyncio.BaseTransport) -> int:
    """Return how many sent bytes the peer has not acknowledged yet; 0 if not known."""
    connection = transport.get_extra_info("socket")
    if connection is None or sys.platform != "linux":
        return 0
    from fcntl import ioctl  # noqa: PLC0415 - not everywhere
    from termios import TIOCOUTQ  # noqa: PLC0415 - as above

    with suppress(OSError):
        return struct.unpack("i", ioctl(connection.fileno(), TIOCOUTQ, b"\0" * 4))[0]
    return 0


_SET_DUMPABLE: Final = 4


def hide_from_others() -> bool:
    """Make environment and memory of this process readable for root only. Return whether it worked.

    Otherwise a server could read a secret that it does not inherit from the hub's
    /proc/PID/environ. A forked process is hidden too until it executes its program. As a result,
    there are no core dumps and debuggers need root. Does nothing except on Linux.
    """
    if sys.platform != "linux":
        return False
    with suppress(OSError, AttributeError):
        return ctypes.CDLL(None).prctl(_SET_DUMPABLE, 0, 0, 0, 0) == 0
    return False
