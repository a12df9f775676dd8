"""Folders that the hub makes for its children, and their removal, however the hub ends."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final

import anyio

from hub.system.private_file import is_ours
from hub.system.tasks import OwnThread

if sys.platform != "win32":
    import fcntl

_PREFIX: Final = "roots-hub."
_TRIES: Final = 5
_FOLDER: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
GRACE: Final = 0.2
"""Seconds that `cleared` waits. Removal continues after that, but stops when the hub ends."""


class PrivateFolders:
    """The folders of a hub's children, all in one of the hub's own; `told` is called with that.

    The hub keeps a lock on its own folder. So a hub that starts can tell which folders are left of
    hubs that were killed together with their watchdog, and removes these.
    """

    def __init__(self, told: Callable[[str], None]) -> None:
        self.top: str | None = None
        self._told = told
        self._lock: int | None = None

    @asynccontextmanager
    async def folder(self) -> AsyncGenerator[str]:
        """Make a folder that is removed when the context ends. Raises: OSError."""
        self._begin()
        made = tempfile.mkdtemp(prefix="", dir=self.top)
        try:
            yield made
        finally:
            await cleared(made)

    def _begin(self) -> None:
        if self.top is not None and Path(self.top).is_dir():
            return
        self._unlock()
        self.top, self._lock = _own_folder()
        self._told(self.top)
        if self._lock is not None:
            OwnThread(partial(_remove_abandoned, Path(self.top).parent), "abandoned folders")

    async def close(self) -> None:
        """Remove the hub's own folder."""
        if self.top is not None:
            await cleared(self.top)
        self._unlock()
        self.top = None

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
        self._lock = None


def _own_folder() -> tuple[str, int | None]:
    """Make a folder and lock it; return it with the descriptor that holds the lock.

    None in its place where nothing can be locked. Raises: OSError if it cannot be made.
    """
    for _ in range(_TRIES):
        # Python before 3.12 leaves `TMPDIR=.` as it is: children and the watchdog are elsewhere.
        made = tempfile.mkdtemp(prefix=_PREFIX, dir=Path(tempfile.gettempdir()).absolute())
        with suppress(FileNotFoundError, BlockingIOError):  # another hub removes what is not locked
            lock = _locked(made)
            if Path(made).is_dir():
                return made, lock
    raise OSError(errno.EAGAIN, "other programs remove the folders that are made", _PREFIX)


def _locked(folder: str) -> int | None:
    if sys.platform == "win32":
        return None
    handle = os.open(folder, _FOLDER)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as exc:
        os.close(handle)
        if isinstance(exc, BlockingIOError):
            raise
        return None  # some file systems have no locks
    return handle


def _remove_abandoned(parent: Path) -> None:
    """Remove the folders of this user's hubs that no hub has locked."""
    for folder in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            handle = os.open(folder, _FOLDER)
            try:
                if sys.platform != "win32" and is_ours(os.fstat(handle)):
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    _removed(str(folder))
            finally:
                os.close(handle)


async def cleared(directory: str) -> bool:
    """Remove a directory tree; return whether it is gone, after `GRACE` seconds at most.

    What takes longer goes on.
    """
    removal = OwnThread(partial(_removed, directory), f"clears {directory}")
    with anyio.move_on_after(GRACE, shield=True):
        return await removal.result()
    return False


def _removed(directory: str) -> bool:
    with suppress(RecursionError):
        shutil.rmtree(directory, ignore_errors=True)
    if hasattr(os, "O_PATH") and Path(directory).is_dir():
        with suppress(OSError):
            _flatten(directory)
            shutil.rmtree(directory, ignore_errors=True)
    return not os.path.lexists(directory)


def _flatten(directory: str) -> None:
    """Remove all below `directory`, also deep trees and unreadable folders; Linux only.

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
