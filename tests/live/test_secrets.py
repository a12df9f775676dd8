"""Secrets that a config refers to: who gets them, when they are read, and where they never show."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from tests.kit.trees import plant
from tests.kit.warm import WARM_HUB, ran
from tests.live.programs import (
    call,
    config_file,
    connected,
    environment,
    http_hub,
    report,
    report_once_started,
    tools_of,
)
from tests.live.test_config_reload import serving
from tests.live.test_http_endpoint import PING, post

pytestmark = pytest.mark.live
MARKER = "m4rker-of-a-s3cret"
SHOWS = {
    "command": sys.executable,
    "args": [str(Path(__file__).parent / "environment_child.py")],
}


@pytest.fixture
def top(tmp_path: Path) -> Path:
    made = plant(tmp_path, "root/", "cache/", "state/")
    rotated(made, MARKER)
    return made


def rotated(top: Path, value: str) -> None:
    """Put a value into the file with the secret."""
    (top / "token").write_text(f"{value}\n")
    (top / "token").chmod(0o600)


def kept_in(top: Path) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(top / "cache"), "XDG_STATE_HOME": str(top / "state")}


async def variables(client: Client, tool: str) -> dict[str, str]:
    """Return the environment of a server's process."""
    found: dict[str, str] = json.loads(await call(client, tool))["environment"]
    return found


def command(top: Path, *arguments: str) -> str:
    """Run a command of the hub, and return all that it says."""
    said = ran([WARM_HUB, *arguments], timeout=60, cwd=top, env=environment(**kept_in(top)))
    return said.stdout + said.stderr


def files_with(text: str, top: Path) -> Iterator[str]:
    for path in top.rglob("*"):
        if path.is_file() and text.encode() in path.read_bytes():
            yield path.relative_to(top).as_posix()


async def test_a_secret_reaches_the_child_that_names_it_and_nothing_else(top: Path) -> None:
    env = {"FROM_FILE": "a ${file:token}", "FROM_COMMAND": "${cmd:cat token}"}
    servers = {"has": {**SHOWS, "env": env}, "lacks": SHOWS}
    config = config_file(top, servers, audit={"file": "audit.jsonl"})
    log = ["--log-level", "debug", "--log-file", str(top / "hub.log")]
    hub = [WARM_HUB, "run", "--stdio", "--config", config, *log]
    async with connected(hub, [top / "root"], cwd=top, env=kept_in(top)) as client:
        assert len(await tools_of(client, "has", "lacks")) == 3
        found = await variables(client, "has__show")
        assert found["FROM_FILE"] == f"a {MARKER}"
        assert found["FROM_COMMAND"] == MARKER
        assert MARKER not in json.dumps(await variables(client, "lacks__show"))
        assert MARKER not in json.dumps(await report(client))
        assert MARKER not in command(top, "status", "--json")
    assert "starting" in (top / "hub.log").read_text()
    assert len((top / "audit.jsonl").read_text().splitlines()) >= 2
    assert [*(top / "cache").rglob("catalogs/*")] != []
    for arguments in (
        ["plan", "--json"],
        ["plan"],
        ["check", "--json"],
        ["check", "--connect", "--json"],
        ["explain", "has.show"],
        ["doctor", "--connect"],
    ):
        name, *options = arguments
        assert MARKER not in command(top, name, "--config", config, *options), arguments
    assert [*files_with(MARKER, top)] == ["token"]


async def test_each_start_of_a_child_reads_its_secrets_again(top: Path) -> None:
    env = {"A": "${file:token}", "B": "${cmd:cat token}"}
    config = config_file(top, {"s": {**SHOWS, "env": env}})
    with http_hub("--config", config, cwd=top) as url:
        async with connected(url, [top / "root"]) as first:
            assert (await variables(first, "show"))["A"] == MARKER
            rotated(top, "another")
            async with connected(url, [top / "root"]) as second:
                found = await variables(second, "show")
                assert (found["A"], found["B"]) == ("another", "another")
            assert (await variables(first, "show"))["A"] == MARKER


async def test_each_connection_to_a_remote_server_reads_its_headers_again(top: Path) -> None:
    headers = {"Authorization": "Bearer ${file:token}", "X-More": "${cmd:cat token}"}
    with http_hub(cwd=top / "root", env={"HUB_TOKEN": "right-t0ken"}) as far:
        config = config_file(top, {"far": {"url": far, "headers": headers, "paths": "local"}})
        with http_hub("--config", config, cwd=top) as url:
            async with connected(url, [top / "root"]) as client:
                assert [tool.name for tool in (await client.list_tools()).tools] == ["get-roots"]
                (server,) = (await report(client))["servers"]
                assert "HTTP status 401 (check its headers)" in json.dumps(server)
                assert MARKER not in json.dumps(server)
            rotated(top, "right-t0ken")
            async with connected(url, [top / "root"]) as client:
                assert len((await client.list_tools()).tools) > 1


async def test_a_server_whose_secret_cannot_be_read_is_down_and_the_others_run(top: Path) -> None:
    script = "echo never-shown; echo no such entry >&2; exit 3"
    servers: dict[str, Any] = {
        "broken": {**SHOWS, "env": {"A": f"${{cmd:sh -c '{script}'}}"}},
        "missing": {**SHOWS, "env": {"A": "${file:none}"}},
        "fine": SHOWS,
    }
    config = config_file(top, servers)
    async with connected([WARM_HUB, "run", "--config", config], [top / "root"], cwd=top) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert names == ["get-roots", "fine__show"]
        assert "PATH" in await variables(client, "fine__show")
        found = (await report_once_started(client))["servers"]
        shown = {one["name"]: json.dumps(one) for one in found}
    assert (
        "servers.broken.env.A: the command 'sh' failed: exit code 3; its stderr ends: no such entry"
        in shown["broken"]
    )
    assert f"servers.missing.env.A: there is no file {top}/none" in shown["missing"]
    assert "never-shown" not in json.dumps(shown)


@pytest.mark.usefixtures("hangups")
def test_a_token_is_read_at_the_start_and_at_a_reload(top: Path) -> None:
    (top / "conf").mkdir()
    listen = {"token": "${cmd:cat ../token}"}
    with serving(top / "conf/hub.yaml", {}, listen=listen) as hub:

        def lets_in(token: str) -> bool:
            answer = post(hub.url, PING, authorization=f"Bearer {token}")
            return answer.status_code != 401

        assert lets_in(MARKER)
        assert not lets_in("${cmd:cat ../token}")
        rotated(top, "another-t0ken")
        assert lets_in(MARKER)
        hub.process.send_signal(signal.SIGHUP)
        assert hub.until("config reloaded")["keys"] == ["listen.token"]
        assert (lets_in(MARKER), lets_in("another-t0ken")) == (False, True)


def test_over_stdio_no_command_is_run_for_a_token_that_nobody_sends(top: Path) -> None:
    listen = {"token": "${cmd:touch ran}"}
    config = config_file(top, {"s": SHOWS}, listen=listen)
    done = ran([WARM_HUB, "run", "--config", config], timeout=60, env=environment(**kept_in(top)))
    assert done.returncode == 0
    assert not (top / "ran").exists()
    assert [*(top / "root").iterdir()] == []
