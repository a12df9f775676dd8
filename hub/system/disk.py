"""Read the real file system for the path walk (`LinkReader`)."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping, Sequence
from typing import Final

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
