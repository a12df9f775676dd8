"""Opens the file that audit records go to: its owner's alone, and the very file that was named."""

from __future__ import annotations

import errno
import os
import stat
from io import FileIO
from pathlib import Path
from typing import Final

import structlog

MODE: Final = 0o600
"""Records name people's paths: nobody else may read them."""
_OTHERS: Final = 0o077
_AT_ONCE: Final[int] = getattr(os, "O_NONBLOCK", 0)
_NO_LINK: Final[int] = getattr(os, "O_NOFOLLOW", 0)

log = structlog.stdlib.get_logger(__name__)


class UnfitFileError(OSError):
    """What is there is not taken for an audit file; `fix` says what to do."""

    def __init__(self, why: str, fix: str) -> None:
        super().__init__(errno.EPERM, why)
        self.fix = fix


def open_to_add(path: Path) -> FileIO:
    """Open a file to add to it, made with mode 0600 if it is not there.

    One that others may read or write is taken from them. For the reader of a pipe is not waited:
    none might ever come. Only the last part of `path` must be no link: directories may be.

    Raises:
        UnfitFileError: it is a link, has other names, or is somebody else's.
        OSError: it cannot be opened.
    """
    return FileIO(path, "ab", opener=_opened)


def _opened(path: str, flags: int) -> int:
    try:
        descriptor = os.open(path, flags | _AT_ONCE | _NO_LINK, MODE)
    except OSError as exc:
        if exc.errno in {errno.ELOOP, errno.EMLINK} and os.path.islink(path):  # noqa: PTH114 - text, as `open` has it
            raise UnfitFileError("it is a symbolic link", "Name the file itself.") from exc
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
        return  # a device is the system's
    if found.st_uid != os.geteuid():
        raise UnfitFileError("it is another user's", "Name a file of the hub's own user.")
    if found.st_nlink > 1:
        raise UnfitFileError(
            "it has other names, too (hard links)", "Remove them, or name a new file."
        )
    if found.st_mode & _OTHERS:
        os.fchmod(descriptor, MODE)
        log.warning(
            "audit file is its owner's alone now", file=path, mode_was=f"{found.st_mode & 0o777:o}"
        )
