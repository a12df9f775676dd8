"""What the kernel knows of the files, connections among them, that this process has open."""

from __future__ import annotations

import asyncio  # noqa: TID251 - its transports are asked about
import ctypes
import struct
import sys
from contextlib import suppress
from typing import Final


def most_files() -> int | None:
    """Return how many; None for any number, or where that cannot be known."""
    try:
        from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit  # noqa: PLC0415 - not everywhere
    except ImportError:
        return None
    soft = getrlimit(RLIMIT_NOFILE)[0]
    return None if soft == RLIM_INFINITY else soft


def unsent(transport: asyncio.BaseTransport) -> int:
    """Return how many bytes the kernel keeps that the other side has not taken; 0 if not known."""
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
