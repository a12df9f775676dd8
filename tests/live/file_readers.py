"""Clients over plain HTTP that read files through a hub; none of them deals with a 404."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx2

from hub.guard.consent import ONCE
from hub.protocol.constants import CLIENT_CAPABILITIES_META, MODERN_VERSIONS, PROTOCOL_VERSION_META
from hub.protocol.input_requests import CONSENT_KEY, ROOTS_KEY
from tests.live.programs import SOON
from tests.live.test_http_endpoint import HEADERS, INITIALIZE

INITIALIZED: dict[str, Any] = {"jsonrpc": "2.0", "method": "notifications/initialized"}
WITH_ROOTS: dict[str, Any] = {
    **INITIALIZE,
    "params": {**INITIALIZE["params"], "capabilities": {"roots": {"listChanged": True}}},
}
TOOL = "read_file"


def events(answer: httpx2.Response) -> Iterator[Any]:
    for line in answer.iter_lines():
        if line.startswith("data: ") and len(line) > len("data: "):
            yield json.loads(line.removeprefix("data: "))


class LegacyReader:
    """A client of the handshake era that does not know what a 404 means."""

    def __init__(self, url: str, root: Path, **headers: str) -> None:
        self.url, self.root = url, root
        self.http = httpx2.Client(timeout=SOON, headers=headers)
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
        params = {"name": TOOL, "arguments": {"path": str(path)}}
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


class ModernReader:
    """A client of 2026-07-28, which is asked by the results of its requests."""

    def __init__(self, url: str, root: Path, **headers: str) -> None:
        self.url, self.root = url, root
        self.http = httpx2.Client(timeout=SOON, headers=headers)
        self.asked_for_consent = 0

    def read(self, path: Path) -> str:
        """Call the file server, and answer all that the hub asks; the user consents."""
        given: dict[str, Any] = {}
        for _ in range(5):
            result = self.post(path, given)
            if result.get("resultType") != "input_required":
                return str(result["content"][0]["text"])
            responses: dict[str, Any] = {}
            for key in result.get("inputRequests", {}):
                responses[key] = self.answer(key)
            state = {key: result[key] for key in ("requestState",) if key in result}
            given = {"inputResponses": responses, **state}
        raise AssertionError("it is asked again and again")

    def answer(self, key: str) -> Any:
        if key == ROOTS_KEY:
            return {"roots": [{"uri": self.root.as_uri()}]}
        assert key == CONSENT_KEY
        self.asked_for_consent += 1
        return {"action": "accept", "content": {"decision": ONCE}}

    def post(self, path: Path, given: Mapping[str, Any]) -> Any:
        meta: dict[str, Any] = {
            PROTOCOL_VERSION_META: MODERN_VERSIONS[-1],
            CLIENT_CAPABILITIES_META: {"roots": {}, "elicitation": {"form": {}}},
        }
        params = {"name": TOOL, "arguments": {"path": str(path)}, "_meta": meta, **given}
        headers = {
            **HEADERS,
            "mcp-protocol-version": MODERN_VERSIONS[-1],
            "mcp-method": "tools/call",
            "mcp-name": TOOL,
        }
        message = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
        answer = self.http.post(self.url, json=message, headers=headers).json()
        return answer.get("result") or {"content": [{"text": f"error: {answer}"}]}
