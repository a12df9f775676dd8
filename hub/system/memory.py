"""Tune glibc's malloc: keep freed memory for the next large message, or give it back.

A large message needs several buffers of its size, all free again when the message is sent. By
default glibc returns this memory to the system at once and takes it again for the next message. The
kernel must then clear each page again, which takes longer than all other work on the message.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path
from typing import Any, Final

KEPT: Final = 8 * 1024 * 1024
"""How many free bytes at the end of the heap the process keeps (M_TRIM_THRESHOLD)."""
APART: Final = 4 * 1024 * 1024
"""From how many bytes a buffer is mapped alone and returned when free (M_MMAP_THRESHOLD)."""

_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3


def keep_for_large_messages(platform: str = sys.platform, libc: object = None) -> bool:
    """Make glibc keep memory of large messages for later ones. Return whether that worked.

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
