"""Read the real file system for the path walk (`LinkReader`); remove directories."""

from __future__ import annotations

import asyncio  # noqa: TID251 - a thread wakes the loop
import errno
import os
import secrets
import shutil
import stat
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Final

import anyio

from hub.paths.resolve import DeadEndError, Entry, EntryKind, LinkReader, PathError

_KINDS: Final[Mapping[int, EntryKind]] = {
    stat.S_IFDIR: "directory",
    stat.S_IFREG: "file",
    stat.S_IFLNK: "link",
}
_FORMAT: Final = 0o170000  # S_IFMT: the bits of the file type
_HAS_JUNCTIONS: Final = os.name == "nt"
_JUNCTION: Final = 0xA0000003  # IO_REPARSE_TAG_MOUNT_POINT: a link that looks like a directory
_UNUSABLE: Final = "it contains a character that no path can have"
_NAME_MAX: Final = 255
_UNASKED: Final = Entry("other", -1, -1)


class OsDisk(LinkReader):
    """A `LinkReader` that asks the kernel each time.

    Raises: PathError if the kernel does not answer; DeadEndError if a parent is no directory, or if
    a name is too long for anything to have it.
    """

    def entry(self, path: str) -> Entry | None:
        try:
            found = os.lstat(path)
        except FileNotFoundError:
            return None
        except NotADirectoryError as exc:
            raise DeadEndError("it passes through something that is not a directory") from exc
        except OSError as exc:
            raise (DeadEndError if _is_no_name(exc, path) else PathError)(_sentence(exc)) from exc
        except ValueError as exc:
            raise PathError(_UNUSABLE) from exc
        kind: EntryKind = _KINDS.get(found.st_mode & _FORMAT, "other")
        if _HAS_JUNCTIONS and getattr(found, "st_reparse_tag", 0) == _JUNCTION:
            kind = "link"
        return Entry(kind, found.st_dev, found.st_ino)

    def target(self, path: str) -> str:
        try:
            # `Path.readlink` would normalise the link's text.
            return os.readlink(path).removeprefix("\\\\?\\")  # noqa: PTH115
        except OSError as exc:
            raise PathError(_sentence(exc)) from exc
        except ValueError as exc:
            raise PathError(_UNUSABLE) from exc

    def names(self, path: str) -> Sequence[str]:
        try:
            return os.listdir(path)  # noqa: PTH208 - names, not paths
        except OSError as exc:
            raise PathError(_sentence(exc)) from exc
        except ValueError as exc:
            raise PathError(_UNUSABLE) from exc


class CachedDisk(LinkReader):
    """A `LinkReader` that asks `inner` once per entry. For one call only: nothing expires."""

    def __init__(self, inner: LinkReader) -> None:
        self._inner = inner
        self._entries: dict[str, Entry | None] = {}

    def entry(self, path: str) -> Entry | None:
        found = self._entries.get(path, _UNASKED)
        if found is _UNASKED:
            found = self._entries[path] = self._inner.entry(path)
        return found

    def target(self, path: str) -> str:
        return self._inner.target(path)

    def names(self, path: str) -> Sequence[str]:
        return self._inner.names(path)


def _is_no_name(exc: OSError, path: str) -> bool:
    """Return whether a name in a path is too long, and not only the path as a whole."""
    names = os.fsencode(path).split(b"/")
    return exc.errno == errno.ENAMETOOLONG and max(map(len, names)) > _NAME_MAX


def _sentence(exc: OSError) -> str:
    return f"the system cannot look it up: {exc.strerror}"


GRACE: Final = 0.2
"""Seconds that `cleared` waits. Removal continues after that, but stops when the hub ends."""


async def cleared(directory: str) -> bool:
    """Remove a directory tree; return whether it is gone, after `GRACE` seconds at most.

    What takes longer goes on.
    """
    loop, done, left = asyncio.get_running_loop(), anyio.Event(), list[bool]()

    def clear() -> None:
        with suppress(RecursionError):
            shutil.rmtree(directory, ignore_errors=True)
        if hasattr(os, "O_PATH") and Path(directory).is_dir():
            with suppress(OSError):
                _flatten(directory)
                shutil.rmtree(directory, ignore_errors=True)
        left.append(os.path.lexists(directory))
        with suppress(RuntimeError):  # the loop is closed already
            loop.call_soon_threadsafe(done.set)

    Thread(target=clear, name=f"clears {directory}", daemon=True).start()
    with anyio.move_on_after(GRACE, shield=True):
        await done.wait()
    return left == [False]


def _flatten(directory: str) -> None:
    """Remove what is below `directory`, also what a program made hard to remove: Linux only.

    `rmtree` goes down by recursion, so a tree that is nested a thousand levels deep is too much for
    it, and it cannot read directories that their owner may not read. Here each directory is moved
    up to the top, so that only two levels are open at a time.

    Raises: OSError if something cannot be removed.
    """
    numbers = count()
    unused = f"{secrets.token_hex(8)}-"
    with _opened(directory) as top:
        while inner := [entry.name for entry in _entries(top) if _is_directory(entry)]:
            for name in inner:
                with _opened(name, top) as below:
                    for entry in _entries(below):
                        if _is_directory(entry):
                            with _opened(entry.name, below):  # to move it, it must be writable
                                to = f"{unused}{next(numbers)}"
                            os.rename(entry.name, to, src_dir_fd=below, dst_dir_fd=top)
                        else:
                            os.unlink(entry.name, dir_fd=below)
                os.rmdir(name, dir_fd=top)


def _entries(directory: int) -> list[os.DirEntry[str]]:
    with os.scandir(directory) as found:
        return list(found)


def _is_directory(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir(follow_symlinks=False)


@contextmanager
def _opened(name: str, parent: int | None = None) -> Generator[int]:
    """Yield a descriptor of a directory, which its owner may then read and write."""
    itself = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    try:
        Path(f"/proc/self/fd/{itself}").chmod(0o700)
        opened = os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=itself)
    finally:
        os.close(itself)
    try:
        yield opened
    finally:
        os.close(opened)
