"""Put a table below a section of a TOML text, or take one out; the rest stays as it is."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

from msgspec import Struct

from hub.config.source.syntax import awkward
from hub.config.source.toml import TOKEN

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
