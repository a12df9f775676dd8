"""Shared by the subcommands: their options, what these name, loading the config, files of logs."""

from __future__ import annotations

import json
import os
import shlex
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol, cast

from hub.app.machine import Setting
from hub.audit.open_file import UnfitFileError, open_to_add
from hub.catalog.names import Names, NamesMode
from hub.config.fields import LoadContext
from hub.config.load import config_from_command, config_source, load_config
from hub.config.models import Confine, HubConfig
from hub.config.operator_roots import roots_in
from hub.config.own_files import FOUND, found_in
from hub.config.source.documents import is_inline
from hub.config.watch import Watched
from hub.errors import ConfigError, StartError
from hub.launch.known_servers import FILE_SERVER
from hub.specs import LeftOut
from hub.system.log import ThreadedLog
from hub.system.machine import Kernel
from hub.values import Json, JsonObject


class Subparsers(Protocol):
    """The object that `ArgumentParser.add_subparsers` returns."""

    def add_parser(
        self,
        name: str,
        *,
        help: str,  # noqa: A002 - argparse's name
        description: str | None = None,
    ) -> ArgumentParser:
        """Add a subcommand and return its parser."""
        ...


def load_context(digest: str | None = None, *, reads_secrets: bool = False) -> LoadContext:
    """Return the directory, home and environment of this process, for reading a config.

    With `digest` only a file with this hash is read. `reads_secrets`: the hub serves over HTTP.
    """
    environment = dict(os.environ)
    return LoadContext(Path.cwd(), str(Path.home()), environment, digest, reads_secrets)


def add_config_option(parser: ArgumentParser) -> None:
    """Add `--config` to a subcommand."""
    parser.add_argument(
        "--config", metavar="FILE", help="hub.yaml, or any mcpServers JSON (also: HUB_CONFIG)"
    )


def add_root_option(parser: ArgumentParser) -> None:
    """Add `--root` to a subcommand."""
    help_text = "a folder for clients that have no roots (repeatable; also: HUB_ROOTS)"
    parser.add_argument("--root", metavar="DIR", action="append", default=[], help=help_text)


def add_profile_option(parser: ArgumentParser) -> None:
    """Add `--as` to a subcommand."""
    help_text = "as it is for the clients of this profile, or for the token of this name"
    parser.add_argument("--as", dest="profile", metavar="PROFILE", help=help_text)


def same_config(options: Namespace) -> str:
    """Return the option that names the same config in another command; empty if none is needed.

    A config that is the text itself may be long, and have secrets: it is not repeated.
    """
    given = options.config
    if given is None:
        return ""
    return f" --config {'...' if is_inline(given) else shlex.quote(given)}"


def configured(options: Namespace) -> tuple[HubConfig, tuple[str, ...]] | None:
    """Return the config and its warnings; None if neither option nor environment names a config.

    Raises: ConfigError if the config is wrong.
    """
    source = config_source(options.config, os.environ)
    if source is None:
        return None
    loaded = load_config(source, load_context())
    return loaded.config, loaded.warnings


def config_path(options: Namespace) -> Path | None:
    """Return the path of the config file; None if there is none (no config, or inline JSON)."""
    watched = watched_config(options)
    return None if watched is None else watched.path


def watched_config(options: Namespace) -> Watched | None:
    """Return the config file with its state now, before loading; None as for `config_path`."""
    source = config_source(options.config, os.environ)
    if source is None or is_inline(source):
        return None
    return Watched.now(source, load_context())


def required_config(options: Namespace) -> tuple[HubConfig, tuple[str, ...]]:
    """Return the config and its warnings. Raises: ConfigError if it is wrong, or none is named."""
    found = configured(options)
    if found is None:
        raise no_config()
    return found


def ensure_usable(left_out: Iterable[LeftOut], server: str) -> None:
    """Raise ConfigError, with the reason, for a server that is among those left out."""
    for one in left_out:
        if one.name == server:
            raise ConfigError.of(one.faults)


def no_config() -> ConfigError:
    """Return the error that no config is named; it says so if there is one here."""
    here = f"There is one here: --config {FOUND}" if found_in(Path.cwd()) else ""
    return ConfigError(
        "", "no config", here or "Name one by --config or HUB_CONFIG, or make one: roots-hub init."
    )


def config_and_folders(options: Namespace) -> tuple[HubConfig | None, tuple[str, ...]]:
    """Return the config, and the folders that `--root` gives to clients that have no roots.

    Without a config they are what `run` and `call` serve then: without `--root` this directory.

    Raises: ConfigError if the config is wrong, or if none is named and there is one here, whose
    roots and patterns would count.
    """
    found = configured(options)
    if found is not None:
        return found[0], tuple(options.root)
    if found_in(Path.cwd()):
        raise no_config()
    return None, tuple(file_server_setting(options).given)


