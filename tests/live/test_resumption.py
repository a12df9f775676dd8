"""A client whose connection ends before its call does: over sockets, and by the SDK's client."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from tests.live.programs import SOON, call, config_file, connected, http_hub
from tests.live.test_http_endpoint import HEADERS, post, session

EVERYTHING = str(Path(__file__).parent / "everything_server.py")
LONG: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 5,
    "method": "tools/call",
    "params": {"name": "test_reconnection", "arguments": {}},
}
ANSWERED = "answered on another stream"


def hub(tree: Path, **listen: float) -> Generator[str]:
    server = {"command": sys.executable, "args": [EVERYTHING], "era": "legacy"}
    config = config_file(tree, {"everything": server}, listen=listen)
    with http_hub("--config", config, cwd=tree) as served:
        yield served


@pytest.fixture(scope="module")
def url(tree: Path) -> Generator[str]:
    yield from hub(tree)


@pytest.fixture(scope="module")
def impatient(tree: Path) -> Generator[str]:
    """A hub that lets clients go long before a long call is answered."""
    yield from hub(tree, poll_after=0.2)


def events(lines: Iterator[str]) -> Iterator[tuple[str, str]]:
    """Yield the id and the data of each event."""
    id_ = ""
    for line in lines:
        if line.startswith("id: "):
            id_ = line.removeprefix("id: ")
        elif line.startswith("data:"):
            yield id_, line.removeprefix("data:").strip()


def text_in(data: str) -> str:
    return json.loads(data)["result"]["content"][0]["text"]


def test_an_answer_is_fetched_after_the_connection_broke(url: str) -> None:
    headers = {**HEADERS, "mcp-session-id": session(url)}
    with httpx2.stream("POST", url, json=LONG, headers=headers, timeout=SOON) as stream:
        seen, first = next(events(stream.iter_lines()))
        assert (seen, first) == ("1-0", "")
    again = {**headers, "last-event-id": seen}
    with httpx2.stream("GET", url, headers=again, timeout=SOON) as stream:
        assert stream.headers["content-type"] == "text/event-stream"
        got = list(events(stream.iter_lines()))
    got = [(id_, data) for id_, data in got if data]
    assert [id_ for id_, _ in got] == [f"1-{number}" for number in range(1, len(got) + 1)]
    assert text_in(got[-1][1]) == ANSWERED
    assert list(events(httpx2.get(url, headers=again).iter_lines())) == got
    last = {**headers, "last-event-id": got[-1][0]}
    assert httpx2.get(url, headers=last).status_code == 204


def test_an_event_of_another_session_is_not_told(url: str) -> None:
    headers = {**HEADERS, "mcp-session-id": session(url)}
    with httpx2.stream("POST", url, json=LONG, headers=headers, timeout=SOON) as stream:
        seen, _ = next(events(stream.iter_lines()))
        other = {**headers, "mcp-session-id": session(url), "last-event-id": seen}
        assert httpx2.get(url, headers=other).status_code == 400


async def test_the_sdks_client_is_let_go_and_gets_its_answer(impatient: str) -> None:
    with anyio.fail_after(SOON):
        async with connected(impatient) as client:
            assert await call(client, "test_reconnection") == ANSWERED


def test_a_session_is_usable_while_a_client_is_let_go(impatient: str) -> None:
    key = session(impatient)
    headers = {**HEADERS, "mcp-session-id": key}
    answer = httpx2.post(impatient, json=LONG, headers=headers, timeout=SOON)
    assert [id_ for id_, data in events(answer.iter_lines()) if not data] == ["1-0"]
    ping = {"jsonrpc": "2.0", "id": 6, "method": "ping"}
    assert post(impatient, ping, mcp_session_id=key).json()["result"] == {}
