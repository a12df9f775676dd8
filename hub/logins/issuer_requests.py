"""Forms that a client posts to its authorization server, and the answers (RFC 6749).

An answer has a limit in time and in size. No redirect is followed: what is in a form is secret.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Final
from urllib.parse import quote_plus

import anyio
import httpx2
import msgspec
from msgspec import Struct

from hub.logins.login import RegisteredClient

TIMEOUT: Final = 10.0
"""Seconds that an authorization server may take."""
OK: Final = 200
_MOST: Final = 64 * 1024
_LONGEST: Final = 64


class NoAnswerError(Exception):
    """The authorization server cannot be asked now. The text says what it did: `gave no answer`."""


class _Error(Struct, frozen=True):
    error: str = ""


class IssuerAnswer(Struct, frozen=True):
    """What an authorization server answered; the body may have tokens."""

    status: int
    body: bytes

    def __repr__(self) -> str:
        return f"IssuerAnswer(status={self.status})"

    @property
    def error(self) -> str:
        """The error code (RFC 6749, section 5.2), fit to be shown; empty without one."""
        try:
            found = msgspec.json.decode(self.body, type=_Error).error
        except msgspec.MsgspecError:
            return ""
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
    request = httpx2.Request("POST", url, data=whole, headers=headers)
    try:
        with anyio.fail_after(TIMEOUT):
            async with _client(http) as using:
                return await _answer(using, request)
    except TimeoutError:
        raise NoAnswerError(f"gave no answer within {TIMEOUT:g} seconds") from None
    except httpx2.HTTPError as exc:
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
    return httpx2.AsyncClient(timeout=TIMEOUT) if http is None else nullcontext(http)


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
