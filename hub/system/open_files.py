"""What the kernel knows of the files, connections among them, that this process has open."""

from __future__ import annotations

import asyncio  # noqa: TID251 - its transports are asked about
import struct
import sys
from contextlib import suppress


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
