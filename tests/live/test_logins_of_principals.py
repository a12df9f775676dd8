"""Clients over HTTP log in at a remote server, each principal for itself: real OAuth everywhere."""

from __future__ import annotations

import json
import re
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal, TypeAlias
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitResult
from msgspec.structs import replace

from hub.logins.login_files import LoginFiles
from hub.server.http.bounds.failed_logins import MOST
from tests.kit.ports import free_port
from tests.live.attaching import until
from tests.live.login_browser import LoginBrowser, PersonWithBrowser
from tests.live.programs import (
    SharedFolders,
    authorization_server,
    call,
    config_file,
    http_hub,
    login_wanting_hub,
    text_of,
)
from tests.live.test_logins import issuer, run
from tests.live.test_named_tokens import SERVERS, named
from tests.live.test_oauth import SCOPE, logged, logged_in

__all__ = ["issuer"]
pytestmark = pytest.mark.live

TOKENS = {"anna": "rh_of-anna-0123456789", "bob": "rh_of-bob-0123456789"}
Mode: TypeAlias = Literal["legacy", "auto"]


class Remote:
    """A remote server that wants tokens of the issuer, and records whose each call is."""

    def __init__(self, url: str, issuer: str, audit: Path) -> None:
        self.url = url
        self._issuer = issuer
        self._audit = audit

    def was_called_by(self, *names: str) -> None:
        """Wait for the record of as many calls, and compare whose they are."""

        def callers() -> list[str]:
            lines = [json.loads(line) for line in self._audit.read_text().splitlines()]
            return [line["principal"].removeprefix(f"{self._issuer} ") for line in lines]

        until(lambda: len(callers()) >= len(names))
        assert sorted(callers()) == sorted(names)


@pytest.fixture
def remote(tmp_path: Path, resource: str, issuer: str) -> Generator[Remote]:
    folder, audit = tmp_path / "remote", tmp_path / "remote-audit.jsonl"
    records = {"audit": {"file": str(audit)}}
    with login_wanting_hub(folder, resource, issuer, SERVERS, **records) as url:
        yield Remote(url, issuer, audit)


@asynccontextmanager
async def client_of(
    url: str, token: str, folder: Path, mode: Mode, **callbacks: Any
) -> AsyncGenerator[Client]:
    headers = {"authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        reached = streamable_http_client(url, http_client=http)
        shared = SharedFolders([folder])
        async with Client(reached, list_roots_callback=shared, mode=mode, **callbacks) as client:
            yield client


def hub_config(folder: Path, remote: Remote, **auth: Any) -> str:
    far = {"url": remote.url, "auth": auth or "oauth"}
    return config_file(folder, {"far": far}, listen=named(**TOKENS))


@pytest.fixture
def state(tmp_path: Path) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(tmp_path / "state")}


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_each_principal_logs_in_and_calls_with_its_own_login(
    tmp_path: Path, remote: Remote, state: dict[str, str], mode: Mode
) -> None:
    config = hub_config(tmp_path, remote)
    people = {name: PersonWithBrowser(name, token=token) for name, token in TOKENS.items()}
    with http_hub("--config", config, cwd=tmp_path, env=state) as url:

        async def calls(name: str) -> None:
            person = people[name]
            async with client_of(
                url, TOKENS[name], tmp_path, mode, elicitation_callback=person.elicit
            ) as client:
                for at in range(1, 4):
                    said = await client.call_tool("remember", {"text": f"{name} {at}"})
                    assert json.loads(text_of(said)) == [f"{name} {one + 1}" for one in range(at)]

        with anyio.fail_after(90):
            async with anyio.create_task_group() as tasks:
                for name in TOKENS:
                    tasks.start_soon(calls, name)
    remote.was_called_by(*["anna", "bob"] * 3)
    for person in people.values():
        (asked,) = person.asked
        assert asked.url.startswith(f"{url}/logins/far?ticket=")
        assert person.name not in asked.url


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_who_declines_a_login_declines_it_for_nobody_else(
    tmp_path: Path, remote: Remote, state: dict[str, str], mode: Mode
) -> None:
    config = hub_config(tmp_path, remote)
    bob, declined = PersonWithBrowser("bob", token=TOKENS["bob"]), 0

    async def declines(_context: object, _params: Any) -> ElicitResult:
        nonlocal declined
        declined += 1
        return ElicitResult(action="decline")

    with http_hub("--config", config, cwd=tmp_path, env=state) as url:
        of_anna = client_of(url, TOKENS["anna"], tmp_path, mode, elicitation_callback=declines)
        of_bob = client_of(url, TOKENS["bob"], tmp_path, mode, elicitation_callback=bob.elicit)
        async with of_anna as anna, of_bob as client:
            for at in range(1, 4):
                refused = await anna.call_tool("remember", {"text": "anna"})
                assert "nobody is logged in" in text_of(refused)
                said = await client.call_tool("remember", {"text": f"bob {at}"})
                assert json.loads(text_of(said)) == [f"bob {one + 1}" for one in range(at)]
    assert (declined, len(bob.asked)) == (1, 1)
    remote.was_called_by(*["bob"] * 3)


