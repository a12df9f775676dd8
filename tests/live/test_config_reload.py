"""A hub that runs takes over what changes in its config; what a call may have written waits."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hub.roots.roots import RootCondition
from tests.kit.warm import WARM_HUB, AnyProcess, popen
from tests.live.programs import SOON, connected, environment, report

pytestmark = pytest.mark.usefixtures("hangups")

WAITS = "config changed: this waits for `roots-hub reload`"


class EditedHub:
    """A hub with the config `file`, which a test edits."""

    def __init__(self, process: AnyProcess, file: Path) -> None:
        self.process = process
        self.file = file
        assert process.stdout is not None
        self.url = process.stdout.readline().removeprefix("roots-hub serves ").strip()

    def write(self, roots: object, **keys: Any) -> None:
        self.file.write_text(text(roots, **keys))

    def until(self, event: str) -> dict[str, Any]:
        """Return the next line of the log with this event."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            found = json.loads(line)
            if found["event"] == event:
                return found
        raise AssertionError(event)


def text(roots: object, **keys: Any) -> str:
    servers = {"s": {"command": "cat"}}
    return json.dumps({"version": 1, "roots": roots, "servers": servers, **keys})


@contextmanager
def serving(file: Path, roots: object, **keys: Any) -> Generator[EditedHub]:
    file.write_text(text(roots, **keys))
    command = [WARM_HUB, "--log-format", "json", "run", "--http", "127.0.0.1:0"]
    with popen(
        [*command, "--config", str(file)],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield EditedHub(process, file)
        finally:
            process.terminate()
            assert process.wait(SOON) == 0


@pytest.fixture
def top(tmp_path: Path) -> Path:
    for name in ("conf", "a", "b"):
        (tmp_path / name).mkdir()
    return tmp_path


async def test_a_config_beyond_all_roots_is_taken_over(top: Path) -> None:
    with serving(top / "conf/hub.yaml", {"fallback": ["../a"]}) as hub:
        async with connected(hub.url) as client:
            assert (await report(client))["filePaths"] == [f"{top}/a"]
            hub.write({"fallback": ["../a", "../b"]})
            assert hub.until("config reloaded")["keys"] == ["roots.fallback"]
            found = await report(client)
            assert found["filePaths"] == [f"{top}/a", f"{top}/b"]
            assert found["config"] == {"file": str(hub.file), "error": None, "waiting": []}


async def test_a_folder_that_was_made_anew_counts_once_the_user_reloads(top: Path) -> None:
    with serving(top / "conf/hub.yaml", {"fallback": ["../a"], "ceiling": ["../a", "../b"]}) as hub:
        async with connected(hub.url) as client, connected(hub.url, [top / "b"]) as sharing:
            for shown in (client, sharing):
                assert (await report(shown))["filePaths"] != []
            for name in "ab":
                (top / name).rename(top / f"old-{name}")
                (top / name).mkdir()
            found = await report(client)
            reasons = [one["reason"] for one in found["rejected"]]
            assert (found["filePaths"], reasons) == ([], [RootCondition.REPLACED.value])
            hub.process.send_signal(signal.SIGHUP)
            hub.until("config reloaded")
            found = await report(client)
            assert (found["filePaths"], found["rejected"]) == ([f"{top}/a"], [])
            assert (await report(sharing))["filePaths"] == [], "a client shares its roots anew"


async def test_a_config_in_a_clients_root_is_taken_over_as_far_as_it_tightens(top: Path) -> None:
    with serving(top / "hub.yaml", {"fallback": ["a"], "ceiling": ["."]}) as hub:
        async with connected(hub.url, [top]) as sharing, connected(hub.url) as other:
            assert (await report(sharing))["filePaths"] == [str(top)]
            hub.write({"fallback": ["b"], "ceiling": ["a", "b"]})
            line = hub.until(WAITS)
            assert (line["key"], line["because"]) == (
                "roots.fallback",
                f"the file lies in a root of a client: {top}",
            )
            found = await report(sharing)
            assert found["ceiling"] == [f"{top}/a", f"{top}/b"]
            assert found["config"]["waiting"] == ["roots.fallback"]
            assert (await report(other))["filePaths"] == []
            hub.process.send_signal(signal.SIGHUP)
            assert hub.until("config reloaded")["keys"] == ["roots.fallback"]
            found = await report(other)
            assert (found["filePaths"], found["config"]["waiting"]) == ([f"{top}/b"], [])


async def test_a_new_server_in_a_file_that_a_client_shares_waits_for_the_user(top: Path) -> None:
    with serving(top / "hub.yaml", {}) as hub:
        async with connected(hub.url, [top]) as client:
            await report(client)
            more = {"s": {"command": "cat", "timeout": 5}, "evil": {"command": "sh"}}
            hub.write({}, guard="off", names="always", servers=more)
            keys = [hub.until(WAITS)["key"] for _ in range(3)]
            assert keys == ["guard.mode", "names", "servers.evil"]
            found = await report(client)
            assert [one["name"] for one in found["servers"]] == ["s"]
            assert found["mode"] == "enforce"
            assert found["config"]["waiting"] == keys
            hub.process.send_signal(signal.SIGHUP)
            assert hub.until("config reloaded")["keys"] == keys
            found = await report(client)
            assert [one["name"] for one in found["servers"]] == ["s", "evil"]
            assert (found["mode"], found["config"]["waiting"]) == ("off", [])
            hub.write({}, servers={"s": more["s"]})
            assert hub.until("config reloaded")["keys"] == ["guard.mode", "servers.evil"]
            assert [one["name"] for one in (await report(client))["servers"]] == ["s"]


async def test_a_mistake_is_told_until_it_is_mended(top: Path) -> None:
    with serving(top / "conf/hub.yaml", {"fallback": ["../a"]}) as hub:
        async with connected(hub.url) as client:
            hub.write({"fallbck": ["../b"]})
            told = hub.until("config not reloaded: the old one stays")
            where = f"{hub.file}: roots.fallbck"
            assert (told["where"], told["what"]) == (where, "unknown key")
            found = await report(client)
            assert found["config"]["error"] == f"{where}: unknown key. Write `fallback`."
            assert found["filePaths"] == [f"{top}/a"]
            hub.file.unlink()
            told = hub.until("config not reloaded: the old one stays")
            assert (told["where"], told["what"]) == (str(hub.file), "no such file")
            hub.write({"fallback": ["../a"]})
            hub.until("config is in order again")
            assert (await report(client))["config"]["error"] is None
