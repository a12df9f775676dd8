"""Replacing a file as a whole: whoever reads it sees the old text or the new one, never a part."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from hub.errors import StartError

if sys.platform != "win32":
    import fcntl

Look: TypeAlias = tuple[int, ...]
"""What tells one state of a file from the next."""


def look(path: Path) -> Look | None:
    """Return what `path` looks like from outside; None if it is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_mode


class FileEdit(Struct, frozen=True):
    """A file that nobody else who uses this module changes meanwhile; `text` is what is in it."""

    path: Path
    text: str
    seen: Look | None
    mark: str = ""

    def replace(self, text: str) -> None:
        """Put `text` in the place of what is there; mode, owner and byte order mark are kept.

        Raises: StartError if that cannot be done, or somebody else has changed the file.
        """
        try:
            self._replace((self.mark + text).encode())
        except UnicodeEncodeError:
            raise _unwritten(self.path, "the new text is not Unicode") from None
        except OSError as exc:
            raise _unwritten(self.path, str(exc.strerror)) from exc

    def _replace(self, content: bytes) -> None:
        handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            _made_alike(self.path, Path(name))
            self._must_be_unchanged()
            Path(name).replace(self.path)
        except BaseException:
            with suppress(OSError):
                Path(name).unlink()
            raise

    def _must_be_unchanged(self) -> None:
        if look(self.path) != self.seen:
            raise _unwritten(self.path, "somebody else has changed it meanwhile")


@contextmanager
def opened(source: Path) -> Generator[FileEdit]:
    """Read a UTF-8 file in order to replace it; a link is followed, and stays.

    Raises: StartError if it cannot be read.
    """
    with _reading(source):
        path = source.resolve(strict=True)
    with _alone_in(path.parent):
        with _reading(source):
            seen = look(path)
            text = path.read_bytes().decode()
        mark = "\ufeff" if text.startswith("\ufeff") else ""
        yield FileEdit(path, text.removeprefix(mark), seen, mark)


@contextmanager
def _reading(source: Path) -> Generator[None]:
    try:
        yield
    except OSError as exc:
        raise StartError(f"{source}: {exc.strerror}", "Make the file readable.") from exc
    except UnicodeDecodeError:
        raise StartError(f"{source}: is not UTF-8", "Save the file in that encoding.") from None


@contextmanager
def _alone_in(directory: Path) -> Generator[None]:
    """Wait until no other process is in here with the same directory, where the system can tell."""
    if sys.platform == "win32":
        yield
        return
    handle = os.open(directory, os.O_RDONLY)
    try:
        with suppress(OSError):  # not every file system knows locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
        with suppress(OSError):
            os.fsync(handle)
    finally:
        os.close(handle)


def _made_alike(old: Path, new: Path) -> None:
    """Give `new` the owner, the mode and the other attributes of `old`, but not its times."""
    if sys.platform != "win32":
        was, now = old.stat(), new.stat()
        if (was.st_uid, was.st_gid) != (now.st_uid, now.st_gid):
            os.chown(new, was.st_uid, was.st_gid)
    shutil.copystat(old, new)
    os.utime(new)


def _unwritten(path: Path, reason: str) -> StartError:
    return StartError(
        f"{path}: not written: {reason}", "Nothing was changed. Try again, or edit it."
    )
