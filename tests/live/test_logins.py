"""A hub before a remote server where somebody logs in: a real authorization server, a real hub."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from hub.logins.issuer_requests import LoginEndedError, renewed
from hub.logins.login_files import LoginFiles
from tests.kit.keyrings import FileKeyring
from tests.kit.warm import ROOTS_HUB, WARM_HUB, AnyProcess, popen, ran
from tests.live.programs import (
    SOON,
    SharedFolders,
    authorization_server,
    call,
    config_file,
    connected,
    environment,
    http_hub,
    login_wanting_hub,
)
from tests.live.test_named_tokens import SERVERS, client_of
from tests.live.test_oauth import SCOPE

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def issuer(
    resource: str,
    tmp_path_factory: pytest.TempPathFactory,
    npm_package: Callable[[str], str],
) -> Generator[str]:
    node, folder = npm_package("oidc-provider"), tmp_path_factory.mktemp("issuer")
    with authorization_server(node, resource, SCOPE, cwd=folder) as issuer:
        yield issuer


@pytest.fixture
def remote(tmp_path: Path, resource: str, issuer: str) -> Generator[str]:
    """Serve a remote server that wants tokens of the issuer."""
    with login_wanting_hub(tmp_path / "remote", resource, issuer, SERVERS) as url:
        yield url


@contextmanager
def logging_in(
    config: str, *options: str, env: dict[str, str] | None = None, hub: str = WARM_HUB
) -> Generator[tuple[AnyProcess, str]]:
    """Run `roots-hub login far`, and yield it with the first address that it shows."""
    command = [hub, "login", "far", "--config", config, *(options or ["--no-browser"])]
    with popen(
        command,
        env=environment(**(env or {})),
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stderr is not None
        lines: list[str] = []
        for line in running.stderr:
            lines.append(line)
            if line.startswith("  http"):
                break
        else:
            pytest.fail("".join(lines))
        yield running, lines[-1].strip()
        running.wait(SOON)


def browse(url: str, name: str) -> str:
    """Follow a login as the user `name` to the address of this machine; return that."""
    place = f"{url}&login_hint={name}"
    with httpx2.Client() as http:
        while "/callback?" not in place:
            response = http.get(place)
            assert response.is_redirect, response.text
            assert response.next_request is not None
            place = str(response.next_request.url)
    return place


def enter(url: str, *, abort: bool = False) -> None:
    """Open the address of a device login, send the forms there, and log in."""
    with httpx2.Client(follow_redirects=True) as http:
        page = http.get(url)
        while fields := dict(re.findall(r'name="(\w+)" value="([^"]*)"', page.text)):
            is_last = "confirm" in fields
            more = {"abort": "yes"} if is_last and abort else {}
            page = http.post(url.partition("?")[0], data={**fields, **more})
            if is_last:
                break
    assert abort != ("you can now close this page" in page.text), page.text


def run(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return ran([WARM_HUB, *arguments], env=environment(**more), timeout=SOON)


async def test_a_person_logs_in_and_the_hub_calls_the_server(
    tmp_path: Path, remote: str, issuer: str
) -> None:
    config = config_file(tmp_path, {"far": {"url": remote, "auth": "oauth"}})
    command = [WARM_HUB, "run", "--config", config]
    assert "nobody is logged in: roots-hub login far" in run("login", "--config", config).stdout
    async with connected(command, SharedFolders([tmp_path]), cwd=tmp_path) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        assert tools == ["get-roots"]
        report = json.loads(await call(client, "get-roots"))
        assert "roots-hub login far" in report["servers"][0]["reason"]
    with logging_in(config) as (running, url):
        assert "code_challenge_method=S256" in url
        assert "resource=" in url
        answer = httpx2.get(browse(url, "anna"))
        assert "The answer has come" in answer.text
    assert running.returncode == 0
    assert f"logged in by {issuer}" in run("login", "--config", config).stdout
    async with connected(command, SharedFolders([tmp_path]), cwd=tmp_path) as client:
        assert json.loads(await call(client, "remember", text="1")) == ["1"]
    assert run("logout", "far", "--config", config).returncode == 0
    assert "nobody is logged in" in run("login", "--config", config).stdout


def test_the_installed_command_logs_in_and_out(tmp_path: Path, remote: str, issuer: str) -> None:
    """It loads the SDK's client itself: the other tests fork a process that has done so."""
    config = config_file(tmp_path, {"far": {"url": remote, "auth": "oauth"}})
    with logging_in(config, hub=ROOTS_HUB) as (running, url):
        assert "The answer has come" in httpx2.get(browse(url, "anna")).text
    assert running.returncode == 0

    def said(*arguments: str) -> str:
        command, env = [ROOTS_HUB, *arguments, "--config", config], environment()
        done = subprocess.run(  # noqa: S603 - the hub
            command, env=env, timeout=SOON, capture_output=True, text=True, check=True
        )
        return done.stdout + done.stderr

    assert f"logged in by {issuer}" in said("login")
    assert f"is forgotten here, and also at {issuer}" in said("logout", "far")


