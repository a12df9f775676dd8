"""The hub's own files: what no call writes, moves or replaces, and what none reaches at all.

Who can write the config can have any command started at the next start. So neither a mode of the
guard nor `roots.allow_unsafe` nor a user's consent lifts this.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import force_setattr

from hub.paths.resolve import LinkReader, is_inside

OWN: Final = "it is one of the hub's own files"
"""The reason of a refusal."""
ELSEWHERE: Final = "means something else in the process that opens it"
"""How the reason ends for a path that the hub cannot follow as the child will."""

Parts: TypeAlias = tuple[str, ...]
Inode: TypeAlias = tuple[int, int]
"""A device, and a number on it."""

_MOVING: Final = frozenset(
    {
        *("move", "mv", "rename", "ren", "relocate", "delete", "del", "remove", "rm", "rmdir"),
        *("unlink", "trash", "erase", "purge", "destroy", "wipe", "replace", "swap", "exchange"),
        *("link", "symlink", "hardlink", "ln", "mount", "extract", "unzip", "untar", "unpack"),
        *("restore", "overwrite", "shred"),
    }
)
"""Words of tools and commands that take a whole directory away, or put another in its place."""
_COPYING: Final = frozenset(
    {
        *("copy", "cp", "archive", "zip", "tar", "compress", "backup", "upload", "sync", "rsync"),
        *("mirror", "share", "publish", "export"),
    }
)
"""Words of tools and commands that bring a whole directory elsewhere, where it can be read."""
_OTHER_THINGS: Final = frozenset(
    {
        *("branch", "branches", "tag", "tags", "commit", "remote", "stash", "ref", "worktree"),
        *("label", "issue", "comment", "entity", "entities", "relation", "relations", "memory"),
        *("observation", "observations", "row", "table", "record", "breakpoint", "task", "todo"),
        *("note", "cell", "package", "dependency", "container", "image", "process", "session"),
    }
)
"""What else can be moved and deleted; the directory is then where that is done."""
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


class OwnPlace(Struct, frozen=True):
    """A file or directory of the hub's; `holds_keys`: who reads it can pass for the hub."""

    path: str
    parts: Parts
    holds_keys: bool = False


class Inodes(Struct, frozen=True):
    """The same files by what they are on the disk, however a path to them is spelled."""

    secret: frozenset[Inode] = frozenset()
    kept: frozenset[Inode] = frozenset()
    all: frozenset[Inode] = frozenset()


class OwnFiles(Struct, frozen=True, eq=False):
    """What is the hub's: `secret` is beyond every call, `kept` beyond those that write.

    Each with what lies below. `inodes` says which files they are now.
    """

    secret: tuple[OwnPlace, ...] = ()
    kept: tuple[OwnPlace, ...] = ()
    inodes: Callable[[], Inodes] = Inodes
    names: frozenset[str] = frozenset()
    """The last parts of those that are not to be written, as they compare."""
    endings: tuple[str, ...] = ()
    """The same, for a text to end with."""
    beginnings: tuple[str, ...] = ()
    """The last parts of the ways to those that are secret: what may follow a directory's name."""
    mark: str = ""
    """What is in all of these, to be looked for first."""

    def __post_init__(self) -> None:
        names = frozenset(place.parts[-1].casefold() for place in self.kept if place.parts)
        ways = dict.fromkeys(
            f"{dot}{'/'.join(place.parts[at:])}".casefold()
            for place in self.secret
            for at in range(1, len(place.parts))
            for dot in ("", "./")
        )
        last = {place.parts[-1].casefold() for place in self.secret if place.parts}
        force_setattr(self, "mark", next(iter(last)) if len(last) == 1 else "")
        force_setattr(self, "names", names)
        force_setattr(self, "endings", tuple(names))
        force_setattr(self, "beginnings", tuple(ways))

    def may_end(self, reading: str) -> bool:
        """Return whether a path that nobody here can follow ends as one of them does."""
        folded = reading.strip().casefold()
        names = folded.replace("\\", "/").split("/")
        return names[-1] in self.names or (bool(self.mark) and self.mark in names)

    def rules_for(
        self,
        tool: str,
        *,
        writes: bool,
        commands: Iterable[str] = (),
        names_kept: bool = False,
        names_secret: bool = False,
    ) -> OwnFileRules:
        """Return what calls of a tool could do.

        `commands` are those that one call has in it. `names_kept` and `names_secret`: it has the
        name of such a file in it, which could be put behind that of a directory.
        """
        words = _words(tool, tuple(commands))
        moves = writes and (names_kept or not words.isdisjoint(_MOVING))
        takes = names_secret or not words.isdisjoint(_MOVING | _COPYING)
        return _reach(self, writes, moves, takes)


