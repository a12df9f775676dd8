"""`LinkReader`s over the real file system: they say what is there, or refuse."""

from __future__ import annotations

import os
import stat

from hub.core.paths import DeadEndError, Entry, LinkReader, PathError

_JUNCTION = 0xA0000003  # IO_REPARSE_TAG_MOUNT_POINT: a Windows link that `S_ISLNK` does not know


class OsLinks(LinkReader):
    """Asks the kernel each time."""

    def entry(self, path: str) -> Entry | None:
        try:
            found = os.lstat(path)
        except FileNotFoundError:
            return None
        except NotADirectoryError as exc:
            raise DeadEndError("it passes through something that is not a directory") from exc
        except OSError as exc:
            raise PathError(_sentence(exc)) from exc
        except ValueError as exc:
            raise PathError("it contains a character that no path can have") from exc
        mode = found.st_mode
        if stat.S_ISDIR(mode) and getattr(found, "st_reparse_tag", 0) != _JUNCTION:
            return Entry("directory", found.st_dev, found.st_ino)
        if stat.S_ISREG(mode):
            return Entry("file", found.st_dev, found.st_ino)
        is_link = stat.S_ISLNK(mode) or stat.S_ISDIR(mode)
        return Entry("link" if is_link else "other", found.st_dev, found.st_ino)

    def target(self, path: str) -> str:
        try:
            # `Path.readlink` tidies the text of the link.
            return os.readlink(path).removeprefix("\\\\?\\")  # noqa: PTH115
        except OSError as exc:
            raise PathError(_sentence(exc)) from exc


class CachedLinks(LinkReader):
    """Asks `inner` once per path: for one call, never longer."""

    def __init__(self, inner: LinkReader) -> None:
        self._inner = inner
        self._entries: dict[str, Entry | None] = {}

    def entry(self, path: str) -> Entry | None:
        try:
            return self._entries[path]
        except KeyError:
            found = self._entries[path] = self._inner.entry(path)
            return found

    def target(self, path: str) -> str:
        return self._inner.target(path)


def _sentence(exc: OSError) -> str:
    return f"the system would not say where it leads: {exc.strerror}"
