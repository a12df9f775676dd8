"""Limits, sockets, memory and the event loop of this process.

A service manager such as systemd may pass it a socket. The manager listens itself, and starts the
hub when the first client connects. It keeps the socket while the hub restarts, so that clients wait
instead of being refused. The protocol is that of `man sd_listen_fds`: file descriptor 3, announced
by variables of the environment.
"""

from __future__ import annotations

import asyncio  # noqa: TID251 - for the type of its transports
import ctypes
import os
import socket
import struct
import sys
from collections.abc import Awaitable, Callable, MutableMapping
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


_FIRST: Final = 3
"""The file descriptor of the first passed socket."""
_VARIABLES: Final = ("LISTEN_FDNAMES", "LISTEN_PIDFDID")
_FIX: Final = "The socket unit needs one ListenStream= with a TCP port, and Accept=no."


def take_passed_socket(environ: MutableMapping[str, str]) -> socket.socket | None:
    """Return the socket that was passed to this process; None if there is none.

    Removes the variables from `environ`: a server of the hub would take its own file descriptor 3
    for the socket. Raises: StartError if it is not exactly one TCP socket that listens.
    """
    from hub.errors import StartError  # noqa: PLC0415 - the rest of this file needs no package

    for name in _VARIABLES:
        environ.pop(name, None)
    process, count = environ.pop("LISTEN_PID", ""), environ.pop("LISTEN_FDS", "")
    if process != str(os.getpid()) or not count:
        return None  # passed to nobody, or to the program that started this one
    if count != "1":
        raise StartError(f"the service manager passes {count} sockets (LISTEN_FDS), not one", _FIX)
    try:
        passed = socket.socket(fileno=_FIRST)
    except OSError as exc:
        raise StartError(f"the service manager passes no socket: {exc.strerror}", _FIX) from exc
    why = _unfit(passed)
    if why is not None:
        passed.close()
        raise StartError(f"the service manager passes a socket that {why}", _FIX)
    passed.set_inheritable(False)
    return passed


def _unfit(passed: socket.socket) -> str | None:
    """Return why the hub cannot accept connections of this socket; None if it can."""
    is_ip = passed.family in {socket.AF_INET, socket.AF_INET6}
    if not is_ip or passed.type != socket.SOCK_STREAM:
        return "is not for TCP"
    if not passed.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        return "does not listen"
    return None


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
    import anyio  # noqa: PLC0415 - as in `take_passed_socket`

    keep_for_large_messages()
    hide_from_others()
    has_uvloop = False
    with suppress(ImportError):
        has_uvloop = bool(import_module("uvloop"))
    return anyio.run(main, *args, backend_options={"use_uvloop": has_uvloop})
