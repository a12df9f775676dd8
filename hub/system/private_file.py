"""Files that only the hub's own user may read or write, in a directory of that kind."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from pathlib import Path
from typing import Final

from hub.system.atomic_file import alone_in, replace_file

_FILE, _DIRECTORY = 0o600, 0o700
_OTHERS: Final = 0o077
_OTHERS_MAY_WRITE: Final = 0o022
_NO_LINK: Final[int] = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_AT_ONCE: Final[int] = getattr(os, "O_NONBLOCK", 0)
_SECRET_BYTES: Final = 32


def is_ours(found: os.stat_result) -> bool:
    """Return whether only this process's user may write a file or a directory."""
    if not hasattr(os, "geteuid"):
        return True
    return found.st_uid == os.geteuid() and not found.st_mode & _OTHERS_MAY_WRITE


def private_directory(path: Path) -> None:
    """Make sure that `path` is a directory which nobody else may write.

    Raises: OSError if it cannot be made, or belongs to another user.
    """
    path.mkdir(mode=_DIRECTORY, parents=True, exist_ok=True)
    if not hasattr(os, "geteuid"):
        return
    found = path.stat()
    if found.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "it belongs to another user", str(path))
    if found.st_mode & _OTHERS_MAY_WRITE:
        path.chmod(_DIRECTORY)


def read_private(path: Path, most: int) -> bytes:
    """Return the first `most` bytes of a private file.

    Raises: OSError if there is none, it is a link or no plain file, or others may access it.
    """
    with os.fdopen(_opened(path, os.O_RDONLY), "rb") as file:
        return file.read(most)


def append_private(path: Path) -> int:
    """Return a descriptor that appends to a private file, which is made if it is not there.

    Raises: OSError as `read_private` does.
    """
    return _opened(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def secret_in(path: Path) -> bytes:
    """Return the secret in a private file; the first process that asks makes it.

    Raises: OSError if it cannot be read or made, or others may access it.
    """
    private_directory(path.parent)
    with alone_in(path.parent):
        try:
            text = read_private(path, 4096).decode("ascii", "replace").strip()
        except FileNotFoundError:
            text = secrets.token_hex(_SECRET_BYTES)
            replace_file(path, f"{text}\n".encode())
    if len(text) != 2 * _SECRET_BYTES:
        raise OSError(errno.EINVAL, "it holds no secret of the hub's", str(path))
    return text.encode()


def _opened(path: Path, flags: int) -> int:
    descriptor = os.open(path, flags | _NO_LINK | _AT_ONCE, _FILE)
    try:
        _must_be_private(path, os.fstat(descriptor))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _must_be_private(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is no plain file", str(path))
    if not hasattr(os, "geteuid"):
        return
    if found.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "it belongs to another user", str(path))
    if found.st_mode & _OTHERS:
        raise PermissionError(errno.EPERM, "other users may access it", str(path))
    if found.st_nlink > 1:
        raise PermissionError(errno.EPERM, "it has more than one hard link", str(path))
