"""A remote server that is slow, resets connections or answers 5xx: each call fails for itself."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.kit.warm import WARM_HUB
from tests.live.programs import call, config_file, connected, report

LAST = b"Connection: close\r\n"
"""Lets nobody use a connection again whose end may still be on its way."""
EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n" + LAST
ANSWERS = {
    "html": b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
    + LAST
    + b"Content-Length: 6\r\n\r\n<html>",
    "bare": b"HTTP/1.1 200 OK\r\n" + LAST + b"Content-Length: 0\r\n\r\n",
    "taken": b"HTTP/1.1 202 Accepted\r\n" + LAST + b"Content-Length: 0\r\n\r\n",
    "nonsense": b"220 mail.example ESMTP\r\n\r\n",
    "nothing": b"",
    "number": b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
    + LAST
    + b"Content-Length: 2\r\n\r\n17",
    "moved": b"HTTP/1.1 302 Found\r\nLocation: /elsewhere?key=s3cret\r\n"
    + LAST
    + b"Content-Length: 0\r\n\r\n",
    "ended": EVENTS + b"\r\n: that was all\n\n",
    "cut": b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
    + LAST
    + b"Content-Length: 1000\r\n\r\n{",
    "broken": EVENTS + b"Transfer-Encoding: chunked\r\n\r\n20\r\ndata: {",
}
"""What some tools are answered with, to the byte."""
BROKEN = [
    ("html", "it answered with content of type 'text/html'; the server"),
    ("bare", "it answered with content of type ''; the server"),
    ("taken", "it accepted the request but will not answer it (HTTP status 202); the server"),
    ("nonsense", "the connection broke (illegal status line: "),
    ("nothing", "the connection broke (Server disconnected without sending a response.); the "),
    ("number", "its answer cannot be read: Not a JSON-RPC message: "),
    ("moved", "/elsewhere, which is not followed; the server"),
    ("ended", "the connection broke off; the server"),
    ("broken", "the connection broke ("),
]
"""Which words some of them find for it."""
SEEN: dict[str, list[str]] = {}
"""The key in each POST, by the address it was sent to."""


class Faulty(BaseHTTPRequestHandler):
    """A stateless MCP server whose tools break off in every way; `sick` breaks the greeting."""

    sick: str | None = None
    protocol_version = "HTTP/1.1"
    seen: list[str]
    sessions: list[str]
    forgets: int | None = None

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Say nothing."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        method, params = asked["method"], asked.get("params", {})
        how = params.get("name") if method == "tools/call" else self.sick
        self.seen.append(self.headers["x-key"])
        if self.forgets is not None and not self._is_known(method):
            said = {"code": -32000, "message": "Bad Request: No valid session ID provided"}
            self._send(self.forgets, json.dumps({"jsonrpc": "2.0", "error": said, "id": None}))
        elif "id" not in asked and how is None:
            self._send(202, b"")
        elif not self._break(how):
            result = self._result(method)
            if how == "forget":
                self.sessions.clear()
            self._send(200, json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}))

    def _break(self, how: str | None) -> bool:
        """Answer in the way that was asked for; return whether that was an answer."""
        if how in {"slow", "wait"}:
            time.sleep(7 if how == "slow" else 1)
            return False
        if how in ANSWERS:
            self.wfile.write(ANSWERS[how])
            self.close_connection = True
        elif how == "500":
            self._send(500, b"Internal Server Error")
        elif how == "reset":
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
        return how in {*ANSWERS, "500", "reset"}

    def _result(self, method: str) -> dict[str, Any]:
        if method == "initialize":
            return {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "faulty", "version": "1"},
            }
        if method == "tools/list":
            names = ("500", "reset", "slow", "wait", "fine", "forget", *ANSWERS)
            return {"tools": [{"name": n, "inputSchema": {"type": "object"}} for n in names]}
        return {"content": [{"type": "text", "text": "done"}]}

    def _is_known(self, method: str) -> bool:
        if method == "initialize":
            self.sessions.append(f"s{len(self.seen)}")
            return True
        return self.headers["mcp-session-id"] in self.sessions

    def _send(self, status: int, body: bytes | str) -> None:
        sent = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        if body:
            self.send_header("content-type", "application/json" if status == 200 else "text/plain")
        if self.sessions:
            self.send_header("mcp-session-id", self.sessions[-1])
        self.send_header("content-length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)

    def do_GET(self) -> None:
        self._send(500 if self.sick else 405, b"")


@contextmanager
def faulty(sick: str | None = None, *, forgets: int | None = None) -> Generator[str]:
    own: dict[str, Any] = {"sick": sick, "forgets": forgets, "seen": [], "sessions": []}
    handler = type("Handler", (Faulty,), own)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        SEEN[f"http://127.0.0.1:{server.server_port}/mcp"] = own["seen"]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/mcp"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        ("500", "server 'far' gave no answer: it answered with HTTP status 500; the server still "),
        ("reset", "server 'far' gave no answer: the connection broke ("),
        ("cut", "server 'far' gave no answer: the connection broke ("),
        ("slow", "server 'far' did not answer within 6 s; the hub cancelled the call"),
    ],
)
async def test_a_failure_on_the_way_is_that_of_its_own_call(
    tool: str, said: str, tmp_path: Path
) -> None:
    with faulty() as url:
        config = config_file(tmp_path, {"far": {"url": url, "timeout": 6}})
        hub = [WARM_HUB, "run", "--stdio", "--config", config]
        async with connected(hub, cwd=tmp_path) as client:
            await client.list_tools()
            texts, text = list[str](), ""

            async def other() -> None:
                texts.append(await call(client, "wait"))

            async with anyio.create_task_group() as tasks:
                for _ in range(4):
                    tasks.start_soon(other)
                text = await call(client, tool)
            assert text.startswith(said), text
            assert texts == ["done"] * 4
            assert await call(client, "fine") == "done"
            (server,) = (await report(client))["servers"]
            assert (server["state"], server["breaker"]) == ("ready", "closed")


async def test_whatever_comes_in_place_of_an_answer_fails_its_own_call_at_once(
    tmp_path: Path,
) -> None:
    with faulty() as url:
        config = config_file(tmp_path, {"far": {"url": url, "headers": {"X-Key": "s3cret"}}})
        hub = [WARM_HUB, "run", "--stdio", "--config", config]
        with anyio.fail_after(60):
            async with connected(hub, cwd=tmp_path) as client:
                for tool, said in BROKEN:
                    text = await call(client, tool)
                    assert text.startswith("server 'far' gave no answer: "), text
                    assert said in text
                    assert "s3cret" not in text
                    assert await call(client, "fine") == "done"
                (server,) = (await report(client))["servers"]
                assert (server["state"], server["breaker"]) == ("ready", "closed")


async def test_nobody_but_the_configured_server_gets_its_headers(tmp_path: Path) -> None:
    with faulty() as other, faulty() as url:
        there = other.encode().replace(b"127.0.0.1", b"localhost")
        redirect = b"HTTP/1.1 307 Temporary Redirect\r\nLocation: %b\r\nContent-Length: 0\r\n\r\n"
        ANSWERS["moved"], moved = redirect % there, ANSWERS["moved"]
        try:
            config = config_file(tmp_path, {"far": {"url": url, "headers": {"X-Key": "s3cret"}}})
            hub = [WARM_HUB, "run", "--stdio", "--config", config]
            async with connected(hub, cwd=tmp_path) as client:
                text = await call(client, "moved")
        finally:
            ANSWERS["moved"] = moved
    assert f"it redirects to {there.decode()}, which is not followed" in text
    assert set(SEEN[url]) == {"s3cret"}
    assert SEEN[other] == []


@pytest.mark.parametrize("status", [404, 400])
async def test_a_session_that_the_server_has_forgotten_is_begun_anew(
    status: int, tmp_path: Path
) -> None:
    with faulty(forgets=status) as url:
        hub = [
            WARM_HUB,
            "run",
            "--stdio",
            "--config",
            config_file(tmp_path, {"far": {"url": url}}),
        ]
        with anyio.fail_after(60):
            async with connected(hub, cwd=tmp_path) as client:
                assert await call(client, "forget") == "done"
                assert await call(client, "fine") == "done"


@pytest.mark.parametrize("transport", ["http", "sse"])
@pytest.mark.parametrize("sick", ["500", "reset"])
async def test_a_server_that_fails_at_its_start_is_noticed_at_once(
    transport: str, sick: str, tmp_path: Path
) -> None:
    with faulty(sick) as url:
        servers = {"far": {"url": url, "transport": transport, "start_timeout": 30}}
        hub = [WARM_HUB, "run", "--stdio", "--config", config_file(tmp_path, servers)]
        with anyio.fail_after(25):
            async with connected(hub, cwd=tmp_path) as client:
                (tool,) = (await client.list_tools()).tools
                assert tool.description is not None
                assert "server 'far' is not running: " in tool.description
                (server,) = (await report(client))["servers"]
                assert server["state"] == "down"
                assert "500" in server["reason"] or sick != "500"
