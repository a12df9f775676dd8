"""Mistakes in the syntax of a config's text, and JSON, in which they are told.

JSON may have comments and trailing commas, but no key twice.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any, Final, NoReturn, cast

from msgspec import Struct

from hub.config.source.places import JsonPlaces
from hub.errors import ConfigError


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


def alike(one: object, other: object) -> bool:
    """Return whether two parsed values are alike, whatever the order of their keys."""
    if type(one) is not type(other) and not (isinstance(one, float) and isinstance(other, float)):
        return False
    if isinstance(one, dict):
        left, right = cast("dict[str, Any]", one), cast("dict[str, Any]", other)
        return left.keys() == right.keys() and all(alike(left[key], right[key]) for key in left)
    if isinstance(one, list):
        ones, others = cast("list[Any]", one), cast("list[Any]", other)
        return len(ones) == len(others) and all(map(alike, ones, others))
    return repr(one) == repr(other)


# What is not closed reaches to the end: else each of many would be looked for there.
_EXTRAS: Final = re.compile(
    r'"(?:\\.|[^"\\])*(?:"|\\?\Z)|//[^\n]*|/\*(?:.*?\*/|(?P<unclosed>.*))|,(?=\s*[}\]])',
    re.DOTALL,
)
_WORDS: Final = {"True": "true", "False": "false", "None": "null", "yes": "true", "no": "false"}


class WrittenFloat(float):
    """A number that knows how it was written: `1.10`."""

    written: str


def as_text(value: object) -> object:
    """Return a number or a boolean as it was written, for a place where a text belongs."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return getattr(value, "written", None) or str(value)
    return value


def read_json(text: str) -> object:
    """Return the value of a JSON text.

    Raises: SyntaxMistakesError if it is not JSON or has a key twice.
    """
    with suppress(ValueError, RecursionError):
        return _decoded(text)  # without comments, which take long to find
    plain = without_extras(text)
    if not plain.strip():
        return None
    start = len(plain) - len(plain.lstrip())
    if plain[start] not in "{[":
        fix = "Name a YAML file .yaml; JSON begins with { and ends with }."
        raise SyntaxMistakesError(Mistake("does not begin with {", fix, start))
    try:
        return _decoded(plain)
    except _TwiceError:
        mistakes = (twice(key, at) for key, at in JsonPlaces(plain).twice)
        raise SyntaxMistakesError(*mistakes) from None
    except (ValueError, RecursionError) as error:
        raise SyntaxMistakesError(_told(plain, error)) from None


class _TwiceError(ValueError):
    """A mapping has a key twice."""


def _decoded(text: str) -> object:
    return json.loads(
        text, object_pairs_hook=_unique, parse_float=_written, parse_constant=_no_number
    )


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise _TwiceError
    return made


def _told(text: str, error: ValueError | RecursionError) -> Mistake:
    if isinstance(error, json.JSONDecodeError):
        return _mistake(text, error.msg, error.pos)
    if isinstance(error, RecursionError):
        return Mistake("is nested too deeply", "Take brackets out.", 0)
    # A number with too many digits, or NaN.
    at = text.find(str(error)) if str(error) in {"NaN", "Infinity", "-Infinity"} else 0
    return Mistake("has a number that cannot be read", "Put it in quotes.", max(at, 0))


def without_extras(text: str) -> str:
    """Return the text with spaces in the place of comments and trailing commas."""
    for _ in ("comments", "the commas that came before them"):
        text = _EXTRAS.sub(_blanked, text)
    return text


def _blanked(found: re.Match[str]) -> str:
    text = found[0]
    is_kept = text.startswith('"') or found["unclosed"] is not None
    return text if is_kept else re.sub(r"[^\n]", " ", text)


def _written(text: str) -> WrittenFloat:
    number = WrittenFloat(text)
    number.written = text
    return number


def _no_number(text: str) -> NoReturn:
    raise ValueError(text)


def _mistake(text: str, message: str, at: int) -> Mistake:
    rest = text[at:].lstrip()
    word = re.match(r"[\w.-]*", rest)
    said = word[0] if word else ""
    if message.startswith("Extra data"):
        return Mistake("there is text after the config's last bracket", "Take it out.", at)
    if not rest:
        fix = "Close every `{` and `[`."
        return Mistake("the text ends too early", fix, len(text.rstrip()))
    if rest.startswith(("'", "\u201c", "\u201d")):
        return Mistake("a text has the wrong quotes", 'Write double quotes: "...".', at)
    if "escape" in message:
        return Mistake("a `\\` begins an escape that does not exist", r"Write each \ twice.", at)
    if message.startswith(("Unterminated", "Invalid control")):
        return Mistake("a quote is not closed on its line", 'Close it with ".', _quote(text, at))
    return _expected(text, message, at, said)


def _expected(text: str, message: str, at: int, said: str) -> Mistake:
    before = len(text[:at].rstrip())
    if "','" in message:
        if text[at : at + 1] == ":":
            return Mistake("a `:` is not expected here", "Write lists as [...].", at)
        return Mistake("a comma is missing", "Put a comma here.", before)
    if "':'" in message:
        return Mistake("a `:` is missing after the key", 'Write "key": value.', before)
    if "property name" in message:
        fix = f'Write "{said}".' if said else "Take what is here out."
        return Mistake("a key in double quotes is expected", fix, at)
    if said in _WORDS:
        return Mistake(f"JSON has no word `{said}`", f"Write {_WORDS[said]}.", at)
    fix = "Put the text in double quotes." if said else "Write a value, or take the key out."
    return Mistake("a value is expected", fix, at)


def _quote(text: str, at: int) -> int:
    """Return where the text begins whose closing quote is missing at or after `at`."""
    if text[at : at + 1] == '"':
        return at
    start = text.rfind('"', 0, at)
    return at if start < 0 else start
