"""What a client asks of its authorization server: forms and their answers (RFC 6749).

With them a login is renewed (RFC 6749, section 6), and revoked when it is over (RFC 7009). An
answer has a limit in time and in size. No redirect is followed: what is in a form is secret.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Final, TypeVar
from urllib.parse import quote_plus

import anyio
import httpx2
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from hub.logins.login import Login, RegisteredClient
from hub.protocol.http_headers import is_private
from hub.system.connecting import web_client

StructT = TypeVar("StructT", bound=Struct)
TIMEOUT: Final = 10.0
"""Seconds that an authorization server may take."""
OK: Final = 200
_MOST: Final = 64 * 1024
_LONGEST: Final = 64


class NoAnswerError(Exception):
    """The authorization server cannot be asked now. The text says what it did: `gave no answer`."""


class _Error(Struct, frozen=True):
    error: str = ""


def read_as(kind: type[StructT], body: bytes) -> StructT:
    """Return what a JSON document says of a kind's fields; without any if it is not of the kind."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.MsgspecError:
        return kind()


class IssuerAnswer(Struct, frozen=True):
    """What an authorization server answered; the body may have tokens."""

    status: int
    body: bytes

    def __repr__(self) -> str:
        return f"IssuerAnswer(status={self.status})"

    @property
    def error(self) -> str:
        """The error code (RFC 6749, section 5.2), fit to be shown; empty without one."""
        found = read_as(_Error, self.body).error
        return found if found.isascii() and found.isprintable() and len(found) <= _LONGEST else ""


async def posted(
    url: str,
    form: Mapping[str, str],
    client: RegisteredClient,
    http: httpx2.AsyncClient | None = None,
) -> IssuerAnswer:
    """Post a form to an authorization server as its client, and return the answer.

    Raises: NoAnswerError.
    """
    headers, whole = _identified(client, form)
    try:
        request = httpx2.Request("POST", url, data=whole, headers=headers)
        with anyio.fail_after(TIMEOUT):
            async with _client(http) as using:
                return await _answer(using, request)
    except TimeoutError:
        raise NoAnswerError(f"gave no answer within {TIMEOUT:g} seconds") from None
    except (httpx2.HTTPError, httpx2.InvalidURL) as exc:
        raise NoAnswerError(f"cannot be asked ({str(exc) or type(exc).__name__})") from exc


def _identified(
    client: RegisteredClient, form: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the headers and the form by which the client is known."""
    headers = {"accept": "application/json"}
    if client.method == "client_secret_basic" and client.secret is not None:
        # RFC 6749, 2.3.1: both parts are form-encoded first.
        pair = f"{quote_plus(client.id)}:{quote_plus(client.secret)}"
        headers["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        return headers, dict(form)
    whole = {**form, "client_id": client.id}
    if client.method == "client_secret_post" and client.secret is not None:
        whole["client_secret"] = client.secret
    return headers, whole


def _client(http: httpx2.AsyncClient | None) -> AbstractAsyncContextManager[httpx2.AsyncClient]:
    if http is not None:
        return nullcontext(http)
    return web_client(TIMEOUT)


async def _answer(client: httpx2.AsyncClient, request: httpx2.Request) -> IssuerAnswer:
    response = await client.send(request, stream=True, follow_redirects=False)
    try:
        body = b""
        async for piece in response.aiter_bytes():
            body += piece
            if len(body) > _MOST:
                raise NoAnswerError("gave too long an answer")
        return IssuerAnswer(response.status_code, body)
    finally:
        await response.aclose()


_REFUSED: Final = frozenset({400, 401})
_FOR_NOW: Final = frozenset(
    {"slow_down", "temporarily_unavailable", "server_error", "invalid_client"}
)
"""Errors that say nothing of the login; some servers send them with status 400 or 401."""


class LoginEndedError(Exception):
    """The authorization server gives no tokens for this login any more; the text says why."""


class RenewalFailedError(Exception):
    """The authorization server cannot be asked now; the text says why."""


class _Tokens(Struct, frozen=True):
    access_token: str
    token_type: str = "Bearer"  # noqa: S105 - a kind
    expires_in: float | None = None
    refresh_token: str | None = None
    scope: str | None = None


async def renewed(login: Login, now: float, http: httpx2.AsyncClient | None = None) -> Login:
    """Return the login with a new access token. It goes to the token endpoint alone.

    Raises: LoginEndedError, RenewalFailedError.
    """
    if login.refresh_token is None:
        raise LoginEndedError("there is no refresh token")
    form = {"grant_type": "refresh_token", "refresh_token": login.refresh_token}
    if login.resource is not None:
        form["resource"] = login.resource
    try:
        answer = await posted(login.token_endpoint, form, login.client, http)
    except NoAnswerError as exc:
        raise RenewalFailedError(f"its authorization server {exc}") from exc
    if answer.status != OK:
        if answer.status in _REFUSED and answer.error and answer.error not in _FOR_NOW:
            raise LoginEndedError(f"its authorization server says {answer.error}")
        what = f"answered with HTTP status {answer.status}"
        raise RenewalFailedError(f"its authorization server {what} {answer.error}".rstrip())
    return _with_tokens(login, answer.body, now)


def _with_tokens(login: Login, body: bytes, now: float) -> Login:
    try:
        # Not strict: some servers write the seconds as a text.
        tokens = msgspec.json.decode(body, type=_Tokens, strict=False)
    except msgspec.MsgspecError:
        raise RenewalFailedError("its authorization server's answer cannot be read") from None
    if tokens.token_type.lower() != "bearer" or not tokens.access_token:
        raise RenewalFailedError("its authorization server gave no bearer token")
    return replace(
        login,
        access_token=tokens.access_token,
        issued=now,
        expires=None if tokens.expires_in is None else now + tokens.expires_in,
        refresh_token=tokens.refresh_token or login.refresh_token,
        scope=tokens.scope or login.scope,
    )


class NotRevokedError(Exception):
    """The authorization server was not told, or refused. The text says why, as a sentence of it."""


async def revoke(login: Login, http: httpx2.AsyncClient | None = None) -> None:
    """Have the refresh token revoked, or the access token of a login without one.

    By RFC 7009 the access tokens of a refresh token end with it where the server can do that.

    Raises: NotRevokedError.
    """
    url = login.revocation_endpoint
    if url is None:
        raise NotRevokedError("it has named no address for that")
    if not is_private(url):
        raise NotRevokedError(f"{url} does not begin with https://")
    if login.refresh_token is None:
        form = {"token": login.access_token, "token_type_hint": "access_token"}
    else:
        form = {"token": login.refresh_token, "token_type_hint": "refresh_token"}
    try:
        answer = await posted(url, form, login.client, http)
    except NoAnswerError as exc:
        raise NotRevokedError(f"it {exc}") from exc
    if answer.status != OK:
        said = f"says {answer.error}" if answer.error else f"answered with {answer.status}"
        raise NotRevokedError(f"it {said}")
