"""The hub's own files: which of them no call may write, move or replace, and which none may reach.

Whoever can write the config can have any command run at the next start. So no mode of the guard, no
`roots.allow_unsafe` and no consent of a user lifts these rules.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import force_setattr

from hub.paths.resolve import LinkReader, is_inside
from hub.values import JsonObject

OWN: Final = "it is one of the hub's own files"
"""The reason of a refusal."""
ELSEWHERE: Final = "means something else in the process that opens it"
"""The end of the reason for a path that leads elsewhere in the child's process than in the hub."""

Parts: TypeAlias = tuple[str, ...]
Inode: TypeAlias = tuple[int, int]
"""A device number, and an inode number on that device."""

_MOVING: Final = frozenset(
    {
        *("move", "mv", "rename", "ren", "relocate", "delete", "del", "remove", "rm", "rmdir"),
        *("unlink", "trash", "erase", "purge", "destroy", "wipe", "replace", "swap", "exchange"),
        *("link", "symlink", "hardlink", "ln", "mount", "extract", "unzip", "untar", "unpack"),
        *("restore", "overwrite", "shred"),
    }
)
"""Words in the names of tools and commands that move, remove or replace whole directories."""
_COPYING: Final = frozenset(
    {
        *("copy", "cp", "archive", "zip", "tar", "compress", "backup", "upload", "sync", "rsync"),
        *("mirror", "share", "publish", "export"),
    }
)
"""Words in the names of tools and commands that copy whole directories to readable places."""
_USUAL_NAME: Final = 256
"""Characters of a name up to which its words are remembered: URIs may be very long."""
_LONGEST: Final = 4096
_OTHER_THINGS: Final = frozenset(
    {
        *("branch", "branches", "tag", "tags", "commit", "remote", "stash", "ref", "worktree"),
        *("label", "issue", "comment", "entity", "entities", "relation", "relations", "memory"),
        *("observation", "observations", "row", "table", "record", "breakpoint", "task", "todo"),
        *("note", "cell", "package", "dependency", "container", "image", "process", "session"),
    }
)
"""Things that are no files: a tool that moves or deletes these only works in its directory."""
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


class OwnPlace(Struct, frozen=True):
    """One of the hub's own files or directories.

    `holds_keys`: whoever can read it can impersonate the hub.
    """

    path: str
    parts: Parts
    holds_keys: bool = False


class Inodes(Struct, frozen=True):
    """The hub's own files by device and inode, for paths of any spelling; `all` is both sets."""

    secret: frozenset[Inode] = frozenset()
    kept: frozenset[Inode] = frozenset()
    all: frozenset[Inode] = frozenset()


class OwnFiles(Struct, frozen=True, eq=False):
    """The hub's own files: no call may reach `secret` ones, no call may write `kept` ones.

    Both include all that lies below. `inodes` returns the inodes that these files have now.
    """

    secret: tuple[OwnPlace, ...] = ()
    kept: tuple[OwnPlace, ...] = ()
    inodes: Callable[[], Inodes] = Inodes
    names: frozenset[str] = frozenset()
    """The last components of the `kept` paths, case-folded."""
    endings: tuple[str, ...] = ()
    """The same as a tuple, for `str.endswith`."""
    beginnings: tuple[str, ...] = ()
    """The last parts of the `secret` paths, case-folded: each may be joined to a directory."""
    mark: str = ""
    """A text that all `beginnings` contain, searched first because that is quick; may be empty."""

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
        """Return whether a path that the hub cannot follow may be one of its own files, by name."""
        folded = reading.strip().casefold()
        names = folded.replace("\\", "/").split("/")
        return names[-1] in self.names or (bool(self.mark) and self.mark in names)

    def rules_for(
        self,
        tool: str,
        *,
        writes: bool,
        commands: Sequence[str] = (),
        names_kept: bool = False,
        names_secret: bool = False,
    ) -> OwnFileRules:
        """Return the rules for calls of the tool named `tool`.

        `commands` are the commands in one call's arguments. `names_kept` and `names_secret`: the
        call has the name of such a file in it, which the tool could join to a directory.
        """
        words = _words(tool, commands)
        moves = writes and (names_kept or not words.isdisjoint(_MOVING))
        takes = names_secret or not words.isdisjoint(_MOVING | _COPYING)
        return _reach(self, writes, moves, takes)


