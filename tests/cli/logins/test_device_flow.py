from __future__ import annotations

import json
from typing import Any, Final
from urllib.parse import parse_qs

import httpx2
import pytest

from hub.cli.logins.flow import LoginFailedError, log_in
from hub.cli.logins.logging_in import GRANT, DeviceCode, DeviceLogin
from hub.logins.login import Login, LoginSettings

URL: Final = "https://mcp.example.com/mcp"
ISSUER: Final = "https://login.example.com"
METADATA: Final[dict[str, Any]] = {
    "issuer": ISSUER,
    "authorization_endpoint": f"{ISSUER}/authorize",
    "token_endpoint": f"{ISSUER}/token",
    "registration_endpoint": f"{ISSUER}/register",
    "revocation_endpoint": f"{ISSUER}/revoke",
    "device_authorization_endpoint": f"{ISSUER}/device",
    "scopes_supported": ["tools", "offline_access"],
}
CODE: Final = {
    "device_code": "d3vice",
    "user_code": "WDJB-MJHT",
    "verification_uri": f"{ISSUER}/go",
    "expires_in": 60,
}
TOKENS: Final = {"access_token": "access", "expires_in": 60, "refresh_token": "refresh"}


class DeviceLoginWorld:
    """A server that wants a login, and its authorization server; they keep what they were sent."""

    def __init__(self, **changed: Any) -> None:
        merged = {**METADATA, **changed}
        self.metadata = {name: value for name, value in merged.items() if value is not None}
        self.described: Any = {"resource": URL, "authorization_servers": [ISSUER]}
        self.registration: dict[str, Any] = {"client_id": "made"}
        self.registered: dict[str, Any] | None = None
        self.polls: list[tuple[int, Any]] = [
            (400, {"error": "authorization_pending"}),
            (200, TOKENS),
        ]
        self.forms: dict[str, list[dict[str, str]]] = {}
        self.headers: dict[str, httpx2.Headers] = {}
        self.shown: list[DeviceCode] = []
        self.asked: list[str] = []

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        url = str(request.url)
        self.asked.append(url)
        if url == URL:
            known = request.headers.get("authorization") == "Bearer access"
            return httpx2.Response(200 if known else 401, json={})
        if url.endswith("/.well-known/oauth-protected-resource/mcp"):
            return httpx2.Response(200, json=self.described)
        if url.endswith("/.well-known/oauth-authorization-server"):
            return httpx2.Response(200, json=self.metadata)
        if url.endswith("/register"):
            self.registered = json.loads(request.content)
            return httpx2.Response(201, json={**self.registration})
        return self._answer_form(url, request)

    def _answer_form(self, url: str, request: httpx2.Request) -> httpx2.Response:
        form = {name: value for name, (value,) in parse_qs(request.content.decode()).items()}
        self.forms.setdefault(url, []).append(form)
        self.headers[url] = request.headers
        if url == f"{ISSUER}/device":
            return httpx2.Response(200, json=CODE)
        if url == f"{ISSUER}/token":
            status, body = self.polls.pop(0)
            return httpx2.Response(status, json=body)
        return httpx2.Response(404)

    async def log_in(self, **settings: Any) -> Login:
        way = httpx2.MockTransport(self.answer)
        now = 0.0

        async def sleep(seconds: float) -> None:
            nonlocal now
            now += seconds

        flow = DeviceLogin(
            LoginSettings(URL, **settings),
            self.shown.append,
            clock=lambda: now,
            sleep=sleep,
            http=httpx2.AsyncClient(transport=way),
        )
        return await log_in(flow, lambda: 1000.0, way)


