"""Find where the keys and values of a config are in its text: in YAML, JSON or TOML."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias, cast

from msgspec import Struct

Path: TypeAlias = tuple[str | int, ...]
"""A place in a config: keys of mappings and indexes of lists."""


def spelled(path: Path) -> str:
    """Return a path as errors have it: `servers.files.args[2]`."""
    return "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" for part in path
    ).removeprefix(".")


def in_command(path: Path) -> str:
    """Return a path in a server that a command line starts: no file has it."""
    number = next((part + 1 for part in path if isinstance(part, int)), None)
    return (
        "the server's command" if number is None else f"argument {number} of the server's command"
    )


class Place(Struct, frozen=True):
    """Positions in a text of a member: its start (its key, if it has one), and of its value.

    Of a mapping or a list only the key counts, as the content may be long: `value` is `start` then.
    """

    start: int
    key_end: int
    value: int
    value_end: int


Places: TypeAlias = Mapping[Path, Place]


class _Key(Struct, frozen=True):
    """The positions of a key."""

    start: int
    end: int


def _place(key: _Key | None, value: int, end: int | None) -> Place:
    """Return the place of a member; `end` is None for the value of a mapping or a list."""
    if key is None:
        return Place(value, value, value, value + 1 if end is None else end)
    return Place(key.start, key.end, *((key.start, key.end) if end is None else (value, end)))


def places_in_yaml(text: str) -> Places:
    """Return the places of all paths in a YAML text that can be parsed."""
    import yaml  # noqa: PLC0415 - slow to load; JSON needs none

    def walk(node: yaml.Node, path: Path, key: _Key | None) -> Iterator[tuple[Path, Place]]:
        first, end = node.start_mark.index, node.end_mark.index
        is_scalar = isinstance(node, yaml.ScalarNode)
        written = len(text[first:end].rstrip())
        yield path, _place(key, first, first + written if is_scalar else None)
        if isinstance(node, yaml.MappingNode):
            for name, value in node.value:
                own = _Key(name.start_mark.index, name.end_mark.index)
                yield from walk(value, (*path, str(name.value)), own)
        elif isinstance(node, yaml.SequenceNode):
            for index, value in enumerate(node.value):
                yield from walk(value, (*path, index), None)

    top = cast("yaml.Node | None", yaml.compose(text, yaml.SafeLoader))  # pyright: ignore[reportUnknownMemberType] - untyped in the stubs
    return {} if top is None else dict(walk(top, (), None))


_SPACE: Final = re.compile(r"\s*")
_TEXT: Final = re.compile(r'"(?:\\.|[^"\\])*"|[^\s,\]}]*')
"""A text, or a number or a word."""


_DECODER: Final = json.JSONDecoder()


class JsonPlaces:
    """The places in a JSON text that can be parsed, and has no comments.

    `is_lazy`: mappings and lists are looked into when `around` asks for what is in them, each once:
    large files have much else. `twice` has each key that a mapping has twice, with its position.
    """

    def __init__(self, text: str, *, is_lazy: bool = False) -> None:
        self._text = text
        self._is_lazy = is_lazy
        self._closed: dict[Path, int] = {}
        self.found: dict[Path, Place] = {}
        self.twice: list[tuple[str, int]] = []
        self._value(self._after_space(0), (), None)

    def around(self, path: Path) -> Places:
        """Return places, that of a path and of what is around it among them."""
        for length in range(len(path)):
            at = self._closed.pop(path[:length], None)
            if at is not None:
                self._inside(at, path[:length])
        return self.found

    def _after_space(self, at: int) -> int:
        space = _SPACE.match(self._text, at)
        return at if space is None else space.end()

    def _value(self, at: int, path: Path, key: _Key | None) -> int:
        first = self._text[at : at + 1]
        if first in {"{", "["}:
            self.found[path] = _place(key, at, None)
            if not self._is_lazy:
                return self._inside(at, path)
            self._closed[path] = at
            return _DECODER.raw_decode(self._text, at)[1]
        end = self._end_of_text(at)
        self.found[path] = _place(key, at, end)
        return end

    def _inside(self, at: int, path: Path) -> int:
        is_mapping = self._text[at] == "{"
        return self._mapping(at + 1, path) if is_mapping else self._list(at + 1, path)

    def _end_of_text(self, at: int) -> int:
        found = _TEXT.match(self._text, at)
        return at if found is None else found.end()

    def _mapping(self, at: int, path: Path) -> int:
        at, seen = self._after_space(at), set[str]()
        while self._text[at : at + 1] == '"':
            end = self._end_of_text(at)
            name: str = json.loads(self._text[at:end])
            if name in seen:
                self.twice.append((name, at))
            seen.add(name)
            colon = self._after_space(end)
            value = self._after_space(colon + 1)
            at = self._next(self._value(value, (*path, name), _Key(at, end)))
        return at + 1

    def _list(self, at: int, path: Path) -> int:
        at, index = self._after_space(at), 0
        while self._text[at : at + 1] not in {"]", ""}:
            at = self._next(self._value(at, (*path, index), None))
            index += 1
        return at + 1

    def _next(self, at: int) -> int:
        """Return the start of the next member, or of the closing bracket."""
        at = self._after_space(at)
        return self._after_space(at + 1) if self._text[at : at + 1] == "," else at


_TABLE: Final = re.compile(r"[ \t]*\[{1,2}(?P<name>[^\[\]\n]+)\]{1,2}")
_MEMBER: Final = re.compile(r"[ \t]*(?P<key>[\w.-]+|\"[^\"\n]*\"|'[^'\n]*')[ \t]*=[ \t]*")
_NAME: Final = re.compile(r"\"([^\"]*)\"|'([^']*)'|([^.\s\"']+)")


def places_in_toml(text: str) -> Places:
    """Return the places of tables and of the keys at the start of a line in a TOML text."""
    found: dict[Path, Place] = {(): _place(None, 0, None)}
    table: Path = ()
    at = 0
    for line in text.splitlines(keepends=True):
        if head := _TABLE.match(line):
            table = _names(head["name"])
            for depth in range(1, len(table) + 1):
                found.setdefault(table[:depth], _toml_place(at, head, "name", None))
        elif member := _MEMBER.match(line):
            value = line[member.end() :].partition(" #")[0].rstrip()
            end = None if value[:1] in {"[", "{"} else at + member.end() + len(value)
            found[*table, *_names(member["key"])] = _toml_place(at, member, "key", end)
        at += len(line)
    return found


def _toml_place(at: int, found: re.Match[str], group: str, end: int | None) -> Place:
    return _place(_Key(at + found.start(group), at + found.end(group)), at + found.end(), end)


def _names(text: str) -> Path:
    return tuple("".join(parts) for parts in _NAME.findall(text))
