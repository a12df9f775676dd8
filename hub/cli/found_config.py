"""The `hub.yaml` in the directory of `run`, which counts only if the user trusts it."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from hub.cli.options import load_context
from hub.config.load import load_config
from hub.config.models import HubConfig, StdioServer
from hub.config.trust import FOUND, TrustRecord, digest_of, found_in
from hub.errors import UsageError
from hub.legible import on_one_line
from hub.specs import shown_url

_YES = frozenset({"y", "yes"})


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
    if not (_is_terminal() and _agrees(path, digest, news)):
        raise UsageError(
            f"{path}: {news}, so nothing was started (it names commands to run)",
            f"Read it, then name it: --config {FOUND}. Without it: --no-config serves the files.",
        )
    record.add(path, digest)
    return digest


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _agrees(path: Path, digest: str, news: str) -> bool:
    config = load_config(FOUND, load_context(digest)).config
    lines = [f"{path} {news}. It starts these servers, as you:", *_servers(config)]
    question = "Trust this file as it is now, and start them? [y/N] "
    # Stdout is the protocol's.
    print(*lines, question, sep="\n", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().casefold() in _YES


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
