"""One login for a running hub, which sends its client to the page (`hub.logins.login_process`)."""

from __future__ import annotations

import os
import sys
import time
from functools import partial
from pathlib import Path
from threading import Thread

import msgspec

from hub.cli.logins.flow import BrowserLogin, LoginFailedError, LoginWish, log_in
from hub.cli.logins.logging_in import with_granted
from hub.cli.logins.redirect import listening
from hub.cli.options import run_loop
from hub.logins.login import Login
from hub.logins.login_files import LoginFiles
from hub.logins.login_process import LoginKept, LoginNews, LoginOrder, LoginPage, LoginRefused
from hub.secrets.values import SecretError


def main() -> None:
    """Log in as stdin says, and print what comes of it."""
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=LoginOrder)
    Thread(target=_end_with_the_hub, daemon=True).start()
    files = LoginFiles(Path(order.directory), in_keyring=order.in_keyring)
    try:
        files.prepare()
        login = run_loop(partial(_logged_in, order, files.read(order.url)))
        files.write(order.url, login)
    except LoginFailedError as exc:
        _tell(LoginRefused(str(exc)))
    except SecretError as exc:
        _tell(LoginRefused(exc.what))
    except OSError as exc:
        _tell(LoginRefused(f"{exc.filename}: {exc.strerror}"))
    else:
        _tell(LoginKept())


def _end_with_the_hub() -> None:
    """End this process when the hub does, however that ends."""
    os.read(sys.stdin.fileno(), 1)  # not through the buffer, which this would lock until then
    os._exit(1)


async def _logged_in(order: LoginOrder, kept: Login | None) -> Login:
    outcome: Login | LoginFailedError
    async with listening(order.redirect_port) as redirect:
        wish = LoginWish(
            order.url,
            redirect=redirect.url,
            client_id=order.client_id,
            client_secret=order.client_secret,
            client_metadata=order.client_metadata,
            issuer=order.issuer,
            scopes=with_granted(order.scopes, kept),
        )
        try:
            outcome = await log_in(BrowserLogin(wish, _opened, redirect.come_back), time.time)
        except LoginFailedError as exc:  # not to be wrapped by the tasks that listen
            outcome = exc
    if isinstance(outcome, LoginFailedError):
        raise outcome
    return outcome


async def _opened(url: str) -> None:
    _tell(LoginPage(url))


def _tell(news: LoginNews) -> None:
    print(msgspec.json.encode(news).decode(), flush=True)


if __name__ == "__main__":
    main()
