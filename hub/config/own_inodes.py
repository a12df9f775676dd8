"""Inodes of the hub's own files, cached for a moment: finds hard links to them."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final

from hub.guard.own_files import Inode, Inodes

EVERY: Final = 0.25
"""Seconds until the inodes are read again: an editor may replace the config by another file."""
MOST: Final = 256
"""At most so many files of one directory are read."""


class OwnInodes:
    """Return the inodes of the hub's own files, so that a hard link to one is recognised.

    `secret` are directories (the files directly in them count), `kept` are files.
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
            found = os.stat(path)  # noqa: PTH116 - the path is a string
        except (OSError, ValueError):
            continue
        if stat.S_ISREG(found.st_mode):
            yield found.st_dev, found.st_ino