async def test_clients_with_tokens_of_their_own_do_not_get_the_users_login(
    tmp_path: Path, remote: str
) -> None:
    tokens = [{"name": "anna", "token": "rh_of-anna-0123456789"}]
    far = {"url": remote, "auth": "oauth"}
    config = config_file(tmp_path, {"far": far}, listen={"tokens": tokens})
    with logging_in(config) as (_, url):
        httpx2.get(browse(url, "anna"))
    with http_hub("--config", config, cwd=tmp_path) as hub:
        async with client_of(hub, tokens[0]["token"], tmp_path, "legacy") as client:
            report = json.loads(await call(client, "get-roots"))
            await client.list_tools()
            report = json.loads(await call(client, "get-roots"))
            assert f"nobody is logged in: open {hub}/logins/far" in report["servers"][0]["reason"]
    shared = config_file(
        tmp_path, {"far": {**far, "auth": {"shared": True}}}, listen={"tokens": tokens}
    )
    with http_hub("--config", shared, cwd=tmp_path) as hub:
        async with client_of(hub, tokens[0]["token"], tmp_path, "legacy") as client:
            assert json.loads(await call(client, "remember", text="1")) == ["1"]


async def test_a_person_logs_in_on_another_device(tmp_path: Path, remote: str, issuer: str) -> None:
    config = config_file(tmp_path, {"far": {"url": remote, "auth": "oauth"}})
    with logging_in(config, "--device") as (running, address):
        assert running.stderr is not None
        lines = [running.stderr.readline().strip() for _ in range(4)]
        code, whole = lines[1], lines[3]
        assert whole == f"{address}?user_code={code}"
        enter(whole)
        assert running.stderr.read() == f"Logged in at far, by {issuer}.\n"
    assert running.returncode == 0
    command = [WARM_HUB, "run", "--config", config]
    async with connected(command, SharedFolders([tmp_path]), cwd=tmp_path) as client:
        assert json.loads(await call(client, "remember", text="1")) == ["1"]
    assert f"and also at {issuer}." in run("logout", "far", "--config", config).stderr


def test_a_person_refuses_a_login_on_another_device(tmp_path: Path, remote: str) -> None:
    config = config_file(tmp_path, {"far": {"url": remote, "auth": "oauth"}})
    with logging_in(config, "--device") as (running, _):
        assert running.stderr is not None
        lines = [running.stderr.readline().strip() for _ in range(4)]
        enter(lines[3], abort=True)
        said = running.stderr.read()
    assert running.returncode == 1
    assert said == (
        "roots-hub: servers.far: no login: it was refused there\n"
        f"Try again: roots-hub login far --config {config}\n"
    )


async def test_a_login_can_be_kept_by_a_key_in_the_keyring(
    tmp_path: Path, remote: str, issuer: str
) -> None:
    keyring = FileKeyring(tmp_path / "keyring")
    path = os.pathsep.join(filter(None, (str(keyring.directory), os.environ.get("PYTHONPATH"))))
    env = {"XDG_STATE_HOME": str(tmp_path / "state"), "PYTHONPATH": path}
    config = config_file(tmp_path, {"far": {"url": remote, "auth": {"keep": "keyring"}}})
    with logging_in(config, env=env) as (_, url):
        httpx2.get(browse(url, "anna"))
    assert list(keyring.passwords) == ["roots-hub/logins"]
    assert not (tmp_path / "state/roots-hub/login-key").exists()
    command = [WARM_HUB, "run", "--config", config]
    async with connected(command, SharedFolders([tmp_path]), cwd=tmp_path, env=env) as client:
        assert json.loads(await call(client, "remember", text="1")) == ["1"]
    ended = run("logout", "far", "--config", config, **env)
    assert f"is forgotten here, and also at {issuer}." in ended.stderr


def test_without_a_keyring_nobody_is_sent_to_log_in(tmp_path: Path, remote: str) -> None:
    keyring = FileKeyring(tmp_path / "keyring")
    keyring.become(is_missing=True)
    path = os.pathsep.join(filter(None, (str(keyring.directory), os.environ.get("PYTHONPATH"))))
    config = config_file(tmp_path, {"far": {"url": remote, "auth": {"keep": "keyring"}}})
    refused = run("login", "far", "--config", config, "--no-browser", PYTHONPATH=path)
    assert refused.returncode == 1
    assert refused.stderr == (
        "roots-hub: servers.far.auth.keep: the keyring cannot be read (RuntimeError)\n"
        "Run `keyring diagnose`. Or say `keep: file`.\n"
    )


async def test_a_logout_ends_the_login_at_the_issuer_too(
    tmp_path: Path, remote: str, issuer: str
) -> None:
    state = {"XDG_STATE_HOME": str(tmp_path / "state")}
    config = config_file(tmp_path, {"far": {"url": remote, "auth": "oauth"}})
    with logging_in(config, env=state) as (_, url):
        httpx2.get(browse(url, "anna"))
    login = LoginFiles(tmp_path / "state/roots-hub").read(remote)
    assert login is not None
    assert login.refresh_token is not None
    login = await renewed(login, time.time())
    LoginFiles(tmp_path / "state/roots-hub").write(remote, login)
    ended = run("logout", "far", "--config", config, **state)
    assert ended.returncode == 0
    assert f"is forgotten here, and also at {issuer}." in ended.stderr
    with pytest.raises(LoginEndedError, match="invalid_grant"):
        await renewed(login, time.time())


def test_no_token_is_in_what_the_hub_writes(tmp_path: Path, remote: str) -> None:
    state = tmp_path / "state"
    config = config_file(tmp_path, {"far": {"url": remote, "auth": "oauth"}})
    with logging_in(config, env={"XDG_STATE_HOME": str(state)}) as (running, url):
        place = browse(url, "anna")
        httpx2.get(place)
    assert running.returncode == 0
    files = [one for one in state.rglob("*") if one.is_file()]
    assert files
    for one in files:
        assert one.stat().st_mode & 0o077 == 0
        assert b"access_token" not in one.read_bytes()
