"""A remote MCP server whose tool `provoke` is answered with HTTP that does not end.

`misbehaving_remote.py KIND [CPU]` says its URL in a line. With a CPU it runs on that one alone.
"""

from __future__ import annotations

import json
import os
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import repeat
from typing import Any

EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
MB = 1 << 20


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def bomb(head: bytes, text: bytes) -> Iterator[bytes]:
    """Yield a response whose body is a thousand times as large once it is decompressed."""
    yield head + b"Content-Encoding: gzip\r\n\r\n"
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    yield chunk(packer.compress(text) + packer.flush(zlib.Z_FULL_FLUSH))
    # After a full flush a piece means the same wherever it stands.
    again = chunk(packer.compress(text) + packer.flush(zlib.Z_FULL_FLUSH))
    yield from repeat(again * 16)


def tiny_chunks() -> Iterator[bytes]:
    yield ANSWER + b"\r\n"
    yield from repeat(chunk(b" ") * 10_000)


def interim_responses() -> Iterator[bytes]:
    yield from repeat(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 1000)


def whole(status: bytes, text: bytes, coding: bytes = b"identity") -> Iterator[bytes]:
    """Yield one response that ends."""
    head = b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Encoding: %b\r\n"
    yield head % (status, coding) + b"Content-Length: %d\r\n\r\n" % len(text)
    yield text


def layers() -> Iterator[bytes]:
    text = b"[" + b" " * (20 * MB)
    for _ in range(3):
        text = zlib.compress(text, wbits=31)
    yield from whole(b"200 OK", text, b"gzip, gzip, gzip")


REMOTE_KINDS: Mapping[str, Callable[[], Iterator[bytes]]] = {
    "compressed bomb": lambda: bomb(ANSWER, b" " * MB),
    "compressed events": lambda: bomb(EVENTS, b": still here\n" * (MB // 13)),
    "tiny chunks": tiny_chunks,
    "interim responses": interim_responses,
    "layers of gzip": layers,
    "error page": lambda: whole(b"500 No", b"<p>no</p>" * (2 * MB)),
    "huge refusal": lambda: whole(
        b"400 No", b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"%b"}}' % (b"x" * 20 * MB)
    ),
}


class Misbehaving(BaseHTTPRequestHandler):
    """The server; `kind` is the way in which it answers `provoke`."""

    protocol_version = "HTTP/1.1"
    kind: str

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Say nothing."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        method, params = asked["method"], asked.get("params", {})
        if method == "tools/call" and params["name"] == "provoke":
            self.close_connection = True
            with suppress(OSError):
                for data in REMOTE_KINDS[self.kind]():
                    self.wfile.write(data)
        elif "id" not in asked:
            self._send(202, b"")
        else:
            said = {"jsonrpc": "2.0", "id": asked["id"], "result": self._result(method)}
            self._send(200, json.dumps(said).encode())

    def _result(self, method: str) -> dict[str, Any]:
        if method == "initialize":
            return {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": self.kind, "version": "1"},
            }
        if method == "tools/list":
            schema = {"type": "object"}
            return {"tools": [{"name": n, "inputSchema": schema} for n in ("echo", "provoke")]}
        return {"content": [{"type": "text", "text": "done"}]}

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self._send(405, b"")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        os.sched_setaffinity(0, {int(sys.argv[2])})
    handler = type("Handler", (Misbehaving,), {"kind": sys.argv[1]})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        sys.stdout.write(f"http://127.0.0.1:{server.server_port}/mcp\n")
        sys.stdout.flush()
        server.serve_forever()
