"""No pattern of the guard takes time that doubles with each repetition of a part of a text."""

from __future__ import annotations

import importlib
import itertools
import pkgutil
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any, cast

import pytest

import hub.guard
import hub.paths

BEGINNINGS = ("", "a", "$", "${", "{", "'", "file:", "docker run -e ", "kubectl exec ", "cd ", "a=")
REPEATED = (
    *("a", "a ", "-a ", "--a=a ", "a=", "=a", "a:", ":a", "/a", "./", "..", "a,", "{a", "{a,b}"),
    *("$(a)", "$((1)) ", "${a}", "$a", "`a`", "\\a", "''", "'a'", '"a"', "%25", "1.", "\n", "a\n"),
    *("-e a ", "-v a:/b ", "sudo ", "cd a && ", "a;", "a|", "<a>", "[a]", "*"),
)
ENDS = ("", " %", "'", "\0")


def patterns() -> Iterator[re.Pattern[str]]:
    for package in (hub.guard, hub.paths):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            members = vars(importlib.import_module(found.name)).values()
            for one in members:
                if isinstance(one, re.Pattern) and isinstance(cast("Any", one).pattern, str):
                    yield cast("re.Pattern[str]", one)


SYNTAX, CODES = (cast("Any", import_module(f"re.{name}")) for name in ("_parser", "_constants"))
REPEATS = {CODES.MAX_REPEAT, CODES.MIN_REPEAT, CODES.POSSESSIVE_REPEAT}
CHARACTERS = {CODES.LITERAL, CODES.NOT_LITERAL, CODES.ANY, CODES.IN, CODES.AT, CODES.SUBPATTERN}


def can_double(pattern: re.Pattern[str]) -> bool:
    """Return whether it repeats what has a choice of its own: else there is no other way."""
    return any(
        code in REPEATS and value[1] > 1 and any(one not in CHARACTERS for one, _ in parts(value))
        for code, value in parts(SYNTAX.parse(pattern.pattern, pattern.flags))
    )


def parts(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Yield all of a pattern's syntax, with what each part holds."""
    if isinstance(tree, SYNTAX.SubPattern):
        for code, value in tree:
            yield code, value
            yield from parts(value)
    elif isinstance(tree, list | tuple):
        for one in cast("Any", tree):
            yield from parts(one)


@pytest.mark.long
@pytest.mark.usefixtures("half_a_minute")  # one that doubles takes longer than anybody waits
def test_no_patterns_time_doubles_with_each_repetition() -> None:
    all_of_them = {one.pattern: one for one in patterns()}
    texts = [
        f"{begin}{part * 40}{end}"
        for begin, part, end in itertools.product(BEGINNINGS, REPEATED, ENDS)
    ]
    for pattern in filter(can_double, all_of_them.values()):
        for text in texts:
            pattern.search(text)
    assert len(all_of_them) > 100
