"""`roots-hub login [SERVER]` and `roots-hub logout SERVER`."""

from __future__ import annotations

import json
import os
import time
from argparse import Namespace
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from hub.app.machine import this_machine
from hub.cli.options import Subparsers, add_config_option, ensure_usable, required_config
from hub.config.models import HubConfig, RemoteServer, StdioServer
from hub.config.own_files import state_directory
from hub.errors import ConfigError, StartError
from hub.legible import on_one_line
from hub.logins.login import Login
from hub.logins.login_files import LoginFiles, unkept
from hub.secrets.values import SecretError
from hub.system.machine import Machine


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
        return _list(config, machine, as_json=options.json)
    server = _with_login(config, options.server)
    files = _files(machine, server)
    from hub.cli.logins.logging_in import perform  # noqa: PLC0415 - loads the SDK's client

    return perform(options, server, files, config, machine)


def _list(config: HubConfig, machine: Machine, *, as_json: bool) -> int:
    rows = [
        row for name, server in _servers(config).items() for row in _rows(machine, name, server)
    ]
    if as_json:
        print(json.dumps(rows, indent=2))
        return 0
    if not rows:
        print("No server of this config has `auth`.")
    for row in rows:
        whose = "" if row["principal"] is None else f"{row['principal']}: "
        print(on_one_line(f"{row['server']}  {whose}{row['state']}"))
    return 0


def _rows(machine: Machine, name: str, server: RemoteServer) -> Iterator[dict[str, str | None]]:
    """Yield what is shown of a server: this machine's user's login, and those of principals."""
    remedy = f": roots-hub login {name}"
    own, of_principals = _read(machine, name, server)
    if own is None:
        state = f"nobody is logged in{remedy}"
        shown: dict[str, str | None] = {"state": state, **dict.fromkeys(_OF_A_LOGIN)}
    else:
        shown = _shown(own, remedy)
    yield {"server": name, "principal": None, **shown}
    for login in of_principals:
        yield {"server": name, "principal": login.owner, **_shown(login, "")}


_OF_A_LOGIN: Final = ("issuer", "scope", "expires")


def _shown(login: Login, remedy: str) -> dict[str, str | None]:
    ends = None if login.expires is None else _moment(login.expires)
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


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _logout(options: Namespace) -> int:
    config, _ = required_config(options)
    server = _with_login(config, options.server)
    from hub.cli.logins.logging_out import perform  # noqa: PLC0415 - loads the HTTP client

    files = _files(this_machine(os.environ), server, options.principal)
    return perform(options.server, server.url, files)


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
    ensure_usable(config, name)
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
