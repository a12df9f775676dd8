"""A directory of files that may be lost: the hub's own caches (`CacheFiles`)."""

from __future__ import annotations

import errno
import os
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import structlog
from msgspec import Struct

from hub.system.atomic_file import replace_file
from hub.system.private_file import is_ours, private_directory

_PRIVATE: Final = 0o700
_NEW: Final = ".new-"
"""How the names of files begin that are being written."""
_HOUR: Final = 3600.0

log = structlog.stdlib.get_logger(__name__)


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
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        try:
            handle = os.open(directory / name, flags | getattr(os, "O_BINARY", 0))
        except FileNotFoundError:
            return None
        except OSError as exc:
            why = "it is a link" if exc.errno == errno.ELOOP else str(exc.strerror)
            raise UnfitEntryError(why) from None
        try:
            return self._content(handle)
        except OSError as exc:
            raise UnfitEntryError(str(exc.strerror)) from None
        finally:
            os.close(handle)

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

    def _content(self, handle: int) -> bytes:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
            raise UnfitEntryError("it is no file of its own")
        if not is_ours(found):
            raise UnfitEntryError("other users may write it")
        if found.st_size > self._limits.file_bytes:
            raise UnfitEntryError("it is too large")
        content = bytearray()
        while part := os.read(handle, found.st_size + 1 - len(content)):
            content += part
        if time.time() - found.st_mtime > _HOUR:
            with suppress(OSError, NotImplementedError):
                os.utime(handle)  # for `_make_room`: it is in use
        return bytes(content)

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
    directory.parent.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
    private_directory(directory)
