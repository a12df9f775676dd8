"""Where a path leads: absolute, every link followed by our own walk, compared by component.

`os.path.realpath` and `Path.resolve` silently stop resolving past PATH_MAX, so that an escape reads
as inside. This walk asks for one component at a time and refuses what the kernel will not answer.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from enum import Enum
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

MAX_LINKS = 40
PATH_MAX = 4096


class Flavour(Enum):
    """Whose rules a path follows: those of the machine that the children run on."""

    POSIX = "posix"
    MACOS = "macos"
    WINDOWS = "windows"


# Found once: to look an enum's member up takes longer than what is done with it here.
_POSIX, _WINDOWS = Flavour.POSIX, Flavour.WINDOWS


class PathError(Exception):
    """A path that leads nowhere we can vouch for; `reason` is a sentence fit for a client."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class DeadEndError(PathError):
    """The kernel finds nothing here, whatever the path is opened for."""


EntryKind: TypeAlias = Literal["directory", "file", "link", "other"]


class Entry(Struct, frozen=True, gc=False):
    """What one name in a directory is, itself and not what a link points to."""

    kind: EntryKind
    device: int
    inode: int


_SOME_DIRECTORY = Entry("directory", 0, 0)


class LinkReader(Protocol):
    """What is asked of a file system: a walk asks the first two questions, a wildcard the third."""

    def entry(self, path: str) -> Entry | None:
        """Return what `path` is, or None if it does not exist; any other failure is a PathError."""
        ...

    def target(self, path: str) -> str:
        """Return the text of the link `path`, or raise PathError."""
        ...

    def names(self, path: str) -> Sequence[str]:
        """Return what is in the directory `path`, as far as it is known."""
        return ()


# These name something else in the process that opens them than in the hub.
_PROCESS_RELATIVE = frozenset({"/proc", "/dev/fd", "/dev/stdin", "/dev/stdout", "/dev/stderr"})
# macOS: these are links in every installation, and `/private` is their real home.
_FIRMLINKS = frozenset({"etc", "tmp", "var"})

_WINDOWS_DEVICE = re.compile(r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³])", re.I)
_WINDOWS_SHORT = re.compile(r"~[0-9]")
_WINDOWS_FORBIDDEN = re.compile(r'[<>:"|?*]')


def resolve(
    raw: str, *, cwd: str | None, links: LinkReader, flavour: Flavour, is_lenient: bool = False
) -> str:
    """Return `raw` as an absolute path with every link followed; a missing component ends the walk.

    `is_lenient`: as programs do that resolve a path before they open it (Python's `realpath`): `..`
    leads back from what is missing, and from a file, as it does from a directory.

    True at the moment `links` was asked; another process may open a changed tree later.

    Raises:
        PathError: relative without a `cwd`, a loop, a file used as a directory, `..` after what is
            missing, a spelling that its platform reads in more than one way, or no answer.
    """
    _check_text(raw)
    anchor, names = split(raw, flavour)
    if not anchor:
        if cwd is None:
            raise PathError("a relative path has no directory to start from")
        anchor, base = split(cwd, flavour)
        if not anchor:
            raise PathError("the working directory is not absolute")
        names = base + names
    if is_lenient:
        links = _AllDirectories(links)
    return _walk(anchor, names, links, flavour)


def enter(directory: str, name: str, *, links: LinkReader, flavour: Flavour) -> str:
    """Return where `name` in an already resolved directory leads: the last step of `resolve`.

    `name` is one component and neither `.` nor `..`.

    Raises:
        PathError: as `resolve`.
    """
    anchor = directory[:3] if flavour is _WINDOWS else "/"
    return _walk(anchor, [name], links, flavour, at=directory)


def parts_of(path: str, flavour: Flavour) -> tuple[str, ...]:
    """Return the components of an absolute path, folded so that equal means the same place.

    Raises:
        PathError: `path` is not absolute, or has a `..` that only a walk could understand.
    """
    anchor, names = split(path, flavour)
    if not anchor or ".." in names:
        raise PathError("not a canonical path")
    if flavour is _POSIX:
        return tuple(names)
    if flavour is _WINDOWS:
        return (anchor[:2], *(_upper(name) for name in names))
    folded = tuple(unicodedata.normalize("NFD", name).casefold() for name in names)
    return ("private", *folded) if folded and folded[0] in _FIRMLINKS else folded


def is_inside(parts: tuple[str, ...], root_parts: tuple[str, ...]) -> bool:
    """Return whether `parts` is the root itself or below it."""
    return parts[: len(root_parts)] == root_parts


def split(path: str, flavour: Flavour) -> tuple[str, list[str]]:
    r"""Return a path's anchor (`/`, `C:\`, or empty) and its names without empty ones and `.`.

    Raises:
        PathError: a Windows spelling that is refused whatever it leads to.
    """
    if flavour is _WINDOWS:
        return _split_windows(path)
    names = [name for name in path.split("/") if name and name != "."]
    return ("/" if path[:1] == "/" else ""), names


