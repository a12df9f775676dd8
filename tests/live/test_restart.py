"""HTTP sessions that go on when the hub's process is replaced by another one."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from hub.protocol.input_requests import CONSENT_KEY, ROOTS_KEY
from tests.kit.ports import free_port
from tests.kit.warm import WARM_HUB
from tests.live.file_readers import LegacyReader, ModernReader
from tests.live.programs import (
    RECORDER,
    SOON,
    Program,
    SharedFolders,
    call,
    config_file,
    connected,
    environment,
    program,
)
from tests.live.test_http_endpoint import HEADERS, PING, post
from tests.live.test_parked_calls import CHILD, PlainCaller, question

OUTSIDE = "outside the allowed roots"
FILES = {"command": RECORDER[0], "args": RECORDER[1:], "share": "roots"}
SESSIONS = int(os.environ.get("RESTART_SESSIONS", "30"))


class Place:
    """A hub's address, folder and state directory; its processes come and go."""

    def __init__(self, tree: Path, state: Path, *arguments: str) -> None:
        self.port = free_port()
        self.tree, self.state, self.arguments = tree, state, arguments
        self.url = f"http://127.0.0.1:{self.port}/mcp"

    @contextmanager
    def hub(self) -> Generator[Program]:
        """Run one process of the hub."""
        argv = [WARM_HUB, "run", "--http", f"127.0.0.1:{self.port}", *self.arguments]
        env = {"XDG_STATE_HOME": str(self.state)}
        with program(argv, cwd=self.tree / "project", env=env) as running:
            running.first_line("roots-hub serves ")
            yield running


@pytest.fixture
def place(tree: Path, tmp_path: Path) -> Place:
    config = config_file(tmp_path, {"files": FILES})
    return Place(tree, tmp_path / "state", "--config", config)


@pytest.mark.parametrize("ended_by", [signal.SIGTERM, signal.SIGKILL])
def test_no_idle_session_is_lost_by_a_restart(place: Place, ended_by: signal.Signals) -> None:
    project = place.tree / "project"
    with place.hub() as hub:
        clients = [LegacyReader(place.url, project) for _ in range(SESSIONS)]
        assert OUTSIDE in clients[0].read(place.tree / "private/secret.txt")
        hub.process.send_signal(ended_by)
        hub.process.wait(SOON)
    with place.hub():
        for client in clients:
            client.asked = 0
            assert client.read(project / "a.txt") == "project/a.txt"
            assert OUTSIDE in client.read(place.tree / "private/secret.txt")
            assert client.asked == 1
    assert {status for client in clients for status in client.statuses} == {200, 202}
    for client in clients:
        client.http.close()


def test_what_was_deleted_or_forged_is_not_there_after_a_restart(place: Place) -> None:
    with place.hub():
        first, second = (LegacyReader(place.url, place.tree / "project") for _ in range(2))
        gone = httpx2.delete(place.url, headers={**HEADERS, "mcp-session-id": first.key})
        assert gone.status_code == 200
    (name,) = [path for path in place.state.rglob("*") if path.name.startswith("http-ended-")]
    key = place.state / "roots-hub/http-key"
    assert [stat.S_IMODE(path.stat().st_mode) for path in (name, key)] == [0o600, 0o600]
    with place.hub():
        forged = second.key[:-1] + ("A" if second.key[-1] != "A" else "B")
        for id_ in (first.key, forged, "x" * 2000):
            assert post(place.url, PING, mcp_session_id=id_).status_code == 404
        assert post(place.url, PING, mcp_session_id=second.key).status_code == 200
        second.http.close()
        first.http.close()


async def test_the_python_sdks_client_goes_on(place: Place) -> None:
    project = place.tree / "project"
    roots = SharedFolders([project])
    notes = str(project / "a.txt")
    with place.hub() as hub:
        async with connected(place.url, roots) as client:
            before = await call(client, "read_file", path=notes)
            assert before == "project/a.txt"
            hub.end()
            with place.hub():
                assert await call(client, "read_file", path=notes) == before
                assert roots.asked == 2


def test_the_typescript_sdks_client_goes_on(
    place: Place, npm_package: Callable[[str], str]
) -> None:
    node = npm_package("@modelcontextprotocol/sdk")
    project = place.tree / "project"
    does = {
        "url": place.url,
        "roots": [{"uri": project.as_uri()}],
        "path": str(project / "a.txt"),
    }
    script = str(Path(__file__).parent / "typescript_restart.mjs")

    def called(client: subprocess.Popen[str]) -> Any:
        assert client.stdin is not None
        assert client.stdout is not None
        client.stdin.write("call\n")
        client.stdin.flush()
        return json.loads(client.stdout.readline())

    with place.hub() as hub:
        client = subprocess.Popen(  # noqa: S603 - ours
            [node, script, json.dumps(does)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        with client:
            try:
                before = called(client)
                hub.end()
                with place.hub():
                    after = called(client)
            finally:
                client.kill()
    assert after["said"] == before["said"]
    assert after["said"] == "project/a.txt"
    assert (before["asked"], after["asked"]) == (1, 2)


def test_a_state_directory_that_cannot_be_written_is_told_once(place: Place) -> None:
    place.state.write_text("a file, not a directory")
    with place.hub() as hub:
        client = LegacyReader(place.url, place.tree / "project")
        assert client.read(place.tree / "project/a.txt") == "project/a.txt"
        hub.end()
        said = hub.errors.read_text()
    assert said.count("HTTP sessions end with this process") == 1
    with place.hub():
        assert post(place.url, PING, mcp_session_id=client.key).status_code == 404
    client.http.close()


def test_a_modern_clients_consent_counts_in_the_next_process_and_once(
    place: Place, tmp_path: Path
) -> None:
    project, outside = place.tree / "project", place.tree / "docs/b.md"
    config = config_file(tmp_path, {"files": FILES}, guard={"on_refused": "ask"})
    place = Place(place.tree, place.state, "--config", config)
    client = ModernReader(place.url, project)
    roots = client.answer(ROOTS_KEY)
    with place.hub():
        asked = client.post(outside, {"inputResponses": {ROOTS_KEY: roots}})
        assert CONSENT_KEY in asked["inputRequests"]
    answers = {ROOTS_KEY: roots, CONSENT_KEY: client.answer(CONSENT_KEY)}
    retry = {"inputResponses": answers, "requestState": asked["requestState"]}
    with place.hub() as hub:
        assert client.post(outside, retry)["content"][0]["text"] == "docs/b.md"
        hub.process.kill()
    with place.hub():
        assert "it was used before" in client.post(outside, retry)["content"][0]["text"]
    client.http.close()


def test_a_call_that_waited_in_the_process_before_is_not_made_again(
    place: Place, tmp_path: Path
) -> None:
    log = tmp_path / "child.log"
    asking = {"command": CHILD[0], "args": CHILD[1:], "env": {"ASKING_LOG": str(log)}}
    config = config_file(tmp_path, {"asking": asking})
    place = Place(place.tree, place.state, "--config", config)
    caller = PlainCaller(place.url, place.tree, "project")
    with place.hub():
        key, state = question(caller.round())
    noted = log.read_text()
    with place.hub():
        late = caller.round({key: {"action": "accept", "content": {"n": 1}}}, state)
    assert "runs in another process of the hub" in late["error"]["message"]
    assert log.read_text() == noted
