from __future__ import annotations

import base64
from typing import Any, Final

import httpx2
import msgspec
import pytest
from msgspec.structs import replace

from hub.logins.issuer_requests import NotRevokedError, revoke
from hub.logins.login import Login
from tests.logins.test_login_files import LOGIN
from tests.logins.test_renewal import ScriptedIssuer

PLACE: Final = "https://login.example.com/revoke"
REVOCABLE: Final = replace(LOGIN, revocation_endpoint=PLACE)


async def test_the_refresh_token_is_revoked_where_the_metadata_said() -> None:
    issuer = ScriptedIssuer(body=b"")
    await revoke(REVOCABLE, issuer.client())
    assert [str(request.url) for request in issuer.requests] == [PLACE]
    assert issuer.form == {
        "token": "refresh-s3cret",
        "token_type_hint": "refresh_token",
        "client_id": "hub",
    }


async def test_without_a_refresh_token_the_access_token_is_revoked() -> None:
    issuer = ScriptedIssuer(body=b"")
    await revoke(replace(REVOCABLE, refresh_token=None), issuer.client())
    assert issuer.form["token"] == LOGIN.access_token
    assert issuer.form["token_type_hint"] == "access_token"  # noqa: S105 - a kind


async def test_a_client_with_a_secret_shows_it_to_revoke() -> None:
    issuer = ScriptedIssuer(body=b"")
    login = replace(REVOCABLE, client_secret="s", auth_method="client_secret_basic")  # noqa: S106 - opens nothing
    await revoke(login, issuer.client())
    shown = base64.b64encode(b"hub:s").decode()
    assert issuer.requests[0].headers["authorization"] == f"Basic {shown}"


@pytest.mark.parametrize(
    ("place", "why"),
    [
        (None, "it has named no address"),
        ("http://login.example.com/revoke", "does not begin with https://"),
        (f"https://login.example.com/{'r' * 70_000}", "it cannot be asked .URL too long"),
    ],
)
async def test_no_token_goes_anywhere_else(place: str | None, why: str) -> None:
    issuer = ScriptedIssuer()
    with pytest.raises(NotRevokedError, match=why):
        await revoke(replace(LOGIN, revocation_endpoint=place), issuer.client())
    assert issuer.requests == []


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (400, {"error": "unsupported_token_type"}, "it says unsupported_token_type"),
        (503, b"", "it answered with 503"),
        (307, b"", "it answered with 307"),
        (200, b" " * 70_000, "it gave too long an answer"),
    ],
)
async def test_an_issuer_that_refuses_is_told(status: int, body: Any, why: str) -> None:
    issuer = ScriptedIssuer(status, body)
    with pytest.raises(NotRevokedError, match=why) as caught:
        await revoke(REVOCABLE, issuer.client())
    assert "s3cret" not in str(caught.value)
    assert len(issuer.requests) == 1


async def test_an_issuer_that_is_not_there_is_told() -> None:
    def broken(_request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("refused")

    http = httpx2.AsyncClient(transport=httpx2.MockTransport(broken))
    with pytest.raises(NotRevokedError, match=r"it cannot be asked \(refused\)"):
        await revoke(REVOCABLE, http)


def test_a_login_that_was_kept_without_the_endpoint_is_read() -> None:
    old = msgspec.to_builtins(LOGIN)
    del old["revocation_endpoint"]
    assert msgspec.json.decode(msgspec.json.encode(old), type=Login) == LOGIN
