"""Show a line of a config with the mistake in it underlined, and without secrets."""

from __future__ import annotations

import re
from typing import Final

from hub.config.source.places import Path
from hub.launch.environments import is_named_like_a_secret

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