class LogFile:
    """Writes to a log file, and makes it anew when it was moved away, as what rotates logs does.

    One larger than `largest` bytes is moved away here; one such older file is kept.
    """

    def __init__(self, path: Path, *, largest: int | None = None) -> None:
        """Open the file; a missing one is created with mode 0600. Raises: OSError."""
        self.path = path.absolute()
        self._largest = largest
        self._has_stderr = False
        self._file = open_to_add(path)

    def write(self, text: str) -> None:
        """Add a text. Raises: OSError."""
        if self._largest is not None and self._file.tell() > self._largest:
            with suppress(FileNotFoundError):  # it was moved before, and no other could be made
                self.path.replace(self.path.with_suffix(".log.1"))
        if self._is_moved():
            with suppress(OSError):  # what stands there cannot be written to: the old one goes on
                before, self._file = self._file, open_to_add(self.path)
                before.close()
                if self._has_stderr:
                    self.take_stderr()
        self._file.write(text.encode("utf-8", "replace"))

    def _is_moved(self) -> bool:
        """Return whether the path no longer leads to the open file."""
        try:
            return not os.path.samestat(self.path.stat(), os.fstat(self._file.fileno()))
        except OSError:
            return True

    def take_stderr(self) -> None:
        """Let this process's stderr lead to the log, for what Python itself writes at a crash."""
        self._has_stderr = True
        os.dup2(self._file.fileno(), 2)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def log_to_file(path: Path) -> ThreadedLog:
    """Return what adds the lines of the log to a file.

    Raises: StartError if it cannot be opened, or is not safe to write to.
    """
    try:
        return ThreadedLog(LogFile(path).write)
    except OSError as exc:
        fix = exc.fix if isinstance(exc, UnfitFileError) else "Name a file that the hub may write."
        raise StartError(f"--log-file {path}: {exc.strerror}", fix) from exc


FILES: Final = "files"
"""What the embedded file server is called without a config."""
_MOVES: Final = 2
"""The first Landlock ABI under which files can be moved into other directories."""


def file_server_config(kernel: Kernel) -> HubConfig:
    """Return the config of a hub that was given none: the embedded file server.

    It is confined where `kernel` can. Nobody asked for that, so nothing is said where it cannot.
    """
    config = config_from_command(
        # -P: import no module from the served directory.
        [sys.executable, "-P", "-m", FILE_SERVER, "${roots}"],
        load_context(),
    )
    (server,) = config.servers.values()
    # Root may share the folders of others, too.
    where = Confine(mode="auto", allow=("any_owner",)) if kernel.abi >= _MOVES else Confine()
    files = server.model_copy(update={"confine": where})
    return config.model_copy(update={"servers": {FILES: files}})


def file_server_setting(options: Namespace) -> Setting:
    """Return the setting of the embedded file server: it reaches --root, else this directory."""
    from_environment = roots_in(os.environ)
    given = options.root or ([] if from_environment else ["."])
    return Setting(given=given, ceiling=given or from_environment)


def log_file_of(options: Namespace) -> str | None:
    """Return the option `--log-file`, which belongs to the program as a whole."""
    named = getattr(options, "log_file", None)
    return named if named is None else str(Path(named).absolute())


def chosen_profile(config: HubConfig, wanted: str | None) -> str | None:
    """Return the profile that is `wanted`, by its name or by that of a token; None without one.

    Raises: ConfigError if there is none.
    """
    if wanted is None or wanted in config.profiles:
        return wanted
    tokens = ("token", *(one.name for one in config.listen.tokens))
    if wanted in tokens:
        from hub.app.client_access import profile_rules  # noqa: PLC0415 - slow to load, seldom needed
        from hub.server.http.auth.admission import Admission  # noqa: PLC0415 - as above

        held = profile_rules(config).of(Admission(wanted))
        if held:
            return held[0]
        raise ConfigError(
            "profiles",
            f"none is for the token {wanted}: its clients are refused",
            f"Add a profile with `match: {{tokens: [{wanted}]}}`.",
        )
    known = ", ".join(config.profiles) or "none"
    raise ConfigError(f"--as {wanted}", "there is no such profile or token", f"Profiles: {known}.")


def parsed_option(options: Namespace, text: str, what: str) -> Json:
    """Return the value of JSON that the command line gives; `what` names it in the error."""
    try:
        return cast("Json", json.loads(text))
    except (ValueError, RecursionError) as exc:
        return options.usage_error(f"{what}: not JSON: {exc}")


def arguments_of(options: Namespace) -> JsonObject:
    """Return the arguments of a tool that `--arguments` gives."""
    found = parsed_option(options, options.arguments, "--arguments")
    if not isinstance(found, dict):
        options.usage_error('--arguments: not a JSON object, like \'{"path": "notes.md"}\'')
    return cast("JsonObject", found)


def named_tool(text: str, servers: Iterable[str], mode: NamesMode) -> tuple[str, str] | None:
    """Return the server and its own name of the tool that `text` names; None if it names none.

    A public name counts where the `servers` are known: `server__tool`, or the bare name if these
    servers have no prefixes and there is only one. A shortened public name (with a hash) does not
    tell the tool's own name.
    """
    names = Names(servers, mode)
    public = None if names.bare else names.split(text)
    if public is not None:
        return _complete(*public)
    dotted = [server for server in names.servers if text.startswith(f"{server}.")]
    if dotted:
        server = max(dotted, key=len)
        return _complete(server, text.removeprefix(f"{server}."))
    if names.bare and len(names.servers) == 1 and "." not in text:
        return _complete(names.servers[0], text)
    server, _, tool = text.partition(".")
    return _complete(server, tool)


def _complete(server: str, tool: str) -> tuple[str, str] | None:
    return (server, tool) if server and tool else None
