import json
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from tests.kit.trees import plant
from tests.live.programs import SOON, config_file, http_hub
from tests.live.test_http_endpoint import HEADERS, INITIALIZE
from tests.live.test_named_tokens import SERVERS, TOKENS, named

LIMIT, SESSIONS, EACH = 100, 12, 20
RATE = {"calls_per_minute": LIMIT}
CALL: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 3,
    "method": "tools/call",
    "params": {"name": "remember", "arguments": {"text": "x"}},
}
ENVELOPE: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
MODERN = {
    "mcp-protocol-version": "2026-07-28",
    "mcp-method": "tools/call",
    "mcp-name": "remember",
}


class LimitedCaller:
    """A principal that calls a tool in sessions and connections of its own choice."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url
        self._headers = {**HEADERS, "authorization": f"Bearer {token}"}
        self.answers: list[httpx2.Response] = []

    @property
    def served(self) -> int:
        return sum(answer.status_code == 200 for answer in self.answers)

    async def in_a_session(self, times: int) -> None:
        """Call in a new session, on one connection: each call but the first needs no task."""
        async with httpx2.AsyncClient(headers=self._headers, timeout=SOON) as http:
            begun = await http.post(self._url, content=json.dumps(INITIALIZE))
            headers = {"mcp-session-id": begun.headers["mcp-session-id"]}
            for _ in range(times):
                posted = http.post(self._url, content=json.dumps(CALL), headers=headers)
                self.answers.append(await posted)

    async def without_one(self, times: int) -> None:
        """Call as modern clients do, each time on a new connection."""
        call: dict[str, Any] = {**CALL, "params": {**CALL["params"], "_meta": ENVELOPE}}
        for _ in range(times):
            async with httpx2.AsyncClient(headers=self._headers, timeout=SOON) as http:
                posted = http.post(self._url, content=json.dumps(call), headers=MODERN)
                self.answers.append(await posted)


@pytest.mark.parametrize(
    ("of_all", "profiles"),
    [(RATE, {}), ({}, {"few": {"limits": RATE}}), (RATE, {"few": {"limits": RATE}})],
)
async def test_new_sessions_and_connections_bring_no_more_calls(
    tmp_path: Path, of_all: dict[str, int], profiles: dict[str, Any]
) -> None:
    top = plant(tmp_path, "a/f")
    listen = {**named(**TOKENS), "limits": of_all}
    roots = {"fallback": [str(top / "a")]}
    config = config_file(tmp_path, SERVERS, listen=listen, roots=roots, profiles=profiles)
    with http_hub("--config", config, cwd=tmp_path) as url:
        anna, ben = (LimitedCaller(url, token) for token in TOKENS.values())
        async with anyio.create_task_group() as tasks:
            for _ in range(SESSIONS):
                tasks.start_soon(anna.in_a_session, EACH)
            tasks.start_soon(anna.without_one, EACH)
            tasks.start_soon(ben.in_a_session, EACH)
            tasks.start_soon(ben.without_one, EACH)
    assert len(anna.answers) == (SESSIONS + 1) * EACH
    assert anna.served == LIMIT
    refused = [answer for answer in anna.answers if answer.status_code != 200]
    assert {answer.status_code for answer in refused} == {429}
    assert all(0 < int(answer.headers["retry-after"]) <= 61 for answer in refused)
    assert ben.served == len(ben.answers) == 2 * EACH
    assert not any(answer.json()["result"].get("isError") for answer in ben.answers)