@pytest.fixture
def hub_address() -> str:
    """Return where a hub will serve that does not run yet."""
    return f"127.0.0.1:{free_port()}"


@pytest.fixture
def people(hub_address: str, tmp_path: Path, npm_package: Callable[[str], str]) -> Generator[str]:
    """Serve the issuer where the people of the hub log in."""
    node, folder = npm_package("oidc-provider"), tmp_path / "people"
    with authorization_server(node, f"http://{hub_address}/mcp", SCOPE, cwd=folder) as issuer:
        yield issuer


def hub_of_people(folder: Path, remote: Remote, hub_address: str, people: str) -> str:
    pages = {"client_id": "hub", "client_secret": "of the hub"}
    trusted = {"issuer": people, "pages": pages}
    auth = {"resource": f"http://{hub_address}/mcp", "issuers": [trusted], "scopes": [SCOPE]}
    far = {"url": remote.url, "auth": "oauth"}
    return config_file(folder, {"far": far}, listen={"auth": auth, **named(**TOKENS)})


async def test_people_of_an_issuer_log_in_each_for_itself(
    tmp_path: Path, remote: Remote, state: dict[str, str], hub_address: str, people: str
) -> None:
    config = hub_of_people(tmp_path, remote, hub_address, people)
    names: dict[str, Mode] = {"anna": "legacy", "bob": "auto"}
    with http_hub("--http", hub_address, "--config", config, cwd=tmp_path, env=state) as url:
        for name, mode in names.items():
            person = PersonWithBrowser(name, issuer=people)
            async with logged_in(url, name, tmp_path, mode) as (_, issued):
                assert issued.tokens is not None
            token, ask = issued.tokens.access_token, person.elicit
            async with client_of(url, token, tmp_path, mode, elicitation_callback=ask) as client:
                said = await client.call_tool("remember", {"text": name})
                assert json.loads(text_of(said)) == [name], said
            assert len(person.asked) == 1
            with LoginBrowser("bob") as eve:
                eve.open(person.asked[0].url)
                eve.show_at(people, "eve")
                assert eve.page.status_code == 403
                assert "somebody else" in eve.page.text
        remote.was_called_by("anna", "bob")
        with LoginBrowser("bob") as stranger, LoginBrowser("bob") as bob:
            bob.open(f"{url}/logins/far")
            place = bob.send(issuer=people).headers["location"]
            back = {"code": "x", "state": parse_qs(urlsplit(place).query)["state"][0]}
            answer = stranger.http.get(f"{url}/oauth/callback", params=back)
            assert answer.status_code == 400
            assert "another browser" in answer.text
    shown = run("login", "--config", config, **state).stdout
    assert f"far  {people} anna: logged in by" in shown
    assert "eve" not in shown


async def test_who_gets_somebody_elses_link_gets_no_further(
    tmp_path: Path, remote: Remote, state: dict[str, str]
) -> None:
    config = hub_config(tmp_path, remote)
    links: list[str] = []

    async def eve_keeps(context: object, params: Any) -> Any:
        links.append(params.url)
        raise RuntimeError("sent to bob")

    with http_hub("--config", config, cwd=tmp_path, env=state) as url:
        async with client_of(
            url, TOKENS["anna"], tmp_path, "legacy", elicitation_callback=eve_keeps
        ) as client:
            await client.call_tool("remember", {"text": "1"})
        with LoginBrowser("bob") as bob:
            bob.open(links[0])
            bob.show_token(TOKENS["bob"])
            assert bob.page.status_code == 403
            assert "This link is somebody else" in bob.page.text
            assert "shown" not in bob.page.text
    assert "anna:" not in run("login", "--config", config, **state).stdout
    assert "bob:" not in run("login", "--config", config, **state).stdout


def at_server(url: str, name: str) -> tuple[LoginBrowser, str]:
    """Return a browser that has logged in at the server, and where it is sent back to."""
    browser = LoginBrowser(name)
    browser.open(f"{url}/logins/far")
    browser.show_token(TOKENS[name])
    return browser, browser.go_on()


async def test_a_login_ends_in_the_browser_alone_that_showed_whose_it_is(
    tmp_path: Path, remote: Remote, state: dict[str, str]
) -> None:
    config = hub_config(tmp_path, remote)
    with http_hub("--config", config, cwd=tmp_path, env=state) as url:
        anna, annas = at_server(url, "anna")
        bob, bobs = at_server(url, "bob")
        with anna, bob, LoginBrowser("eve") as eve:
            code = parse_qs(urlsplit(bobs).query)["code"][0]
            mixed = re.sub("code=[^&]+", f"code={code}", annas)
            elsewhere = annas.replace("/logins/far/", "/logins/other/")
            for browser, place in ((eve, annas), (bob, annas), (anna, bobs), (anna, elsewhere)):
                refused = browser.http.get(place)
                assert refused.status_code == 400, place
                assert "ended, or began in another browser" in refused.text
            for query in ("", "?state=", "?code=x", f"?{urlsplit(annas).query}&state=x"):
                assert anna.http.get(f"{url}/logins/far/callback{query}").status_code == 400
            assert "You are logged in" in anna.http.get(annas).text
            assert anna.http.get(annas).status_code == 400
            assert "has failed" in bob.http.get(bobs.replace(code, mixed[-5:])).text
    shown = run("login", "--config", config, **state).stdout
    assert "anna: logged in" in shown
    assert "bob" not in shown


