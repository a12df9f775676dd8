"""Find the folders that a call's arguments name: another argument may start in one of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

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


class _Named(NamedTuple):
    """The members of one object that name a folder, or may do so from within another folder.

    `texts` has what each may be read as, `folders` the folders that it names.
    """

    texts: list[tuple[PathCandidate, list[str]]]
    folders: list[tuple[PathCandidate, list[str]]]


class NamedFolders:
    """The folders that the candidates of one call name, for each candidate beside or below them.

    A folder counts for the members of its object and all in them: `{"dir": "a", "name": "b"}`; that
    of an argument's own object for the whole call: `{"options": {"cwd": "a"}, "name": "b"}`. An
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
        self._named: dict[str, _Named] = {}
        self._of_value: dict[str, tuple[list[str], list[str]]] = {}
        self._of_commands: dict[str, None] | None = None

    def beside(self, candidate: PathCandidate) -> list[str]:
        """Return the folders that other arguments name and that `candidate` may start in.

        Raises:
            TooMuchError: there are too many, or the budget is spent.
        """
        found = dict(self._in_commands()) if candidate.kind is Kind.COMMAND else {}
        objects = self._objects_around(candidate) if len(self._candidates) > 1 else []
        for folders in _besides(candidate, [one.folders for one in objects]):
            found |= dict.fromkeys(folders)
            _check_number(found)
        for _ in range(_TURNS if found else 0):
            for texts in _besides(candidate, [one.texts for one in objects]):
                found |= self._inner(texts, tuple(found))
                _check_number(found)
        _check_number(found)
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

    def _objects_around(self, candidate: PathCandidate) -> list[_Named]:
        found: list[_Named] = []
        place = candidate.pointer
        while place:
            place = place.rpartition("/")[0]
            named = self._named.get(place)
            if named is None:
                named = self._named[place] = self._named_in(place)
            found.append(named)
        return found

    def _named_in(self, place: str) -> _Named:
        """Return what the members of the object at `place` name; each is looked up only once."""
        named = [(one, *self._read(one.value)) for one in self._members().get(place, ())]
        return _Named(
            [(one, texts) for one, texts, _ in named if texts],
            [(one, folders) for one, _, folders in named if folders],
        )

    def _read(self, value: object) -> tuple[list[str], list[str]]:
        """Return the texts that a value may be read as, and the folders that they name."""
        if not isinstance(value, str) or len(value) > _LONGEST:
            return [], []
        known = self._of_value.get(value)
        if known is None:
            texts = self._texts(value)
            folders = [folder for text in texts for folder in self._tracer.folders_at(text)]
            known = self._of_value[value] = (texts, folders)
        return known

    def _members(self) -> dict[str, list[PathCandidate]]:
        """Return the candidates that may be folders, by the pointer of their object."""
        if self._of_object is None:
            self._of_object = {}
            for one in self._candidates:
                if one.kind not in _NO_FOLDERS and not one.is_element:
                    above = one.pointer.rpartition("/")[0]
                    self._of_object.setdefault(above, []).append(one)
                    if above.count("/") == 1:
                        self._of_object.setdefault("", []).append(one)
        return self._of_object

    def _inner(self, texts: Sequence[str], starts: Sequence[str]) -> dict[str, None]:
        folders = (self._tracer.folders_at(text, starts) for text in texts)
        return dict.fromkeys(folder for each in folders for folder in each)

    def _texts(self, value: str) -> list[str]:
        if is_remote(value):
            return []
        try:
            return list(readings(value, self._reader))
        except PathError:
            return []  # such a value is refused itself


def _besides(
    candidate: PathCandidate, objects: Sequence[list[tuple[PathCandidate, list[str]]]]
) -> Iterator[list[str]]:
    """Yield what is known of each member of `objects` but the candidate itself."""
    for members in objects:
        for other, known in members:
            # The key of a member has the pointer of its value, and is another candidate.
            if other.pointer != candidate.pointer or other.value != candidate.value:
                yield known


def _check_number(folders: dict[str, None]) -> None:
    if len(folders) > _MOST:
        raise TooMuchError("it names too many folders")
