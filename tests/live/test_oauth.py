"""Clients that log in at a real authorization server: the SDK's OAuth client, and oidc-provider."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

from hub.server.http.auth.introspection import COUNTS
from tests.kit.trees import plant
from tests.live.attaching import until
from tests.live.programs import SharedFolders, authorization_server, call, config_file, http_hub
from tests.live.test_http_endpoint import INITIALIZE, post
from tests.live.test_named_tokens import SERVERS

SCOPE = "mcp:tools"
MORE = "notes:write"
CALLBACK = "http://127.0.0.1:9/callback"
ABOUT = {
    "client_name": "test",
    "redirect_uris": [CALLBACK],
    "token_endpoint_auth_method": "none",
    "grant_types": ["authorization_code", "refresh_token"],
    "response_types": ["code"],
}

pytestmark = pytest.mark.live


class Issued:
    """What an OAuth client has got: its registration and its tokens."""

    def __init__(self) -> None:
        self.client: OAuthClientInformationFull | None = None
        self.tokens: OAuthToken | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class Browser:
    """Follows a login to its end, as the user `name`; `answer` is what came back with it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.answer: dict[str, str] = {}

    async def open(self, url: str) -> None:
        async with httpx2.AsyncClient() as http:
            place = f"{url}&login_hint={self.name}"
            while not place.startswith(CALLBACK):
                response = await http.get(place)
                assert response.is_redirect, response.text
                place = str(response.next_request.url) if response.next_request else ""
        self.answer = {key: value for key, (value,) in parse_qs(urlsplit(place).query).items()}

    async def came_back(self) -> AuthorizationCodeResult:
        return AuthorizationCodeResult.model_validate(self.answer)


@asynccontextmanager
async def logged_in(
    url: str,
    name: str,
    folder: Path,
    mode: Literal["legacy", "auto"],
    client: OAuthClientInformationFull | None = None,
) -> AsyncGenerator[tuple[Client, Issued]]:
    """Yield a client that has logged in; it registers itself unless it is registered already."""
    issued, browser = Issued(), Browser(name)
    issued.client = client
    about = OAuthClientMetadata.model_validate(ABOUT)
    auth = OAuthClientProvider(url, about, issued, browser.open, browser.came_back)
    async with httpx2.AsyncClient(auth=auth, timeout=60) as http:
        reached = streamable_http_client(url, http_client=http)
        async with Client(
            reached, list_roots_callback=SharedFolders([folder]), mode=mode
        ) as speaking:
            yield speaking, issued


async def registered(issuer: str) -> OAuthClientInformationFull:
    """Register a client for all scopes: by itself it registers for those of the first login."""
    async with httpx2.AsyncClient() as http:
        answer = await http.post(f"{issuer}/reg", json=ABOUT)
    return OAuthClientInformationFull.model_validate({**answer.json(), "issuer": issuer})


@pytest.fixture(scope="module")
def issuer(
    resource: str,
    tmp_path_factory: pytest.TempPathFactory,
    npm_package: Callable[[str], str],
) -> Generator[str]:
    node, folder = npm_package("oidc-provider"), tmp_path_factory.mktemp("issuer")
    with authorization_server(node, resource, f"{SCOPE} {MORE}", cwd=folder) as issuer:
        yield issuer


@pytest.fixture
def issuer_of_opaque_tokens(
    resource: str, tmp_path: Path, npm_package: Callable[[str], str]
) -> Generator[str]:
    node, folder = npm_package("oidc-provider"), tmp_path / "issuer"
    with authorization_server(node, resource, SCOPE, "60", "opaque", cwd=folder) as issuer:
        yield issuer


