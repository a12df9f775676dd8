"""Replace a file atomically: a reader sees the old text or the new one, never a part."""

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
"""The state of a file: device, inode, size, modification time (ns) and mode."""


def look(path: Path) -> Look | None:
    """Return the state of the file at `path`, links followed; None if it cannot be read."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_mode


class FileEdit(Struct, frozen=True):
    """A locked file being edited: `text` is its content without the byte order mark `mark`."""

    path: Path
    text: str
    seen: Look | None
    mark: str = ""

    def replace(self, text: str) -> None:
        """Replace the file's text by `text`. Mode, owner and byte order mark are kept.

        Raises: StartError if writing fails, or another program has changed the file.
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
            raise _unwritten(self.path, "another program changed it in the meantime")


@contextmanager
def opened(source: Path) -> Generator[FileEdit]:
    """Read and lock a UTF-8 file in order to replace it. A link is followed, and stays a link.

    Raises: StartError if it cannot be read.
    """
    with _reading(source):
        path = source.resolve(strict=True)
    with alone_in(path.parent):
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
def alone_in(directory: Path) -> Generator[None]:
    """Hold a lock on `directory` against other hub processes. No lock on Windows."""
    if sys.platform == "win32":
        yield
        return
    handle = os.open(directory, os.O_RDONLY)
    try:
        with suppress(OSError):  # some file systems have no locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
        with suppress(OSError):
            os.fsync(handle)
    finally:
        os.close(handle)


def _made_alike(old: Path, new: Path) -> None:
    """Copy owner, mode and other attributes of `old` to `new`, but not the times."""
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
