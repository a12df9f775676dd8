"""`roots-hub login [SERVER]` and `roots-hub logout SERVER`.

At a logout the authorization server is told, and the login is forgotten here in any case.
"""

from __future__ import annotations

import json
import os
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

import anyio
from msgspec import Struct

from hub.app.machine import this_machine
from hub.cli.options import (
    Subparsers,
    add_config_option,
    ensure_usable,
    required_config,
    same_config,
)
from hub.config.models import HubConfig, RemoteServer, StdioServer
from hub.config.own_files import state_directory
from hub.errors import ConfigError, StartError
from hub.legible import on_one_line
from hub.logins.login import Login
from hub.logins.login_files import LoginFiles, unkept
from hub.secrets.reading import SecretError
from hub.system.machine import Machine
from hub.system.this_process import run_loop


def register(subparsers: Subparsers) -> None:
    """Add the subcommands `login` and `logout`."""
    login = subparsers.add_parser(
        "login",
        help="log in at a remote server, or show who is logged in",
        description="Log in at a server that has `auth` in the config, in a browser. A running hub "
        "uses the login at the server's next start. Without SERVER: show all logins, those of "
        "clients over HTTP too.",
    )
    login.add_argument("server", metavar="SERVER", nargs="?", help="its name in the config")
    add_config_option(login)
    login.add_argument("--no-browser", action="store_true", help="only print the address to open")
    elsewhere = login.add_mutually_exclusive_group()
    elsewhere.add_argument(
        "--paste", action="store_true", help="for a browser elsewhere: paste the last address here"
    )
    elsewhere.add_argument(
        "--device",
        action="store_true",
        help="for a browser elsewhere: enter a code there, where the authorization server has that",
    )
    login.add_argument("--json", action="store_true", help="print JSON (without SERVER)")
    login.set_defaults(perform=_login)
    logout = subparsers.add_parser(
        "logout",
        help="end the login at a remote server",
        description="Have the authorization server revoke the login, and forget it here. It is "
        "forgotten here even if the server cannot be told.",
    )
    logout.add_argument("server", metavar="SERVER", help="its name in the config")
    add_config_option(logout)
    logout.add_argument(
        "--as",
        dest="principal",
        metavar="PRINCIPAL",
        default="",
        help="end the login of a client over HTTP, which `roots-hub login` names; default: yours",
    )
    logout.set_defaults(perform=_logout)


def _login(options: Namespace) -> int:
    config, _ = required_config(options)
    machine = this_machine(os.environ)
    if options.server is None:
        return _list(config, machine, options)
    server = _with_login(config, options.server)
    files = _files(machine, server)
    from hub.cli.command_line import lean  # noqa: PLC0415 - which imports this

    with lean():
        from hub.cli.logins.logging_in import perform  # noqa: PLC0415 - loads the SDK's client
    return perform(options, server, files, config, machine)


def _list(config: HubConfig, machine: Machine, options: Namespace) -> int:
    again = same_config(options)
    rows = [
        row
        for name, server in _servers(config).items()
        for row in _rows(machine, name, server, f": roots-hub login {name}{again}")
    ]
    if options.json:
        print(json.dumps(rows, indent=2))
        return 0
    if not rows:
        print("No server of this config has `auth`.")
    for row in rows:
        whose = "" if row["principal"] is None else f"{row['principal']}: "
        print(on_one_line(f"{row['server']}  {whose}{row['state']}"))
    return 0


def _rows(
    machine: Machine, name: str, server: RemoteServer, remedy: str
) -> Iterator[dict[str, str | None]]:
    """Yield what is shown of a server: this machine's user's login, and those of principals."""
    own, of_principals = _read(machine, name, server)
    yield {"server": name, "principal": None, **_shown(own, remedy)}
    for login in of_principals:
        yield {"server": name, "principal": login.owner, **_shown(login, "")}


def _shown(login: Login | None, remedy: str) -> dict[str, str | None]:
    if login is None:
        nothing = dict.fromkeys(("issuer", "scope", "expires"))
        return {"state": f"nobody is logged in{remedy}", **nothing}
    ends = None
    if login.expires is not None:
        ends = datetime.fromtimestamp(login.expires, UTC).strftime("%Y-%m-%d %H:%M UTC")
    if login.is_over:
        state = f"the login has ended{remedy}"
    elif login.wanted is not None:
        state = f"the server wants further rights{remedy}"
    elif login.refresh_token is not None:
        state = f"logged in by {login.issuer}"
    elif login.has_ended(time.time()):
        state = f"the login has ended{remedy}"
    else:
        state = f"logged in by {login.issuer} until {ends or 'it is refused'}"
    return {"state": state, "issuer": login.issuer, "scope": login.scope, "expires": ends}