def logged(folder: Path) -> str:
    """Return what programs that ran in a folder have logged."""
    return "".join(file.read_text() for file in folder.glob("stderr-*.log"))


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_clients_log_in_by_what_the_hub_tells_them_and_share_nothing(
    tmp_path: Path, resource: str, issuer: str, mode: Literal["legacy", "auto"]
) -> None:
    top, audit = plant(tmp_path, "a/f"), tmp_path / "audit.jsonl"
    auth = {"resource": resource, "issuers": [{"issuer": issuer}], "scopes": [SCOPE]}
    config = config_file(tmp_path, SERVERS, listen={"auth": auth}, audit={"file": str(audit)})
    address = urlsplit(resource).netloc
    with http_hub("--http", address, "--config", config, cwd=tmp_path) as url:
        assert url == resource
        assert post(url, INITIALIZE).status_code == 401
        async with (
            logged_in(url, "anna", top / "a", mode) as (anna, issued),
            logged_in(url, "ben", top / "a", mode) as (ben, _),
        ):
            assert json.loads(await call(anna, "remember", text="1")) == ["1"]
            assert json.loads(await call(ben, "remember", text="2")) == ["2"]
        assert issued.tokens is not None
        token = issued.tokens.access_token
        assert post(url, INITIALIZE, authorization=f"Bearer {token}").status_code == 200
        wrong = f"{token[:-6]}AAAAAA"
        refused = post(url, INITIALIZE, authorization=f"Bearer {wrong}")
        assert refused.status_code == 401
        assert 'error="invalid_token"' in refused.headers["www-authenticate"]
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    assert {line["principal"] for line in lines} == {f"{issuer} anna", f"{issuer} ben"}
    assert token not in audit.read_text() + logged(tmp_path)


async def test_a_client_that_sends_nothing_before_a_response_begins_answers_what_a_call_needs(
    tmp_path: Path, resource: str, issuer: str
) -> None:
    """The SDK's OAuth client holds a lock until the headers of a response have come."""
    top = plant(tmp_path, "a/f")
    auth = {"resource": resource, "issuers": [{"issuer": issuer}]}
    config = config_file(tmp_path, SERVERS, listen={"auth": auth}, roots={"timeout": 60})
    with http_hub("--http", urlsplit(resource).netloc, "--config", config, cwd=tmp_path) as url:
        async with logged_in(url, "anna", top / "a", "legacy") as (anna, _):
            with anyio.fail_after(12):  # a comment would begin it after 15 s
                assert json.loads(await call(anna, "remember", text="1")) == ["1"]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_client_logs_in_again_for_a_call_that_needs_another_scope(
    tmp_path: Path, resource: str, issuer: str, mode: Literal["legacy", "auto"]
) -> None:
    top, audit = plant(tmp_path, "a/f"), tmp_path / "audit.jsonl"
    auth = {"resource": resource, "issuers": [{"issuer": issuer}], "scopes": [SCOPE]}
    (name,) = SERVERS
    own = {**SERVERS[name], "tools": {"overrides": {"remember": {"scopes": [MORE]}}}}
    config = config_file(tmp_path, {name: own}, listen={"auth": auth}, audit={"file": str(audit)})
    with http_hub("--http", urlsplit(resource).netloc, "--config", config, cwd=tmp_path) as url:
        client = await registered(issuer)
        async with logged_in(url, "anna", top / "a", mode, client) as (anna, issued):
            assert len((await anna.list_tools()).tools) > 1
            assert issued.tokens is not None
            first = issued.tokens
            assert first.scope == SCOPE
            assert json.loads(await call(anna, "remember", text="1")) == ["1"]
            assert set((issued.tokens.scope or "").split()) == {SCOPE, MORE}
            assert issued.tokens.access_token != first.access_token
            assert json.loads(await call(anna, "remember", text="2")) == ["1", "2"]
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    found = [(line["verdict"], line["reason"]) for line in lines]
    assert found == [
        ("refused", f"The token lacks the scope {MORE}"),
        ("admitted", None),
        ("admitted", None),
    ]


