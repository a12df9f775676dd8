"""What attached clients share: a process where all is equal, and nothing of each other's else."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.kit.trees import plant
from tests.live.attaching import AttachedClient, attached, hubs, run, until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no Unix sockets")

SHOWING = {
    "command": sys.executable,
    "args": [str(Path(__file__).with_name("environment_child.py")), "${PROJECT:-none}"],
    "share": "roots",
}


@pytest.fixture
def folder(tmp_path: Path) -> Generator[Path]:
    """Yield a directory; the hub for its config ends with the test."""
    yield tmp_path
    run("stop", "--config", str(tmp_path / "hub.yaml"), cwd=tmp_path)


def config_in(folder: Path, **server: Any) -> str:
    """Write the config, or write it anew, and return its path."""
    return written(folder, {"s": {**SHOWING, **server}})


def written(folder: Path, servers: Mapping[str, Any], **keys: Any) -> str:
    file = folder / "hub.yaml"
    whole = {"version": 1, "linger": 60, "names": "always", **keys, "servers": servers}
    file.write_text(json.dumps(whole), encoding="utf-8")
    return str(file)


class Clients:
    """Attached clients of one config."""

    def __init__(self, config: str, cwd: Path, stack: ExitStack) -> None:
        self._config = config
        self._cwd = cwd
        self._stack = stack

    def one(self, *arguments: str, cwd: Path | None = None, **environment: str) -> AttachedClient:
        client = self._stack.enter_context(
            attached("--config", self._config, *arguments, cwd=cwd or self._cwd, env=environment)
        )
        client.open()
        return client


def shown(client: AttachedClient) -> Mapping[str, Any]:
    return json.loads(client.call("s__show"))


def test_what_tells_two_terminals_apart_starts_no_second_process(folder: Path) -> None:
    config = config_in(folder)
    with ExitStack() as stack:
        clients = Clients(config, folder, stack)
        first = shown(clients.one(TERM_SESSION_ID="1", SHLVL="1", WINDOWID="7"))
        second = shown(clients.one(TERM_SESSION_ID="2", SHLVL="2", WINDOWID="8"))
        (hub,) = hubs(config, folder)
        (child,) = hub["children"]
    assert first["pid"] == second["pid"] == child["pid"]
    assert {"TERM_SESSION_ID", "SHLVL", "WINDOWID"}.isdisjoint(first["environment"])
    assert (child["server"], child["state"]) == ("s", "ready")
    assert child["memory"] > 1_000_000


def test_another_variable_of_the_config_starts_another_process(folder: Path) -> None:
    config = config_in(folder, env={"KEY": "${API_KEY}"})
    with ExitStack() as stack:
        clients = Clients(config, folder, stack)
        alice = shown(clients.one(API_KEY="a-secret", PROJECT="one"))
        bob = shown(clients.one(API_KEY="b-secret", PROJECT="two"))
        again = shown(clients.one(API_KEY="a-secret", PROJECT="one"))
    assert alice["pid"] == again["pid"] != bob["pid"]
    assert (alice["arguments"], bob["arguments"]) == (["one"], ["two"])
    assert (alice["environment"]["KEY"], bob["environment"]["KEY"]) == ("a-secret", "b-secret")
    assert "b-secret" not in json.dumps(alice)
    assert "a-secret" not in json.dumps(bob)
    assert "API_KEY" not in alice["environment"]


def test_another_path_starts_another_process(folder: Path) -> None:
    config = config_in(folder)
    with ExitStack() as stack:
        clients = Clients(config, folder, stack)
        paths = [f"/opt/{name}:/usr/bin:/bin" for name in ("one", "two")]
        found = [shown(clients.one(PATH=path)) for path in paths]
    assert [one["environment"]["PATH"] for one in found] == paths
    assert found[0]["pid"] != found[1]["pid"]


def test_a_server_with_the_whole_environment_is_each_clients_own(folder: Path) -> None:
    config = config_in(folder, environment="all")
    with ExitStack() as stack:
        clients = Clients(config, folder, stack)
        first, second = shown(clients.one(SHLVL="1")), shown(clients.one(SHLVL="1"))
    assert first["pid"] != second["pid"]
    assert first["environment"]["SHLVL"] == "1"


def test_a_client_whose_variable_is_not_set_is_told_and_others_are_served(folder: Path) -> None:
    config = config_in(folder, env={"KEY": "${API_KEY}"})
    with ExitStack() as stack:
        clients = Clients(config, folder, stack)
        served = clients.one(API_KEY="a-secret")
        other = stack.enter_context(attached("--config", config, cwd=folder))
        assert other.process.wait(60) == 3
        assert "the variable API_KEY is not set" in other.errors()
        assert shown(served)["environment"]["KEY"] == "a-secret"


def test_folders_of_the_command_line_and_of_the_directory_are_each_clients_own(
    folder: Path,
) -> None:
    top = plant(folder, "a/.git/", "b/")
    config = written(folder, {"s": SHOWING}, roots={"detect": True})
    with ExitStack() as stack:
        clients = Clients(config, folder, stack)
        detected = clients.one(cwd=top / "a")
        given = clients.one("--root", ".", cwd=top / "b")
        assert shown(detected)["directory"] == f"{top}/a"
        assert shown(given)["directory"] == f"{top}/b"


def test_a_changed_config_reaches_every_client_and_replaces_what_changed(folder: Path) -> None:
    config = config_in(folder)
    with ExitStack() as stack:
        clients = Clients(config, folder, stack)
        first, second = clients.one(), clients.one(PROJECT="two")
        before = shown(first)["pid"], shown(second)["pid"]
        config_in(folder, idle_stop=77)
        said = run("reload", "--config", config, cwd=folder)
        assert said.returncode == 0, said.stdout + said.stderr
        assert "servers.s.idle_stop" in said.stdout
        assert (shown(first)["pid"], shown(second)["pid"]) == before
        config_in(folder, args=[*SHOWING["args"], "more"])
        assert "servers.s.args" in run("reload", "--config", config, cwd=folder).stdout
        assert shown(first)["arguments"] == ["none", "more"]
        assert shown(second)["arguments"] == ["two", "more"]
        until(lambda: len(hubs(config, folder)[0]["children"]) == 2)


def test_a_config_that_is_wrong_now_is_told_and_changes_nothing(folder: Path) -> None:
    config = config_in(folder)
    with ExitStack() as stack:
        client = Clients(config, folder, stack).one()
        before = shown(client)["pid"]
        Path(config).write_text("{", encoding="utf-8")
        said = run("reload", "--config", config, cwd=folder)
        assert said.returncode == 1
        assert "Nothing was taken over" in said.stdout
        assert shown(client)["pid"] == before