async def test_a_login_by_a_code_is_like_any_other() -> None:
    world = DeviceLoginWorld()
    login = await world.log_in(scopes=("more",))
    assert login == Login(
        issuer=ISSUER,
        token_endpoint=f"{ISSUER}/token",
        client_id="made",
        access_token="access",  # noqa: S106 - opens nothing
        issued=1000.0,
        expires=1060.0,
        refresh_token="refresh",  # noqa: S106 - opens nothing
        scope="tools offline_access more",
        resource=URL,
        revocation_endpoint=f"{ISSUER}/revoke",
    )
    assert [code.user_code for code in world.shown] == ["WDJB-MJHT"]
    assert world.registered is not None
    assert world.registered["grant_types"] == [GRANT, "refresh_token"]
    assert world.registered["response_types"] == []
    assert "redirect_uris" not in world.registered
    (asked,) = world.forms[f"{ISSUER}/device"]
    assert asked == {"client_id": "made", "scope": "tools offline_access more", "resource": URL}
    polled = world.forms[f"{ISSUER}/token"]
    assert (
        polled
        == [{"grant_type": GRANT, "device_code": "d3vice", "resource": URL, "client_id": "made"}]
        * 2
    )


async def test_a_registered_client_shows_its_secret_to_its_issuer() -> None:
    world = DeviceLoginWorld()
    await world.log_in(client_id="ours", client_secret="s", issuer=ISSUER)  # noqa: S106 - opens nothing
    assert world.registered is None
    for place in (f"{ISSUER}/device", f"{ISSUER}/token"):
        assert world.headers[place]["authorization"].startswith("Basic ")
        assert "client_id" not in world.forms[place][0]


async def test_no_code_is_asked_for_at_another_issuer_than_the_configs() -> None:
    world = DeviceLoginWorld()
    with pytest.raises(LoginFailedError, match="another authorization server"):
        await world.log_in(issuer="https://other.example.com")
    assert world.forms == {}
    assert world.registered is None


async def test_without_the_endpoint_it_is_said_what_to_do() -> None:
    for endpoint in (None, 7):
        world = DeviceLoginWorld(device_authorization_endpoint=endpoint)
        with pytest.raises(LoginFailedError, match="gives no codes") as caught:
            await world.log_in()
        assert caught.value.fix is not None
        assert "--paste" in caught.value.fix
        assert world.forms == {}


@pytest.mark.parametrize(
    "endpoint", ["device_authorization_endpoint", "token_endpoint", "registration_endpoint"]
)
async def test_endpoints_without_https_get_nothing(endpoint: str) -> None:
    place = "http://login.example.com/open"
    world = DeviceLoginWorld(**{endpoint: place})
    with pytest.raises(LoginFailedError, match="does not begin with https://"):
        await world.log_in()
    assert place not in world.asked
    assert world.forms == {}


async def test_an_issuer_without_https_is_not_asked() -> None:
    world = DeviceLoginWorld()
    world.described = {"resource": URL, "authorization_servers": ["http://login.example.com"]}
    with pytest.raises(LoginFailedError, match="does not begin with https://"):
        await world.log_in()
    assert world.asked[-1].endswith("oauth-protected-resource/mcp")


async def test_only_the_issuers_metadata_says_where_codes_are() -> None:
    """The server's own documents, and a registration there, could send people elsewhere."""
    own = {**METADATA, "device_authorization_endpoint": f"{URL}/device"}
    world = DeviceLoginWorld(registration_endpoint=None, device_authorization_endpoint=None)
    world.described = {**own, **world.described}
    world.registration = {**own, **world.registration}
    with pytest.raises(LoginFailedError, match="gives no codes"):
        await world.log_in()
    assert world.registered is not None
    assert world.forms == {}


async def test_a_refused_code_is_no_login() -> None:
    world = DeviceLoginWorld()
    world.polls = [(400, {"error": "access_denied"})]
    with pytest.raises(LoginFailedError, match="it was refused there"):
        await world.log_in()


async def test_an_answer_without_tokens_is_no_login() -> None:
    world = DeviceLoginWorld()
    world.polls = [(200, {"refresh_token": "s3cret"})]
    with pytest.raises(LoginFailedError) as caught:
        await world.log_in()
    assert "s3cret" not in str(caught.value)
