"""Read TOML, and edit a TOML text: put a table below a section, or take one out; the rest stays.

Inline tables may be over several lines, which TOML 1.1 allows and 1.0 does not.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

from msgspec import Struct

from hub.config.source.places import Mistake, SyntaxMistakesError, awkward

# What is not closed reaches to the end: else each of many would be looked for there.
TOKEN: Final = re.compile(
    r'"""(?:\\.|[^\\])*?(?:"{3,5}|\\?\Z)|\'\'\'.*?(?:\'{3,5}|\Z)'
    r'|"(?:\\.|[^"\\\n])*(?:"|(?=\n)|\\?\Z)|\'[^\'\n]*\''
    r"|#[^\n]*|[\[\]{},\n]|[^\s\[\]{},\"'#]+",
    re.DOTALL,
)
"""A text, a comment, a bracket, a comma, the end of a line, or another word."""


def read_toml(text: str) -> dict[str, Any]:
    """Return the value of a TOML text. Raises: SyntaxMistakesError if it is not TOML."""
    try:
        return _read(text)
    except ValueError as error:
        raise SyntaxMistakesError(_mistake(text, str(error))) from None


def _mistake(text: str, message: str) -> Mistake:
    place = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)", message)
    at = len(text.rstrip())
    if place is not None and place[1]:
        lines = text.splitlines(keepends=True)
        at = sum(map(len, lines[: int(place[1]) - 1])) + int(place[2]) - 1
    what = message.partition(" (at ")[0]
    for pattern, said, fix in _TOLD:
        if re.search(pattern, what):
            if "escape" in said:  # the parser points behind the `\\`
                at = text.rindex("\\", 0, at)
            return Mistake(said, fix, at)
    return Mistake(what.lower(), "Correct the TOML here.", at)


_TOLD: Final = (
    (r"Cannot declare", "the table is there twice", "Keep one of them."),
    (r"Cannot overwrite", "the key is there twice", "Keep one of them."),
    (
        r"hex value|Unescaped",
        "a `\\` in double quotes begins an escape that does not exist",
        "Write each \\ twice, or use single quotes.",
    ),
    (r"Invalid value", "a value is expected", "Put a text in quotes."),
    (r"Expected '\]'", "the name of a table is not closed", "Close it with `]`."),
    (r"Expected '='", "a `=` is missing after the key", "Write `key = value`."),
    (r"Illegal character|Unterminated", "a quote is not closed on its line", 'Close it with ".'),
    (r"Unclosed array", "a `[` is not closed", "Close it with `]`."),
    (r"Unclosed inline", "a `{` is not closed", "Close it with `}` on the same line."),
    (r"Expected newline", "there is text after the value", "Put a text in quotes."),
    (r"is nested too", "is nested too deeply", "Take brackets out."),
    (r"a number that cannot", "has a number that cannot be read", "Put it in quotes."),
)
"""Pattern of the parser's message, what to say of it, and the remedy."""


def _read(text: str) -> dict[str, Any]:
    # Files from Windows have other ends of lines, which must keep their places.
    try:
        return _loaded(text)
    except ValueError:
        on_one_line = _without_lines_in_tables(text)
        if on_one_line == text:
            raise
        return _loaded(on_one_line)


def _loaded(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except RecursionError:
        raise ValueError("is nested too deeply (at line 1, column 1)") from None
    except ValueError:  # more digits than Python reads
        raise ValueError("has a number that cannot be read (at line 1, column 1)") from None


def _without_lines_in_tables(text: str) -> str:
    """Return the text with spaces for line ends, comments and last commas in inline tables."""
    made = list(text)
    depth, comma = 0, -1
    for token in TOKEN.finditer(text):
        kind = token[0]
        if kind == "}" and comma >= 0:
            made[comma] = " "
        depth += {"{": 1, "}": -1}.get(kind, 0)
        if depth > 0 and (kind == "\n" or kind.startswith("#")):
            made[token.start() : token.end()] = " " * len(kind)
        elif kind != "\n":
            comma = token.start() if kind == "," else -1
    return "".join(made).replace("\r ", "  ")


_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


def with_member(text: str, section: Sequence[str], name: str, value: Mapping[str, object]) -> str:
    """Return the text with one more table below `section`, after the others there.

    The text may not load, or to something else: it has to be parsed.
    """
    newline = "\r\n" if "\r\n" in text else "\n"
    block = newline.join(_table([*section, name], value))
    own = [one for one in _tables(text) if one.path[: len(section)] == tuple(section)]
    if own and text[own[-1].end :].strip():
        at = own[-1].end
        return f"{text[:at]}{newline}{newline}{block}{text[at:]}"
    if not text.strip():
        return f"{text}{block}{newline}"
    gap = newline if text.endswith("\n") else newline + newline
    return f"{text}{gap}{block}{newline}"


def without_member(text: str, section: Sequence[str], name: str) -> Iterator[str]:
    """Yield the text without the tables at and below `name` in `section`; it has to be parsed."""
    path = (*section, name)
    own = [one for one in _tables(text) if one.path[: len(path)] == path]
    if not own:
        awkward(".".join(path))
    for table in reversed(own):
        end = text.find("\n", table.end)
        before = text[: table.start]
        text = _without_blank_line(before) + ("" if end < 0 else text[end + 1 :])
    yield text


class _Table(Struct, frozen=True):
    """A table's path, where its header's line starts, and where its last line with content ends."""

    path: tuple[str, ...]
    start: int
    end: int


def _tables(text: str) -> list[_Table]:
    starts: list[int] = []
    depth, at_start, end = 0, True, 0
    ends: dict[int, int] = {}
    for token in TOKEN.finditer(text):
        kind = token[0]
        if kind == "\n":
            at_start = True
            continue
        if kind.startswith("#"):
            continue
        if kind == "[" and at_start and depth == 0:
            starts.append(text.rfind("\n", 0, token.start()) + 1)
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(kind, 0)
        at_start = False
        line_end = text.find("\n", token.end())
        end = len(text) if line_end < 0 else line_end
        if starts:
            ends[starts[-1]] = len(text[:end].rstrip("\r"))
    return [_Table(_path_of(text, start), start, ends[start]) for start in starts]


def _path_of(text: str, start: int) -> tuple[str, ...]:
    """Return the path that the header in the line at `start` names."""
    path: list[str] = []
    found: Any = tomllib.loads(text[start:].partition("\n")[0].rstrip("\r"))
    while found and isinstance(found, dict):
        key, found = next(iter(cast("dict[str, Any]", found).items()))
        path.append(key)
    return tuple(path)


def _without_blank_line(text: str) -> str:
    """Return a text without the blank line at its end, if it has one."""
    for blank in ("\r\n\r\n", "\n\n"):
        if text.endswith(blank):
            return text[: -len(blank) // 2]
    return text


def _table(path: Sequence[str], value: Mapping[str, object]) -> Iterator[str]:
    yield f"[{'.'.join(map(_key, path))}]"
    tables = {
        key: cast("dict[str, object]", one)
        for key, one in value.items()
        if isinstance(one, dict) and one
    }
    for key, one in value.items():
        if key not in tables:
            yield f"{_key(key)} = {_value(one)}"
    for key, one in tables.items():
        yield ""
        yield from _table([*path, key], one)


def _key(text: str) -> str:
    return text if _BARE.fullmatch(text) else _quoted(text)


def _value(value: object) -> str:
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, cast('list[object]', value)))}]"
    if isinstance(value, dict):
        inner = cast("dict[str, object]", value).items()
        return f"{{{', '.join(f'{_key(key)} = {_value(one)}' for key, one in inner)}}}"
    return str(value)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
