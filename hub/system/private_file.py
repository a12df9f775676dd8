"""Files that only the hub's own user may read or write, in a directory of that kind.

They hold secrets, or small records that outlive the process (`StateFile`).
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final, cast

import structlog

from hub.system.atomic_file import alone_in, replace_file
from hub.values import Json

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


log = structlog.stdlib.get_logger(__name__)


class StateFile:
    """A JSON object in a file of mode 0600, in a directory of mode 0700.

    A file that another user could have written, or that is damaged, counts as empty. Without a
    `path` nothing is kept.
    """

    def __init__(self, path: Path | None) -> None:
        self.path: Final = path

    def read(self) -> Mapping[str, Json]:
        """Return all entries; none if the file cannot be read."""
        try:
            return {} if self.path is None else _entries(self.path)
        except OSError:
            return {}

    def write(self, key: str, value: Json) -> None:
        """Set one entry; None removes it. Other processes may write other entries meanwhile.

        Raises: OSError if the file cannot be written, one that is there cannot be read, or the
            directory is another user's.
        """
        if self.path is None:
            raise OSError(errno.ENOENT, "there is no directory for it")
        private_directory(self.path.parent)
        with alone_in(self.path.parent):
            entries = {**_entries(self.path), key: value}
            kept = {name: entry for name, entry in entries.items() if entry is not None}
            replace_file(self.path, f"{json.dumps(kept, indent=2)}\n".encode())


def _entries(path: Path) -> Mapping[str, Json]:
    """Return the entries in a file; none if there is no file.

    Raises: OSError if there is one, and it cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8")
        if not (is_ours(path.stat()) and is_ours(path.parent.stat())):
            log.warning("ignored, as other users may write it", file=str(path))
            return {}
        found: object = json.loads(text)
    except (FileNotFoundError, ValueError, RecursionError):
        return {}
    return cast("Mapping[str, Json]", found) if isinstance(found, dict) else {}
