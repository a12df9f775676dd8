"""Read TOML, also with inline tables over several lines, which TOML 1.1 allows and 1.0 does not."""

from __future__ import annotations

import re
import tomllib
from typing import Any, Final

from hub.config.source.syntax import Mistake, SyntaxMistakesError

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

    Raises: SyntaxMistakesError if it is not TOML.
    """
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
