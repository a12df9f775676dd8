"""One login at a server, from the terminal. Loads the SDK's client."""

from __future__ import annotations

import logging
import sys
import time
import webbrowser
from argparse import Namespace
from functools import partial

import anyio
from anyio import to_thread
from mcp.client.auth import AuthorizationCodeResult

from hub.app.machine import place_of
from hub.cli.logins.device_grant import DeviceCode, DeviceLogin
from hub.cli.logins.flow import LoginFailedError, log_in, with_granted
from hub.cli.logins.redirect import Redirect, asked_for, listening, logged_in_by
from hub.config.inheritance import Inheritance
from hub.config.models import HubConfig, RemoteServer
from hub.errors import StartError
from hub.legible import on_one_line
from hub.logins.login import Login, LoginSettings
from hub.logins.login_files import LoginFiles, unkept
from hub.secrets.reading import SecretReader
from hub.secrets.values import SecretError
from hub.system.machine import Machine
from hub.system.this_process import run_loop


def perform(
    options: Namespace, server: RemoteServer, files: LoginFiles, config: HubConfig, machine: Machine
) -> int:
    """Log in, keep what came of it, and return the exit code.

    Raises: StartError if that fails.
    """
    # The SDK logs each failure with its traceback; what failed is told here.
    logging.getLogger("mcp.client.auth").setLevel(logging.CRITICAL)
    try:
        files.prepare()
        login = run_loop(partial(_logged_in, options, server, files, config, machine))
        run_loop(files.keep, server.url, login)
    except LoginFailedError as exc:
        fix = exc.fix or f"Try again: roots-hub login {options.server}"
        raise StartError(f"servers.{options.server}: no login: {exc}", fix) from exc
    except (OSError, SecretError) as exc:
        raise unkept(options.server, exc) from exc
    print(on_one_line(f"Logged in at {options.server}, by {login.issuer}."), file=sys.stderr)
    return 0


async def _logged_in(
    options: Namespace, server: RemoteServer, files: LoginFiles, config: HubConfig, machine: Machine
) -> Login:
    secret = await _secret(options.server, server, config, machine)
    settings = _settings(server, secret, await files.find(server.url))
    if options.device:
        return await log_in(
            DeviceLogin(settings, _show, clock=time.monotonic, sleep=anyio.sleep), time.time
        )
    port = None if server.auth is None else server.auth.redirect_port
    has_browser = not (options.no_browser or options.paste)
    come_back = _pasted if options.paste else Redirect.come_back
    return await logged_in_by(listening(port), settings, partial(_open, has_browser), come_back)


def _settings(server: RemoteServer, secret: str | None, kept: Login | None) -> LoginSettings:
    auth = server.auth
    if auth is None:
        raise TypeError("the server has no auth")
    return LoginSettings(
        server.url,
        client_id=auth.client_id,
        client_secret=secret,
        client_metadata=auth.client_metadata,
        issuer=auth.issuer,
        scopes=with_granted(auth.scopes, kept),
    )


async def _secret(
    name: str, server: RemoteServer, config: HubConfig, machine: Machine
) -> str | None:
    """Return the client's secret, as it is now."""
    text = None if server.auth is None else server.auth.client_secret
    if text is None:
        return None
    place = place_of(machine, config)
    found = await SecretReader().values(
        f"servers.{name}.auth",
        {"client_secret": text},
        Inheritance(config, place).of_commands(server),
    )
    return found["client_secret"]


async def _open(has_browser: bool, url: str) -> None:
    print(f"Open this address to log in:\n  {on_one_line(url)}", file=sys.stderr, flush=True)
    if has_browser:
        await to_thread.run_sync(webbrowser.open, url)


def _show(code: DeviceCode) -> None:
    print(code.shown(), file=sys.stderr, flush=True)


async def _pasted(redirect: Redirect) -> AuthorizationCodeResult:
    return await redirect.pasted(await asked_for())
