"""The computer that the hub runs on (`Machine`): disk, environment, clocks and kernel features.

Its disk is read by `OsDisk`. The hub's own directories are where the XDG base directory
specification puts them.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from hub.paths.resolve import DeadEndError, Entry, EntryKind, Flavour, LinkReader, PathError

NAME: Final = "roots-hub"
"""The name of the hub's directories."""
STATE: Final = ("XDG_STATE_HOME", ".local/state")
CACHE: Final = ("XDG_CACHE_HOME", ".cache")
"""A variable that names a directory, and where that is in the home directory otherwise."""


def home_directory(environment: Mapping[str, str]) -> str:
    """Return the user's home directory."""
    return environment.get("HOME") or str(Path.home())


def own_directory(environment: Mapping[str, str], variable: str, default: str) -> str:
    """Return the hub's directory below the one in `variable`, or below `default` in the home."""
    base = environment.get(variable, "")
    if not base.startswith("/"):  # the specification: a relative path is ignored
        base = f"{home_directory(environment)}/{default}"
    return f"{base}/{NAME}"


class Kernel(Struct, frozen=True):
    """The kernel's confinement features. `abi`: Landlock version, 0 if none (see `why_not`).

    `no_seccomp` says why it cannot load seccomp filters; empty if it can.
    """

    abi: int = 0
    why_not: str = "not determined yet"
    no_seccomp: str = ""


class Machine(Struct, frozen=True):
    """The computer as the guard and launch plans see it. `clock` is monotonic; times in seconds."""

    links: LinkReader
    flavour: Flavour
    environment: Mapping[str, str]
    directory: str
    clock: Callable[[], float]
    wall_clock: Callable[[], float]
    kernel: Kernel = field(default_factory=Kernel)

    def wall_time(self, at: float) -> float:
        """Return the time `at` of the monotonic clock as seconds since 1970, to the millisecond."""
        return round(self.wall_clock() - self.clock() + at, 3)


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

    def can_write(self, path: str) -> bool:
        try:
            return os.access(path, os.W_OK | os.X_OK)
        except ValueError:
            return False


def _is_no_name(exc: OSError, path: str) -> bool:
    """Return whether a name in a path is too long, and not only the path as a whole."""
    names = os.fsencode(path).split(b"/")
    return exc.errno == errno.ENAMETOOLONG and max(map(len, names)) > _NAME_MAX


def _sentence(exc: OSError) -> str:
    return f"the system cannot look it up: {exc.strerror}"
