"""Load a seccomp filter: refuse system calls of this process and of all it starts.

The launcher of confined children imports this module: no import here may be slow to load.
"""

from __future__ import annotations

import ctypes
import os
import sys

TYPE_CHECKING = False  # `typing` takes longer to load than all of this
if TYPE_CHECKING:
    from hub.confinement.seccomp_rules import Architecture

_SET, _FILTER, _NO_NEW_PRIVS = 22, 2, 38
_EFAULT, _EPERM = 14, 1
_STEP_BYTES = 8


class SeccompError(Exception):
    """The kernel did not accept the filter. The text says why."""


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))


def machine() -> Architecture | None:
    """Return this machine's architecture; None if the hub has no filters for it."""
    if not sys.platform.startswith("linux") or sys.maxsize <= 1 << 32:
        return None
    match os.uname().machine:
        case "x86_64" | "aarch64" as kind:
            return kind
        case _:
            return None


def why_not() -> str:
    """Return why no filter can be loaded here and what to do about it; empty if one can."""
    if not sys.platform.startswith("linux"):
        return "only Linux has seccomp"
    if machine() is None:
        return "the hub has seccomp filters only for x86_64 and aarch64 (64 bit)"
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_SET, _FILTER, None, 0, 0)  # a null filter: EFAULT means a real one loads
    error = ctypes.get_errno()
    if error == _EFAULT:
        return ""
    if error == _EPERM:
        return "a container forbids seccomp filters: allow prctl and seccomp in its profile"
    return "this kernel has no seccomp filters: it was built without SECCOMP_FILTER"


def load(program: bytes) -> None:
    """Load the filter `program` (compiled by `seccomp_rules`) for ever.

    Raises: SeccompError; nothing is refused then.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    filled = _Program(len(program) // _STEP_BYTES, program)
    if libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
        _SET, ctypes.c_ulong(_FILTER), ctypes.byref(filled), 0, 0
    ):
        raise SeccompError(
            f"the filter of system calls cannot be loaded: {os.strerror(ctypes.get_errno())}"
        )


def filled_in(program: bytes, numbers: dict[int, int]) -> bytes:
    """Return `program` with each operand that is a key of `numbers` replaced by its value."""
    steps = [program[at : at + _STEP_BYTES] for at in range(0, len(program), _STEP_BYTES)]
    for at, step in enumerate(steps):
        number = numbers.get(int.from_bytes(step[4:], "little"))
        if number is not None:
            steps[at] = step[:4] + (number & 0xFFFF_FFFF).to_bytes(4, "little")
    return b"".join(steps)
