"""Replace a file atomically: a reader sees the old text or the new one, never a part."""

from __future__ import annotations

import errno
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeAlias

from msgspec import Struct

from hub.errors import StartError

if sys.platform != "win32":
    import fcntl

Look: TypeAlias = tuple[int, ...]
"""The state of a file: device, inode, size, modification time (ns) and mode."""

_FREE: Final = "Free some space on its disk, then try again."
_OWN: Final = "Make the file and its directory writable for you."
_FIXES: Final = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), _FREE),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), _OWN),
}


def look(path: Path) -> Look | None:
    """Return the state of the file at `path`, links followed; None if it cannot be read."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_mode


_CHANGED: Final = "another program changed it in the meantime"


class FileEdit(Struct, frozen=True):
    """A locked file being edited: `text` is its content without the byte order mark `mark`."""

    path: Path
    text: str
    seen: Look | None
    mark: str = ""

    def replace(self, text: str, mode: int | None = None) -> None:
        """Replace the file's text by `text`. Owner, byte order mark and mode are kept.

        A new `mode` is there before the new text, which may be more secret than the old one.

        Raises: StartError if writing fails, or another program has changed the file.
        """
        with _writing(self.path):
            content = (self.mark + text).encode()
            if self.seen is not None and not self.seen[-1] & 0o222:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            with _new_file(self.path, content, is_synced=True) as made:
                _made_alike(self.path, made, mode)
                if look(self.path) != self.seen:
                    raise _unwritten(self.path, _CHANGED)
                made.replace(self.path)


@contextmanager
def opened(source: Path, before: str | None = None) -> Generator[FileEdit]:
    """Read and lock a UTF-8 file in order to replace it. A link is followed, and stays a link.

    Raises: StartError if it cannot be read, or another program has changed the text `before`.
    """
    with _reading(source):
        path = source.resolve(strict=True)
    with alone_in(path.parent):
        with _reading(source):
            seen = look(path)
            text = path.read_bytes().decode()
        mark = "\ufeff" if text.startswith("\ufeff") else ""
        edit = FileEdit(path, text.removeprefix(mark), seen, mark)
        if before is not None and edit.text != before:
            raise _unwritten(path, _CHANGED)
        yield edit


def created(path: Path, text: str, mode: int | None = None) -> None:
    """Write a new file; a reader sees the whole text, or no file. `mode`: else as usual.

    Raises: StartError if there is a file already, or it cannot be written.
    """
    with _writing(path), _new_file(path, text.encode(), is_synced=True) as made:
        made.chmod(_usual_mode() if mode is None else mode)
        _linked(made, path)


def replace_file(path: Path, content: bytes, prefix: str | None = None) -> None:
    """Write a file of mode 0600, in place of one that is there; not synced to the disk.

    `prefix`: how the name of the file that is being written begins.

    Raises: OSError if it cannot be written.
    """
    with _new_file(path, content, prefix) as made:
        made.replace(path)


@contextmanager
def _new_file(
    path: Path, content: bytes, prefix: str | None = None, *, is_synced: bool = False
) -> Generator[Path]:
    """Write a file of mode 0600 beside `path`; it is removed unless it gets another name."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=prefix or f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            if is_synced:
                file.flush()
                os.fsync(file.fileno())
        yield Path(name)
    finally:
        with suppress(OSError):
            Path(name).unlink()


def _linked(made: Path, path: Path) -> None:
    """Give a file its name, unless there is one of that name."""
    try:
        os.link(made, path)
    except FileExistsError:
        raise
    except OSError:  # some file systems have no hard links
        if path.exists():
            raise FileExistsError(str(path)) from None
        made.rename(path)


def _usual_mode() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return 0o666 & ~mask


def backed_up(path: Path) -> Path:
    """Copy a file to one beside it, with the time in its name and the same mode; return its path.

    Raises: StartError if that cannot be written.
    """
    now = time.strftime("%Y%m%d-%H%M%S")
    for number in range(1, 1000):
        kept = path.with_name(f"{path.name}.roots-hub-{now}{'' if number == 1 else f'-{number}'}")
        with _writing(kept):
            try:
                handle = os.open(kept, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            except FileExistsError:
                continue
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(path.read_bytes())
                shutil.copymode(path, kept)
            except BaseException:
                kept.unlink(missing_ok=True)
                raise
        return kept
    raise _unwritten(path, "there are too many copies of it")


@contextmanager
def _writing(path: Path) -> Generator[None]:
    try:
        yield
    except UnicodeEncodeError:
        raise _unwritten(path, "the new text is not Unicode") from None
    except FileExistsError:
        raise _unwritten(path, "another program has made it in the meantime") from None
    except OSError as exc:
        raise _unwritten(path, exc) from exc


@contextmanager
def _reading(source: Path) -> Generator[None]:
    try:
        yield
    except OSError as exc:
        raise StartError(f"{source}: {exc.strerror}", "Make the file readable.") from exc
    except UnicodeDecodeError:
        raise StartError(f"{source}: is not UTF-8", "Save the file as UTF-8.") from None


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


def _made_alike(old: Path, new: Path, mode: int | None) -> None:
    """Copy owner, mode and other attributes of `old` to `new`, but not the times.

    With `mode`, `new` gets that at once, and of the others the owner alone: one may open it.
    """
    if sys.platform != "win32":
        was, now = old.stat(), new.stat()
        if (was.st_uid, was.st_gid) != (now.st_uid, now.st_gid):
            os.chown(new, was.st_uid, was.st_gid)
    if mode is not None:
        new.chmod(mode)
        return
    shutil.copystat(old, new)
    os.utime(new)


def _unwritten(path: Path, why: str | OSError) -> StartError:
    fix = "Try again, or edit it."
    if isinstance(why, OSError):
        fix = _FIXES.get(why.errno or 0, fix)
        why = str(why.strerror)
    return StartError(f"{path}: not written: {why}", f"Nothing was changed. {fix}")
