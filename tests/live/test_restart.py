"""HTTP sessions that go on when the hub's process is replaced by another one."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.live.programs import (
    ROOTS_HUB,
    SOON,
    Program,
    Shared,
    call,
    connected,
    environment,
    program,
)
from tests.live.test_http_endpoint import HEADERS, INITIALIZE, PING, post

SESSIONS = int(os.environ.get("RESTART_SESSIONS", "100"))
INITIALIZED: dict[str, Any] = {"jsonrpc": "2.0", "method": "notifications/initialized"}
WITH_ROOTS: dict[str, Any] = {
    **INITIALIZE,
    "params": {**INITIALIZE["params"], "capabilities": {"roots": {"listChanged": True}}},
}


class Place:
    """A hub's address, folder and state directory; its processes come and go."""

    def __init__(self, tree: Path, state: Path, *arguments: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port: int = listener.getsockname()[1]
        self.tree, self.state, self.arguments = tree, state, arguments
        self.url = f"http://127.0.0.1:{self.port}/mcp"

    @contextmanager
    def hub(self) -> Generator[Program]:
        """Run one process of the hub."""
        argv = [ROOTS_HUB, "run", "--http", f"127.0.0.1:{self.port}", *self.arguments]
        env = {"XDG_STATE_HOME": str(self.state)}
        with program(argv, cwd=self.tree / "project", env=env) as running:
            running.first_line("roots-hub serves ")
            yield running


@pytest.fixture
def place(tree: Path, tmp_path: Path) -> Place:
    return Place(tree, tmp_path / "state")


def events(answer: httpx2.Response) -> Iterator[Any]:
    for line in answer.iter_lines():
        if line.startswith("data: ") and len(line) > len("data: "):
            yield json.loads(line.removeprefix("data: "))


class Legacy:
    """A client of the handshake era that does not know what a 404 means."""

    def __init__(self, url: str, root: Path) -> None:
        self.url, self.root = url, root
        self.http = httpx2.Client(timeout=SOON)
        self.asked = 0
        self.statuses: list[int] = []
        began = self.post(WITH_ROOTS)
        self.key = began.headers["mcp-session-id"]
        self.post(INITIALIZED)

    def post(self, message: Any) -> httpx2.Response:
        own = {"mcp-session-id": self.key} if hasattr(self, "key") else {}
        answer = self.http.post(self.url, json=message, headers={**HEADERS, **own})
        self.statuses.append(answer.status_code)
        return answer

    def read(self, path: Path) -> str:
        """Call the file server; answer the hub when it asks for the roots within the call."""
        params = {"name": "read_file", "arguments": {"path": str(path)}}
        message = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
        headers = {**HEADERS, "mcp-session-id": self.key}
        with self.http.stream("POST", self.url, json=message, headers=headers) as answer:
            self.statuses.append(answer.status_code)
            if answer.headers["content-type"] == "application/json":
                return self._text(json.loads(answer.read()))
            for event in events(answer):
                if event.get("method") == "roots/list":
                    self.asked += 1
                    roots = {"roots": [{"uri": self.root.as_uri()}]}
                    self.post({"jsonrpc": "2.0", "id": event["id"], "result": roots})
                elif "method" not in event:
                    return self._text(event)
        raise AssertionError("no answer")

    @staticmethod
    def _text(answer: Any) -> str:
        return str(answer["result"]["content"][0]["text"])


@pytest.mark.parametrize("ended_by", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.timeout(180)
def test_no_idle_session_is_lost_by_a_restart(place: Place, ended_by: signal.Signals) -> None:
    project = place.tree / "project"
    with place.hub() as hub:
        clients = [Legacy(place.url, project) for _ in range(SESSIONS)]
        assert "outside" in clients[0].read(place.tree / "private/secret.txt")
        hub.process.send_signal(ended_by)
        hub.process.wait(SOON)
    with place.hub():
        for client in clients:
            client.asked = 0
            assert client.read(project / "a.txt")
            assert "outside" in client.read(place.tree / "private/secret.txt")
            assert client.asked == 1
    assert {status for client in clients for status in client.statuses} == {200, 202}
    for client in clients:
        client.http.close()


def test_what_was_deleted_or_forged_is_not_there_after_a_restart(place: Place) -> None:
    with place.hub():
        first, second = (Legacy(place.url, place.tree / "project") for _ in range(2))
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
    roots = Shared([project])
    notes = str(project / "a.txt")
    with place.hub() as hub:
        async with connected(place.url, roots) as client:
            before = await call(client, "read_file", path=notes)
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
    assert not after["said"].startswith("failed")
    assert (before["asked"], after["asked"]) == (1, 2)


def test_a_state_directory_that_cannot_be_written_is_told_once(place: Place) -> None:
    place.state.write_text("a file, not a directory")
    with place.hub() as hub:
        client = Legacy(place.url, place.tree / "project")
        assert client.read(place.tree / "project/a.txt")
        hub.end()
        said = hub.errors.read_text()
    assert said.count("HTTP sessions end with this process") == 1
    with place.hub():
        assert post(place.url, PING, mcp_session_id=client.key).status_code == 404
    client.http.close()
