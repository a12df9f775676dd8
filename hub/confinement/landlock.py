"""Landlock by system calls: restrict this process, and all it starts, to granted files.

The launcher of confined children imports this module: no import here may be slow to load.
"""

# ruff: noqa: PTH115 - pathlib takes longer to load than all of this
import ctypes
import os
import sys

MAX_ABI = 7
"""The newest Landlock ABI version that the hub knows. Newer kernels support it."""

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
MAKE_CHAR, MAKE_BLOCK, REFER, TRUNCATE, IOCTL_DEV = 1 << 6, 1 << 11, 1 << 13, 1 << 14, 1 << 15
_SINCE = ((1, (1 << 13) - 1), (2, REFER), (3, TRUNCATE), (5, IOCTL_DEV))
"""The rights to files that each ABI version added."""
_READ = EXECUTE | READ_FILE | READ_DIR
_OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
"""Rights that can be granted on anything other than a directory."""
_NEVER = MAKE_CHAR | MAKE_BLOCK
"""Handled but never granted: root could make a device node of a disk in a writable directory."""
_SCOPES = 0b11
"""Since version 6: no abstract Unix sockets of, and no signals to, processes outside. Otherwise a
child could signal the hub, or start programs through the session bus."""
_SCOPES_SINCE = 6

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG, _PATH_BENEATH, _NO_NEW_PRIVS = 1, 1, 38
_PIECES = 3


class LandlockError(Exception):
    """The kernel did not confine this process. The text says why."""


class _Ruleset(ctypes.Structure):
    _fields_ = (
        ("files", ctypes.c_uint64),
        ("network", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("rights", ctypes.c_uint64), ("parent", ctypes.c_int32))


def abi() -> int:
    """Return this machine's Landlock ABI version; 0 if it cannot confine."""
    return max(_version()[0], 0)


def why_not() -> str:
    """Return why `abi()` is 0 and what to do about it; empty if it is not 0."""
    version, error = _version()
    if version > 0:
        return ""
    if not sys.platform.startswith("linux"):
        return "only Linux can confine children"
    if error == _ENOSYS:
        return "this kernel has no Landlock: use Linux 5.13 or newer, built with SECURITY_LANDLOCK"
    if error == _EOPNOTSUPP:
        return "Landlock is switched off: add landlock to the kernel's lsm= boot parameter"
    if error == _EPERM:
        return (
            "a container forbids Landlock: allow the landlock_* system calls in its seccomp rules"
        )
    return f"Landlock cannot be queried: {os.strerror(error)}"


_EPERM, _ENOSYS, _EOPNOTSUPP = 1, 38, 95
_MOST_LINKS = 40


def _version() -> tuple[int, int]:
    if not sys.platform.startswith("linux"):
        return -1, _ENOSYS
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    return version, ctypes.get_errno()


def handled(version: int) -> int:
    """Return the rights to files that this Landlock version can restrict, as bits."""
    known = 0
    for since, rights in _SINCE:
        if version >= since:
            known |= rights
    return known


def rights(version: int, *, write: bool, directory: bool) -> int:
    """Return the rights of a grant, as bits: only those that the version and the file type have."""
    wanted = handled(version) & ~_NEVER if write else _READ
    return wanted & handled(version) & (-1 if directory else _OF_FILES)


def scoped(version: int) -> int:
    """Return the scopes (signals, abstract sockets) that are restricted; none before version 6."""
    return _SCOPES if version >= _SCOPES_SINCE else 0


def encode(file_grants: list[tuple[str, str, tuple[int, int] | None]]) -> bytes:
    """Return grants as bytes for `confine`: each is `r` or `w`, a path, and its device and inode.

    A path that does not exist, or has another inode by then, grants nothing. Nor does one without
    an inode that passes a link in what the child may write: the child may have made that link.
    """
    pieces: list[bytes] = []
    for kind, path, inode in file_grants:
        which = "-" if inode is None else f"{inode[0]}:{inode[1]}"
        pieces += (kind.encode(), which.encode(), os.fsencode(path))
    return b"".join(piece + b"\0" for piece in pieces)


def confine(file_grants: bytes) -> None:
    """Restrict this process, and all it starts, to `file_grants` (from `encode`), for ever.

    Raises: LandlockError; access to files is not restricted then.
    """
    version = min(abi(), MAX_ABI)
    if version == 0:
        raise LandlockError(why_not())
    libc = ctypes.CDLL(None, use_errno=True)
    attributes = _Ruleset(handled(version), 0, scoped(version))
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    ruleset = libc.syscall(_CREATE_RULESET, ctypes.byref(attributes), size, ctypes.c_uint32(0))
    if ruleset < 0:
        raise LandlockError(f"no ruleset: {os.strerror(ctypes.get_errno())}")
    try:
        pieces = file_grants.split(b"\0")[:-1]
        grants = [pieces[at : at + _PIECES] for at in range(0, len(pieces), _PIECES)]
        changeable = [path for kind, which, path in grants if kind == b"w" or which != b"-"]
        for grant in grants:
            _grant(libc, ruleset, version, changeable, *grant)
        if libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.syscall(
            _RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0)
        ):
            raise LandlockError(f"not restricted: {os.strerror(ctypes.get_errno())}")
    finally:
        os.close(ruleset)


def _grant(  # noqa: PLR0913, PLR0917 - one Landlock rule
    libc: ctypes.CDLL,
    ruleset: int,
    version: int,
    changeable: list[bytes],
    kind: bytes,
    inode: bytes,
    path: bytes,
) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # if this process cannot open the path, the command cannot either
    try:
        found = os.fstat(place)
        if inode not in {b"-", b"%d:%d" % (found.st_dev, found.st_ino)}:
            return
        real = os.readlink(b"/proc/self/fd/%d" % place)
        is_linked = inode == b"-" and path[:1] == b"/" and real != path
        if is_linked and real != _led_to(path, changeable):
            return
        directory = found.st_mode & 0o170000 == 0o040000  # noqa: PLR2004 - S_IFMT, S_IFDIR: `stat` is one more module
        allowed = rights(version, write=kind == b"w", directory=directory)
        rule = _PathBeneath(allowed, place)
        if libc.syscall(
            _ADD_RULE,
            ctypes.c_int(ruleset),
            ctypes.c_int(_PATH_BENEATH),
            ctypes.byref(rule),
            ctypes.c_uint32(0),
        ):
            error = os.strerror(ctypes.get_errno())
            raise LandlockError(f"{os.fsdecode(path)} cannot be granted: {error}")
    finally:
        os.close(place)


def _led_to(path: bytes, changeable: list[bytes]) -> bytes | None:
    """Return where a path leads, links followed; None if one of them is in a changeable place."""
    inside = [os.path.realpath(one) + b"/" for one in changeable]
    left, at, links = path.split(b"/")[::-1], b"", 0
    while left and links <= _MOST_LINKS:
        name = left.pop()
        here = os.path.normpath(b"%s/%s" % (at, name))
        try:
            target = os.readlink(here)
        except OSError:
            at = here.rstrip(b"/")
            continue
        if any(here.startswith(one) for one in inside):
            return None
        links += 1
        at = b"" if target[:1] == b"/" else at
        left += target.split(b"/")[::-1]
    return at or b"/"
