"""Limits, sockets, memory and the event loop of this process."""

from __future__ import annotations

import asyncio  # noqa: TID251 - for the type of its transports
import ctypes
import os
import struct
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeVar, TypeVarTuple

Args = TypeVarTuple("Args")
Result = TypeVar("Result")


def most_files(wanted: int = 0) -> int | None:
    """Return how many files this process may have open; None if unlimited or not known.

    If these are fewer than are `wanted`, the limit is raised as far as the system allows: many
    systems have a low one for the sake of programs that use `select`.
    """
    try:
        from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit, setrlimit  # noqa: PLC0415 - not everywhere
    except ImportError:
        return None
    soft, hard = getrlimit(RLIMIT_NOFILE)
    if soft != RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):
            setrlimit(RLIMIT_NOFILE, (wanted if hard == RLIM_INFINITY else min(hard, wanted), hard))
            soft = getrlimit(RLIMIT_NOFILE)[0]
    return None if soft == RLIM_INFINITY else soft


def limit_files(process: int, most: int | None) -> None:
    """Let a process, and those that it starts, have `most` files open; None: as many as now."""
    with suppress(ImportError, OSError):  # only Linux can do it
        from resource import RLIMIT_NOFILE, getrlimit, prlimit  # noqa: PLC0415 - not everywhere

        if most is not None:
            prlimit(process, RLIMIT_NOFILE, (most, getrlimit(RLIMIT_NOFILE)[1]))


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


KEPT: Final = 8 * 1024 * 1024
"""How many free bytes at the end of the heap the process keeps (M_TRIM_THRESHOLD)."""
APART: Final = 4 * 1024 * 1024
"""From how many bytes a buffer is mapped alone and returned when free (M_MMAP_THRESHOLD)."""

_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3


def keep_for_large_messages(platform: str = sys.platform, libc: object = None) -> bool:
    """Make glibc keep memory of large messages for later ones. Return whether that worked.

    A large message needs several buffers of its size, all free again when it is sent. By default
    glibc returns them to the system and takes them again for the next message, and the kernel
    clears each page again, which takes longer than all other work on the message.
    `libc` is the C library: by default that of this process.
    """
    if platform != "linux":
        return False
    tune: Any = getattr(libc or ctypes.CDLL(None), "mallopt", None)  # only glibc has it
    if tune is None:
        return False
    return bool(tune(_MMAP_THRESHOLD, APART)) and bool(tune(_TRIM_THRESHOLD, KEPT))


def give_back() -> bool:
    """Return all free memory of the heap to the system. Return whether there was any.

    Takes 0.1 ms per MB returned: call it only when much memory has become free.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    return trim is not None and bool(trim(0))


def resident(pid: int | None = None) -> int | None:
    """Return how many bytes of a process (default: this one) are in memory; None if not known."""
    try:
        pages = Path(f"/proc/{pid or os.getpid()}/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError, AttributeError):
        return None


def run_loop(main: Callable[[*Args], Awaitable[Result]], *args: *Args) -> Result:
    """Return the result of `main`, run on uvloop if it is installed.

    First tunes the memory of this process and hides its memory and environment from others.
    """
    import anyio  # noqa: PLC0415 - the rest of this file runs without any package

    keep_for_large_messages()
    hide_from_others()
    has_uvloop = False
    with suppress(ImportError):
        has_uvloop = bool(import_module("uvloop"))
    return anyio.run(main, *args, backend_options={"use_uvloop": has_uvloop})
