"""The shell completions and the manual page, made from the parser of the command line.

`make completions` writes them; `make dist` fails if they are not those of the parser. They are kept
in the repository, because what installs the hub from a checkout has no tool to make them.
"""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import command_line_hash
import shtab
from argparse_manpage.manpage import Manpage

from hub import __version__
from hub.cli.command_line import parser
from hub.config.clients.locations import CLIENTS

HERE = Path(__file__).parent
COMPLETIONS = {
    "bash": HERE / "completions/roots-hub",
    "zsh": HERE / "completions/_roots-hub",
    "fish": HERE / "completions/roots-hub.fish",
}
MANUAL = HERE / "man/roots-hub.1"
COMPLETED = {"FILE": shtab.FILE, "DIR": shtab.DIRECTORY}
"""What completes a value, by its name in the help."""
COLUMNS = "100"


def made() -> Iterator[tuple[Path, str]]:
    """Yield each file and its text."""
    for shell, file in COMPLETIONS.items():
        top = parser()
        _complete_files(top)
        yield file, f"{shtab.complete(top, shell).rstrip()}\n"
    yield MANUAL, _manual()
    yield command_line_hash.FILE, command_line_hash.hash_now()


def _complete_files(command: ArgumentParser) -> None:
    for action in command._actions:
        if action.metavar in COMPLETED:
            action.complete = COMPLETED[action.metavar]  # type: ignore[attr-defined] - read by shtab
        if action.metavar == "CLIENT":
            action.choices = CLIENTS
        choices: Any = action.choices
        if isinstance(choices, dict):
            for below in choices.values():
                _complete_files(below)


def _manual() -> str:
    os.environ["COLUMNS"] = COLUMNS
    os.environ["SOURCE_DATE_EPOCH"] = "0"  # a date would change the page at each release
    manual = Manpage(
        parser(),
        _data={
            "project_name": "roots-hub",
            "version": __version__,
            "manual_title": "roots-hub manual",
            "description": "one MCP endpoint in front of many MCP servers",
        },
    )
    lines = str(manual).splitlines()
    lines[0] = f'.TH ROOTS\\-HUB "1" "" "roots\\-hub {__version__}" "roots\\-hub manual"'
    return "\n".join(line.rstrip() for line in lines) + "\n"


def main(words: list[str]) -> int:
    """Write the files, or say which is not up to date."""
    code = 0
    for file, text in made():
        # Versions of Python break lines at different words.
        if file.is_file() and file.read_text(encoding="utf-8").split() == text.split():
            continue
        if words == ["--write"]:
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
            print(f"{file.relative_to(HERE.parent)}: written")
        else:
            print(
                f"{file.relative_to(HERE.parent)} is not up to date: make completions",
                file=sys.stderr,
            )
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
