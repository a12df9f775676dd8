"""Open the audit file or a log safely: no symbolic link, no other owner, no access for others."""

from __future__ import annotations

import errno
import os
import stat
from io import FileIO
from pathlib import Path
from typing import Final

import structlog

MODE: Final = 0o600
"""Only the owner may read or write: records contain users' paths."""
_OTHERS: Final = 0o077
_AT_ONCE: Final[int] = getattr(os, "O_NONBLOCK", 0)
_NO_LINK: Final[int] = getattr(os, "O_NOFOLLOW", 0)

_A_LINK: Final = ("it is a symbolic link", "Name the file itself.")

log = structlog.stdlib.get_logger(__name__)


class UnfitFileError(OSError):
    """The existing file is refused; `fix` says what to do."""

    def __init__(self, why: str, fix: str) -> None:
        super().__init__(errno.EPERM, why)
        self.fix = fix


def open_to_add(path: Path) -> FileIO:
    """Open a file for appending; a missing file is created with mode 0600.

    A file or pipe that other users may access gets mode 0600. A named pipe without a reader is an
    error: nothing waits for one. Only the last part of `path` must not be a link.

    Raises:
        UnfitFileError: it is a symbolic link, has other hard links, or has another owner.
        OSError: it cannot be opened.
    """
    return FileIO(path, "ab", opener=_opened)


def _opened(path: str, flags: int) -> int:
    try:
        descriptor = os.open(path, flags | _AT_ONCE | _NO_LINK, MODE)
    except OSError as exc:
        if exc.errno in {errno.ELOOP, errno.EMLINK} and os.path.islink(path):  # noqa: PTH114 - `path` is text here
            raise UnfitFileError(*_A_LINK) from exc
        raise
    try:
        _must_be_fit(path, descriptor)
        if _AT_ONCE:
            os.set_blocking(descriptor, True)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _must_be_fit(path: str, descriptor: int) -> None:
    found = os.fstat(descriptor)
    if not hasattr(os, "geteuid") or not (
        stat.S_ISREG(found.st_mode) or stat.S_ISFIFO(found.st_mode)
    ):
        return  # a device belongs to the system
    misfit = _misfit(found)
    if misfit is not None:
        raise UnfitFileError(*misfit)
    if found.st_mode & _OTHERS:
        os.fchmod(descriptor, MODE)
        log.warning(
            "file could be accessed by other users: set to mode 0600",
            file=path,
            mode_was=f"{found.st_mode & 0o777:o}",
        )


def _misfit(found: os.stat_result) -> tuple[str, str] | None:
    """Return why an existing file is refused, and what to do; None if it is not."""
    if found.st_uid != os.geteuid():
        return "it belongs to another user", "Name a file of the hub's own user."
    if found.st_nlink > 1:
        return "it has more than one hard link", "Remove the other links, or name a new file."
    return None


def unfit(path: Path) -> tuple[str, str] | None:
    """Return why `path` cannot be opened by `open_to_add`, and what to do; None if it likely can.

    Nothing is opened, made or changed.
    """
    try:
        found = path.lstat()
    except FileNotFoundError:
        return _no_room(path.parent)
    except OSError as exc:
        return str(exc.strerror), "Name a file that the hub may write."
    if stat.S_ISLNK(found.st_mode):
        return _A_LINK
    if stat.S_ISDIR(found.st_mode):
        return "it is a directory", "Name a file in it."
    if stat.S_ISREG(found.st_mode) and hasattr(os, "geteuid"):
        misfit = _misfit(found)
        if misfit is not None:
            return misfit
    return None if os.access(path, os.W_OK) else _UNWRITABLE


_UNWRITABLE: Final = ("it may not be written", "Name a file that the hub may write.")


def _no_room(directory: Path) -> tuple[str, str] | None:
    if not directory.is_dir():
        return f"there is no directory {directory}", "Make it, or name another file."
    return None if os.access(directory, os.W_OK | os.X_OK) else _UNWRITABLE
