"""A hub before a remote server where somebody logs in: a real authorization server, a real hub."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.kit.trees import plant
from tests.live.programs import (
    ROOTS_HUB,
    SOON,
    Shared,
    call,
    config_file,
    connected,
    environment,
    http_hub,
    program,
)
from tests.live.test_named_tokens import SERVERS
from tests.live.test_oauth import SCOPE

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def resource() -> str:
    """Return the URL of a remote server that does not run yet."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return f"http://127.0.0.1:{probe.getsockname()[1]}/mcp"


@pytest.fixture(scope="module")
def issuer(
    resource: str,
    tmp_path_factory: pytest.TempPathFactory,
    npm_package: Callable[[str], str],
) -> Generator[str]:
    node = npm_package("oidc-provider")
    serves = [node, str(Path(__file__).with_name("authorization_server.mjs")), resource, SCOPE]
    with program(serves, cwd=tmp_path_factory.mktemp("issuer")) as running:
        yield running.first_line("issuer ")


@pytest.fixture
def remote(tmp_path: Path, resource: str, issuer: str) -> Generator[str]:
    """Serve a remote server that wants tokens of the issuer."""
    top = plant(tmp_path, "remote/")
    auth = {"resource": resource, "issuers": [{"issuer": issuer}], "scopes": [SCOPE]}
    config = config_file(top / "remote", SERVERS, listen={"auth": auth})
    address = urlsplit(resource).netloc
    with http_hub("--http", address, "--config", config, cwd=top / "remote") as url:
        yield url


@contextmanager
def logging_in(config: str, *options: str) -> Generator[tuple[subprocess.Popen[str], str]]:
    """Run `roots-hub login far`, and yield it with the address that it wants to be opened."""
    command = [ROOTS_HUB, "login", "far", "--config", config, "--no-browser", *options]
    with subprocess.Popen(  # noqa: S603 - ours
        command,
        env=environment(),
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


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - ours
        [ROOTS_HUB, *arguments],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=SOON,
        check=False,
    )


async def test_a_person_logs_in_and_the_hub_calls_the_server(
    tmp_path: Path, remote: str, issuer: str
) -> None:
    config = config_file(tmp_path, {"far": {"url": remote, "auth": "oauth"}})
    command = [ROOTS_HUB, "run", "--config", config]
    assert "nobody is logged in: roots-hub login far" in run("login", "--config", config).stdout
    async with connected(command, Shared([tmp_path]), cwd=tmp_path) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        assert tools == ["get-roots"]
        report = json.loads(await call(client, "get-roots"))
        assert "roots-hub login far" in report["servers"][0]["reason"]
    with logging_in(config) as (running, url):
        assert "code_challenge_method=S256" in url
        assert "resource=" in url
        answer = httpx2.get(browse(url, "anna"))
        assert "You are logged in" in answer.text
    assert running.returncode == 0
    assert f"logged in by {issuer}" in run("login", "--config", config).stdout
    async with connected(command, Shared([tmp_path]), cwd=tmp_path) as client:
        assert json.loads(await call(client, "remember", text="1")) == ["1"]
    assert run("logout", "far", "--config", config).returncode == 0
    assert "nobody is logged in" in run("login", "--config", config).stdout
