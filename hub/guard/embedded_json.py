"""JSON inside a string: find it, and if it cannot be parsed, list the strings in it.

A child's parser may accept more: comments, trailing commas, single quotes. Where a string starts
and ends depends on that parser. So any text between two quotes counts as a string, and any text
before a colon as a key.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from decimal import Decimal

from hub.paths.resolve import PathError
from hub.values import Json, JsonObject

MAX_STRINGS = 20_000
TOO_MUCH = "the arguments are nested too deeply or too many to judge"
_LONG_NUMBER = 1000

_COMMENT = r"//[^\n]*+\n|/\*[^*]*+(?:\*(?!/)[^*]*+)*\*/"
_BEFORE = re.compile(rf"(?:[\s\x00-\x20\ufeff\u200b-\u200f\u2060]++|{_COMMENT})*(?=[\[{{])")
_AFTER = " \t\r\n\x00\ufeff"
# `[WIP] words`, `[doc](url)`, `[2024-01-01] words`, `{date}-{title}`, `{{ name }}`.
_NO_JSON = re.compile(
    r"\[(?:\d{4}-\d\d-\d\d|(?!(?:true|false|null|none|nan|infinity|undefined)\b)[A-Za-z])"
    r"[^\[\]{}\"'`,]*+\]|\{\w++\}|\{\{|\{%",
    re.IGNORECASE,
)
_QUOTES = (re.compile(r"\""), re.compile(r"[\"'`]"))
_NOTHING = re.compile(
    r"[\s\d:,\[\]{}\\]*+(?:(?:true|false|null)[\s\d:,\[\]{}\\]*+)*", re.IGNORECASE
)
_REMARK = re.compile(r"/\*|(?<!:)//|#")
_WORD = re.compile(r"[^\w$\\-]")
_LONGEST_KEY = 200
_ESCAPE = re.compile(
    r"\\(?:u\{([0-9a-f]{1,8})\}|u([0-9a-f]{4})|x([0-9a-f]{2})|([0-7]{1,3})|(\r?\n)|(.))",
    re.IGNORECASE | re.DOTALL,
)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


class TooManyError(PathError):
    """The text is nested too deeply, or has more than `MAX_STRINGS` strings."""

    def __init__(self) -> None:
        super().__init__(TOO_MUCH)


def json_in(text: str) -> str | None:
    """Return the part of `text` that can be JSON, without blanks and comments around, or None."""
    if "[" not in text and "{" not in text:
        return None
    before = _BEFORE.match(text)
    if before is None or _NO_JSON.match(text, before.end()):
        return None
    return text[before.end() :].rstrip(_AFTER)


def parsed_json(text: str) -> JsonObject | list[Json] | None:
    """Return the object or list that `text` is in JSON, or None.

    Raises:
        TooManyError: it is nested too deeply.
        PathError: it repeats a key: which of the two values a child sees depends on its parser.
    """
    try:
        parsed = json.loads(text, object_pairs_hook=_without_repeats, parse_int=_integer)
    except RecursionError:
        raise TooManyError from None
    except ValueError:
        return None
    return parsed if isinstance(parsed, dict | list) else None  # pyright: ignore[reportUnknownVariableType]


def _integer(digits: str) -> int | Decimal:
    # Python's `int` refuses more than 4300 digits.
    return int(digits) if len(digits) < _LONG_NUMBER else Decimal(digits)


def _without_repeats(pairs: list[tuple[str, Json]]) -> JsonObject:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise PathError("JSON in a string repeats a key")
    return members


def has_remarks(text: str) -> bool:
    """Return whether `text` may have a comment, which could contain text that looks like a key."""
    return _REMARK.search(text) is not None


def strings_in(text: str) -> Iterator[tuple[str, str]]:
    """Yield (key, string) for each string that some parser may see: the key is the last one before.

    Raises:
        TooManyError: `text` has more than `MAX_STRINGS` strings.
    """
    seen: set[tuple[str, str]] = set()
    for quotes in _QUOTES:
        key = ""
        pieces = quotes.split(text, MAX_STRINGS)
        if len(pieces) > MAX_STRINGS:
            raise TooManyError
        for piece, after in zip(pieces, [*pieces[1:], ""], strict=True):
            for string in (piece, _unescaped(piece)) if len(pieces) > 1 else ():
                if (key, string) not in seen and not _NOTHING.fullmatch(string):
                    seen.add((key, string))
                    yield key, string
            key = _key_of(piece, after) or key


def _key_of(piece: str, after: str) -> str:
    """Return the key that a piece is or ends with, or an empty string."""
    if after.lstrip()[:1] in {":", "="}:
        return _unescaped(piece[-_LONGEST_KEY:])
    bare = piece[-_LONGEST_KEY:].rstrip()
    if bare[-1:] not in {":", "="}:
        return ""
    return _unescaped(_WORD.split(bare[:-1].rstrip())[-1])


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(_character, text) if "\\" in text else text


def _character(escape: re.Match[str]) -> str:
    hexadecimal = escape[1] or escape[2] or escape[3]
    if hexadecimal or escape[4]:
        code = int(hexadecimal, 16) if hexadecimal else int(escape[4], 8)
        return chr(code) if code <= sys.maxunicode else "\ufffd"
    return _ESCAPED.get(escape[6], escape[6]) if escape[6] else ""
