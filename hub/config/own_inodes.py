"""Which files on the disk are the hub's own: looked at anew when a moment has passed."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final

from hub.guard.own_files import Inode, Inodes

EVERY: Final = 0.25
"""Seconds for which a look counts: an editor may put another file in the place of the config."""
MOST: Final = 256
"""How many files of a directory are looked at."""


class OwnInodes:
    """Finds hard links to the hub's files: another name for what is the same on the disk.

    `secret` are directories, whose files count, and `kept` files.
    """

    def __init__(
        self, secret: Sequence[str], kept: Sequence[str], clock: Callable[[], float]
    ) -> None:
        self._secret = secret
        self._kept = kept
        self._clock = clock
        self._until = float("-inf")
        self._found = Inodes()

    def __call__(self) -> Inodes:
        now = self._clock()
        if now >= self._until:
            self._until = now + EVERY
            files = (path for directory in self._secret for path in _files_in(directory))
            secret, kept = frozenset(_inodes(files)), frozenset(_inodes(iter(self._kept)))
            self._found = Inodes(secret, kept, secret | kept)
        return self._found


def _files_in(directory: str) -> Iterator[str]:
    try:
        with os.scandir(directory) as entries:
            yield from (entry.path for entry in islice(entries, MOST))
    except OSError:
        return


def _inodes(paths: Iterator[str]) -> Iterator[Inode]:
    for path in paths:
        try:
            found = os.stat(path)  # noqa: PTH116 - text that came as such
        except (OSError, ValueError):
            continue
        if stat.S_ISREG(found.st_mode):
            yield found.st_dev, found.st_ino
