from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

import anyio
import httpcore2
import httpx2
import pytest
from msgspec.structs import replace

from hub.logins.issuer_requests import LoginEndedError, RenewalFailedError, renewed
from hub.system.connecting import trusted
from tests.kit.loops import virtual_time
from tests.logins.test_login_files import LOGIN

NEW: dict[str, Any] = {"access_token": "new", "token_type": "Bearer", "expires_in": 60}


class ScriptedIssuer:
    """An authorization server that answers with one status and body; it keeps what was asked."""

    def __init__(self, status: int = 200, body: Any = NEW) -> None:
        self.requests: list[httpx2.Request] = []
        self._status, self._body = status, body

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        content = self._body if isinstance(self._body, bytes) else json.dumps(self._body).encode()
        return httpx2.Response(self._status, content=content)

    def client(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=httpx2.MockTransport(self.answer))

    @property
    def form(self) -> dict[str, str]:
        (request,) = self.requests
        return {name: value for name, (value,) in parse_qs(request.content.decode()).items()}


async def test_the_refresh_token_goes_to_the_token_endpoint_with_the_resource() -> None:
    issuer = ScriptedIssuer(body={**NEW, "refresh_token": "next", "scope": "a b"})
    login = replace(LOGIN, resource="https://mcp.example.com/mcp")
    found = await renewed(login, 1000.0, issuer.client())
    assert str(issuer.requests[0].url) == LOGIN.token_endpoint
    assert issuer.form == {
        "grant_type": "refresh_token",
        "refresh_token": "refresh-s3cret",
        "resource": "https://mcp.example.com/mcp",
        "client_id": "hub",
    }
    assert (found.access_token, found.refresh_token, found.scope) == ("new", "next", "a b")
    assert (found.issued, found.expires) == (1000.0, 1060.0)


async def test_what_the_answer_does_not_name_stays() -> None:
    found = await renewed(
        replace(LOGIN, scope="a"), 1000.0, ScriptedIssuer(body={"access_token": "new"}).client()
    )
    assert (found.refresh_token, found.scope, found.expires) == ("refresh-s3cret", "a", None)


async def test_seconds_that_are_written_as_a_text_count() -> None:
    """Some servers do that; the login takes it, and a refresh token counts only once."""
    issuer = ScriptedIssuer(body={**NEW, "expires_in": "60", "refresh_token": "next"})
    found = await renewed(LOGIN, 1000.0, issuer.client())
    assert (found.refresh_token, found.expires) == ("next", 1060.0)


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
async def test_a_client_with_a_secret_shows_it(method: Any) -> None:
    issuer = ScriptedIssuer()
    login = replace(LOGIN, client_id="a:b", client_secret="ü&", auth_method=method)  # noqa: S106 - opens nothing
    await renewed(login, 1000.0, issuer.client())
    sent = issuer.requests[0].headers.get("authorization")
    if method == "client_secret_basic":
        assert sent == "Basic " + base64.b64encode(b"a%3Ab:%C3%BC%26").decode()
        assert "client_secret" not in issuer.form
    else:
        assert sent is None
        assert issuer.form["client_secret"] == "ü&"  # noqa: S105 - opens nothing


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (400, {"error": "invalid_grant"}, LoginEndedError),
        (401, {"error": "invalid_client"}, RenewalFailedError),
        (400, {"error": "slow_down"}, RenewalFailedError),
        (400, b"no", RenewalFailedError),
        (200, b"{" + b" " * 70_000 + b"}", RenewalFailedError),
        (400, {"error": "x" * 100}, RenewalFailedError),
        (500, {"error": "invalid_grant"}, RenewalFailedError),
        (302, b"", RenewalFailedError),
        (200, b"no", RenewalFailedError),
        (200, {"access_token": ""}, RenewalFailedError),
        (200, {"access_token": "a", "token_type": "DPoP"}, RenewalFailedError),
    ],
)
async def test_other_answers_end_the_login_or_not(
    status: int, body: Any, error: type[Exception]
) -> None:
    with pytest.raises(error) as caught:
        await renewed(LOGIN, 1000.0, ScriptedIssuer(status, body).client())
    assert "s3cret" not in str(caught.value)


async def test_without_a_refresh_token_a_login_ends() -> None:
    issuer = ScriptedIssuer()
    with pytest.raises(LoginEndedError):
        await renewed(replace(LOGIN, refresh_token=None), 1000.0, issuer.client())
    assert issuer.requests == []


async def test_an_issuer_that_is_not_there_is_told() -> None:
    def broken(_request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("refused")

    answer: Callable[[httpx2.Request], httpx2.Response] = broken
    http = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    with pytest.raises(RenewalFailedError, match="cannot be asked"):
        await renewed(LOGIN, 1000.0, http)


@virtual_time
async def test_an_issuer_that_does_not_answer_is_not_waited_for() -> None:
    async def silent(_request: httpx2.Request) -> httpx2.Response:
        await anyio.sleep_forever()
        raise AssertionError

    http = httpx2.AsyncClient(transport=httpx2.MockTransport(silent))
    with pytest.raises(RenewalFailedError, match="no answer within"):
        await renewed(LOGIN, 1000.0, http)


async def test_what_is_trusted_is_not_read_from_the_disk_for_each_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nobody = "http://127.0.0.1:1/"
    read, login = list[object](), replace(LOGIN, token_endpoint=nobody)
    trusted.cache_clear()
    real = httpcore2.default_ssl_context

    def reading(**how: Any) -> ssl.SSLContext:
        read.append(how)
        return real(**how)

    monkeypatch.setattr(httpcore2, "default_ssl_context", reading)
    for _ in range(2):
        with pytest.raises(RenewalFailedError, match="cannot be asked"):
            await renewed(login, 1000.0)
    assert len(read) == 1
