"""Find the folders that a call's arguments name: another argument may start in one of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from hub.guard.arguments import PathCandidate
from hub.guard.budget import TooMuchError
from hub.guard.containment import PathTracer
from hub.guard.keys.vocabulary import Kind
from hub.guard.text.readings import Reader, readings
from hub.guard.text.uris import is_remote
from hub.paths.resolve import PathError
from hub.values import Json

_NO_FOLDERS = frozenset({Kind.GLOB, Kind.COMMAND, Kind.PAYLOAD})
_LONGEST = 1024
_BETWEEN_WORDS = re.compile(r"[\s;&|()<>'\"`=,]+|(?<![^\s'\"])-[A-Za-z](?=[\w./~])")
_PWD = re.compile(r"\$\(\s*pwd\s*\)|\$PWD\b|\$\{PWD\}")
_MOST = 64
_FEW = 8
"""So many elements of lists may be folders that something else starts in."""
_TURNS = 2
"""So many folders may be named one in the other, as in `repo`, `folder`, `name`."""


class _Found(NamedTuple):
    """The folders that are named, and by which candidates: their pointers and values."""

    folders: list[str]
    named_by: set[tuple[str, Json]]


class NamedFolders(Struct, eq=False):
    """The folders that the candidates of one call name, for each candidate that may start there.

    A folder counts for the whole call, however deep it is named: `{"dir": "a", "name": "b"}`,
    `{"options": {"run": {"cwd": "a"}}, "name": "b"}`; in an object in a list for that object. The
    elements of a short list count for what is in no list: `{"dirs": ["a"], "name": "b"}`; many are
    files rather. A folder that a command names counts for all words of commands: `cd a && cat b`,
    `tar -C a b`.
    """

    candidates: Sequence[PathCandidate]
    tracer: PathTracer
    reader: Reader
    _of_scope: dict[str, list[PathCandidate]] | None = None
    _found: dict[tuple[str, bool, bool], _Found] = field(default_factory=dict[Any, Any])
    _read: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    _named: dict[tuple[Json, str | None], list[str]] = field(default_factory=dict[Any, Any])
    _of_commands: dict[str, None] | None = None

    def beside(self, candidate: PathCandidate) -> list[str]:
        """Return the folders that other arguments name and that `candidate` may start in.

        Raises:
            TooMuchError: there are too many, or the budget is spent.
        """
        is_command = candidate.kind is Kind.COMMAND
        if len(self.candidates) == 1 and not is_command:
            return []
        of = (candidate.scope, is_command, candidate.is_element)
        found = self._found.get(of)
        if found is None:
            found = self._found[of] = self._find(of)
        if _identity(candidate) in found.named_by:
            found = self._find(of, _identity(candidate))
        return found.folders

    def around(self, candidate: PathCandidate) -> list[str]:
        """Return those of the same folders that no command names."""
        return self._find(
            (candidate.scope, False, candidate.is_element), _identity(candidate)
        ).folders

    def _find(self, of: tuple[str, bool, bool], but: tuple[str, Json] | None = None) -> _Found:
        """Return what is named, `but` by this candidate, for a scope.

        `of` also says whether it is for a command, and whether for an element of a list.
        """
        scope, is_command, is_element = of
        found = dict(self._in_commands()) if is_command else {}
        named_by = set[tuple[str, Json]]()
        around = self._members_around(scope)
        members = [one for one in around if not (is_element and one.is_element)]
        members = [one for one in members if _identity(one) != but]
        for turn in range(1 + _TURNS):
            starts = tuple(found) if turn else (None,)
            for one, start in product(members, starts):
                if folders := self._folders_named(one.value, start):
                    named_by.add(_identity(one))
                    found |= dict.fromkeys(folders)
                    if len(found) > _MOST:
                        raise TooMuchError("it names too many folders")
        return _Found(list(found), named_by)

    def _in_commands(self) -> dict[str, None]:
        if self._of_commands is None:
            commands = (one.value for one in self.candidates if one.kind is Kind.COMMAND)
            words = dict.fromkeys(
                word
                for command in commands
                if isinstance(command, str)
                for word in _BETWEEN_WORDS.split(_PWD.sub(".", command))
                if word
            )
            found: dict[str, None] = {}
            for turn in range(_TURNS):
                places = tuple(found) if turn else None
                if places == ():
                    break
                inner = [self._open_at(word, places) for word in words]
                found |= dict.fromkeys(folder for each in inner for folder in each)
            self._of_commands = found
        return self._of_commands

    def _members_around(self, scope: str) -> list[PathCandidate]:
        """Return the candidates that may name folders for a scope: of it and of those around it."""
        if self._of_scope is None:
            self._of_scope = {}
            is_few = sum(one.is_element for one in self.candidates) <= _FEW
            for one in self.candidates:
                if one.kind not in _NO_FOLDERS and (is_few or not one.is_element):
                    self._of_scope.setdefault(one.scope, []).append(one)
        found = [*self._of_scope.get("", ())]
        while scope:
            found += self._of_scope.get(scope, ())
            scope = scope.rpartition("/")[0]
        return found

    def _folders_named(self, value: Json, start: str | None) -> list[str]:
        """Return the folders that a value names from `start`, or from where any value may start."""
        named = self._named.get((value, start))
        if named is None:
            texts = self._texts(value) if isinstance(value, str) else ()
            starts = None if start is None else (start,)
            named = [folder for text in texts for folder in self._open_at(text, starts)]
            self._named[value, start] = named
        return named

    def _open_at(self, text: str, starts: Sequence[str] | None) -> list[str]:
        # In some a relative path starts in any case. A folder outside is refused itself, or is not
        # of this machine, or of a container.
        tracer = self.tracer
        found = tracer.folders_at(text, starts)
        return [one for one in found if one not in tracer.bases and tracer.is_open(one)]

    def _texts(self, value: str) -> list[str]:
        """Return the texts that a value may be read as."""
        read = self._read.get(value)
        if read is None:
            is_short = len(value) <= _LONGEST and not is_remote(value)
            try:
                whole = replace(self.reader, whole=True)
                read = list(readings(value, whole)) if is_short else []
            except PathError:
                read = []  # such a value is refused itself
            self._read[value] = read
        return read


def _identity(one: PathCandidate) -> tuple[str, Json]:
    # The key of a member has the pointer of its value, and is another candidate.
    return one.pointer, one.value
