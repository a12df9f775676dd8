"""One login from the terminal: in a browser, or with a code that is shown here (RFC 8628).

`DeviceGrant` is the grant with a code; `DeviceLogin` is the SDK's client with it.
"""

from __future__ import annotations

import logging
import sys
import time
import webbrowser
from argparse import Namespace
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from typing import Final

import anyio
import httpx2
import msgspec
from anyio import to_thread
from mcp.client.auth import AuthorizationCodeResult
from msgspec import Struct

from hub.app.machine import place_of
from hub.cli.logins.flow import (
    LoginFailedError,
    ServerLogin,
    log_in,
    must_be_protected,
    with_granted,
)
from hub.cli.logins.redirect import Redirect, asked_for, listening, logged_in_by
from hub.cli.options import same_config
from hub.config.inheritance import Inheritance
from hub.config.models import HubConfig, RemoteServer
from hub.errors import StartError
from hub.legible import on_one_line
from hub.logins.issuer_requests import OK, IssuerAnswer, NoAnswerError, posted, read_as
from hub.logins.login import Login, LoginSettings, RegisteredClient
from hub.logins.login_files import LoginFiles, unkept
from hub.protocol.http_headers import is_private
from hub.secrets.reading import SecretError, SecretReader
from hub.system.machine import Machine
from hub.system.this_process import run_loop
from hub.values import JsonObject


def perform(
    options: Namespace, server: RemoteServer, files: LoginFiles, config: HubConfig, machine: Machine
) -> int:
    """Log in, keep what came of it, and return the exit code. Raises: StartError if that fails."""
    # The SDK logs each failure with its traceback; what failed is told here.
    logging.getLogger("mcp.client.auth").setLevel(logging.CRITICAL)
    try:
        files.prepare()
        login = run_loop(partial(_logged_in, options, server, files, config, machine))
        run_loop(files.keep, server.url, login)
    except LoginFailedError as exc:
        fix = exc.fix or f"Try again: roots-hub login {options.server}{same_config(options)}"
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


GRANT: Final = "urn:ietf:params:oauth:grant-type:device_code"
SHORTEST: Final = 1.0
"""Seconds between two questions, even where a server wants none."""
LONGEST: Final = 3600.0
"""Seconds that a code is waited for, even where it counts longer."""
SLOWER: Final = 5.0
"""Seconds that `slow_down` adds, for good (RFC 8628, section 3.5)."""
_SLOWEST: Final = 60.0
_ABOUT: Final[JsonObject] = {"grant_types": [GRANT, "refresh_token"], "response_types": []}
_FOR_NOW: Final = frozenset({"temporarily_unavailable", "server_error"})
_TOO_MANY, _SERVER_ERROR = 429, 500
_MOST_IN_CODE, _MOST_IN_ADDRESS, _MOST_SAID = 64, 2048, 200

Clock = Callable[[], float]
Sleep = Callable[[float], Awaitable[None]]


