"""What no guard can promise, each with its reason. What is not listed here is promised.

A list that grows hollows the test out: add to it only what would have everyday calls refused.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, cast

from hub.values import Json
from tests.oracle.keys import ProcessTree
from tests.oracle.trees import PlantedWorld

Chain = tuple[str, ...]
"""What was done to a value, step by step."""


class Opened(NamedTuple):
    """How a value was opened: what was made of it, step by step, and what that reached."""

    value: str
    chain: Chain
    text: str
    path: str
    found: str


class Exemption(NamedTuple):
    """What is not promised, and why."""

    reason: str
    holds: Callable[[ProcessTree, Opened, PlantedWorld], bool]


_TAKEN_APART = {"assigned", "option", "scheme", "words", "lines", "relative URL"}
_SAYING_NOTHING = {"neutral", "file key", "key"}
_PROSE = 4
_OF_PROSE = {"words", "lines", "quoted", "list"}
_LISTS = {"list", "lines", "assigned", "scheme", "words", "option"}
_FINDERS = {"glob", "dash", "bash"}
_SHELLS = {"dash", "bash"}
_WILD = re.compile(r"[*?\[]")
_CLASS = re.compile(r"\[[^\]]*\]")
_BREAK_IN_JSON = re.compile(r"\\[nrt]")


def _ordinary_words(family: ProcessTree, opened: Opened, _: PlantedWorld) -> bool:
    if "/" in opened.text:
        return False
    if family in {"weak", "path"}:
        return not {"words", "lines"}.isdisjoint(opened.chain)
    is_taken_apart = ".." not in opened.text and not _TAKEN_APART.isdisjoint(opened.chain)
    return family == "key" or (family in _SAYING_NOTHING and is_taken_apart)


def _fields_in_json(_: ProcessTree, opened: Opened, __: PlantedWorld) -> bool:
    is_bare = "/" not in opened.text and ".." not in opened.text and opened.text[:1] != "~"
    return is_bare and opened.text in _fields_of(opened.value)


def _fields_of(text: str) -> set[str]:
    """Return the names of all fields of the objects that a text has as JSON."""
    try:
        found = cast("Json", json.loads(text))
    except (ValueError, RecursionError):
        return set()
    fields, left = set[str](), [found]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            fields.update(one)
            left += one.values()
        elif isinstance(one, list):
            left += one
        elif isinstance(one, str) and one is not text:
            fields |= _fields_of(one)
    return fields


def _lines_of_text(family: ProcessTree, opened: Opened, _: PlantedWorld) -> bool:
    return family in _SAYING_NOTHING and not {"lines", "words"}.isdisjoint(opened.chain)


def _prose(family: ProcessTree, opened: Opened, _: PlantedWorld) -> bool:
    # No scheme has a space behind its colon, as a sentence has.
    is_part = not _OF_PROSE.isdisjoint(opened.chain) or opened.text.startswith(" ")
    if not is_part or family not in {"weak", "path", *_SAYING_NOTHING}:
        return False
    words = _BREAK_IN_JSON.sub(" ", opened.value).split()
    plain = sum(1 for word in words if word.strip(".,:;!?\"'()[]{}<>\\").isalpha())
    if family == "path":
        return len(words) >= _PROSE or "words" in opened.chain
    return len(words) >= _PROSE and 3 * plain >= len(words)


def _json_misread(_: ProcessTree, opened: Opened, __: PlantedWorld) -> bool:
    is_raw = opened.chain[:1] == ("quoted",) and "\\" in opened.text
    is_misread = is_raw or opened.chain[:1] == ("backslashes",)
    return is_misread and opened.value.strip()[:1] in {"[", "{"}


def _coded_words(family: ProcessTree, opened: Opened, _: PlantedWorld) -> bool:
    is_bare = "/" not in opened.text and ".." not in opened.text
    return family in {"command", "args"} and is_bare and "decoded" in opened.chain


def _searches(family: ProcessTree, opened: Opened, _: PlantedWorld) -> bool:
    is_sought = _WILD.search(opened.text) is not None and _FINDERS.isdisjoint(opened.chain)
    return family == "glob" and (is_sought or not _LISTS.isdisjoint(opened.chain))


def _no_urls(family: ProcessTree, opened: Opened, _: PlantedWorld) -> bool:
    return family in {"glob", "command", "args"} and "relative URL" in opened.chain


def _separators(family: ProcessTree, opened: Opened, _: PlantedWorld) -> bool:
    is_quoted = not {"'", '"'}.isdisjoint(opened.value)
    is_word = family == "command" and opened.chain[:-1] == ("words",) and not is_quoted
    is_given = is_word or len(opened.chain) == 1
    return opened.found == "/" and not is_given and "file URI" not in opened.chain


def _found_by_a_wildcard(family: ProcessTree, opened: Opened, world: PlantedWorld) -> bool:
    """Return whether the first link inside of a root on the way is not named in the value."""
    if not _WILD.search(opened.value) or _FINDERS.isdisjoint(opened.chain):
        return False
    if family == "command" and opened.chain[0] in _SHELLS:
        return False
    place = "" if opened.path.startswith("/") else world.cwd
    for name in filter(None, opened.path.split("/")):
        if world.is_inside(os.path.realpath(place)) and Path(place, name).is_symlink():
            return name not in _CLASS.sub("[]", opened.value)
        place = f"{place}/{name}"
    return False


EXEMPTIONS = (
    Exemption(
        "a word of a text, a field of an object, or what stands behind a '=', '@' or ':', that"
        " happens to be a link's name: links called `data` or `result` are everyday things",
        _ordinary_words,
    ),
    Exemption(
        "the name of a field in JSON that is written into a string: fields are called `data` and"
        " `result`, too",
        _fields_in_json,
    ),
    Exemption(
        "a path in a text of several words or lines, under a key that says nothing: prose, YAML"
        " and messages are full of them",
        _lines_of_text,
    ),
    Exemption(
        "what stands somewhere in a text of four words or more, of which at least every third is"
        " a plain one: it is prose; and a path may have spaces in it",
        _prose,
    ),
    Exemption("nobody takes the backslashes of JSON for slashes before reading it", _json_misread),
    Exemption("shells and programs do not decode '%' in a bare word", _coded_words),
    Exemption(
        "a pattern is searched for as it is: what is in `[l]` or behind the sign of `a|b`, `k=*`"
        " and `x:*` is no file's name",
        _searches,
    ),
    Exemption("words of a command and patterns are not resolved as relative URLs", _no_urls),
    Exemption(
        "a lone slash among other signs is a separator, or the end of an alias: `@/`, `see /`",
        _separators,
    ),
    Exemption(
        "a wildcard that itself meets a link inside of a root: docs/guard.md says that no check of"
        " arguments can stop it, confinement can",
        _found_by_a_wildcard,
    ),
)


def is_promised(family: ProcessTree, opened: Opened, world: PlantedWorld) -> bool:
    """Return whether the guard has to refuse what was opened so."""
    return not any(exemption.holds(family, opened, world) for exemption in EXEMPTIONS)