class OwnFileRules(Struct, frozen=True, eq=False):
    """What of the hub's own the calls of one tool must not get at.

    `shut` are places, of as many components as `depths` has, that are shut with all below. `whole`
    are those whose directories above are shut as well, for the tool takes directories as a whole.
    """

    shut: frozenset[Parts]
    depths: tuple[int, ...]
    whole: tuple[Parts, ...]
    writes: bool
    inodes: Callable[[], Inodes]

    def has(self, path: str, parts: Parts, links: LinkReader) -> bool:
        """Return whether a path, with its links followed, is one of them.

        Raises:
            PathError: the disk does not say what is there.
        """
        for depth in self.depths:
            if parts[:depth] in self.shut:
                return True
        for place in self.whole:
            if is_inside(place, parts):
                return True
        shut = self.shut_inodes()
        if not shut:
            return False
        entry = links.entry(path)
        return entry is not None and (entry.device, entry.inode) in shut

    def shut_inodes(self) -> frozenset[Inode]:
        """Return the files that are shut, by what they are on the disk just now."""
        now = self.inodes()
        return now.all if self.writes else now.secret

    def near(self, parts: Parts) -> tuple[Parts, ...]:
        """Return which places lie at, below or above a directory."""
        places = {*self.shut, *self.whole}
        return tuple(one for one in places if is_inside(one, parts) or is_inside(parts, one))


def _words(tool: str, commands: tuple[str, ...]) -> set[str]:
    words = set(map(str.casefold, _WORD.findall(tool)))
    if not words.isdisjoint(_OTHER_THINGS):
        words.clear()
    for command in commands:
        words.update(map(str.casefold, _WORD.findall(command)))
    return words


@lru_cache(maxsize=64)
def _reach(own: OwnFiles, writes: bool, moves: bool, takes: bool) -> OwnFileRules:
    sealed = frozenset(place.parts for place in own.secret)
    kept = frozenset(place.parts for place in own.kept) if writes else frozenset[Parts]()
    return OwnFileRules(
        shut=sealed | kept,
        depths=tuple(sorted({len(parts) for parts in sealed | kept})),
        whole=(*(sealed if takes else ()), *(kept if moves else ())),
        writes=writes,
        inodes=own.inodes,
    )


def by_proc(reading: str) -> str | None:
    """Return the path that one over `/proc/PID/root` or `/proc/PID/cwd` comes to in a process.

    None if it is no such path.
    """
    names = [name for name in reading.split("/") if name not in {"", "."}]
    if not reading.startswith("/") or names[:1] != ["proc"]:
        return None
    at: list[str] = []
    for index, name in enumerate(names, 1):
        if name == "..":  # what is above here is no link
            at = at[:-1]
        else:
            at.append(name)
        if at[:1] != ["proc"]:
            return "/".join(["", *at, *names[index:]]) or "/"
        if len(at) == (_OF_TASK if at[2:3] == ["task"] else _OF_PROCESS) and at[-1] in _LEAPS:
            return "/".join([_LEAPS[at[-1]], *names[index:]]) or "/"
    return None


_LEAPS: Final = {"root": "", "cwd": "."}
_OF_PROCESS: Final = 3
"""How many names lead to what a process has of its own: `/proc/PID/cwd`."""
_OF_TASK: Final = 5
