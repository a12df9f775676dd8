"""The log of a whole hub: who its lines are about, how much they say, and where they go."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from mcp.types import Implementation

from tests.kit.warm import WARM_HUB, ran
from tests.live.programs import RECORDER, SOON, call, config_file, connected

SERVER = {"command": RECORDER[0], "args": [*RECORDER[1:], "${roots}"]}
NAMED = Implementation(name="inspector", version="2.1")


async def logged(top: Path, *arguments: str) -> list[dict[str, Any]]:
    """Return the log of a hub whose client makes a call that passes and one that is refused."""
    root, log = top / "root", top / "hub.log"
    root.mkdir()
    (root / "a.txt").write_text("here")
    config = config_file(top, {"files": SERVER})
    command = [WARM_HUB, "run", "--config", config, "--log-file", str(log), *arguments]
    async with connected([*command, "--log-format", "json"], [root], client_info=NAMED) as client:
        await call(client, "read_file", path=str(root / "a.txt"))
        await call(client, "read_file", path="/etc/passwd")
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    return [json.loads(line) for line in log.read_text().splitlines()]


async def test_a_refusal_names_the_client_and_its_session(tmp_path: Path) -> None:
    lines = await logged(tmp_path)
    (greeted,) = [line for line in lines if line["event"] == "client"]
    (refused,) = [line for line in lines if line["event"] == "refused"]
    assert greeted["client"] == refused["client"] == "inspector"
    assert greeted["version"] == "2.1"
    assert greeted["session"] == refused["session"]
    assert not [line for line in lines if line["level"] == "debug"]


async def test_debug_says_more_than_info(tmp_path: Path) -> None:
    lines = await logged(tmp_path, "--log-level", "debug")
    debug = [line for line in lines if line["level"] == "debug"]
    (session,) = {line["session"] for line in lines if line["event"] == "client"}
    starting = next(line for line in debug if line["event"] == "starting")
    assert starting["argv"][-1] == str(tmp_path / "root")
    roots = next(line for line in debug if line["event"] == "roots")
    assert (roots["session"], roots["paths"]) == (session, [str(tmp_path / "root")])
    calls = [line for line in debug if line["event"] == "call"]
    assert [(one["tool"], one["verdict"]) for one in calls] == [
        ("read_file", "admitted"),
        ("read_file", "refused"),
    ]
    assert {one["session"] for one in calls} == {session}


async def test_no_call_writes_the_log_file(tmp_path: Path) -> None:
    log = tmp_path / "hub.log"
    command = [WARM_HUB, "run", "--log-file", str(log)]
    async with connected(command, [tmp_path], cwd=tmp_path) as client:
        said = await call(client, "write_file", path=str(log), content="nothing happened")
        assert "one of the hub's own files" in said


@pytest.mark.parametrize("kind", ["directory", "link"])
def test_a_log_file_that_cannot_be_used_ends_the_start(kind: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.mkdir() if kind == "directory" else log.symlink_to(tmp_path / "elsewhere")
    done = ran([WARM_HUB, "schema", "--log-file", str(log)], timeout=SOON)
    assert done.returncode == 1
    assert done.stderr.startswith(f"roots-hub: --log-file {log}: ")


def test_the_error_that_ends_the_hub_is_in_the_log_file(tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = [WARM_HUB, "check", "--config", "none.yaml", "--log-file", str(log)]
    done = ran(command, timeout=SOON)
    assert done.returncode == 3
    assert "none.yaml: no such file" in log.read_text()
    assert done.stderr.count("none.yaml: no such file") == 1
