"""Gets new tokens for a refresh token (RFC 6749, section 6)."""

from __future__ import annotations

from typing import Final

import httpx2
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from hub.logins.issuer_requests import OK, NoAnswerError, posted
from hub.logins.login import Login

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
        what = f"its authorization server answered with HTTP status {answer.status}"
        raise RenewalFailedError(what)
    return _with_tokens(login, answer.body, now)


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
