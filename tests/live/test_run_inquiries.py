"""`roots-hub status`, `reload` and `stop` with hubs that `roots-hub run` has started."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import pytest

from tests.kit.warm import WARM_HUB
from tests.live.attaching import attached, hubs, run, until
from tests.live.programs import SOON, http_hub

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no Unix sockets")

SHOWING = {
    "command": sys.executable,
    "args": [str(Path(__file__).with_name("environment_child.py"))],
}


def written(folder: Path, **server: object) -> str:
    file = folder / "hub.yaml"
    whole = {"version": 1, "servers": {"s": {**SHOWING, **server}}}
    file.write_text(json.dumps(whole), encoding="utf-8")
    return str(file)


def test_a_hub_on_stdio_is_found_reloaded_and_stopped(tmp_path: Path) -> None:
    config = written(tmp_path)
    stdio = (WARM_HUB, "run", "--stdio")
    with attached("--config", config, cwd=tmp_path, command=stdio) as client:
        client.open()
        first = json.loads(client.call("show"))
        until(lambda: hubs(config, tmp_path))
        (hub,) = hubs(config, tmp_path)
        assert hub["pid"] == client.process.pid
        assert [child["pid"] for child in hub["children"]] == [first["pid"]]
        assert hub["clients"] is None
        written(tmp_path, args=[*SHOWING["args"], "more"])
        said = run("reload", "--config", config, cwd=tmp_path)
        assert "servers.s.args" in said.stdout, said.stderr
        assert json.loads(client.call("show"))["arguments"] == ["more"]
        assert "stopped" in run("stop", "--config", config, cwd=tmp_path).stdout
        client.process.wait(SOON)
    assert hubs(config, tmp_path) == []


def test_what_is_wrong_with_a_config_shows_in_status(tmp_path: Path) -> None:
    config = written(tmp_path)
    with http_hub("--config", config, cwd=tmp_path):
        until(lambda: hubs(config, tmp_path))
        Path(config).write_text("{", encoding="utf-8")
        said = run("reload", "--config", config, cwd=tmp_path)
        assert said.returncode == 1
        assert hubs(config, tmp_path)[0]["config"]["error"]
        shown = run("status", "--config", config, cwd=tmp_path).stdout
        assert "config: not taken over: " in shown
        assert "  clients: not counted, as `run` started it\n" in shown


def test_a_hub_that_was_killed_leaves_nothing_that_status_trips_over(tmp_path: Path) -> None:
    config = written(tmp_path)
    stdio = (WARM_HUB, "run", "--stdio")
    with attached("--config", config, cwd=tmp_path, command=stdio) as client:
        client.open()
        until(lambda: hubs(config, tmp_path))
        client.process.send_signal(signal.SIGKILL)
        client.process.wait(SOON)
    assert hubs(config, tmp_path) == []
