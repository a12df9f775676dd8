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

from tests.live.programs import ROOTS_HUB, call, config_file, connected, report


class Faulty(BaseHTTPRequestHandler):
    """A stateless MCP server whose tools break off in every way; `sick` breaks the greeting."""

    sick: str | None = None
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Say nothing."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        method, params = asked["method"], asked.get("params", {})
        how = params.get("name") if method == "tools/call" else self.sick
        if "id" not in asked and how is None:
            self._send(202, b"")
        elif how == "500":
            self._send(500, b"Internal Server Error")
        elif how == "reset":
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
        elif how == "cut":
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", "1000")
            self.end_headers()
            self.wfile.write(b'{"jsonrpc"')
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
        else:
            if how in {"slow", "wait"}:
                time.sleep(3 if how == "slow" else 1)
            result = self._result(method)
            self._send(200, json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}))

    def _result(self, method: str) -> dict[str, Any]:
        if method == "initialize":
            return {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "faulty", "version": "1"},
            }
        if method == "tools/list":
            names = ("500", "reset", "cut", "slow", "wait", "fine")
            return {"tools": [{"name": n, "inputSchema": {"type": "object"}} for n in names]}
        return {"content": [{"type": "text", "text": "done"}]}

    def _send(self, status: int, body: bytes | str) -> None:
        sent = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        if body:
            self.send_header("content-type", "application/json" if status == 200 else "text/plain")
        self.send_header("content-length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)

    def do_GET(self) -> None:
        self._send(500 if self.sick else 405, b"")


@contextmanager
def faulty(sick: str | None = None) -> Generator[str]:
    handler = type("Handler", (Faulty,), {"sick": sick})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
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
        ("500", "server 'far' gave no answer: it answered with HTTP status 500; the hub sends "),
        ("reset", "server 'far' gave no answer: it cannot be reached ("),
        ("cut", "server 'far' gave no answer: the connection broke ("),
        ("slow", "server 'far' did not answer within 2 s; the hub cancelled the call"),
    ],
)
async def test_a_failure_on_the_way_is_that_of_its_own_call(
    tool: str, said: str, tmp_path: Path
) -> None:
    with faulty() as url:
        config = config_file(tmp_path, {"far": {"url": url, "timeout": 2}})
        hub = [ROOTS_HUB, "run", "--stdio", "--config", config]
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


@pytest.mark.parametrize("transport", ["http", "sse"])
@pytest.mark.parametrize("sick", ["500", "reset"])
async def test_a_server_that_fails_at_its_start_is_noticed_at_once(
    transport: str, sick: str, tmp_path: Path
) -> None:
    with faulty(sick) as url:
        servers = {"far": {"url": url, "transport": transport, "start_timeout": 30}}
        hub = [ROOTS_HUB, "run", "--stdio", "--config", config_file(tmp_path, servers)]
        with anyio.fail_after(15):
            async with connected(hub, cwd=tmp_path) as client:
                (tool,) = (await client.list_tools()).tools
                assert tool.description is not None
                assert "server 'far' is not running: " in tool.description
                (server,) = (await report(client))["servers"]
                assert server["state"] == "down"
                assert "500" in server["reason"] or sick != "500"
