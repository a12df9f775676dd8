"""Clients log in through the hub at an identity provider that does not know them: oidc-provider."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from html import unescape
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata

from tests.kit.ports import free_port
from tests.kit.trees import plant
from tests.kit.warm import WARM_HUB, ran
from tests.live.programs import SharedFolders, call, config_file, environment, http_hub
from tests.live.test_http_endpoint import INITIALIZE, post
from tests.live.test_named_tokens import SERVERS
from tests.live.test_oauth import CALLBACK, SCOPE, Issued, issuer, logged

__all__ = ["issuer"]
pytestmark = pytest.mark.live


class ConsentingBrowser:
    """A person's browser: answers the hub's question, and logs in as `name`."""

    def __init__(self, name: str, callback: str = CALLBACK) -> None:
        self.http = httpx2.AsyncClient()
        self.place = ""
        self._name = name
        self._callback = callback

    async def open(self, url: str) -> None:
        asked = await self.http.get(url)
        assert asked.status_code == 200, asked.text
        assert "</strong> wants to use this hub" in asked.text
        ticket = re.search(r'name="ticket" value="([^"]+)"', asked.text)
        assert ticket is not None
        form = {"ticket": unescape(ticket[1]), "answer": "allow"}
        page = str(asked.url.copy_with(query=None))
        response = await self.http.post(page, data=form, headers={"origin": _origin(page)})
        while True:
            assert response.status_code in {302, 303}, response.text
            self.place = str(response.next_request.url) if response.next_request else ""
            if self.place.startswith(self._callback):
                return
            hint = f"&login_hint={self._name}" if "/auth?" in self.place else ""
            response = await self.http.get(self.place + hint)

    async def came_back(self) -> AuthorizationCodeResult:
        query = parse_qs(urlsplit(self.place).query)
        return AuthorizationCodeResult.model_validate({key: one for key, (one,) in query.items()})


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


@asynccontextmanager
async def logged_in(
    url: str, browser: ConsentingBrowser, folder: Path, mode: Literal["legacy", "auto"]
) -> AsyncGenerator[tuple[Client, Issued]]:
    issued = Issued()
    about = OAuthClientMetadata.model_validate(
        {"client_name": "test", "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none"}
    )
    auth = OAuthClientProvider(url, about, issued, browser.open, browser.came_back)
    async with httpx2.AsyncClient(auth=auth, timeout=60) as http, browser.http:
        reached = streamable_http_client(url, http_client=http)
        async with Client(
            reached, list_roots_callback=SharedFolders([folder]), mode=mode
        ) as client:
            yield client, issued


def proxied(resource: str, issuer: str, **more: Any) -> dict[str, Any]:
    """Return `listen.auth` of a hub through which clients log in."""
    client = {
        "client_id": "hub",
        "client_secret": "of the hub",
        "scopes": ["offline_access"],
        "parameters": {"prompt": "consent"},
    }
    trusted = {"issuer": issuer, "proxy": {**client, **more}}
    return {"resource": resource, "issuers": [trusted], "scopes": [SCOPE]}


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_client_that_the_provider_does_not_know_logs_in_through_the_hub(
    tmp_path: Path, resource: str, issuer: str, mode: Literal["legacy", "auto"]
) -> None:
    top, audit = plant(tmp_path, "a/f"), tmp_path / "audit.jsonl"
    auth = proxied(resource, issuer)
    config = config_file(tmp_path, SERVERS, listen={"auth": auth}, audit={"file": str(audit)})
    with http_hub("--http", urlsplit(resource).netloc, "--config", config, cwd=tmp_path) as url:
        async with (
            logged_in(url, ConsentingBrowser("anna"), top / "a", mode) as (anna, issued),
            logged_in(url, ConsentingBrowser("ben"), top / "a", mode) as (ben, _),
        ):
            assert json.loads(await call(anna, "remember", text="1")) == ["1"]
            assert json.loads(await call(ben, "remember", text="2")) == ["2"]
        assert issued.tokens is not None
        assert issued.client is not None
        token, refresh = issued.tokens.access_token, issued.tokens.refresh_token
        assert token.startswith("rht_")
        assert refresh is not None
        sent = f"Bearer {token}"
        assert post(url, INITIALIZE, authorization=sent).status_code == 200
        assert post(url, INITIALIZE, authorization=f"{sent[:-6]}AAAAAA").status_code == 401
        assert post(url, INITIALIZE, authorization=f"Bearer {refresh}").status_code == 401
        renewed = await _renewed(url, issued.client.client_id, refresh)
        assert renewed.status_code == 200
        again = renewed.json()["access_token"]
        assert post(url, INITIALIZE, authorization=f"Bearer {again}").status_code == 200
        assert (await _renewed(url, "another client", refresh)).json()["error"] == "invalid_client"
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    assert {line["principal"] for line in lines} == {f"{issuer} anna", f"{issuer} ben"}
    kept = audit.read_text() + logged(tmp_path)
    assert not any(secret in kept for secret in (token, again, refresh, "of the hub"))


async def _renewed(url: str, client_id: str, refresh: str) -> httpx2.Response:
    form = {"grant_type": "refresh_token", "refresh_token": refresh, "client_id": client_id}
    async with httpx2.AsyncClient() as http:
        return await http.post(f"{url}/oauth/token", data=form)


@pytest.mark.parametrize("through", ["hub", "issuer"])
@pytest.mark.parametrize(("line", "era"), [("one", "legacy"), ("two", "legacy"), ("two", "modern")])
def test_the_typescript_sdks_log_in_too(  # noqa: PLR0913, PLR0917 - each is a fixture
    tmp_path: Path,
    resource: str,
    issuer: str,
    npm_package: Callable[[str], str],
    through: str,
    line: str,
    era: str,
) -> None:
    top = plant(tmp_path, "a/f")
    auth = proxied(resource, issuer)
    if through == "issuer":
        auth["issuers"] = [{"issuer": issuer}]
    config = config_file(tmp_path, SERVERS, listen={"auth": auth})
    node = npm_package("@modelcontextprotocol/sdk")
    program = str(Path(__file__).with_name("oauth_client.mjs"))
    with http_hub("--http", urlsplit(resource).netloc, "--config", config, cwd=tmp_path) as url:
        asked = {"line": line, "era": era, "url": url, "name": "anna", "folder": str(top / "a")}
        done = subprocess.run(  # noqa: S603 - our own argv
            [node, program, json.dumps(asked)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found == {"refused": "UnauthorizedError", "said": '["anna"]', "type": "Bearer"}


def test_the_inspector_logs_in_too(
    tmp_path: Path, resource: str, issuer: str, npm_program: Callable[[str], str]
) -> None:
    inspector = npm_program("mcp-inspector")
    callback = f"http://127.0.0.1:{free_port()}/oauth/callback"
    config = config_file(tmp_path, SERVERS, listen={"auth": proxied(resource, issuer)})
    asks = ["--transport", "http", "--method", "tools/list", "--callback-url", callback]
    own = {"MCP_AUTO_OPEN_ENABLED": "true", "MCP_INSPECTOR_SECRET_STORE": "memory"}
    with (
        http_hub("--http", urlsplit(resource).netloc, "--config", config, cwd=tmp_path) as url,
        subprocess.Popen(  # noqa: S603 - our own argv
            [inspector, "--cli", url, *asks],
            env={**os.environ, **own, "HOME": str(tmp_path), "BROWSER": "true"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as running,
    ):
        assert running.stdout is not None
        opened = (line.partition("Please navigate to: ")[2].strip() for line in running.stdout)
        anyio.run(_logged_in_by_hand, next(place for place in opened if place), callback)
        assert '"name": "remember"' in running.stdout.read()
    assert running.returncode == 0


async def _logged_in_by_hand(url: str, callback: str) -> None:
    browser = ConsentingBrowser("anna", callback)
    async with browser.http:
        await browser.open(url)
        assert (await browser.http.get(browser.place)).status_code == 200


def checked(folder: Path, auth: dict[str, Any]) -> tuple[int, list[dict[str, Any]]]:
    """Return the exit code of `check --connect`, and what it says of the issuers."""
    config = config_file(folder, SERVERS, listen={"auth": auth})
    command = [WARM_HUB, "check", "--connect", "--json", "--config", config]
    done = ran(command, timeout=60, env=environment())
    assert "of the hub" not in done.stdout + done.stderr
    return done.returncode, json.loads(done.stdout)["issuers"]


def test_check_says_whether_an_issuer_takes_the_hub_as_it_is_configured(
    tmp_path: Path, resource: str, issuer: str
) -> None:
    asks = {"client_id": "hub", "client_secret": "of the hub"}
    auth = proxied(resource, issuer)
    auth["issuers"][0]["introspection"] = asks
    assert checked(tmp_path, auth) == (0, [{"issuer": issuer, "keys": 1, "problems": []}])
    auth = proxied(resource, issuer, client_secret="wrong")  # noqa: S106 - it is none
    auth["issuers"][0]["introspection"] = {**asks, "client_secret": "wrong"}
    auth["issuers"].append({"issuer": "http://127.0.0.1:9"})
    code, (one, other) = checked(tmp_path, auth)
    assert code == 1
    by_introspection, by_proxy = one["problems"]
    assert by_introspection.startswith("listen.auth.issuers[0].introspection: http://127.0.0.1:")
    assert by_introspection.endswith("HTTP status 401: is client_secret right?")
    assert by_proxy.startswith("listen.auth.issuers[0].proxy: http://127.0.0.1:")
    assert by_proxy.endswith("HTTP status 401, 'invalid_client': is client_secret right?")
    assert other["problems"][0].startswith("listen.auth.issuers[1].issuer: http://127.0.0.1:9")
