"""Tell by a hash if completions and manual page are those of the command line.

The tests use it: they have no tool that makes these files.
`python packaging/command_line_hash.py` ends with 1 if they are of another command line.
"""

from __future__ import annotations

import hashlib
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hub import __version__
from hub.cli.command_line import parser

FILE = Path(__file__).parent / "completions/command-line.sha256"
"""The hash of the command line that the files were made from."""


def hash_now() -> str:
    """Return the hash of all commands and options as they are now, and of the version."""
    said = "\n".join([__version__, *_described(parser())])
    return hashlib.sha256(said.encode()).hexdigest() + "\n"


def _described(command: ArgumentParser) -> Iterator[str]:
    yield f"{command.prog}: {command.description}"
    for action in command._actions:  # argparse has no other way
        choices: Any = action.choices
        commands: dict[str, ArgumentParser] = choices if isinstance(choices, dict) else {}
        values = list(choices or ())
        yield f"{action.option_strings} {action.metavar} {action.nargs} {values} {action.help}"
        for below in commands.values():
            yield from _described(below)


if __name__ == "__main__":
    if FILE.read_text() != hash_now():
        sys.exit(
            "packaging/completions, packaging/man are of another command line: make completions"
        )
