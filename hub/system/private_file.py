"""Files that only the hub's own user may read or write, in a directory of that kind.

They hold secrets, small records that outlive the process (`StateFile`), or what may be lost: the
hub's own caches (`CacheFiles`).
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import stat
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from io import BufferedReader
from pathlib import Path
from typing import Final, cast

import structlog
from msgspec import Struct

from hub.system.atomic_file import alone_in, replace_file
from hub.values import Json

_FILE, _DIRECTORY = 0o600, 0o700
_OTHERS: Final = 0o077
_OTHERS_MAY_WRITE: Final = 0o022
_FLAGS: Final[int] = (
    getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
)
"""No link is followed, no pipe is waited for, and line ends stay."""
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


if sys.platform != "win32":
    import fcntl

    def is_locked(descriptor: int) -> bool:
        """Return whether the open file is locked by this process now: no other one has it."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


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


def _opened(path: Path, flags: int, forbidden: int = _OTHERS) -> int:
    """Open a file of which others have none of the rights `forbidden`, and which is no link."""
    try:
        descriptor = os.open(path, flags | _FLAGS, _FILE)
    except OSError as exc:
        if exc.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "it is a link", str(path)) from None
        raise
    try:
        _must_be_private(path, os.fstat(descriptor), forbidden)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _must_be_private(path: Path, found: os.stat_result, forbidden: int) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is no plain file", str(path))
    if not hasattr(os, "geteuid"):
        return
    if found.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "it belongs to another user", str(path))
    if found.st_mode & forbidden:
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
    """Return the entries in a file, none if there is none. Raises: OSError if it is unreadable."""
    try:
        text = path.read_text(encoding="utf-8")
        if not (is_ours(path.stat()) and is_ours(path.parent.stat())):
            log.warning("ignored, as other users may write it", file=str(path))
            return {}
        found: object = json.loads(text)
    except (FileNotFoundError, ValueError, RecursionError):
        return {}
    return cast("Mapping[str, Json]", found) if isinstance(found, dict) else {}


_NEW: Final = ".new-"
"""How the names of files begin that are being written."""
_HOUR: Final = 3600.0


class CacheLimits(Struct, frozen=True):
    """How much a cache may hold: files, bytes of one file, bytes of all."""

    files: int = 512
    file_bytes: int = 4 * 1024 * 1024
    bytes: int = 64 * 1024 * 1024


class UnfitEntryError(Exception):
    """A file of the cache that is not used; the text says why."""


class CacheFiles:
    """Files of mode 0600 in a directory of mode 0700; those unused for longest make room.

    A file that another user could have written counts as absent. Without a `directory`, or where
    it cannot be used, nothing is kept; the log says so once.
    """

    def __init__(self, directory: Path | None, limits: CacheLimits | None = None) -> None:
        self._directory = directory
        self._limits = limits or CacheLimits()
        self._has_complained = False

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None if there is none.

        Raises: UnfitEntryError for a file that others could have written, or that is too large.
        """
        directory = self._directory
        if directory is None or not self._is_usable(directory):
            return None
        try:
            descriptor = _opened(directory / name, os.O_RDONLY, _OTHERS_MAY_WRITE)
            with os.fdopen(descriptor, "rb") as file:
                return self._content(file)
        except FileNotFoundError:
            return None
        except OSError as exc:
            raise UnfitEntryError(str(exc.strerror)) from None

    def ignored(self, name: str, why: str) -> None:
        """Log that a file is not used, and why."""
        log.warning("cached file ignored", file=str((self._directory or Path()) / name), why=why)

    def write(self, name: str, content: bytes) -> None:
        """Replace a file; a reader sees the old content or the new. Failures are only logged."""
        directory = self._directory
        if directory is None:
            return
        try:
            _made_private(directory)
            if len(content) > self._limits.file_bytes:
                (directory / name).unlink(missing_ok=True)
                return
            # Not synced: what a crash of the machine leaves half written is told by its checksum.
            replace_file(directory / name, content, _NEW)
            self._make_room(directory)
        except OSError as exc:
            self._complain(directory, str(exc.strerror))

    def _content(self, file: BufferedReader) -> bytes:
        found = os.fstat(file.fileno())
        if found.st_size > self._limits.file_bytes:
            raise UnfitEntryError("it is too large")
        if time.time() - found.st_mtime > _HOUR:
            with suppress(OSError, NotImplementedError):
                os.utime(file.fileno())  # for `_make_room`: it is in use
        return file.read(self._limits.file_bytes)

    def _is_usable(self, directory: Path) -> bool:
        try:
            found = directory.lstat()
        except OSError:
            return False
        if stat.S_ISDIR(found.st_mode) and is_ours(found):
            return True
        self._complain(directory, "it is a link, or other users may write it")
        return False

    def _complain(self, directory: Path, why: str) -> None:
        if not self._has_complained:
            self._has_complained = True
            log.warning("cache not used", directory=str(directory), why=why)

    def _make_room(self, directory: Path) -> None:
        """Remove the files that were unused for longest, and what a killed process left behind."""
        kept: list[tuple[float, int, Path]] = []
        now = time.time()
        for path in directory.iterdir():
            with suppress(OSError):
                found = path.lstat()
                if not path.name.startswith(_NEW):
                    kept.append((found.st_mtime, found.st_size, path))
                elif now - found.st_mtime > _HOUR:
                    path.unlink()
        size = sum(entry[1] for entry in kept)
        kept.sort(key=lambda entry: entry[0], reverse=True)
        while kept and (len(kept) > self._limits.files or size > self._limits.bytes):
            _, bytes_, path = kept.pop()
            size -= bytes_
            with suppress(OSError):
                path.unlink()


def _made_private(directory: Path) -> None:
    """Make the directory, for its owner alone.

    Raises: OSError if that is not possible, or if it is a link or another user's.
    """
    if directory.is_symlink():
        raise NotADirectoryError(errno.ENOTDIR, "it is a link")
    directory.parent.mkdir(mode=_DIRECTORY, parents=True, exist_ok=True)
    private_directory(directory)