class DeviceCode(Struct, frozen=True):
    """What somebody is to be shown, and the code by which the hub asks for the tokens."""

    device_code: str
    user_code: str
    verification_uri: str
    expires_in: float
    verification_uri_complete: str | None = None
    interval: float = 5.0

    def shown(self) -> str:
        """Return what to show on the terminal: no character in it is hidden or of its control."""
        lines = [
            f"Open this address on any device:\n  {on_one_line(self.verification_uri)}",
            f"Enter this code there:\n  {on_one_line(self.user_code)}",
        ]
        if self.verification_uri_complete is not None:
            whole = on_one_line(self.verification_uri_complete)
            lines.append(f"Or open this one, and compare the code:\n  {whole}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return "DeviceCode()"  # it has a secret


Show = Callable[[DeviceCode], None]


class _Description(Struct, frozen=True):
    error_description: str = ""


class DeviceGrant(Struct, frozen=True):
    """The grant at one authorization server, for one client and one resource.

    `clock` need not tell the time of day. Raises in all methods: LoginFailedError.
    """

    client: RegisteredClient
    resource: str
    clock: Clock
    sleep: Sleep
    http: httpx2.AsyncClient | None

    async def code(self, endpoint: str, scope: str | None) -> DeviceCode:
        """Return a new code from the device authorization endpoint."""
        form = {"resource": self.resource}
        if scope:
            form["scope"] = scope
        try:
            answer = await posted(endpoint, form, self.client, self.http)
        except NoAnswerError as exc:
            raise LoginFailedError(f"its authorization server {exc}") from exc
        if answer.status != OK or answer.error:
            raise LoginFailedError(f"{_refusal(answer)}{_description(answer)}")
        return _code_in(answer)

    async def tokens(self, endpoint: str, code: DeviceCode) -> bytes:
        """Return the token endpoint's answer with tokens, once somebody has entered the code."""
        form = {"grant_type": GRANT, "device_code": code.device_code, "resource": self.resource}
        lasts = min(code.expires_in, LONGEST)
        interval, ends = max(code.interval, SHORTEST), self.clock() + lasts
        while (left := ends - self.clock()) > 0:
            await self.sleep(min(interval, left))
            if self.clock() >= ends:
                break
            try:
                answer = await posted(endpoint, form, self.client, self.http)
            except NoAnswerError:
                interval = _backed_off(interval)
                continue
            if answer.status == OK and not answer.error:
                return answer.body
            interval = _interval_after(answer, interval)
        raise LoginFailedError(f"nobody has entered the code within {lasts:g} seconds")


def _interval_after(answer: IssuerAnswer, interval: float) -> float:
    """Return how long to wait after an answer without tokens.

    Raises: LoginFailedError if there will be none.
    """
    if answer.error == "authorization_pending":
        return interval
    if answer.error == "slow_down":
        return interval + SLOWER
    if answer.error == "access_denied":
        raise LoginFailedError("it was refused there")
    if answer.error == "expired_token":
        raise LoginFailedError("nobody has entered the code in time")
    if answer.error in _FOR_NOW or answer.status == _TOO_MANY or answer.status >= _SERVER_ERROR:
        return _backed_off(interval)
    raise LoginFailedError(_refusal(answer))


def _backed_off(interval: float) -> float:
    """Return a longer interval; RFC 8628 wants that where a server cannot be reached."""
    return max(interval, min(2 * interval, _SLOWEST))


def _code_in(answer: IssuerAnswer) -> DeviceCode:
    try:
        # Not strict: some servers write the seconds as texts.
        code = msgspec.json.decode(answer.body, type=DeviceCode, strict=False)
    except msgspec.MsgspecError:
        what = "its authorization server's answer has no code that can be read (RFC 8628)"
        raise LoginFailedError(what) from None
    if not code.device_code or not 0 < len(code.user_code.strip()) <= _MOST_IN_CODE:
        raise LoginFailedError("its authorization server gave no code that can be entered")
    for address in filter(None, (code.verification_uri, code.verification_uri_complete)):
        if len(address) > _MOST_IN_ADDRESS or not is_private(address):
            shown = on_one_line(address[:_MOST_SAID])
            raise LoginFailedError(f"the address to open does not begin with https://: {shown}")
    return code


def _refusal(answer: IssuerAnswer) -> str:
    said = f"says {answer.error}" if answer.error else f"answered with HTTP status {answer.status}"
    return f"its authorization server {said}"


def _description(answer: IssuerAnswer) -> str:
    said = read_as(_Description, answer.body).error_description
    return f": {on_one_line(said[:_MOST_SAID])}" if said else ""


class _Endpoint(Struct, frozen=True):
    """What the SDK does not read of an authorization server's metadata."""

    device_authorization_endpoint: str | None = None


class DeviceLogin(ServerLogin):
    """A login whose browser is on another device. It has no redirect, and so no PKCE."""

    def __init__(
        self,
        settings: LoginSettings,
        show: Show,
        *,
        clock: Clock,
        sleep: Sleep,
        http: httpx2.AsyncClient | None = None,
    ) -> None:
        super().__init__(settings, _ABOUT)
        self._show = show
        self._clock = clock
        self._sleep = sleep
        self._http = http
        self._document = b""
        self._granted: httpx2.Response | None = None

    async def _auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Run the SDK's flow, and give it the tokens that were asked for with requests of its own.

        The last document before there is metadata is what the SDK's client has made that from.
        """
        flow = super()._auth_flow(request)
        try:
            outgoing = await anext(flow)
            while True:
                if self._granted is not None and outgoing is self._granted.request:
                    response = self._granted
                else:
                    response = yield outgoing
                    if outgoing is not request and self.context.oauth_metadata is None:
                        self._document = await response.aread()
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()

    async def _perform_authorization(self) -> httpx2.Request:
        found = self._prepared()
        endpoint = read_as(_Endpoint, self._document).device_authorization_endpoint
        if endpoint is None:
            what = "its authorization server gives no codes for other devices (RFC 8628)"
            fix = "Use `--paste` in place of `--device`: a browser on any machine will do."
            raise LoginFailedError(what, fix)
        must_be_protected(endpoint)
        grant = DeviceGrant(
            self.client,
            self.context.get_resource_url(),
            clock=self._clock,
            sleep=self._sleep,
            http=self._http,
        )
        code = await grant.code(endpoint, self.context.client_metadata.scope)
        self._show(code)
        place = str(found.token_endpoint)
        tokens = await grant.tokens(place, code)
        asked = httpx2.Request("POST", place)
        self._granted = httpx2.Response(OK, content=tokens, request=asked)
        return asked
