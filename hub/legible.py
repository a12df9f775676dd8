r"""Escape invisible and control characters in text from servers and clients.

Terminal control codes, characters that reverse the text direction and invisible characters are
written as escapes such as `\x1b` or `\u202e`. So a model reads nothing that a person cannot see.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import cast

import msgspec

from hub.values import Json, JsonObject

_JOINERS = "\u200c\u200d"
"""Joiners. Emoji and many scripts need them in a word: kept after a non-ASCII character."""
_SELECTORS = "\ufe00-\ufe0f"
"""Variation selectors choose how the character before them looks. A second one could hide data."""
_NEVER_SEEN = (
    "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b"
    "\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff\ud800-\udfff"
)
_HIDDEN = re.compile(
    rf"[{_NEVER_SEEN}]|\r(?!\n)|(?:(?<=[\x00-\x7f])|(?<![\s\S]))[{_JOINERS}]"
    rf"|(?<=[{_JOINERS}])[{_JOINERS}]|(?<=[{_SELECTORS}{_NEVER_SEEN}])[{_SELECTORS}]"
    rf"|(?<![\s\S])[{_SELECTORS}]"
)
_HIDDEN_IN_ASCII = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\n)")
_MAY_HIDE = re.compile(rb"\\[^n\"t]|\x7f")
"""In ASCII JSON: the spelling of a control character, or of a backslash before a letter."""
_TEXTS = frozenset({"title", "description"})
_VALUES = frozenset({"default", "const", "enum", "examples", "example"})
"""Schema keys whose values are argument values of a call: these are never changed."""
_SCHEMAS_BY_NAME = frozenset(
    {"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"}
)
"""Schema keys whose values have schemas by names, which a server chooses: `default` is one, too."""


def legible(text: str) -> str:
    """Return `text` with hidden characters escaped. Line breaks are kept."""
    if text.isascii():
        return text if text.isprintable() else _HIDDEN_IN_ASCII.sub(_spelled, text)
    return _HIDDEN.sub(_spelled, text)


def on_one_line(text: str) -> str:
    """Return `text` with hidden characters escaped, and line breaks too."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if char.isprintable() else _written(char) for char in legible(text))


def shortened(text: str, most: int) -> str:
    """Return `text`, or its first `most` characters and the number of those left out."""
    left = len(text) - most
    return text if left <= 0 else f"{text[:most]}... ({left:,} characters left out)"


def legible_entry(entry: Mapping[str, Json]) -> JsonObject:
    """Return a listed tool, prompt or resource with titles and descriptions escaped.

    Includes those inside its schemas. Returns the same object if nothing was hidden. Names are not
    changed: the caller handles them.
    """
    return cast("JsonObject", entry if _is_plain(entry) else _walked_object(entry))


def _is_plain(entry: Mapping[str, Json]) -> bool:
    """Return whether nothing in an entry can be hidden: to walk through it takes far longer."""
    try:
        text = msgspec.json.encode(entry)
    except (ValueError, TypeError, RecursionError):
        return False
    return text.isascii() and _MAY_HIDE.search(text) is None


def _walked(value: Json) -> Json:
    if isinstance(value, dict):
        return _walked_object(value)
    if isinstance(value, list):
        items = [_walked(item) for item in value]
        return (
            items if any(new is not old for new, old in zip(items, value, strict=True)) else value
        )
    return value


def _walked_object(entry: Mapping[str, Json]) -> Json:
    changed: JsonObject = {}
    for key, value in entry.items():
        if isinstance(value, str):
            new: Json = legible(value) if key in _TEXTS else value
        elif key in _SCHEMAS_BY_NAME and isinstance(value, dict):
            new = _walked_schemas(value)
        else:
            new = value if key in _VALUES else _walked(value)
        if new is not value and new != value:
            changed[key] = new
    return {**entry, **changed} if changed else cast("JsonObject", entry)


def _walked_schemas(schemas: JsonObject) -> Json:
    walked = {name: _walked(schema) for name, schema in schemas.items()}
    return walked if any(walked[name] is not schemas[name] for name in schemas) else schemas


def _spelled(found: re.Match[str]) -> str:
    return _written(found[0])


def _written(char: str) -> str:
    return char.encode("unicode_escape").decode()
