"""Where the browser comes back to after a login: a port of this machine, or the keyboard."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Final
from urllib.parse import parse_qs, urlsplit

import anyio
from anyio import to_thread
from anyio.abc import SocketAttribute, SocketStream
from mcp.client.auth import AuthorizationCodeResult
from msgspec.structs import replace

from hub.cli.logins.flow import BrowserLogin, LoginFailedError, OpenPage, RefusedLoginError, log_in
from hub.logins.login import Login, LoginSettings

PATH: Final = "/callback"
PATIENCE: Final = 300.0
"""Seconds for the person at the browser."""
_MOST: Final = 16 * 1024
_SLOW: Final = 10.0
_PAGE: Final = "<!doctype html><title>roots-hub</title><p>{}"


class Redirect:
    """Waits for one answer of an authorization server (RFC 8252, section 7.3)."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._state: str | None = None
        self._answer: AuthorizationCodeResult | RefusedLoginError | None = None
        self._came = anyio.Event()

    def expect(self, address: str) -> None:
        """Take only the answer to the login that begins at this address: it has its state."""
        (self._state,) = parse_qs(urlsplit(address).query)["state"]

    async def come_back(self) -> AuthorizationCodeResult:
        """Return the answer.

        Raises: LoginFailedError if the server refused, or none has come in time.
        """
        with anyio.move_on_after(PATIENCE):
            await self._came.wait()
        if self._answer is None:
            raise LoginFailedError(f"nobody has logged in within {PATIENCE:g} seconds")
        if isinstance(self._answer, RefusedLoginError):
            raise self._answer
        return self._answer

    def take(self, query: str) -> str:
        """Take the query of an address that the browser was sent to; return what to show there."""
        if self._came.is_set():
            return "This login is over."
        found = {name: values[0] for name, values in parse_qs(query).items() if len(values) == 1}
        answer = _answer_in(found)
        if answer is None or self._state not in {None, found.get("state")}:
            return "This is no answer to the login."
        self._answer = answer
        self._came.set()
        # Whether the code is worth a login only its exchange for tokens will tell.
        done = "The answer has come, and roots-hub goes on with it. You can close this page."
        return done if isinstance(answer, AuthorizationCodeResult) else "The login failed."

    async def pasted(self, url: str) -> AuthorizationCodeResult:
        """Return the answer in an address that a person copied from the browser."""
        self.take(urlsplit(url.strip()).query)
        if not self._came.is_set():
            raise LoginFailedError("this is no address with an answer to the login")
        return await self.come_back()


def _answer_in(found: Mapping[str, str]) -> AuthorizationCodeResult | RefusedLoginError | None:
    iss = found.get("iss")
    if "error" in found:
        text = " ".join(f"{found['error']} {found.get('error_description', '')}".split())
        return RefusedLoginError(f"the authorization server says {text[:200]}", iss)
    code = found.get("code")
    if code is None:
        return None
    return AuthorizationCodeResult(code=code, state=found.get("state"), iss=iss)


@asynccontextmanager
async def listening(port: int | None) -> AsyncGenerator[Redirect]:
    """Serve the address that the browser is sent back to, on loopback alone.

    Raises: LoginFailedError if another program has the port.
    """
    try:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port or 0)
    except OSError as exc:
        what = f"127.0.0.1:{port or 0}, where the browser comes back to: {exc.strerror}"
        raise LoginFailedError(what, "Free the port, or choose another `redirect_port`.") from exc
    async with listener as one:
        bound = one.extra(SocketAttribute.local_port)  # noqa: S610 - not of Django
        redirect = Redirect(f"http://127.0.0.1:{bound}{PATH}")
        async with anyio.create_task_group() as tasks:

            async def serve(stream: SocketStream) -> None:
                with anyio.move_on_after(_SLOW):
                    async with stream:
                        await _serve(redirect, stream)

            tasks.start_soon(one.serve, serve)
            yield redirect
            tasks.cancel_scope.cancel()


async def logged_in_by(
    place: AbstractAsyncContextManager[Redirect],
    settings: LoginSettings,
    open_page: OpenPage,
    come_back: Callable[[Redirect], Awaitable[AuthorizationCodeResult]] = Redirect.come_back,
) -> Login:
    """Log in by a browser that comes back to `place`. Raises: LoginFailedError."""
    outcome: Login | LoginFailedError
    async with place as redirect:
        there = replace(settings, redirect=redirect.url)

        async def open_there(url: str) -> None:
            redirect.expect(url)
            await open_page(url)

        flow = BrowserLogin(there, open_there, partial(come_back, redirect))
        try:
            outcome = await log_in(flow, time.time)
        except LoginFailedError as exc:  # not to be wrapped by the tasks that listen
            outcome = exc
    if isinstance(outcome, LoginFailedError):
        raise outcome
    return outcome


async def _serve(redirect: Redirect, stream: SocketStream) -> None:
    head = b""
    while b"\r\n\r\n" not in head and len(head) < _MOST:
        try:
            head += await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return
    method, _, rest = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
    target = urlsplit(rest.partition(" ")[0])
    if method != "GET" or target.path != PATH:
        await stream.send(_response("404 Not Found", "There is nothing here."))
        return
    await stream.send(_response("200 OK", redirect.take(target.query)))


def _response(status: str, text: str) -> bytes:
    body = _PAGE.format(text).encode()
    head = (
        f"HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\n"
        f"content-length: {len(body)}\r\ncache-control: no-store\r\n"
        "referrer-policy: no-referrer\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body


async def asked_for() -> str:
    """Ask on the terminal for the address that the browser shows at the end.

    Raises: LoginFailedError if there is no answer.
    """
    print(
        "At the end the browser shows an address of 127.0.0.1 that it cannot open. Paste it here:",
        file=sys.stderr,
        flush=True,
    )
    line = await to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
    if not line.strip():
        raise LoginFailedError("no address was given")
    return line
