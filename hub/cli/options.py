"""What the subcommands share: the config they work on, and how errors end them."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import Protocol, TypeVar, TypeVarTuple

import anyio

from hub.config.fields import LoadContext
from hub.config.load import config_source, load_config
from hub.config.models import HubConfig
from hub.config.watch import Watched
from hub.errors import ConfigError
from hub.system.memory import keep_for_large_messages
from hub.system.this_process import hide_from_others


class Subparsers(Protocol):
    """Where subcommands are added: what `ArgumentParser.add_subparsers` returns."""

    def add_parser(
        self,
        name: str,
        *,
        help: str,  # noqa: A002 - argparse's word
        description: str | None = None,
    ) -> ArgumentParser:
        """Add a subcommand."""
        ...


def load_context() -> LoadContext:
    """Return what a config of this process is read against."""
    return LoadContext(Path.cwd(), str(Path.home()), dict(os.environ))


def add_config_option(parser: ArgumentParser) -> None:
    """Add `--config` to a subcommand."""
    parser.add_argument(
        "--config", metavar="FILE", help="hub.yaml, or any mcpServers JSON (also: HUB_CONFIG)"
    )


def add_root_option(parser: ArgumentParser) -> None:
    """Add `--root` to a subcommand."""
    help_text = "a folder for clients that have no roots (repeatable; also: HUB_ROOTS)"
    parser.add_argument("--root", metavar="DIR", action="append", default=[], help=help_text)


def configured(options: Namespace) -> tuple[HubConfig, tuple[str, ...]] | None:
    """Return the config that the options or the environment name, with its warnings.

    None if they name none.

    Raises: ConfigError.
    """
    source = config_source(options.config, os.environ)
    if source is None:
        return None
    loaded = load_config(source, load_context())
    return loaded.config, loaded.warnings


def config_path(options: Namespace) -> Path | None:
    """Return the config's file; None if it is none."""
    watched = watched_config(options)
    return None if watched is None else watched.path


def watched_config(options: Namespace) -> Watched | None:
    """Return the config's file as it looks now, before it is loaded; None if there is no file."""
    source = config_source(options.config, os.environ)
    if source is None or source.lstrip().startswith("{"):
        return None
    return Watched.now(source, load_context())


def required_config(options: Namespace) -> tuple[HubConfig, tuple[str, ...]]:
    """Return the config.

    Raises: ConfigError also if none is named.
    """
    found = configured(options)
    if found is None:
        raise ConfigError("no config", "Name one by --config or HUB_CONFIG.")
    return found


Args = TypeVarTuple("Args")
Result = TypeVar("Result")


def run_loop(main: Callable[[*Args], Awaitable[Result]], *args: *Args) -> Result:
    """Run `main` to its end on the fastest loop there is."""
    keep_for_large_messages()
    hide_from_others()
    return anyio.run(main, *args, backend_options={"use_uvloop": _has_uvloop()})


def _has_uvloop() -> bool:
    try:
        import_module("uvloop")
    except ImportError:
        return False
    return True
