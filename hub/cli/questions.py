"""Questions on the terminal: may a file be written; is a `hub.yaml` trusted; an editor's inputs."""

from __future__ import annotations

import getpass
import os
import shlex
import sys
from pathlib import Path
from typing import Final

from hub.cli.options import load_context
from hub.config.clients.sections import inputs_missing
from hub.config.fields import is_unread, written_of
from hub.config.load import load_config
from hub.config.models import HubConfig, StdioServer
from hub.config.own_files import FOUND, TrustRecord, digest_of, found_in
from hub.config.source.documents import read
from hub.errors import UsageError
from hub.launch.secret_references import CommandSecret
from hub.legible import on_one_line
from hub.specs import shown_url

_YES: Final = frozenset({"y", "yes"})


def is_terminal() -> bool:
    """Return whether there is somebody to ask."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def agrees(question: str, *, is_yes: bool = False) -> bool:
    """Return whether the user wants it; `is_yes`: said already, by `--yes`.

    Raises: UsageError if there is nobody to ask.
    """
    if is_yes:
        return True
    if not is_terminal():
        what = "nothing was written, as there is no terminal to ask at"
        raise UsageError(what, "Run it again with --yes; --dry-run shows what would be written.")
    return _answer(f"{question} [y/N] ").casefold() in _YES


def answer(question: str, default: str) -> str:
    """Return what the user types, or the default for an empty line."""
    return _answer(f"{question} [{default}] ") or default


def _answer(question: str) -> str:
    # Stdout is that of the command, or of the protocol.
    print(question, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip()


def trusted_digest(record: TrustRecord) -> str | None:
    """Return the hash of the `hub.yaml` in this directory, which the user trusts; None without one.

    On a terminal the user is asked about a new or changed file, once.

    Raises:
        UsageError: the user does not trust it, or cannot be asked.
        ConfigError: it cannot be read, or is wrong.
    """
    path = found_in(Path.cwd())
    if path is None:
        return None
    digest = digest_of(path)
    if record.has(path, digest):
        return digest
    news = "has changed since you trusted it" if record.knows(path) else "was not trusted yet"
    if not (is_terminal() and _trusts(path, digest, news)):
        raise UsageError(
            f"{path}: {news}, so nothing was started (it names commands to run)",
            f"Read it, then name it: --config {FOUND}. Without it: --no-config serves the files.",
        )
    record.add(path, digest)
    return digest


def _trusts(path: Path, digest: str, news: str) -> bool:
    config = load_config(FOUND, load_context(digest)).config
    lines = [f"{path} {news}. It starts these servers, as you:", *_servers(config)]
    if commands := _commands(config):
        lines += ["It runs these commands for secrets:", *commands]
    print(*lines, sep="\n", file=sys.stderr)
    return agrees("Trust this file as it is now, and start them?")


def _commands(config: HubConfig) -> list[str]:
    """Return a line for each command that prints a secret of the config."""
    own = config.listen.secrets
    found = [f"  listen: {written_of(one)}" for one in own if is_unread(one)]
    for name, server in config.servers.items():
        references = [one for text in server.secret_texts.values() for one in text.references]
        found += [
            f"  {name}: {one.written}" for one in references if isinstance(one, CommandSecret)
        ]
    return [on_one_line(line) for line in dict.fromkeys(found)]


def _servers(config: HubConfig) -> list[str]:
    """Return a line for each server: its command as written, or its URL without secrets."""
    return [
        on_one_line(
            f"  {name}: {shlex.join((one.command, *one.args))}"
            if isinstance(one, StdioServer)
            else f"  {name}: {shown_url(one.url)}"
        )
        for name, one in config.servers.items()
    ]


def ask_for_inputs(source: str | None) -> None:
    """Ask for each input of a config that has no value, and set its variable for this process.

    Nothing is asked unless stdin and stderr are terminals, and nothing is kept.

    Raises: ConfigError if the config cannot be read.
    """
    if source is None or not is_terminal():
        return
    context = load_context()
    for asked in inputs_missing(read(source, context.directory), context.environment):
        said = on_one_line(asked.description or asked.id)
        print(f"{said} (${{input:{on_one_line(asked.id)}}})", file=sys.stderr)
        ask = getpass.getpass if asked.is_secret else _answer
        if typed := ask(f"{asked.variable}: "):
            os.environ[asked.variable] = typed
