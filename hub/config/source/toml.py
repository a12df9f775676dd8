"""Read TOML, also with inline tables over several lines, which TOML 1.1 allows and 1.0 does not."""

from __future__ import annotations

import re
import tomllib
from typing import Any, Final

# What is not closed reaches to the end: else each of many would be looked for there.
TOKEN: Final = re.compile(
    r'"""(?:\\.|[^\\])*?(?:"{3,5}|\\?\Z)|\'\'\'.*?(?:\'{3,5}|\Z)'
    r'|"(?:\\.|[^"\\\n])*(?:"|(?=\n)|\\?\Z)|\'[^\'\n]*\''
    r"|#[^\n]*|[\[\]{},\n]|[^\s\[\]{},\"'#]+",
    re.DOTALL,
)
"""A text, a comment, a bracket, a comma, the end of a line, or another word."""


def read_toml(text: str) -> dict[str, Any]:
    """Return the value of a TOML text.

    Raises: tomllib.TOMLDecodeError if it is not TOML; positions are those in the text.
    """
    # Files from Windows have other ends of lines, which must keep their places.
    try:
        return _loaded(text)
    except tomllib.TOMLDecodeError:
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
        raise tomllib.TOMLDecodeError("is nested too deeply (at line 1, column 1)") from None
    except ValueError:  # more digits than Python reads
        raise tomllib.TOMLDecodeError(
            "has a number that cannot be read (at line 1, column 1)"
        ) from None


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
