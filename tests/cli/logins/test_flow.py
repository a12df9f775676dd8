from __future__ import annotations

import httpx2
import pytest
from mcp.client.auth import AuthorizationCodeResult

from hub.cli.logins.flow import (
    BrowserLogin,
    LoginFailedError,
    RefusedLoginError,
    ServerLogin,
    log_in,
)
from hub.logins.login import LoginSettings
from tests.cli.logins.test_device_flow import URL, DeviceLoginWorld


@pytest.mark.parametrize(
    ("redirect", "kind"),
    [
        ("http://127.0.0.1:8976/callback", "native"),
        ("https://hub.example.com/mcp/logins/far/callback", "web"),
    ],
)
async def test_a_client_registers_as_what_its_redirect_uri_is_of(redirect: str, kind: str) -> None:
    world = DeviceLoginWorld(code_challenge_methods_supported=["S256"])
    opened: list[str] = []

    async def open_page(url: str) -> None:
        opened.append(url)

    async def come_back() -> AuthorizationCodeResult:
        raise LoginFailedError("nobody came back")

    flow = BrowserLogin(LoginSettings(URL, redirect=redirect), open_page, come_back)
    with pytest.raises(LoginFailedError, match="nobody came back"):
        await log_in(flow, lambda: 1000.0, httpx2.MockTransport(world.answer))
    assert world.registered is not None
    assert world.registered["application_type"] == kind
    assert world.registered["redirect_uris"] == [redirect]
    assert len(opened) == 1


@pytest.mark.parametrize(
    ("issuer", "said"),
    [
        ("https://login.example.com", "says no"),
        ("https://login.example.com/", "iss mismatch"),
        ("https://other.example.com", "iss mismatch"),
        (None, "missing iss"),
    ],
)
async def test_a_refusal_is_shown_only_if_its_issuer_is_the_one_that_was_asked(
    issuer: str | None, said: str
) -> None:
    world = DeviceLoginWorld(
        code_challenge_methods_supported=["S256"],
        authorization_response_iss_parameter_supported=True,
    )

    async def come_back() -> AuthorizationCodeResult:
        raise RefusedLoginError("it says no", issuer)

    settings = LoginSettings(URL, redirect="http://127.0.0.1:8976/callback")
    flow = BrowserLogin(settings, opened_nowhere, come_back)
    with pytest.raises(LoginFailedError, match=said) as told:
        await log_in(flow, lambda: 1000.0, httpx2.MockTransport(world.answer))
    assert ("says no" in str(told.value)) is (said == "says no")


async def opened_nowhere(url: str) -> None:
    assert "code_challenge" in url


async def test_an_address_that_nobody_answers_at_is_named() -> None:
    def refuse(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("All connection attempts failed", request=request)

    flow = ServerLogin(LoginSettings("https://far.example:8443/mcp?key=x"), {})
    with pytest.raises(LoginFailedError, match=r"^far\.example:8443: All connection"):
        await log_in(flow, lambda: 1000.0, httpx2.MockTransport(refuse))
