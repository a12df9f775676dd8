"""Ask on the terminal for what an editor would ask its user for: `${input:KEY}`."""

from __future__ import annotations

import getpass
import os
import sys

from hub.cli.options import load_context
from hub.config.clients.sections import inputs_missing
from hub.config.source.documents import read
from hub.legible import on_one_line


def ask_for_inputs(source: str | None) -> None:
    """Ask for each input of a config that has no value, and set its variable for this process.

    Nothing is asked unless stdin and stderr are terminals, and nothing is kept.

    Raises: ConfigError if the config cannot be read.
    """
    if source is None or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    context = load_context()
    for asked in inputs_missing(read(source, context.directory), context.environment):
        said = on_one_line(asked.description or asked.id)
        print(f"{said} (${{input:{on_one_line(asked.id)}}})", file=sys.stderr)
        answer = (
            getpass.getpass(f"{asked.variable}: ") if asked.is_secret else _line(asked.variable)
        )
        if answer:
            os.environ[asked.variable] = answer


def _line(variable: str) -> str:
    print(f"{variable}: ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().rstrip("\n")
