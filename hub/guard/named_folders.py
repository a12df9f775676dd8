"""Find the folders that a call's arguments name: another argument may start in one of them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec.structs import replace

from hub.guard.arguments import PathCandidate
from hub.guard.budget import TooMuchError
from hub.guard.containment import PathTracer
from hub.guard.keys.vocabulary import Kind
from hub.guard.text.readings import Reader, readings
from hub.guard.text.uris import is_remote
from hub.paths.resolve import PathError

_NO_FOLDERS = frozenset({Kind.GLOB, Kind.COMMAND, Kind.PAYLOAD})
_LONGEST = 1024
_BETWEEN_WORDS = re.compile(r"[\s;&|()<>'\"`=,]+|(?<![^\s'\"])-[A-Za-z](?=[\w./~])")
_PWD = re.compile(r"\$\(\s*pwd\s*\)|\$PWD\b|\$\{PWD\}")
_MOST = 64
_TURNS = 2
"""So many folders may be named one in the other, as in `repo`, `folder`, `name`."""


class NamedFolders:
    """The folders that the candidates of one call name, for each candidate beside or below them.

    A folder counts for the members of its object and all in them: `{"dir": "a", "name": "b"}`. An
    element of a list counts for none: it is one of several, not where the others are. A folder that
    a command names counts for all words of commands: `cd a && cat b`, `tar -C a b`.
    """

    def __init__(
        self, candidates: Sequence[PathCandidate], tracer: PathTracer, reader: Reader
    ) -> None:
        self._tracer = tracer
        self._reader = replace(reader, whole=True)
        self._of_object: dict[str, list[PathCandidate]] | None = None
        self._candidates = candidates
        self._known: dict[str, list[str]] = {}
        self._of_commands: dict[str, None] | None = None

    def beside(self, candidate: PathCandidate) -> list[str]:
        """Return the folders that other arguments name and that `candidate` may start in.

        Raises:
            TooMuchError: there are too many, or the budget is spent.
        """
        found = dict(self._in_commands()) if candidate.kind is Kind.COMMAND else {}
        others = list(self._others(candidate)) if len(self._candidates) > 1 else []
        for _ in range(_TURNS):
            for other in others:
                found |= dict.fromkeys(self._folders(other, tuple(found)))
            if not found:
                break
        if len(found) > _MOST:
            raise TooMuchError("it names too many folders")
        return list(found)

    def _in_commands(self) -> dict[str, None]:
        if self._of_commands is None:
            commands = (one.value for one in self._candidates if one.kind is Kind.COMMAND)
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
                inner = [self._tracer.folders_at(word, places) for word in words]
                folders = dict.fromkeys(folder for each in inner for folder in each)
                # One that lies outside is refused itself, or is in a container.
                found |= dict.fromkeys(filter(self._tracer.is_open, folders))
            self._of_commands = found
        return self._of_commands

    def _others(self, candidate: PathCandidate) -> list[PathCandidate]:
        found: list[PathCandidate] = []
        place = candidate.pointer
        while place:
            place = place.rpartition("/")[0]
            found += self._members().get(place, ())
        return [other for other in found if other.pointer != candidate.pointer]

    def _members(self) -> dict[str, list[PathCandidate]]:
        """Return the candidates that may be folders, by the pointer of their object."""
        if self._of_object is None:
            self._of_object = {}
            for one in self._candidates:
                above, _, name = one.pointer.rpartition("/")
                if one.kind not in _NO_FOLDERS and not name.isdecimal():
                    self._of_object.setdefault(above, []).append(one)
        return self._of_object

    def _folders(self, other: PathCandidate, starts: tuple[str, ...]) -> list[str]:
        folders = self._known.get(other.pointer)
        if folders is None:
            texts = self._texts(other.value)
            folders = [one for text in texts for one in self._tracer.folders_at(text)]
            self._known[other.pointer] = folders
        inner = (
            self._tracer.folders_at(text, starts)
            for text in (self._texts(other.value) if starts else ())
        )
        return [*folders, *(one for each in inner for one in each)]

    def _texts(self, value: object) -> list[str]:
        if not isinstance(value, str) or len(value) > _LONGEST or is_remote(value):
            return []
        try:
            return list(readings(value, self._reader))
        except PathError:
            return []  # such a value is refused itself
