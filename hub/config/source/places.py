"""Places and mistakes in the text of a config: where keys and values are in YAML, JSON and TOML.

Excerpts show a line with the mistake in it underlined, and without secrets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NoReturn, TypeAlias, cast

from msgspec import Struct

from hub.errors import ConfigError
from hub.launch.environments import is_named_like_a_secret

Path: TypeAlias = tuple[str | int, ...]
"""A place in a config: keys of mappings and indexes of lists."""


def spelled(path: Path) -> str:
    """Return a path as errors have it: `servers.files.args[2]`."""
    return "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" for part in path
    ).removeprefix(".")


def value_at(raw: object, path: Path) -> Any:
    """Return what is at a path in a parsed text; None if nothing is there."""
    for part in path:
        if isinstance(raw, dict):
            raw = cast("dict[str, object]", raw).get(str(part))
        elif isinstance(raw, list) and isinstance(part, int):
            raw = next(iter(cast("list[object]", raw)[part : part + 1]), None)
        else:
            return None
    return raw


def in_command(path: Path) -> str:
    """Return a path in a server that a command line starts: no file has it."""
    number = next((part + 1 for part in path if isinstance(part, int)), None)
    return (
        "the server's command" if number is None else f"argument {number} of the server's command"
    )


class Mistake(Struct, frozen=True):
    """A mistake in the syntax of a text, and its position."""

    what: str
    fix: str
    at: int


class SyntaxMistakesError(ValueError):
    """A text that cannot be parsed, or has keys twice."""

    def __init__(self, *mistakes: Mistake) -> None:
        super().__init__(mistakes[0].what)
        self.mistakes = mistakes


def twice(key: str, at: int) -> Mistake:
    """Return the mistake of a key that a mapping has twice; `at` is its second place."""
    return Mistake(f"duplicate key {key!r}", "Keep one of them.", at)


def awkward(where: str) -> NoReturn:
    """Refuse to edit what is written at `where`. Raises: ConfigError."""
    raise ConfigError(
        where,
        "cannot be edited safely in the form it is written in",
        "Nothing was changed. Edit the file by hand.",
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


# What is not closed reaches to the end: else each of many would be looked for there.
COMMENT: Final = re.compile(
    r'"(?:\\.|[^"\\])*(?:"|\\?\Z)|(?P<extra>//[^\n]*|/\*.*?\*/)|/\*.*', re.DOTALL
)
"""A text, or a comment, which is `extra` in JSON."""
_COMMA: Final = re.compile(r'"(?:\\.|[^"\\])*(?:"|\\?\Z)|(?P<extra>,)(?=\s*[}\]])|/\*.*', re.DOTALL)
_SPACE: Final = re.compile(r"\s*")
_DECODER: Final = json.JSONDecoder()


def without_extras(text: str) -> str:
    """Return a JSON text with spaces in the place of comments and trailing commas."""
    return blanked(_COMMA, blanked(COMMENT, text))


def blanked(pattern: re.Pattern[str], text: str) -> str:
    """Return the text with spaces in the place of what is `extra` in a pattern."""
    return pattern.sub(
        lambda found: re.sub(r"[^\n]", " ", found[0]) if found["extra"] else found[0], text
    )


def after_space(text: str, at: int) -> int:
    """Return where the first character is, at `at` or behind it, that is no space."""
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


class JsonMember(Struct, frozen=True):
    """The positions of a member of an object (its key, and its value) or of a list."""

    start: int
    key_end: int
    value: int
    end: int


def members_at(text: str, at: int) -> tuple[dict[str | int, JsonMember], int]:
    """Return the members of the object or list at `at`, and where its last bracket is.

    The text is JSON without extras.
    """
    members: dict[str | int, JsonMember] = {}
    is_object, at = text[at] == "{", after_space(text, at + 1)
    while text[at] not in "}]":
        name, start, key_end = cast("str | int", len(members)), at, at
        if is_object:
            name, key_end = cast("tuple[str, int]", _DECODER.raw_decode(text, at))
            at = after_space(text, after_space(text, key_end) + 1)
        end = _DECODER.raw_decode(text, at)[1]
        members[name] = JsonMember(start, key_end, at, end)
        at = after_space(text, end)
        if text[at] == ",":
            at = after_space(text, at + 1)
    return members, at


class JsonPlaces:
    """The places in a JSON text that can be parsed. What is large is looked into when need be."""

    def __init__(self, text: str) -> None:
        self._text = without_extras(text)
        self._known: dict[int, dict[str | int, JsonMember]] = {}

    def nearest(self, path: Path) -> Place | None:
        """Return the place of a path, or of what is nearest around it; None at the top."""
        place, at = None, after_space(self._text, 0)
        for part in path:
            if self._text[at] in "{[" and at not in self._known:
                self._known[at] = members_at(self._text, at)[0]
            member = self._known.get(at, {}).get(part)
            if member is None:
                break
            at = member.value
            key = None if isinstance(part, int) else _Key(member.start, member.key_end)
            place = _place(key, at, None if self._text[at] in "{[" else member.end)
        return place


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
    margin = before[: len(before) - len(before.lstrip())]
    lead = before if is_first else f"{margin}{MASK} "
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
        found = _KEY.search(before)
        if found is not None and found.end() < len(before):
            before = before[: found.end()] + MASK
        after = MASK if after and not before.endswith(MASK) else ""
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


def _end_of_line(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end
