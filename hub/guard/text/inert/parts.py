"""Ask a command line which of its parts no program opens, and leave these out."""

from __future__ import annotations

from collections.abc import Callable

from hub.guard.text.inert.lines import (
    divisions_in_lines,
    lines_that_nothing_opens,
    lines_without_a_shell,
)
from hub.guard.text.inert.signs import (
    HAS_OPERATORS,
    HAS_SCRIPTS,
    HAS_SLASHES,
    divided_sums,
    lone_slashes,
    plain_remarks,
    signs_in_scripts,
    slashes_of_operators,
)
from hub.guard.text.inert.words import HAS_TEXTS, texts_of_programs
from hub.guard.text.sure_commands import OPENS_NOTHING, CommandLine, Replacement, replaced
from hub.paths.resolve import PATH_MAX

_WAYS: tuple[tuple[Callable[[str], object], Callable[[CommandLine], list[Replacement]]], ...] = (
    (lambda text: "#" in text and text.split(None, 1)[0] in OPENS_NOTHING, plain_remarks),
    (lambda text: "<<" in text, lines_without_a_shell),
    (lambda text: "$((" in text, divided_sums),
    (HAS_SLASHES.match, lone_slashes),
    (HAS_OPERATORS.search, slashes_of_operators),
    (lambda text: "<<" in text and HAS_SLASHES.match(text), divisions_in_lines),
    (lambda text: len(text) <= PATH_MAX and HAS_SCRIPTS.search(text), signs_in_scripts),
    (lambda text: len(text) <= PATH_MAX and HAS_TEXTS.search(text), texts_of_programs),
)
"""Whether a command may have such parts, which is quick to tell, and which it has."""


def without_inert(command: str, *, posix: bool = True) -> str:
    """Return a command without the parts that no program opens, however the command is run.

    A shell may read it, or it is split at its spaces and the first program gets all words. Not each
    shell of Windows knows remarks.
    """
    line = None
    for may_have, parts_of in _WAYS if posix else _WAYS[1:]:
        if may_have(command):
            line = line or CommandLine.of(command)
            command = replaced(command, parts_of(line))
            line = line if command == line.text else None
    return command


def without_lines(command: str) -> str:
    """Return a command that a shell reads without the lines in it that no program opens."""
    return replaced(command, lines_that_nothing_opens(CommandLine.of(command)))
