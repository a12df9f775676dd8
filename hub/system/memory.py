"""How this process' memory is taken from the system, and given back.

A large message passes through several buffers of its size, all of which are free again when it is
on its way. Left to itself glibc then gives the memory back at once, and takes as much again for the
next message: the kernel clears each page of it anew, which takes longer than all else that is done
with the message.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Final

KEPT: Final = 8 * 1024 * 1024
"""How many bytes may stay with the process that are free at the end of its heap."""
APART: Final = 4 * 1024 * 1024
"""From how many bytes on a buffer gets memory of its own, which always goes back."""

_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3


def keep_for_large_messages() -> bool:
    """Let what large messages need stay for those after them; return whether that is possible."""
    if sys.platform != "linux":
        return False
    tune = getattr(ctypes.CDLL(None), "mallopt", None)  # glibc's own; musl has none
    if tune is None:
        return False
    return bool(tune(_MMAP_THRESHOLD, APART)) and bool(tune(_TRIM_THRESHOLD, KEPT))


def give_back() -> bool:
    """Give memory that is free, wherever on the heap, back to the system; return whether it was.

    Takes 0.1 ms for each MB that goes: for when much of it has become free.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    return trim is not None and bool(trim(0))
