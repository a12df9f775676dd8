"""What a hub on HTTP does with requests in progress when it is told to end."""

from __future__ import annotations

import signal
import sys
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.kit.warm import WARM_HUB
from tests.live.programs import SOON, Program, config_file, program
from tests.live.test_http_endpoint import HEADERS, INITIALIZE, post, session

CHILD = [sys.executable, str(Path(__file__).parent / "parallel_child.py")]
SLOW = 99
"""The id of the call in progress."""


class DrainingHub:
    """A hub, and one session with a call in progress."""

    def __init__(self, running: Program, pool: ThreadPoolExecutor) -> None:
        self.running = running
        self.url = running.first_line("roots-hub serves ")
        self.key = session(self.url)
        self.call("echo", text="ready")
        self.slow: Future[httpx2.Response] = pool.submit(self.call, "slow", SLOW, seconds=60)
        # Once it is in progress, no other request may have its id.
        same = {"jsonrpc": "2.0", "id": SLOW, "method": "ping"}
        while "under way" not in post(self.url, same, mcp_session_id=self.key).text:
            pass

    def call(
        self, tool: str, id_: int = 5, by: httpx2.Client | None = None, **arguments: Any
    ) -> httpx2.Response:
        params = {"name": tool, "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": params}
        headers = {**HEADERS, "mcp-session-id": self.key}
        post_ = httpx2.post if by is None else by.post
        return post_(self.url, json=message, headers=headers, timeout=60)

    def told_to_end(self) -> None:
        """Tell the hub to end, and return once it drains."""
        self.running.process.send_signal(signal.SIGTERM)
        health = self.url.replace("/mcp", "/health")
        while httpx2.get(health).status_code == 200:
            pass


def config(tree: Path, **keys: Any) -> str:
    child = {"command": CHILD[0], "args": CHILD[1:]}
    return config_file(tree, {"parallel": child}, **keys)


@pytest.fixture
def pool() -> Generator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


def served(tree: Path, **keys: Any) -> list[str]:
    return [WARM_HUB, "run", "--http", "127.0.0.1:0", "--config", config(tree, **keys)]


def test_a_call_in_progress_is_answered_and_no_session_is_opened(
    tree: Path, pool: ThreadPoolExecutor
) -> None:
    with program(served(tree, drain=50), cwd=tree) as running:
        hub = DrainingHub(running, pool)
        hub.told_to_end()
        refused = post(hub.url, INITIALIZE)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
        assert hub.call("go").status_code == 200
        answer = hub.slow.result(SOON)
        assert (answer.status_code, "slow" in answer.text) == (200, True)
        assert running.process.wait(SOON) == 0


def test_a_call_that_is_not_answered_in_time_is_given_up(
    tree: Path, pool: ThreadPoolExecutor
) -> None:
    with program(served(tree, drain=0.1), cwd=tree) as running:
        hub = DrainingHub(running, pool)
        running.process.send_signal(signal.SIGTERM)
        assert "ending" in hub.slow.result(SOON).text
        assert running.process.wait(SOON) == 0


def test_nothing_new_is_begun_while_calls_in_progress_still_have_time(
    tree: Path, pool: ThreadPoolExecutor
) -> None:
    with program(served(tree, drain=8), cwd=tree) as running, httpx2.Client(timeout=60) as kept:
        hub = DrainingHub(running, pool)
        hub.told_to_end()
        assert hub.call("echo", by=kept, text="as before").status_code == 200
        while (refused := hub.call("echo", by=kept, text="one more")).status_code == 200:
            pass
        with pytest.raises(httpx2.ConnectError):
            hub.call("echo", text="on a new connection")
        assert not hub.slow.done()
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
        assert refused.json()["id"] == 5
        assert "ending" in refused.json()["error"]["message"]
        assert hub.call("echo", by=kept, text="one more").status_code == 503
        assert "ending" in hub.slow.result(SOON).text
        assert running.process.wait(SOON) == 0


def test_a_second_signal_waits_for_nothing(tree: Path, pool: ThreadPoolExecutor) -> None:
    with program(served(tree, drain=3000), cwd=tree) as running:
        hub = DrainingHub(running, pool)
        hub.told_to_end()
        running.process.send_signal(signal.SIGTERM)
        assert "ending" in hub.slow.result(SOON).text
        assert running.process.wait(SOON) == 0


def test_a_hub_with_open_streams_alone_does_not_wait(tree: Path) -> None:
    with program(served(tree, drain=3000), cwd=tree) as running:
        url = running.first_line("roots-hub serves ")
        headers = {**HEADERS, "mcp-session-id": session(url)}
        with httpx2.stream("GET", url, headers=headers, timeout=SOON) as stream:
            running.process.send_signal(signal.SIGTERM)
            assert list(stream.iter_lines())
            assert running.process.wait(SOON) == 0
