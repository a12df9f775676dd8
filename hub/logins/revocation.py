"""Tells an authorization server that a login is over (RFC 7009)."""

from __future__ import annotations

import httpx2

from hub.logins.issuer_requests import OK, NoAnswerError, posted
from hub.logins.login import Login
from hub.protocol.host_names import is_private


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