def test_a_principal_gets_no_login_at_a_server_that_its_profile_lacks(
    tmp_path: Path, state: dict[str, str]
) -> None:
    far = {name: {"url": f"http://127.0.0.1:9/{name}", "auth": "oauth"} for name in ("far", "own")}
    profiles = {
        "staff": {"match": {"tokens": ["anna"]}, "servers": ["far"]},
        "all": {"servers": ["own"]},
    }
    config = config_file(tmp_path, far, listen=named(**TOKENS), profiles=profiles)
    with http_hub("--config", config, cwd=tmp_path, env=state) as url:
        for name, server, status in (
            ("anna", "far", 200),
            ("anna", "own", 200),
            ("bob", "far", 404),
            ("bob", "own", 200),
        ):
            with LoginBrowser(name) as browser:
                browser.open(f"{url}/logins/{server}")
                browser.show_token(TOKENS[name])
                assert browser.page.status_code == status, (name, server)


async def test_wrong_tokens_are_counted_and_nothing_of_them_is_written(
    tmp_path: Path, remote: Remote, state: dict[str, str]
) -> None:
    config = hub_config(tmp_path, remote)
    with (
        http_hub("--config", config, cwd=tmp_path, env=state) as url,
        LoginBrowser("anna") as browser,
    ):
        statuses: list[int] = []
        for at in range(MOST + 1):
            browser.open(f"{url}/logins/far")
            statuses.append(browser.send(token=f"rh_gue55ed-{at}").status_code)
            assert "gue55ed" not in browser.page.text
        assert statuses == [403] * MOST + [429]
        assert int(browser.page.headers["retry-after"]) > 0
        browser.open(f"{url}/logins/far")
        assert TOKENS["anna"] not in browser.page.text
    assert "gue55ed" not in logged(tmp_path)


async def test_logins_outlast_a_restart_are_renewed_each_alone_and_end_by_command(
    tmp_path: Path, remote: Remote, issuer: str, state: dict[str, str]
) -> None:
    config = hub_config(tmp_path, remote)
    with http_hub("--config", config, cwd=tmp_path, env=state) as url:
        async with client_of(url, TOKENS["anna"], tmp_path, "legacy") as client:
            result = await client.call_tool("remember", {"text": "0"})
            assert result.is_error
            assert f"open {url}/logins/far in a browser" in text_of(result)
            assert "roots-hub login" not in text_of(result)
            PersonWithBrowser("anna", token=TOKENS["anna"]).log_in(f"{url}/logins/far")
            assert json.loads(await call(client, "remember", text="1")) == ["1"]
        PersonWithBrowser("bob", token=TOKENS["bob"]).log_in(f"{url}/logins/far")
    directory = tmp_path / "state/roots-hub"
    files = {name: LoginFiles(directory, name) for name in TOKENS}
    kept = {name: one.read(remote.url) for name, one in files.items()}
    for name, login in kept.items():
        assert login is not None
        files[name].write(remote.url, replace(login, expires=time.time() - 1))
    with http_hub("--config", config, cwd=tmp_path, env=state) as url:
        for token in TOKENS.values():
            async with client_of(url, token, tmp_path, "auto") as client:
                assert not (await client.call_tool("remember", {"text": "2"})).is_error
        remote.was_called_by("anna", "anna", "bob")
    for name, login in kept.items():
        renewed = files[name].read(remote.url)
        assert renewed is not None
        assert login is not None
        assert renewed.access_token != login.access_token
    ended = run("logout", "far", "--as", "anna", "--config", config, **state)
    assert ended.stderr == (f"The login of anna at far is forgotten here, and also at {issuer}.\n")
    shown = run("login", "--config", config, **state).stdout
    assert shown == (
        f"far  nobody is logged in: roots-hub login far --config {config}\n"
        f"far  bob: logged in by {issuer}\n"
    )
    with http_hub("--config", config, cwd=tmp_path, env=state) as url:
        async with client_of(url, TOKENS["anna"], tmp_path, "legacy") as client:
            assert (await client.call_tool("remember", {"text": "3"})).is_error
            report = json.loads(await call(client, "get-roots"))
            assert f"open {url}/logins/far" in report["servers"][0]["reason"]
            assert "bob" not in json.dumps(report)
        async with client_of(url, TOKENS["bob"], tmp_path, "legacy") as client:
            assert not (await client.call_tool("remember", {"text": "3"})).is_error
    written = logged(tmp_path) + run("login", "--json", "--config", config, **state).stdout
    secrets = [*TOKENS.values()]
    for login in kept.values():
        assert login is not None
        secrets += [login.access_token, login.refresh_token or ""]
    assert not any(secret in written for secret in secrets)
