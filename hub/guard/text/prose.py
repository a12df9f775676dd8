"""Tell prose, YAML and code from paths and lists of file names."""

from __future__ import annotations

import re

_PLAIN_WORD = re.compile(
    r"[-\u2013\u2014]++|(?![<>]\()[(\"'\[*_<>#]*+"
    r"(?:[^\W\d_]++(?:['\u2019-][^\W\d_]++)*|\d++(?:[.,:]\d++)*)?"
    r"[.,:;!?)\"'\]*_>-]*+"
)
_YAML_KEY = re.compile(r"^\s*(?:- +)*[\"']?[\w./$-][\w./ $-]*[\"']?\s*:(?:\s|$)", re.MULTILINE)
_YAML_LINE = re.compile(r"\s|[\"']?[\w.$-][\w./ $-]*[\"']?\s*:(?:\s|$)|- |#|---")
_SIGIL = re.compile(r"\s*(?:[/\\~.]|-\S|[A-Za-z]:[\\/]|[a-z][\w+.-]*+:(?:\.\.?/|~/|/\w))")
"""How a path or an option starts, also behind a scheme: `concat:../the name of it`."""
_PATHS = re.compile(r"\s*(?:\.[/\\]|~|/\w|[A-Za-z]:[\\/])|(?:.*\s)?\.\.[/\\]")
"""A line that starts with a path, or has one that climbs."""
_CODE = re.compile(
    r"\A\s*(?://|#!|# |/\*|<!--|<\?|```)"
    r"|^(?:@@|\+\+\+ |diff --git )",
    re.MULTILINE,
)
"""The start of a comment, a script, a document or a patch."""
_MARKUP = re.compile(r"\s*<(?:!doctype |[a-z](?:[\w:-]*\w)?\s+[\w:][\w:-]*\s*=)", re.IGNORECASE)
_SETTINGS = re.compile(
    r"\s*\w[\w ]{0,30}=(?:\{[^{}]*\}|[^\s;={}][^;={}]*);\s*\w[\w ]{0,30}=[^\s=]", re.ASCII
)
"""The start of a database's settings: `Driver={The name of it};DBQ=../x`."""
_EQUALS = re.compile(r"[ \t]*=[ \t]*")
_ENOUGH = 4
_PER_PLAIN_WORD = 3
"""In prose at least one of so many words is a plain word; in a list of names fewer are."""
_READ = 4096


def is_prose(text: str) -> bool:
    """Return whether `text` is sentences, code, markup or YAML, not a path or a list of paths.

    A single line that starts like a path or an option is no prose, nor are settings. Only the first
    4096 characters are read.
    """
    text = text[:_READ]
    if _MARKUP.match(text):
        return True
    if _SETTINGS.match(text):
        return False
    if "\n" in text.strip():
        return is_yaml(text) or _is_code(text) or _is_worded(text, _ENOUGH)
    return not _SIGIL.match(text) and _is_worded(text, _ENOUGH)


def is_list_of_words(text: str) -> bool:
    """Return whether most words in `text` look like file names, not like plain words."""
    words = _words(text[:_READ])
    return len(words) > 1 and _PER_PLAIN_WORD * _plain(words) < len(words)


def is_yaml(text: str) -> bool:
    """Return whether `text` has several lines, all look like YAML, and at least half have a key."""
    lines = [line for line in text.splitlines() if line.strip()]
    keys = len(_YAML_KEY.findall(text))
    return len(lines) > 1 and 2 * keys >= len(lines) and all(map(_YAML_LINE.match, lines))


def _is_code(text: str) -> bool:
    """Return whether `text` looks like code or a patch, or most of its lines have several words.

    `key = value` counts as one word, and a line with paths as a list. Lines of file names are none.
    """
    lines = [line for line in _EQUALS.sub("=", text).splitlines() if line.strip()]
    worded = sum(1 for line in lines if len(line.split(None, 1)) > 1 and not _PATHS.match(line))
    if worded > 1 and 2 * worded > len(lines) and not is_list_of_words(text):
        return True
    return _CODE.search(text) is not None


def _is_worded(text: str, least: int) -> bool:
    words = _words(text)
    return len(words) >= least and _PER_PLAIN_WORD * _plain(words) >= len(words)


def _words(text: str) -> list[str]:
    return [word for word in text.split() if any(map(str.isalnum, word))]


def _plain(words: list[str]) -> int:
    return sum(1 for word in words if _PLAIN_WORD.fullmatch(word))
