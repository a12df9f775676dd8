"""Resolve a path to an absolute path without symlinks, and compare paths by component.

`os.path.realpath` and `Path.resolve` silently stop resolving past PATH_MAX, so that an escape looks
like a path inside. This walk asks for one component at a time. If the kernel does not answer, the
path is refused.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from enum import Enum
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct, field

MAX_LINKS = 40
PATH_MAX = 4096


class Flavour(Enum):
    """The platform whose path rules apply: that of the machine the children run on."""

    POSIX = "posix"
    MACOS = "macos"
    WINDOWS = "windows"

    @staticmethod
    def of(platform: str) -> Flavour:
        """Return the flavour of a platform, by its name in `sys.platform`."""
        named = {"darwin": Flavour.MACOS, "win32": Flavour.WINDOWS}
        return named.get(platform, Flavour.POSIX)


# Looked up once: looking up an enum's member takes longer than the comparison with it.
_POSIX, _WINDOWS = Flavour.POSIX, Flavour.WINDOWS


class PathError(Exception):
    """A path that cannot be resolved for certain; `reason` is a sentence fit for a client."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class DeadEndError(PathError):
    """A path that the kernel cannot open, whatever it is opened for."""


EntryKind: TypeAlias = Literal["directory", "file", "link", "other"]


class Entry(Struct, frozen=True, gc=False):
    """One name in a directory: the kind and identity of the entry itself, links not followed."""

    kind: EntryKind
    device: int
    inode: int


_SOME_DIRECTORY = Entry("directory", 0, 0)


class LinkReader(Protocol):
    """The file system queries that the hub makes; only commands need `names` and `can_write`."""

    def entry(self, path: str) -> Entry | None:
        """Return the entry at `path`, or None if it does not exist. Other failures: PathError."""
        ...

    def target(self, path: str) -> str:
        """Return the target text of the symlink `path`, or raise PathError."""
        ...

    def names(self, path: str) -> Sequence[str]:
        """Return the names in the directory `path`, or an empty sequence if this is not known."""
        return ()

    def can_write(self, path: str) -> bool:
        """Return whether this process surely may make something in the directory `path`."""
        return False


_UNASKED = Entry("other", -1, -1)


class CachedDisk(Struct, eq=False):
    """A `LinkReader` that asks `inner` once per entry. For one moment only: nothing expires.

    `walked` are paths that were walked by these entries, with links followed.
    """

    inner: LinkReader
    walked: dict[str, str] = field(default_factory=dict[str, str])
    _entries: dict[str, Entry | None] = field(default_factory=dict[str, Entry | None])
    _has_seen_more: bool = False

    def entry(self, path: str) -> Entry | None:
        found = self._entries.get(path, _UNASKED)
        if found is _UNASKED:
            try:
                found = self._entries[path] = self.inner.entry(path)
            except PathError:
                self._has_seen_more = True
                raise
        return found

    def target(self, path: str) -> str:
        self._has_seen_more = True
        return self.inner.target(path)

    def names(self, path: str) -> Sequence[str]:
        self._has_seen_more = True
        return self.inner.names(path)

    def can_write(self, path: str) -> bool:
        self._has_seen_more = True
        return self.inner.can_write(path)

    @property
    def size(self) -> int:
        """The number of entries that were seen."""
        return len(self._entries)

    def is_unchanged(self) -> bool:
        """Return whether the disk still is as it was seen.

        Always False if more was seen than entries, such as where a link led.
        """
        try:
            return not self._has_seen_more and all(
                self.inner.entry(path) == entry for path, entry in self._entries.items()
            )
        except PathError:
            return False


# These name different things in the process that opens them and in the hub.
_PROCESS_RELATIVE = frozenset({"/proc", "/dev/fd", "/dev/stdin", "/dev/stdout", "/dev/stderr"})
# On macOS these are always links to directories of the same name in `/private`.
_FIRMLINKS = frozenset({"etc", "tmp", "var"})

_WINDOWS_DEVICE = re.compile(r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³])", re.I)
_WINDOWS_SHORT = re.compile(r"~[0-9]")
_WINDOWS_FORBIDDEN = re.compile(r'[<>:"|?*]')
_WINDOWS_ENDS = re.compile(r"(?<=[^\\/. ]) +\.?(?=[\\/]|\Z)")
_NO_WINDOWS_FILE = re.compile(
    r"(?i:nul)\Z|.*[<>|\"]|[^\\/:]*(?:\w\w:(?://(?!\w:)|\d)|\s[A-Za-z]:[\\/])(?!.*\.\.)",
    re.DOTALL,
)
"""The null device, a sign that no name has, `https://` or `host:80`, and words before a drive."""


def resolve(
    raw: str, *, cwd: str | None, links: LinkReader, flavour: Flavour, is_lenient: bool = False
) -> str:
    """Return `raw` as an absolute path with every symlink followed, up to a missing component.

    `is_lenient`: as in programs that resolve a path before they open it (Python's `realpath`), `..`
    after a missing component or a file goes back one step, as it does after a directory.

    True at the moment `links` was asked; another process may open a changed tree later.

    Raises:
        PathError: `raw` is empty, too long or has a NUL; it is relative and `cwd` is None; too many
            links, a file used as a directory, or `..` after a missing component; a spelling
            that its platform reads in more than one way; or the disk does not answer.
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
    return walk(anchor, names, links, flavour)


def parts_of(path: str, flavour: Flavour) -> tuple[str, ...]:
    """Return the components of an absolute path, case-folded as its platform does.

    Two paths with equal components name the same place.

    Raises:
        PathError: `path` is not absolute, or has a `..`, which needs `resolve`.
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
    """Return whether `parts` is the root itself or lies below it."""
    return parts[: len(root_parts)] == root_parts


def split(path: str, flavour: Flavour) -> tuple[str, list[str]]:
    r"""Return a path's anchor (`/`, `C:\`, or empty) and its names, without empty names and `.`.

    Raises:
        PathError: a Windows spelling that is always refused.
    """
    if flavour is _WINDOWS:
        return _split_windows(path)
    names = [name for name in path.split("/") if name and name != "."]
    return ("/" if path[:1] == "/" else ""), names


def as_windows_reads(text: str) -> str:
    """Return a text that may be no path, as Windows would read it as one.

    Spaces at the end of names, which `resolve` refuses in a path, are gone. The text is empty if it
    opens no file; parts of it may still be paths.
    """
    return "" if _NO_WINDOWS_FILE.match(text) else _WINDOWS_ENDS.sub("", text)


def collapse(raw: str, *, cwd: str | None, flavour: Flavour) -> str | None:
    """Return `raw` with each `..` removed as text, as a child does that does not ask the disk.

    None if there is no `..` to remove, or if `raw` is relative and `cwd` is None.

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
    return anchor + ("\\" if flavour is _WINDOWS else "/").join(kept)


def walk(anchor: str, names: list[str], links: LinkReader, flavour: Flavour, at: str = "") -> str:
    """Return where the names below `anchor` lead, or below `at`, if that is resolved already.

    Raises:
        PathError: as `resolve`.
    """
    separator = "\\" if flavour is _WINDOWS else "/"
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
    """A disk on which everything but a link is a directory, even what is missing."""

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
    """Return whether `path` is, contains or lies below a place that differs in each process."""
    return any(
        (one + "/").startswith(path + "/") or path.startswith(one + "/")
        for one in _PROCESS_RELATIVE
    )


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
    # NTFS folds one character to one: `ß` must not become `SS`, which is a different name.
    return "".join(up if len(up := char.upper()) == 1 else char for char in name)
