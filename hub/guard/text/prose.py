"""Tells text that a person reads from a list of names: words, YAML, code."""

from __future__ import annotations

import re

_PLAIN_WORD = re.compile(
    r"[-\u2013\u2014]++|[(\"'\[*_<>#]*+(?:[^\W\d_]++(?:['\u2019-][^\W\d_]++)*+|\d++(?:[.,:]\d++)*+)?"
    r"[.,:;!?)\"'\]*_>-]*+"
)
_YAML_KEY = re.compile(r"^\s*(?:- +)*[\"']?[\w./$-][\w./ $-]*[\"']?\s*:(?:\s|$)", re.MULTILINE)
_YAML_LINE = re.compile(r"\s|[\"']?[\w.$-][\w./ $-]*[\"']?\s*:(?:\s|$)|- |#|---")
_SIGIL = re.compile(r"\s*(?:[/\\~.]|-\S|[A-Za-z]:[\\/])")
_CODE = re.compile(
    r"\A\s*(?://|#!|# |/\*|<!--|<\?|```)"
    r"|^(?:@@|\+\+\+ |diff --git )",
    re.MULTILINE,
)
"""How a remark, a document or a patch starts."""
_MARKUP = re.compile(r"\s*<(?:!doctype |[a-z][\w:-]*\s+[\w:-]+\s*=)", re.IGNORECASE)
_EQUALS = re.compile(r"[ \t]*=[ \t]*")
_ENOUGH = 4
_PER_PLAIN_WORD = 3
"""A text has at most so many words for each one that is a plain word; a list has more."""
_READ = 4096


def is_prose(text: str) -> bool:
    """Return whether `text` reads as sentences, code or YAML, not as a path or a list of paths.

    A single line that starts as a path does, or as an option, is none.
    """
    text = text[:_READ]
    if _MARKUP.match(text):
        return True
    if "\n" in text.strip():
        return is_yaml(text) or _is_code(text) or _is_worded(text, _ENOUGH)
    return not _SIGIL.match(text) and _is_worded(text, _ENOUGH)


def is_list_of_words(text: str) -> bool:
    """Return whether most of the words in `text` look like names of files, not like words."""
    words = _words(text[:_READ])
    return len(words) > 1 and _PER_PLAIN_WORD * _plain(words) < len(words)


def is_yaml(text: str) -> bool:
    """Return whether `text` has several lines, and each is one of YAML: most have a key."""
    lines = [line for line in text.splitlines() if line.strip()]
    keys = len(_YAML_KEY.findall(text))
    return len(lines) > 1 and 2 * keys >= len(lines) and all(map(_YAML_LINE.match, lines))


def _is_code(text: str) -> bool:
    """Return whether most lines have several words; `key = value` is one."""
    lines = [line for line in _EQUALS.sub("=", text).splitlines() if line.strip()]
    worded = sum(1 for line in lines if len(line.split(None, 1)) > 1)
    return _CODE.search(text) is not None or (worded > 1 and 2 * worded > len(lines))


def _is_worded(text: str, least: int) -> bool:
    words = _words(text)
    return len(words) >= least and _PER_PLAIN_WORD * _plain(words) >= len(words)


def _words(text: str) -> list[str]:
    return [word for word in text.split() if any(map(str.isalnum, word))]


def _plain(words: list[str]) -> int:
    return sum(1 for word in words if _PLAIN_WORD.fullmatch(word))