def _logout(options: Namespace) -> int:
    config, _ = required_config(options)
    server = _with_login(config, options.server)
    files = _files(this_machine(os.environ), server, options.principal)
    return log_out(options.server, server.url, files)


def _servers(config: HubConfig) -> dict[str, RemoteServer]:
    return {
        name: server
        for name, server in config.servers.items()
        if isinstance(server, RemoteServer) and server.auth is not None
    }


def _with_login(config: HubConfig, name: str) -> RemoteServer:
    servers = _servers(config)
    if name in servers:
        return servers[name]
    ensure_usable(config.left_out, name)
    if isinstance(config.servers.get(name), StdioServer):
        fix = "It logs in by itself, or has its key in `env`."
        raise ConfigError(f"servers.{name}", "is a command: only a `url` has logins", fix)
    if name in config.servers:
        raise ConfigError(f"servers.{name}", "has no `auth`", "Add `auth: oauth` beside its `url`.")
    known = ", ".join(servers) or "none"
    raise ConfigError(f"servers.{name}", "there is no such server", f"With `auth`: {known}.")


def _files(machine: Machine, server: RemoteServer, owner: str = "") -> LoginFiles:
    """Return the logins of a principal, else of this machine's user, kept as the config says.

    Raises: StartError if there can be none.
    """
    directory = state_directory(machine)
    if directory is None:
        raise StartError("logins cannot be kept: there is no state directory", "Set HOME.")
    keep = None if server.auth is None else server.auth.keep
    return LoginFiles(directory, owner, in_keyring=keep == "keyring")


def _read(machine: Machine, name: str, server: RemoteServer) -> tuple[Login | None, list[Login]]:
    files = _files(machine, server)
    try:
        return files.read(server.url), files.of_principals(server.url)
    except (OSError, SecretError) as exc:
        raise unkept(name, exc) from exc


PATIENCE: Final = 25.0
"""Seconds for it all: a hub that renews the login holds it for up to ten, and so does a server."""
_MOST: Final = 200
"""Characters of a reason that are shown."""


class _Outcome(Struct, frozen=True):
    """What came of a logout. `issuer`: who was told; else `why_not`, if anybody was logged in."""

    issuer: str | None = None
    why_not: str | None = None


def log_out(name: str, url: str, files: LoginFiles, patience: float = PATIENCE) -> int:
    """Log out at the server `name`, say what happened, and return the exit code.

    It takes `patience` seconds at most.

    Raises: StartError if the login cannot be forgotten here.
    """
    try:
        outcome = run_loop(_logged_out, url, files, patience)
    except OSError as exc:
        raise unkept(name, exc) from exc
    whose = f"of {files.owner} " if files.owner else ""
    print(on_one_line(_said(name, whose, outcome)), file=sys.stderr)
    return 0


async def _logged_out(url: str, files: LoginFiles, patience: float) -> _Outcome:
    """Tell the server and forget the login, alone: a hub that renews it would keep it again."""
    try:
        with anyio.move_on_after(patience):
            async with files.alone(url):
                try:
                    outcome = await _revoked(url, files)
                finally:
                    was_there = files.remove(url)
                return outcome if was_there else _Outcome()
        return _Outcome(why_not=f"there was no time for it within {patience:g} seconds")
    finally:
        files.remove(url)


async def _revoked(url: str, files: LoginFiles) -> _Outcome:
    from hub.logins.issuer_requests import NotRevokedError, revoke  # noqa: PLC0415 - loads the HTTP client

    try:
        login = await files.find(url)
    except SecretError as exc:
        return _Outcome(why_not=f"the login here cannot be opened: {exc.what}")
    except OSError as exc:
        return _Outcome(why_not=f"the login here cannot be read: {exc.strerror}")
    if login is None:
        return _Outcome(why_not="the login here cannot be opened")
    try:
        await revoke(login)
    except NotRevokedError as exc:
        return _Outcome(why_not=str(exc)[:_MOST])
    return _Outcome(issuer=login.issuer)


def _said(name: str, whose: str, outcome: _Outcome) -> str:
    if outcome.issuer is not None:
        return f"The login {whose}at {name} is forgotten here, and also at {outcome.issuer}."
    if outcome.why_not is None:
        return (
            f"There was no login {whose}at {name}." if whose else f"Nobody was logged in at {name}."
        )
    return (
        f"The login {whose}at {name} is forgotten here. The authorization server could not be told "
        f"({outcome.why_not}): there it counts until it ends."
    )
