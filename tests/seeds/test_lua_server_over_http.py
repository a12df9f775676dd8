"""Row L06: roots over streamable HTTP, asked for and answered while calls are served."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from tests.kit.trees import plant
from tests.live.programs import (
    SharedFolders,
    call,
    connected,
    http_hub,
    outside,
    report,
    roots_changed,
)

pytestmark = pytest.mark.live
HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return plant(tmp_path_factory.mktemp("http"), "one/a.txt", "two/b.txt")


@pytest.fixture(scope="module")
def url(tree: Path) -> Generator[str]:
    with http_hub(cwd=tree) as served:
        yield served


async def test_l06_many_calls_at_once_wait_for_one_answer(url: str, tree: Path) -> None:
    shared = SharedFolders([tree / "one"])
    texts: dict[int, str] = {}
    async with connected(url, shared) as client:

        async def read(number: int) -> None:
            file = "one/a.txt" if number % 2 else "two/b.txt"
            texts[number] = await call(client, "read_file", path=str(tree / file))

        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(read, number)
        assert shared.asked == 1
        for number, text in texts.items():
            assert text == ("x" if number % 2 else outside(tree / "two/b.txt", tree / "one"))
        shared.folders = [tree / "two"]
        await roots_changed(client)
        assert await call(client, "read_file", path=str(tree / "two/b.txt")) == "x"
        assert (await report(client))["filePaths"] == [str(tree / "two")]
        assert shared.asked == 2


def test_l06_the_question_comes_in_the_response_to_the_call(url: str, tree: Path) -> None:
    """Without any standing stream: the response to the call itself carries the question."""
    with httpx2.Client(base_url=url, headers=HEADERS, timeout=60) as http:
        key = begin(http)
        arguments = {"path": str(tree / "one/a.txt")}
        request = message("tools/call", 2, {"name": "read_file", "arguments": arguments})
        with http.stream("POST", "", json=request, headers=key) as stream:
            lines = stream.iter_lines()
            question = data(lines)
            assert question == {"jsonrpc": "2.0", "id": question["id"], "method": "roots/list"}
            roots = {"roots": [{"uri": (tree / "one").as_uri()}]}
            reply = {"jsonrpc": "2.0", "id": question["id"], "result": roots}
            assert http.post("", json=reply, headers=key).status_code == 202
            answer = data(lines)
        assert answer["id"] == 2
        assert answer["result"]["content"] == [{"type": "text", "text": "x"}]


def test_l06_a_session_that_waits_for_roots_holds_up_no_other(url: str, tree: Path) -> None:
    with httpx2.Client(base_url=url, headers=HEADERS, timeout=60) as http:
        silent, other = begin(http), begin(http, {})
        request = message("tools/call", 2, {"name": "get-roots"})
        with http.stream("POST", "", json=request, headers=silent) as stream:
            assert data(stream.iter_lines())["method"] == "roots/list"
            answer = http.post("", json=request, headers=other)
            assert answer.json()["result"]["structuredContent"]["supportsRoots"] is False
            ping = http.post("", json=message("ping", 3, {}), headers=silent)
            assert ping.json()["result"] == {}
        # Else the hub would wait for this call at its end.
        assert http.delete("", headers=silent).status_code == 200


def message(method: str, id_: int, params: dict[str, Any]) -> dict[str, Any]:
    """Return a request."""
    return {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}


def begin(http: httpx2.Client, capabilities: dict[str, Any] | None = None) -> dict[str, str]:
    """Do the handshake, and return the session's header."""
    params: dict[str, Any] = {
        "protocolVersion": "2025-11-25",
        "capabilities": {"roots": {}} if capabilities is None else capabilities,
        "clientInfo": {"name": "plain", "version": "1"},
    }
    answer = http.post("", json=message("initialize", 1, params))
    key = {"mcp-session-id": answer.headers["mcp-session-id"]}
    initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert http.post("", json=initialized, headers=key).status_code == 202
    return key


def data(lines: Any) -> Any:
    """Return the next message of an event stream; the event that it begins with holds none."""
    for line in lines:
        text = line.removeprefix("data:").strip()
        if line.startswith("data:") and text:
            return json.loads(text)
    raise AssertionError("the stream ended")