def change(config: str, **listen: Any) -> None:
    """Write other keys of `listen` into a config."""
    file = Path(config)
    file.write_text(json.dumps({**json.loads(file.read_text()), "listen": listen}))


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_running_hub_takes_an_issuer_over_and_lets_it_go_again(
    tmp_path: Path, resource: str, issuer: str, mode: Literal["legacy", "auto"]
) -> None:
    top = plant(tmp_path, "a/f")
    token = "of the operator"  # noqa: S105 - it opens nothing
    config = config_file(tmp_path, SERVERS, listen={"token": token})
    auth = {"resource": resource, "issuers": [{"issuer": issuer}], "scopes": [SCOPE]}
    own = {"authorization": f"Bearer {token}"}

    def is_told() -> bool:
        answer = post(resource, INITIALIZE)
        return "resource_metadata" in answer.headers["www-authenticate"]

    with http_hub("--http", urlsplit(resource).netloc, "--config", config, cwd=tmp_path) as url:
        assert not is_told()
        change(config, token=token, auth=auth)
        until(is_told)
        async with logged_in(url, "anna", top / "a", mode) as (anna, issued):
            assert json.loads(await call(anna, "remember", text="1")) == ["1"]
            assert issued.tokens is not None
        sent = {"authorization": f"Bearer {issued.tokens.access_token}"}
        assert post(url, INITIALIZE, **sent).status_code == 200
        change(config, token=token)
        until(lambda: not is_told())
        assert post(url, INITIALIZE, **sent).status_code == 401
        assert post(url, INITIALIZE, **own).status_code == 200


async def revoke(issuer: str, issued: Issued) -> None:
    """Have the issuer take a token back (RFC 7009)."""
    assert issued.tokens is not None
    assert issued.client is not None
    sent = {"token": issued.tokens.access_token, "client_id": issued.client.client_id}
    async with httpx2.AsyncClient() as http:
        answer = await http.post(f"{issuer}/token/revocation", data=sent)
    assert answer.status_code == 200, answer.text


async def test_a_token_that_says_nothing_is_asked_about_and_is_refused_once_taken_back(
    tmp_path: Path, resource: str, issuer_of_opaque_tokens: str
) -> None:
    issuer = issuer_of_opaque_tokens
    modes: tuple[Literal["legacy", "auto"], ...] = ("legacy", "auto")
    top, audit = plant(tmp_path, *(f"{mode}/f" for mode in modes)), tmp_path / "audit.jsonl"
    asks = {"client_id": "hub", "client_secret": "of the hub"}
    trusted = {"issuer": issuer, "introspection": asks}
    auth = {"resource": resource, "issuers": [trusted], "scopes": [SCOPE]}
    config = config_file(tmp_path, SERVERS, listen={"auth": auth}, audit={"file": str(audit)})
    with http_hub("--http", urlsplit(resource).netloc, "--config", config, cwd=tmp_path) as url:
        assert post(url, INITIALIZE, authorization="Bearer none").status_code == 401
        granted: list[Issued] = []
        for mode in modes:
            async with logged_in(url, "anna", top / mode, mode) as (anna, issued):
                assert json.loads(await call(anna, "remember", text="1")) == ["1"]
            granted.append(issued)
        last = granted[-1]
        assert last.tokens is not None
        sent = f"Bearer {last.tokens.access_token}"
        assert sent.count(".") == 0
        assert post(url, INITIALIZE, authorization=sent).status_code == 200
        await revoke(issuer, last)
        with anyio.fail_after(COUNTS + 10):
            while (answer := post(url, INITIALIZE, authorization=sent)).status_code == 200:  # noqa: ASYNC110 - only the two know
                await anyio.sleep(0.2)
        assert answer.status_code == 401
        assert 'error="invalid_token"' in answer.headers["www-authenticate"]
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    assert {line["principal"] for line in lines} == {f"{issuer} anna"}
    kept = audit.read_text() + logged(tmp_path)
    assert not any(secret in kept for secret in (sent.removeprefix("Bearer "), "of the hub"))
