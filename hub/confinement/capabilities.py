"""Gives up root's rights, for this process and all that it starts.

The launcher of confined children imports this, so it imports nothing that is slow to load.
"""

from __future__ import annotations

import ctypes
import os

FILES_OF_ANY_OWNER = (0, 1, 3, 4)
"""CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER and CAP_FSETID: root's rights to files."""
_VERSION = 0x2008_0522
_BOUNDING_READ, _BOUNDING_DROP = 23, 24
_AMBIENT, _CLEAR_ALL = 47, 4
_MOST = 64


class CapabilitiesError(Exception):
    """The kernel would not take rights away; the text says why."""


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Half(ctypes.Structure):
    _fields_ = (
        ("effective", ctypes.c_uint32),
        ("permitted", ctypes.c_uint32),
        ("inheritable", ctypes.c_uint32),
    )


def drop(kept: tuple[int, ...] = ()) -> None:
    """Give up all capabilities but these: those it has, and those that a program could bring.

    The bounding set is left as it is where this process may not change it: a program brings
    nothing that was given up here once there are no new privileges.

    Raises: CapabilitiesError.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    for number in range(_MOST):
        if number not in kept and libc.prctl(_BOUNDING_READ, number, 0, 0, 0) == 1:
            libc.prctl(_BOUNDING_DROP, number, 0, 0, 0)
    libc.prctl(_AMBIENT, _CLEAR_ALL, 0, 0, 0)  # a kernel without ambient ones knows no such call
    header, halves = _Header(_VERSION, 0), (_Half * 2)()
    if libc.capget(ctypes.byref(header), halves):
        raise CapabilitiesError(f"they cannot be read: {os.strerror(ctypes.get_errno())}")
    wanted = sum(1 << number for number in kept)
    for at, half in enumerate(halves):
        half.permitted &= wanted >> 32 * at & 0xFFFF_FFFF
        half.effective &= half.permitted
        half.inheritable = 0
    if libc.capset(ctypes.byref(header), halves):
        raise CapabilitiesError(f"they cannot be given up: {os.strerror(ctypes.get_errno())}")
