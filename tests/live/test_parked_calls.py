"""A server of the handshake era asks modern clients, over real pipes and sockets."""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.types import ElicitRequestParams, ElicitResult

from hub.protocol.constants import (
    CLIENT_CAPABILITIES_META,
    CLIENT_INFO_META,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    MODERN_VERSIONS,
    PROTOCOL_VERSION_META,
)
from hub.protocol.input_requests import ROOTS_KEY
from tests.kit.warm import WARM_HUB
from tests.live.programs import SOON, Mode, call, config_file, connected, http_hub

CHILD = [sys.executable, str(Path(__file__).parent / "asking_child.py")]
VERSION = MODERN_VERSIONS[-1]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "child.log"


@pytest.fixture
def config(tree: Path, log: Path) -> str:
    asking = {"command": CHILD[0], "args": CHILD[1:], "env": {"ASKING_LOG": str(log)}}
    return config_file(tree, {"asking": asking})


@pytest.fixture(params=["first call", "known tool"])
def url(tree: Path, config: str, request: pytest.FixtureRequest) -> Generator[str]:
    with http_hub("--config", config, cwd=tree) as served:
        if request.param == "known tool":
            caller = PlainCaller(served, tree, "project")
            caller.arguments["times"] = 0
            assert "result" in caller.round()
        yield served


def noted_already(log: Path, line: str) -> bool:
    """Return whether the child has written a line."""
    return log.exists() and line in log.read_text().splitlines()


def noted(log: Path, line: str) -> bool:
    """Wait until the child has written a line; return whether it has."""
    ends = time.monotonic() + SOON
    while time.monotonic() < ends:
        if noted_already(log, line):
            return True
        time.sleep(0.02)
    return False


class PlainCaller:
    """A modern client over plain HTTP."""

    def __init__(self, url: str, tree: Path, *roots: str) -> None:
        self.url = url
        self.shared = {"roots": [{"uri": (tree / root).as_uri()} for root in roots]}
        self.arguments: dict[str, Any] = {"times": 2, "path": str(tree / "project/a.txt")}
        self.ids = 0

    def body(self, answers: Mapping[str, Any], state: str | None) -> dict[str, Any]:
        self.ids += 1
        meta: dict[str, Any] = {
            PROTOCOL_VERSION_META: VERSION,
            CLIENT_CAPABILITIES_META: {"roots": {}, "elicitation": {}},
            CLIENT_INFO_META: {"name": "plain", "version": "1"},
        }
        params: dict[str, Any] = {
            "name": "ask",
            "arguments": self.arguments,
            "inputResponses": {ROOTS_KEY: self.shared, **answers},
            "_meta": meta,
        }
        if state is not None:
            params["requestState"] = state
        return {"jsonrpc": "2.0", "id": self.ids, "method": "tools/call", "params": params}

    @property
    def headers(self) -> dict[str, str]:
        return {
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": VERSION,
            "mcp-method": "tools/call",
            "mcp-name": "ask",
        }

    def round(self, answers: Mapping[str, Any] | None = None, state: str | None = None) -> Any:
        """Make one request, and return its whole answer."""
        body = self.body(answers or {}, state)
        answer = httpx2.post(self.url, json=body, headers=self.headers, timeout=SOON)
        assert answer.headers["content-type"] == "application/json", answer.text
        return answer.json()


def question(answer: Any) -> tuple[str, str]:
    """Return the key of the only question of the child's in a result, and the state."""
    result = answer["result"]
    assert result["resultType"] == "input_required", answer
    (key,) = set(result["inputRequests"]) - {ROOTS_KEY}
    return key, result["requestState"]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_the_sdks_clients_are_asked_as_often_as_the_child_asks(
    config: str, url: str, tree: Path, mode: Mode, transport: str
) -> None:
    asked: list[str] = []

    async def elicit(context: object, params: ElicitRequestParams) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="accept", content={"n": len(asked)})

    target = url if transport == "http" else [WARM_HUB, "run", "--config", config]
    folders = [tree / "project"]
    async with connected(target, folders, mode=mode, elicitation_callback=elicit) as client:
        assert await call(client, "ask", times=0, path=str(tree / "project/a.txt")) == "[]"
        said = json.loads(await call(client, "ask", times=3, path=str(tree / "project/a.txt")))
    assert asked == ["3 left", "2 left", "1 left"]
    assert [answer["content"] for answer in said] == [{"n": 1}, {"n": 2}, {"n": 3}]


def test_rounds_over_http_continue_one_call(url: str, tree: Path) -> None:
    caller = PlainCaller(url, tree, "project")
    key, state = question(caller.round())
    key, state = question(caller.round({key: {"action": "accept", "content": {"n": 1}}}, state))
    result = caller.round({key: {"action": "decline"}}, state)["result"]
    said = json.loads(result["content"][0]["text"])
    assert said == [{"action": "accept", "content": {"n": 1}}, {"action": "decline"}]
    assert caller.round({key: {"action": "decline"}}, state)["error"]["code"] == INVALID_PARAMS


def test_a_retry_over_http_is_judged_by_its_roots_and_its_call(
    url: str, tree: Path, log: Path
) -> None:
    caller = PlainCaller(url, tree, "project")
    key, state = question(caller.round())
    other = PlainCaller(url, tree, "project")
    other.arguments = {**caller.arguments, "times": 3}
    assert other.round({key: {"action": "accept"}}, state)["error"]["code"] == INVALID_PARAMS
    assert not log.exists()
    moved = PlainCaller(url, tree, "private")
    refused = moved.round({key: {"action": "accept"}}, state)["result"]
    assert refused["content"][0]["text"].startswith("Access denied: ")
    assert noted(log, "cancelled")
    assert noted(log, f"error {INTERNAL_ERROR}")


def test_a_client_that_disconnects_within_a_round_ends_the_call(
    url: str, tree: Path, log: Path
) -> None:
    caller = PlainCaller(url, tree, "project")
    caller.arguments = {**caller.arguments, "times": 1, "waits": True}
    key, state = question(caller.round())
    body = json.dumps(caller.body({key: {"action": "accept"}}, state)).encode()
    address = httpx2.URL(url)
    sent = {**caller.headers, "host": address.netloc.decode(), "content-type": "application/json"}
    lines = [f"POST {address.path} HTTP/1.1", *(f"{name}: {value}" for name, value in sent.items())]
    head = "\r\n".join([*lines, f"content-length: {len(body)}", "", ""]).encode()
    with socket.create_connection((address.host, address.port or 80), SOON) as connection:
        connection.sendall(head + body)
        assert noted(log, "waiting")
        assert not noted_already(log, "cancelled")
    assert noted(log, "cancelled")
    error = caller.round({key: {"action": "accept"}}, state)["error"]
    assert error["code"] == INVALID_PARAMS
