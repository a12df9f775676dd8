"""Whether the system would run a script: what its first line names, and how its lines end."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Final

from hub.legible import on_one_line

_SCRIPT: Final = re.compile(
    rb"#![ \t]*(?P<program>/[^ \t\n\0]+)[ \t]*(?P<split>-S)?(?P<argument>[^\n\0]*)"
)
"""What the system reads of a script's first line: a carriage return at its end is of a name."""
_FOR_ENV: Final = re.compile(r"\w[\w.+-]*\r?(?=[ \t]|$)", re.ASCII)
_TAKE_RETURNS: Final = ("perl", "ruby")
"""Programs that read over a carriage return after their options."""
_FIRST_LINE: Final = 256


def why_not_run(program: Path, path: str | None) -> str | None:
    """Return what to do about a file that the system would not run; None if it would."""
    if not os.access(program, os.X_OK):
        return f"Allow it: chmod +x {shlex.quote(str(program))}"
    gone = missing_interpreter(program, path)
    if gone is None:
        return None
    named = f"Its first line names {on_one_line(gone)}"
    if gone.endswith("\r"):
        return f"{named}, as its lines end as on Windows: {without_returns(program)}"
    if os.sep in gone:
        return f"{named}, which is not there, as after a move: install it again."
    return f"{named}, which is not on the PATH: install it."


def missing_interpreter(program: Path, path: str | None) -> str | None:
    """Return the program that a script's first line names, if it is not there; else None.

    One that `env` looks for on the `path` is returned as a name. A name ends with a
    carriage return where the line ends as on Windows; so does a program's argument, which is
    returned in its place.
    """
    try:
        with program.open("rb") as file:
            first = _SCRIPT.match(file.read(_FIRST_LINE))
    except OSError:
        return None  # it may be run though not read
    if first is None or sys.platform == "win32":
        return None
    wanted = Path(os.fsdecode(first["program"]))
    if not wanted.exists():
        return str(wanted)
    # `env -S` itself drops what is no part of a word.
    argument = os.fsdecode(first["argument"]).strip(None if first["split"] else " \t")
    word = _FOR_ENV.match(argument) if wanted.name == "env" else None
    if word is not None and shutil.which(word[0], path=path) is None:
        return word[0]
    is_read_over = wanted.name.startswith(_TAKE_RETURNS)
    return argument if argument.endswith("\r") and not is_read_over else None


def without_returns(script: Path) -> str:
    """Return the command that has the lines of a script end as scripts need it."""
    return f"""sed -i.old "s/$(printf '\\r')$//" {shlex.quote(str(script))}"""
