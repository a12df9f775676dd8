"""Finds the id in a message that cannot be read as a whole: by how it begins, and how it ends."""

from __future__ import annotations

import re

_BEGINS = rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?'
_ASKS = re.compile(_BEGINS + rb'(?:"id"[^,]*,\s*)?"method"')
_FIRST = re.compile(_BEGINS + rb'"id"\s*:\s*(\d{1,15})\s*,')
_ANSWERS = re.compile(_FIRST.pattern + rb'\s*"(?:result|error)"')
_LAST = re.compile(rb',\s*"id"\s*:\s*(\d{1,15})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')


def id_first(text: bytes) -> int | None:
    """Return the id that a message begins with; None if it begins otherwise."""
    return _number(_FIRST.match(text))


def answer_first(text: bytes) -> int | None:
    """Return the id that an answer begins with; None if what begins is none, or does not tell."""
    return _number(_ANSWERS.match(text))


def answered_by(ends: bytes) -> int | None:
    """Return the id of the answer that these are both ends of; None if they do not tell."""
    return None if _ASKS.match(ends) else _at_either_end(ends)


def asked_by(ends: bytes) -> int | None:
    """Return the id of the request that these are both ends of; None if they do not tell."""
    return _at_either_end(ends) if _ASKS.match(ends) else None


def _at_either_end(ends: bytes) -> int | None:
    return _number(_FIRST.match(ends) or _LAST.search(ends))


def _number(found: re.Match[bytes] | None) -> int | None:
    return None if found is None else int(found[1])
