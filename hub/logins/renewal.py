"""Gets new tokens for a refresh token (RFC 6749, section 6)."""

from __future__ import annotations

import base64
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Final
from urllib.parse import quote

import anyio
import httpx2
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from hub.logins.login import Login

TIMEOUT: Final = 10.0
"""Seconds that an authorization server may take."""
_MOST: Final = 64 * 1024
_LONGEST: Final = 64
_OK: Final = 200
_REFUSED: Final = frozenset({400, 401})
_FOR_NOW: Final = frozenset({"slow_down", "temporarily_unavailable", "server_error"})
"""Errors that say nothing of the login; some servers send them with status 400."""


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


class _Error(Struct, frozen=True):
    error: str = ""


async def renewed(login: Login, now: float, http: httpx2.AsyncClient | None = None) -> Login:
    """Return the login with a new access token. It goes to the token endpoint alone.

    Raises: LoginEndedError, RenewalFailedError.
    """
    if login.refresh_token is None:
        raise LoginEndedError("there is no refresh token")
    form = {"grant_type": "refresh_token", "refresh_token": login.refresh_token}
    if login.resource is not None:
        form["resource"] = login.resource
    headers = _identified(login, form)
    status, body = await _posted(login.token_endpoint, form, headers, http)
    if status != _OK:
        error = _error_in(body)
        if status in _REFUSED and error and error not in _FOR_NOW:
            raise LoginEndedError(f"its authorization server says {error}")
        raise RenewalFailedError(f"its authorization server answered with HTTP status {status}")
    return _with_tokens(login, body, now)


def _identified(login: Login, form: dict[str, Any]) -> dict[str, str]:
    """Return the headers by which the client is known; `form` gets what belongs there."""
    if login.auth_method == "client_secret_basic" and login.client_secret is not None:
        pair = f"{quote(login.client_id, safe='')}:{quote(login.client_secret, safe='')}"
        return {"authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
    form["client_id"] = login.client_id
    if login.auth_method == "client_secret_post" and login.client_secret is not None:
        form["client_secret"] = login.client_secret
    return {}


async def _posted(
    url: str, form: dict[str, Any], headers: dict[str, str], http: httpx2.AsyncClient | None
) -> tuple[int, bytes]:
    try:
        with anyio.fail_after(TIMEOUT):
            async with _client(http) as client:
                return await _answer(
                    client, httpx2.Request("POST", url, data=form, headers=headers)
                )
    except TimeoutError:
        late = f"its authorization server gave no answer within {TIMEOUT:g} seconds"
        raise RenewalFailedError(late) from None
    except httpx2.HTTPError as exc:
        said = str(exc) or type(exc).__name__
        raise RenewalFailedError(f"its authorization server cannot be asked ({said})") from exc


def _client(http: httpx2.AsyncClient | None) -> AbstractAsyncContextManager[httpx2.AsyncClient]:
    return httpx2.AsyncClient(timeout=TIMEOUT) if http is None else nullcontext(http)


async def _answer(client: httpx2.AsyncClient, request: httpx2.Request) -> tuple[int, bytes]:
    response = await client.send(request, stream=True, follow_redirects=False)
    try:
        body = b""
        async for piece in response.aiter_bytes():
            body += piece
            if len(body) > _MOST:
                raise RenewalFailedError("its authorization server's answer is too long")
        return response.status_code, body
    finally:
        await response.aclose()


def _with_tokens(login: Login, body: bytes, now: float) -> Login:
    try:
        tokens = msgspec.json.decode(body, type=_Tokens)
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


def _error_in(body: bytes) -> str:
    """Return the error code in an answer (RFC 6749, section 5.2); empty without one."""
    try:
        found = msgspec.json.decode(body, type=_Error).error
    except msgspec.MsgspecError:
        return ""
    return found if found.isascii() and found.isprintable() and len(found) <= _LONGEST else ""
