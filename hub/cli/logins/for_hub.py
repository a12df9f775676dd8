"""One login for a running hub, which sends its client to the page (`hub.logins.login_process`)."""

from __future__ import annotations

from hub.cli.command_line import lean

with lean():  # the SDK's client is large
    import os
    import sys
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager, nullcontext
    from functools import partial
    from pathlib import Path
    from threading import Thread

    import msgspec
    from anyio import from_thread
    from anyio.lowlevel import EventLoopToken, current_token
    from msgspec.structs import replace

    from hub.cli.logins.flow import LoginFailedError, with_granted
    from hub.cli.logins.redirect import Redirect, listening, logged_in_by
    from hub.logins.login import Login
    from hub.logins.login_files import LoginFiles
    from hub.logins.login_process import (
        CameBack,
        LoginKept,
        LoginNews,
        LoginOrder,
        LoginPage,
        LoginRefused,
    )
    from hub.secrets.reading import SecretError
    from hub.system.this_process import run_loop


def main() -> None:
    """Log in as stdin says, and print what comes of it."""
    order = msgspec.json.decode(_line(), type=LoginOrder)
    taken = _CameBackTaker()
    Thread(target=taken.watch, daemon=True).start()
    files = LoginFiles(Path(order.directory), order.owner, in_keyring=order.in_keyring)
    try:
        files.prepare()
        login = run_loop(partial(_logged_in, order, files.read(order.url), taken))
        run_loop(files.keep, order.url, login)
    except LoginFailedError as exc:
        _tell(LoginRefused(str(exc)))
    except SecretError as exc:
        _tell(LoginRefused(exc.what))
    except OSError as exc:
        _tell(LoginRefused(f"{exc.filename}: {exc.strerror}"))
    else:
        _tell(LoginKept())


def _line() -> bytes:
    """Return a line of stdin: not through the buffer, which a waiting thread would lock."""
    line = b""
    while not line.endswith(b"\n"):
        piece = os.read(sys.stdin.fileno(), 1)
        if not piece:
            os._exit(1)  # the hub has ended, however that was
        line += piece
    return line


class _CameBackTaker:
    """Takes what the browser has brought back to the hub; ends this process when the hub ends."""

    def __init__(self) -> None:
        self._take: Callable[[str], object] | None = None
        self._loop: EventLoopToken | None = None

    def give_to(self, redirect: Redirect) -> None:
        """Give it to `redirect`, in the loop that this is called in."""
        self._loop = current_token()
        self._take = redirect.take

    def watch(self) -> None:
        """Read stdin until it ends."""
        while True:
            came = msgspec.json.decode(_line(), type=CameBack)
            if self._take is not None:
                from_thread.run_sync(self._take, came.query, token=self._loop)


def _coming_back(order: LoginOrder, taken: _CameBackTaker) -> AbstractAsyncContextManager[Redirect]:
    if order.redirect is None:
        return listening(order.redirect_port)
    redirect = Redirect(order.redirect)
    taken.give_to(redirect)
    return nullcontext(redirect)


async def _logged_in(order: LoginOrder, kept: Login | None, taken: _CameBackTaker) -> Login:
    settings = replace(order, scopes=with_granted(order.scopes, kept))
    return await logged_in_by(_coming_back(order, taken), settings, _opened)


async def _opened(url: str) -> None:
    _tell(LoginPage(url))


def _tell(news: LoginNews) -> None:
    print(msgspec.json.encode(news).decode(), flush=True)


if __name__ == "__main__":
    main()