def collapse(raw: str, *, cwd: str | None, flavour: Flavour) -> str | None:
    """Return `raw` as a child reads it that removes `..` before it looks at the disk.

    None: there is nothing to remove.

    Raises:
        PathError: as `split`.
    """
    if ".." not in raw:
        return None
    anchor, names = split(raw, flavour)
    if not anchor:
        if cwd is None:
            return None
        anchor, base = split(cwd, flavour)
        names = base + names
    if ".." not in names:
        return None
    kept: list[str] = []
    for name in names:
        if name != "..":
            kept.append(name)
        elif kept:
            kept.pop()
    return anchor + _separator(flavour).join(kept)


def _walk(anchor: str, names: list[str], links: LinkReader, flavour: Flavour, at: str = "") -> str:
    separator = _separator(flavour)
    stops = _PROCESS_RELATIVE if separator == "/" else frozenset[str]()
    at = at or anchor
    pending = names[::-1]
    followed = 0
    while pending:
        name = pending.pop()
        if name == "..":
            at = _parent(at, anchor, separator)
            continue
        path = at + name if at == anchor else f"{at}{separator}{name}"
        if path in stops:
            raise PathError(f"{path} means something else in the process that opens it")
        entry = links.entry(path)
        if entry is None:
            return _missing(path, pending, separator)
        if entry.kind == "link":
            followed += 1
            leap, names = _follow(path, followed, links, flavour)
            if leap:
                anchor = at = leap
            pending.extend(names[::-1])
            continue
        if pending and entry.kind != "directory":
            raise DeadEndError("it passes through something that is not a directory")
        at = path
    return at


class _AllDirectories(LinkReader):
    """A disk on which `..` leads back from whatever is no link, missing or not."""

    def __init__(self, links: LinkReader) -> None:
        self._links = links

    def entry(self, path: str) -> Entry | None:
        try:
            entry = self._links.entry(path)
        except DeadEndError:
            entry = None
        return entry if entry is not None and entry.kind == "link" else _SOME_DIRECTORY

    def target(self, path: str) -> str:
        return self._links.target(path)


def _parent(at: str, anchor: str, separator: str) -> str:
    cut = at.rfind(separator)
    return at[:cut] if cut >= len(anchor) else anchor


def _missing(path: str, pending: list[str], separator: str) -> str:
    if ".." in pending:
        raise DeadEndError("it has '..' after a component that does not exist")
    return separator.join([path, *pending[::-1]])


def _follow(path: str, followed: int, links: LinkReader, flavour: Flavour) -> tuple[str, list[str]]:
    if followed > MAX_LINKS:
        raise PathError("it passes through too many symbolic links")
    target = links.target(path)
    if not target:
        raise PathError("it passes through an empty symbolic link")
    return split(target, flavour)


def is_process_relative(path: str) -> bool:
    """Return whether something at or below `path` is another thing in each process."""
    return any(
        (one + "/").startswith(path + "/") or path.startswith(one + "/")
        for one in _PROCESS_RELATIVE
    )


def _separator(flavour: Flavour) -> str:
    return "\\" if flavour is _WINDOWS else "/"


def _check_text(raw: str) -> None:
    if not raw:
        raise PathError("an empty path names nothing")
    if "\x00" in raw:
        raise PathError("it contains a NUL character")
    if len(raw) * 4 >= PATH_MAX and len(raw.encode("utf-8", "surrogatepass")) >= PATH_MAX:
        raise PathError("it is longer than any path can be")


def _split_windows(path: str) -> tuple[str, list[str]]:
    text = path.replace("/", "\\")
    if text.startswith("\\\\"):
        raise PathError("network and device paths are not supported")
    if text.startswith("\\"):
        raise PathError("a path without a drive depends on the current drive")
    anchor = ""
    if text[1:2] == ":" and text[0].isascii() and text[0].isalpha():
        if text[2:3] != "\\":
            raise PathError("a path relative to a drive depends on that drive's current directory")
        anchor, text = text[0].upper() + ":\\", text[3:]
    names = [name for name in text.split("\\") if name and name != "."]
    for name in names:
        if name != "..":
            _check_windows_name(name)
    return anchor, names


def _check_windows_name(name: str) -> None:
    if name[-1] in ". ":
        raise PathError("Windows ignores dots and spaces at the end of a name")
    if _WINDOWS_FORBIDDEN.search(name):
        raise PathError("it contains a character that no Windows name can have")
    if _WINDOWS_DEVICE.fullmatch(name.partition(".")[0].rstrip(" ")):
        raise PathError(f"{name} is a device")
    if _WINDOWS_SHORT.search(name):
        raise PathError("8.3 short names are not supported")


def _upper(name: str) -> str:
    # NTFS folds one character to one; `ß` must not become `SS`, which is another name.
    return "".join(up if len(up := char.upper()) == 1 else char for char in name)
