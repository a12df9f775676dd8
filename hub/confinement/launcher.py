"""Program that confines itself, then becomes a child's command (exec).

Run as `python -I -S -B launcher.py HELD COMMAND ARGV...`; the file HELD has the result of `encode`.
It must start fast and cannot use site packages.
"""

# ruff: noqa: PTH100, PTH120, PTH123 - pathlib takes longer to load than all of this
from __future__ import annotations

import ctypes
import marshal
import os
import sys

if __name__ == "__main__":
    # `-I` leaves out the program's directory. Appended last: it must not hide standard modules.
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from hub.confinement.landlock import LandlockError, confine
from hub.confinement.seccomp import SeccompError, filled_in, load

FAILED = 125
"""Exit code if confining failed: the command was not run."""
_PARENT_DEATH_SIGNAL, _SIGTERM = 1, 15
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


def drop_capabilities(kept: tuple[int, ...] = ()) -> None:
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


def encode(
    file_grants: bytes,
    refused: bytes = b"",
    above: tuple[int, int] | None = None,
    capabilities: tuple[int, ...] = (),
) -> bytes:
    """Return the content of the file HELD: grants, seccomp filter, capabilities to keep.

    `above` are two placeholder numbers in the filter. The launcher replaces them by the id of its
    parent process and by that process' group.
    """
    return marshal.dumps((file_grants, refused, above, capabilities))


def _hold(file: str) -> None:
    with open(file, "rb") as held:
        file_grants, refused, above, capabilities = marshal.loads(held.read())  # noqa: S302 - the hub's
    confine(file_grants)
    drop_capabilities(capabilities)
    if above is not None:
        parent = os.getppid()
        refused = filled_in(refused, {above[0]: parent, above[1]: -os.getpgid(parent)})
    if refused:
        load(refused)


def main(arguments: list[str]) -> int:
    """Confine this process and execute the command. Returns only if that fails: an exit code.

    The kernel sends SIGTERM to the command when its parent process ends.
    """
    file, command, *argv = arguments
    ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, _SIGTERM)
    try:
        _hold(file)
    except (LandlockError, CapabilitiesError, SeccompError, OSError, ValueError) as exc:
        print(f"roots-hub cannot confine this process: {exc}", file=sys.stderr)  # noqa: T201 - its own program
        return FAILED
    try:
        os.execv(command, argv)  # noqa: S606 - what the operator configured
    except OSError as exc:
        print(f"roots-hub cannot run {command} confined: {exc.strerror}", file=sys.stderr)  # noqa: T201 - its own program
        return FAILED + 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
