"""Find where the keys and values of a config are in its text: in YAML, JSON or TOML.

Excerpts show a line with the mistake in it underlined, and without secrets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias, cast

from msgspec import Struct

from hub.launch.environments import is_named_like_a_secret

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
_PART: Final = re.compile(r"\"([^\"]*)\"|'([^']*)'|([^.\s\"']+)")


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
    return tuple("".join(parts) for parts in _PART.findall(text))


WIDTH: Final = 72
"""The most characters of a line that are shown."""
MASK: Final = "…"

_SECRET_PARTS: Final = frozenset(
    {"env", "envs", "environment", "headers", "http_headers", "requestOptions", "Authorization"}
)
"""Keys below which every value may be a secret."""
_OWN_SECRETS: Final = frozenset({"token", "tokens", "keys"})
"""The same below `listen`, in the wrong shape too."""
_LONG_WORD: Final = re.compile(r"[A-Za-z0-9_-]{16,}")
_LETTER: Final = re.compile(r"[A-Za-z]")
_DIGIT: Final = re.compile(r"[0-9]")
_NAME: Final = re.compile(r"(?:[A-Z]+\d{0,3}|\d{1,3})(?:_(?:[A-Z]+\d{0,3}|\d{1,3}))+")
"""The name of a variable: words in capitals, which may end with a number."""
_REVEALING: Final = re.compile(r"[=@?#]")
_PLACEHOLDER: Final = re.compile(
    r"(\$\{\{ *\w+\.\w+ *\}\}"
    r"|\$\{(?:file|cmd|keyring):[^{}]*\}"
    r"|\$?\{(?:env[:.]|input:)?[A-Za-z_][\w-]*\}"
    r"|(?<!\w)\$[A-Z_][A-Z0-9_]*\b)"
)
"""The placeholders of all programs; none with a default, which may be a secret."""
_COLON: Final = re.compile(r"\s*[:=]\s*")
# It begins where a word does: a line may be a single word of a million letters.
_KEY: Final = re.compile(r"""(?<![\w.-])["']?(?P<key>[\w.-]+)["']?\s*[:=]\s*""")
_VARIABLE: Final = re.compile(r"[A-Z][A-Z0-9_]+")


def excerpt(
    origin: str, text: str, member: tuple[int, int], marked: tuple[int, int], *, path: Path
) -> str:
    """Return the line of a member (key and value) with a part of it, `marked`, underlined.

    Other members on the line are replaced by `…`. `path` is where the member is in the config.
    """
    line_end = _end_of_line(text, marked[0])
    number, column = line_and_column(text, marked[0])
    line_start = marked[0] - column + 1
    start = max(member[0], line_start)
    end = max(start, min(member[1], line_end))
    before, after = text[line_start:start], text[end:line_end].strip(" ,\r]}:{[")
    is_first = not before.strip(" \t-[{")
    lead = before if is_first else f"{_margin(before)}{MASK} "
    rest = f" {MASK}" if after and not after.startswith(("#", "//")) else ""
    key, value = text[start : marked[0]], text[marked[0] : min(marked[1], end)]
    tail = ""
    if marked[0] != start:
        key, value = shown_key(key, path[:-1]), _shown(value, path)
    elif path and isinstance(path[-1], str):  # the key is marked
        value, tail = shown_key(value, path[:-1]), text[marked[1] : end]
    else:
        value = _shown(value, path)
    if tail:
        colon = _COLON.match(tail)
        tail = (colon[0] if colon else "") + _shown(tail[colon.end() if colon else 0 :], path)
    shown = f"{lead}{key}"
    width = max(1, min(len(value), WIDTH))
    line = f"{shown}{value}{tail}"[:120] + rest
    return _drawn(f"{origin}:{number}:{column}", line, len(shown), width)


def syntax_excerpt(origin: str, text: str, at: int) -> str:
    """Return the line of a syntax error with a caret; values that may be secrets are masked."""
    at = min(at, len(text))
    number, column = line_and_column(text, at)
    line = text[at - column + 1 : _end_of_line(text, at)]
    before, after = line[: column - 1], line[column - 1 :]
    if len(before) > WIDTH // 2:
        before = MASK + before[-WIDTH // 2 :]
    if _hides_a_secret(line):
        before, after = _without_values(before), MASK if after else ""
    before, after = masked(before), masked(after)[:WIDTH]
    return _drawn(f"{origin}:{number}:{column}", before + after, len(before), 1)


def line_and_column(text: str, at: int) -> tuple[int, int]:
    """Return the line and column of a position, both from 1."""
    return text.count("\n", 0, at) + 1, at - (text.rfind("\n", 0, at) + 1) + 1


def masked(text: str) -> str:
    """Return a text with `…` for whatever looks like a key or a token."""
    return _LONG_WORD.sub(lambda found: MASK if _is_random(found[0]) else found[0], text)


def _is_random(word: str) -> bool:
    """Return whether a long word looks like a key or a token: it has letters and digits."""
    has_both = _LETTER.search(word) is not None and _DIGIT.search(word) is not None
    return has_both and _NAME.fullmatch(word) is None


def shown_key(key: str, around: Path) -> str:
    """Return a key without what may be a secret: `{token:abc}` has no space, so it is all key."""
    name, colon, rest = key.partition(":")
    if colon and rest.strip() and not may_be_shown(rest, (*around, name.strip("\"' "))):
        return f"{name}:{MASK}"
    return masked(key)


def may_be_shown(value: str, path: Path) -> bool:
    """Return whether a value at a path may be printed: it is no secret, as far as one can tell."""
    parts = [part for part in path if isinstance(part, str)]
    if path[:1] == ("listen",) and not _OWN_SECRETS.isdisjoint(path[1:2]):
        return False
    if not _SECRET_PARTS.isdisjoint(parts) or any(map(is_named_like_a_secret, parts[-1:])):
        return False
    return not any(map(_is_random, _LONG_WORD.findall(value))) and not _REVEALING.search(value)


def _shown(value: str, path: Path) -> str:
    """Return a value as written; of a value that may be a secret, only its placeholders."""
    if may_be_shown(value, path):
        return value if len(value) <= WIDTH else value[: WIDTH - 1] + MASK
    quote = value[:1] if value[:1] in {'"', "'"} and len(value) > 1 else ""
    inner = value[len(quote) : len(value) - len(quote)]
    pieces = _PLACEHOLDER.split(inner)
    masked = (piece if at % 2 else MASK if piece else "" for at, piece in enumerate(pieces))
    return f"{quote}{''.join(masked)}{quote}"


def _drawn(place: str, line: str, before: int, marked: int) -> str:
    number = place.split(":")[-2]
    gutter = " " * len(number)
    if not line.strip(f" {MASK}"):
        return f"{gutter}--> {place}"
    line = line.replace("\t", " ")
    return "\n".join(
        (
            f"{gutter}--> {place}",
            f"{gutter} |",
            f"{number} | {line}".rstrip(),
            f"{gutter} | {' ' * before}{'^' * max(1, marked)}",
        )
    )


def _hides_a_secret(line: str) -> bool:
    return any(
        _VARIABLE.fullmatch(found["key"])
        or is_named_like_a_secret(found["key"])
        or found["key"] in _SECRET_PARTS
        for found in _KEY.finditer(line)
    )


def _without_values(text: str) -> str:
    found = _KEY.search(text)
    return text if found is None else text[: found.end()] + (MASK if text[found.end() :] else "")


def _margin(before: str) -> str:
    return before[: len(before) - len(before.lstrip())]


def _end_of_line(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end
