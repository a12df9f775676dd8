"""Program that confines itself, then becomes a child's command (exec).

Run as `python -I -S -B launcher.py HELD... COMMAND ARGV...`, where HELD is the result of `encode`,
in `pieces`: no file has it, since another child might write there. It must start fast, so no import
here may be slow to load, and it cannot use site packages.
`landlock` confines files; here capabilities are dropped, and seccomp refuses system calls.
"""

# ruff: noqa: PTH100, PTH120 - pathlib takes longer to load than all of this
from __future__ import annotations

import binascii
import ctypes
import marshal
import os
import sys

if __name__ == "__main__":
    # `-I` leaves out the program's directory. Appended last: it must not hide standard modules.
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from hub.confinement.landlock import LandlockError, confine

TYPE_CHECKING = False  # `typing` takes longer to load than all of this
if TYPE_CHECKING:
    from hub.confinement.seccomp_rules import Architecture

FAILED = 125
"""Exit code if confining failed: the command was not run."""
_PARENT_DEATH_SIGNAL, _SIGTERM = 1, 15
FILES_OF_ANY_OWNER = (0, 1, 3, 4)
"""CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER and CAP_FSETID: root's rights to files of any owner."""
_VERSION = 0x2008_0522
_BOUNDING_READ, _BOUNDING_DROP = 23, 24
_AMBIENT, _CLEAR_ALL = 47, 4
_MOST = 64
_SET, _FILTER, _NO_NEW_PRIVS = 22, 2, 38
_EFAULT, _EPERM = 14, 1
_STEP_BYTES = 8
_PIECE = 100 * 1024


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


class SeccompError(Exception):
    """The kernel did not accept the filter. The text says why."""


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))


def architecture() -> Architecture | None:
    """Return this machine's architecture; None if the hub has no filters for it."""
    if not sys.platform.startswith("linux") or sys.maxsize <= 1 << 32:
        return None
    match os.uname().machine:
        case "x86_64" | "aarch64" as kind:
            return kind
        case _:
            return None


def why_no_seccomp() -> str:
    """Return why no filter can be loaded here and what to do about it; empty if one can."""
    if not sys.platform.startswith("linux"):
        return "only Linux has seccomp"
    if architecture() is None:
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
    """Load the filter `program` for ever. Raises: SeccompError; nothing is refused then."""
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


def encode(
    file_grants: bytes,
    refused: bytes = b"",
    above: tuple[int, int] | None = None,
    capabilities: tuple[int, ...] = (),
) -> str:
    """Return the argument HELD: grants, seccomp filter, capabilities to keep.

    `above` are two placeholder numbers in the filter. The launcher replaces them by the id of its
    parent process and by that process' group.
    """
    whole = marshal.dumps((file_grants, refused, above, capabilities))
    return binascii.b2a_base64(whole, newline=False).decode()


def pieces(held: str) -> list[str]:
    """Return the result of `encode` as arguments: Linux takes 128 KiB in one. `-`: it goes on."""
    starts = range(0, len(held), _PIECE)
    return [held[at : at + _PIECE] + ("-" if at + _PIECE < len(held) else "") for at in starts]


def _hold(held: str) -> None:
    file_grants, refused, above, capabilities = marshal.loads(binascii.a2b_base64(held))  # noqa: S302 - the hub's
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
    ends = next(at for at, one in enumerate(arguments) if not one.endswith("-")) + 1
    held = "".join(one.removesuffix("-") for one in arguments[:ends])
    command, *argv = arguments[ends:]
    ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, _SIGTERM)
    try:
        _hold(held)
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
