"""A config that changes again and again while calls are made: no call of the others notices."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Generator, Mapping
from pathlib import Path
from threading import Event, Semaphore, Thread
from typing import Any

import pytest

from hub import __version__
from hub.attach.lifeline import ask
from hub.attach.runtime_directory import HubPlace, RuntimeDirectory
from tests.live.attaching import AttachedClient, attached, hubs, run
from tests.live.programs import SOON

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no Unix sockets")

RELOADS = int(os.environ.get("RELOADS", "40"))
SHOWING: dict[str, Any] = {
    "command": sys.executable,
    "args": [str(Path(__file__).with_name("environment_child.py"))],
    "share": "roots",
}


def write(folder: Path, number: int) -> None:
    """Write a config with one server that stays, one that changes, and a policy that changes."""
    servers = {
        "kept": {**SHOWING, "timeout": 100 + number % 2},
        f"other{number % 3}": {**SHOWING, "args": [*SHOWING["args"], str(number % 2)]},
    }
    whole: dict[str, Any] = {"version": 1, "linger": 60, "names": "always", "servers": servers}
    whole["roots"] = {"deny": [f"*.{number % 5}"]}
    (folder / "hub.new").write_text(json.dumps(whole), encoding="utf-8")
    (folder / "hub.new").replace(folder / "hub.yaml")


@pytest.fixture
def config(tmp_path: Path) -> Generator[str]:
    write(tmp_path, 0)
    yield str(tmp_path / "hub.yaml")
    run("stop", "--config", str(tmp_path / "hub.yaml"), cwd=tmp_path)


class SteadyCaller:
    """Calls an unchanged server all the time, in a thread."""

    def __init__(self, client: AttachedClient) -> None:
        self._client = client
        self._is_over = Event()
        self.pids: set[int] = set()
        self.failed: list[str] = []
        self.calls = 0
        self.answered = Semaphore(0)
        self._thread = Thread(target=self._call)

    def __enter__(self) -> SteadyCaller:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _call(self) -> None:
        while not self._is_over.is_set():
            self.calls += 1
            answer = self._client.ask("tools/call", name="kept__show", arguments={})
            if "content" not in answer or answer.get("isError"):
                self.failed.append(json.dumps(answer))
            else:
                self.pids.add(json.loads(answer["content"][0]["text"])["pid"])
            self.answered.release()


class AskedHub:
    """The one hub of a config, asked without a process for each question."""

    def __init__(self, config: str) -> None:
        directory = RuntimeDirectory.opened(os.environ)
        places = [HubPlace(directory, name) for name in directory.names()]
        (self._place,) = [
            place
            for place in places
            if (ask(place, "status", __version__) or {}).get("serves") == config
        ]

    def __call__(self, kind: str) -> Mapping[str, object]:
        said = ask(self._place, kind, __version__)
        assert said is not None
        return said


def test_calls_of_unchanged_servers_go_on(config: str, tmp_path: Path) -> None:
    memory: list[int] = []
    with attached("--config", config, cwd=tmp_path) as client:
        client.open()
        hub = AskedHub(config)
        with SteadyCaller(client) as caller:
            assert caller.answered.acquire(timeout=SOON), "its process has not started"
            for number in range(RELOADS):
                write(tmp_path, number + 1)
                said = hub("reload")
                assert said["ok"], said
                assert caller.answered.acquire(timeout=SOON)
                if number in {RELOADS // 2, RELOADS - 1}:
                    memory.append(hubs(config, tmp_path)[0]["memory"])
    assert caller.failed == []
    assert len(caller.pids) == 1, "its process was never replaced"
    assert caller.calls > RELOADS
    assert memory[1] < memory[0] * 1.2, f"what a reload leaves behind grows: {memory}"
    if RELOADS > 100:
        print(f"{caller.calls} calls; bytes in the middle and at the end: {memory}")  # noqa: T201 - asked for