class OwnFileRules(Struct, frozen=True, eq=False):
    """Which of the hub's own files the calls of one tool must not reach.

    `shut` are the components of closed places; all below them is closed, too. `depths` are the
    numbers of components that these places have. Of the places in `whole` the directories above are
    closed as well, since the tool acts on whole directories.
    """

    shut: frozenset[Parts]
    depths: tuple[int, ...]
    whole: tuple[Parts, ...]
    writes: bool
    inodes: Callable[[], Inodes]

    def has(self, path: str, parts: Parts, links: LinkReader) -> bool:
        """Return whether a path with links followed (and its components `parts`) is closed.

        Raises:
            PathError: the disk does not say what is at `path`.
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
        """Return the inodes that the closed files have now."""
        now = self.inodes()
        return now.all if self.writes else now.secret

    def near(self, parts: Parts) -> tuple[Parts, ...]:
        """Return the closed places at, below or above the directory with components `parts`."""
        places = {*self.shut, *self.whole}
        return tuple(one for one in places if is_inside(one, parts) or is_inside(parts, one))


def _words(tool: str, commands: Sequence[str]) -> frozenset[str]:
    named = _name_words(tool) if len(tool) <= _USUAL_NAME else _words_in((tool,))
    words = named if named.isdisjoint(_OTHER_THINGS) else frozenset[str]()
    return words | _words_in(commands) if commands else words


@lru_cache(maxsize=1024)
def _name_words(tool: str) -> frozenset[str]:
    return _words_in((tool,))


def _words_in(texts: Iterable[str]) -> frozenset[str]:
    return frozenset(word.casefold() for text in texts for word in _WORD.findall(text))


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


def moves_folders(tool: str) -> bool:
    """Return whether a tool's name says that it moves, removes or replaces whole directories."""
    return not _words(tool, ()).isdisjoint(_MOVING)


def by_proc(reading: str) -> str | None:
    """Return the path that a process reaches through `/proc/PID/root` or `/proc/PID/cwd`.

    The result starts at `/`, or at `.` for the process's directory. None for any other path.
    """
    names = [name for name in reading.split("/") if name not in {"", "."}]
    if not reading.startswith("/") or names[:1] != ["proc"]:
        return None
    at: list[str] = []
    for index, name in enumerate(names, 1):
        if name == "..":  # the last name is no link: `..` removes that name
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
"""The number of names in `/proc/PID/cwd`."""
_OF_TASK: Final = 5


class OwnNames(Struct, frozen=True):
    """Which names of the hub's own files a call has in its arguments.

    `ends`: a value ends with the name of a file that no call may write. `begins`: a value begins
    with the last part of the path of a secret place, which no call may reach.
    """

    ends: bool = False
    begins: bool = False


_NO_NAMES: Final = OwnNames()


def own_names_in(own: OwnFiles | None, arguments: JsonObject) -> OwnNames:
    """Return which of the hub's own names the values in `arguments` have.

    Case and surrounding blanks are ignored. Not searched: object keys, JSON inside strings, and
    strings of more than 4096 characters.
    """
    if own is None:
        return _NO_NAMES
    named: list[str] = []
    values = [*arguments.values()]
    for value in values:  # it grows meanwhile
        if isinstance(value, str):
            text = value.strip().casefold() if len(value) <= _LONGEST else ""
            if text and (text.endswith(own.endings) or own.mark in text):
                named.append(text)
        elif isinstance(value, dict):
            values += value.values()
        elif isinstance(value, list):
            values += value
    if not named:
        return _NO_NAMES
    return OwnNames(
        any(_ends(text, own) for text in named), any(_begins(text, own) for text in named)
    )


def _ends(text: str, own: OwnFiles) -> bool:
    return text.endswith(own.endings) and text.replace("\\", "/").rpartition("/")[2] in own.names


def _begins(text: str, own: OwnFiles) -> bool:
    return own.mark in text and text.startswith(own.beginnings)
