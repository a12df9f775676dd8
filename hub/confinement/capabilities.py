"""Drop Linux capabilities (root's rights) of this process and of all processes it starts.

The launcher of confined children imports this module: no import here may be slow to load.
"""

from __future__ import annotations

import ctypes
import os

FILES_OF_ANY_OWNER = (0, 1, 3, 4)
"""CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER and CAP_FSETID: root's rights to files of any owner."""
_VERSION = 0x2008_0522
_BOUNDING_READ, _BOUNDING_DROP = 23, 24
_AMBIENT, _CLEAR_ALL = 47, 4
_MOST = 64


class CapabilitiesError(Exception):
    """The kernel did not drop capabilities. The text says why."""


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Half(ctypes.Structure):
    _fields_ = (
        ("effective", ctypes.c_uint32),
        ("permitted", ctypes.c_uint32),
        ("inheritable", ctypes.c_uint32),
    )


def drop(kept: tuple[int, ...] = ()) -> None:
    """Drop all capabilities except `kept`; empty the ambient and inheritable sets.

    The bounding set is reduced to `kept` if this process may change it. If not, a program that is
    executed cannot regain dropped capabilities either, as long as `no_new_privs` is set.

    Raises: CapabilitiesError.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    for number in range(_MOST):
        if number not in kept and libc.prctl(_BOUNDING_READ, number, 0, 0, 0) == 1:
            libc.prctl(_BOUNDING_DROP, number, 0, 0, 0)
    libc.prctl(_AMBIENT, _CLEAR_ALL, 0, 0, 0)  # fails on kernels without ambient capabilities
    header, halves = _Header(_VERSION, 0), (_Half * 2)()
    if libc.capget(ctypes.byref(header), halves):
        raise CapabilitiesError(f"capabilities cannot be read: {os.strerror(ctypes.get_errno())}")
    wanted = sum(1 << number for number in kept)
    for at, half in enumerate(halves):
        half.permitted &= wanted >> 32 * at & 0xFFFF_FFFF
        half.effective &= half.permitted
        half.inheritable = 0
    if libc.capset(ctypes.byref(header), halves):
        raise CapabilitiesError(
            f"capabilities cannot be dropped: {os.strerror(ctypes.get_errno())}"
        )
