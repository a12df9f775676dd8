"""A raw client of an MCP server over streamable HTTP: prepared requests, keep-alive connections.

Of HTTP it reads as much as it needs to know where an answer ends.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, cast

from bench.piped import CHUNK, WrongAnswerError, checked

LEGACY = "2025-11-25"
MODERN = "2026-07-28"
IDS = 10_000_000
"""Ids of calls have eight digits, so that every request of a kind is of one length."""
TIMEOUT = 60.0
INPUT_REQUIRED = b'"input_required"'
Address = tuple[str, int]


class Reading:
    """The answer that is arriving on one connection."""

    def __init__(self) -> None:
        self._got = b""
        self._body = -1
        self._length = -1

    def feed(self, chunk: bytes) -> bytes | None:
        """Return the body, once all of it is here."""
        self._got = self._got + chunk if self._got else chunk
        if self._body < 0:
            end = self._got.find(b"\r\n\r\n")
            if end < 0:
                return None
            self._body = end + 4
            head = self._got[:end].lower()
            at = head.find(b"content-length:")
            self._length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else -1
        if self._length < 0:
            whole = self._got.endswith(b"0\r\n\r\n")
        else:
            whole = len(self._got) >= self._body + self._length
        if not whole:
            return None
        body = self._got[self._body :]
        if self._length < 0:
            body = dechunked(body)
        self._got, self._body = b"", -1
        return body


def dechunked(body: bytes) -> bytes:
    """Return what a chunked body carries."""
    parts: list[bytes] = []
    while body:
        size, body = body.split(b"\r\n", 1)
        length = int(size.split(b";")[0], 16)
        parts.append(body[:length])
        body = body[length + 2 :]
    return b"".join(parts)


def message_in(body: bytes) -> bytes:
    """Return the last JSON message of an answer, which may be an event stream."""
    if body.startswith((b"{", b"[")) or not body:
        return body
    return [line[5:].strip() for line in body.splitlines() if line.startswith(b"data:")][-1]


class Session:
    """One client of the server at `address`, on a connection of its own.

    `roots` are what it says when it is asked for roots; None: it does not know roots.
    """

    def __init__(
        self,
        address: Address,
        path: str,
        *,
        modern: bool = False,
        roots: Sequence[Path] | None = None,
    ) -> None:
        self._address = address
        self._path = path
        self._modern = modern
        self._roots = roots
        self._ids = count(1)
        self._wanted = dict[str, Any]()
        self._headers: dict[str, str] = {
            "Host": f"{address[0]}:{address[1]}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }
        self.connect()

    def repeat(self, headers: dict[str, str]) -> None:
        """Send more headers with each request."""
        self._headers.update(headers)

    def connect(self) -> None:
        """Open the connection anew: servers close those that were idle for some seconds."""
        self._socket = socket.create_connection(self._address, TIMEOUT)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reading = Reading()

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    # What is said before and between the measurements

    def begin(self) -> None:
        """Do the handshake, if the era has one."""
        if self._modern:
            self._headers["MCP-Protocol-Version"] = MODERN
            return
        capabilities = {} if self._roots is None else {"roots": {"listChanged": True}}
        info = {"name": "bench", "version": "1"}
        params = {"protocolVersion": LEGACY, "capabilities": capabilities, "clientInfo": info}
        self.request("initialize", params)
        self._headers["MCP-Protocol-Version"] = LEGACY
        self._tell({"method": "notifications/initialized"})

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a request; what the server asks meanwhile is answered.

        Raises: WrongAnswerError.
        """
        params = self._enveloped(params)
        while True:
            body = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params}
            self._socket.sendall(self._post(json.dumps(body).encode(), method, params))
            message = self._answer()
            result = message.get("result", {"isError": True})
            if result.get("resultType") == "input_required":
                self._wanted = result["inputRequests"]
                params = {**params, "inputResponses": self._responses()}
                if "requestState" in result:
                    params["requestState"] = result["requestState"]
            elif result.get("isError"):
                raise WrongAnswerError(f"{method} {params}: {message}"[:1000])
            else:
                return result

    def _responses(self) -> dict[str, Any]:
        """Return what the retry of a request brings that needed input."""
        return dict.fromkeys(self._wanted, self._shared())

    def _shared(self) -> dict[str, Any]:
        return {"roots": [{"uri": root.as_uri(), "name": root.name} for root in self._roots or ()]}

    def _answer(self) -> dict[str, Any]:
        """Return the answer that comes next; the server's own requests in it are answered."""
        got = b""
        body = None
        answered: set[int] = set()
        while body is None:
            chunk = self._received()
            got += chunk
            body = self._reading.feed(chunk)
            for message in self._asked(got):
                if message["id"] not in answered:
                    answered.add(message["id"])
                    self._elsewhere({"id": message["id"], "result": self._shared()})
        self._note(got)
        if not body:
            return {"result": {}}
        try:
            return json.loads(message_in(body))
        except (ValueError, IndexError) as exc:
            raise WrongAnswerError(got[:1000].decode(errors="replace")) from exc

    def _asked(self, got: bytes) -> list[dict[str, Any]]:
        """Return the requests for roots in what came of an event stream so far."""
        found: list[dict[str, Any]] = []
        if b"roots/list" in got:
            for line in got.splitlines():
                with suppress(ValueError):
                    message = json.loads(line.removeprefix(b"data:"))
                    sent = cast("dict[str, Any]", message) if isinstance(message, dict) else {}
                    if sent.get("method") == "roots/list":
                        found.append(sent)
        return found

    def _note(self, got: bytes) -> None:
        for line in got.split(b"\r\n\r\n", 1)[0].split(b"\r\n"):
            name, _, value = line.partition(b":")
            if name.lower() == b"mcp-session-id":
                self._headers["Mcp-Session-Id"] = value.strip().decode()

    def _elsewhere(self, message: dict[str, Any]) -> None:
        """Send a message on another connection."""
        other = Session(self._address, self._path, modern=self._modern)
        other._headers = self._headers
        other._tell(message)
        other.close()

    def _tell(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._socket.sendall(self._post(body, message.get("method", ""), {}))
        self._answer()

    def end(self) -> None:
        """End the session as a client does that leaves."""
        if "Mcp-Session-Id" in self._headers:
            lines = [f"{name}: {value}" for name, value in self._headers.items()]
            head = "\r\n".join([f"DELETE {self._path} HTTP/1.1", *lines, "", ""])
            self._socket.sendall(head.encode())
            self._answer()
        self.close()

    # What is measured

    def prepare(self, params: dict[str, Any], method: str = "tools/call") -> None:
        """Make the bytes of a request, and of its retry, on a new connection."""
        self.close()
        self.connect()
        self._call = self._parts(params, method)
        self._retry = self._parts({**params, "inputResponses": self._responses()}, method)

    def _parts(self, params: dict[str, Any], method: str) -> tuple[bytes, bytes]:
        params = self._enveloped(params)
        body = {"jsonrpc": "2.0", "id": IDS, "method": method, "params": params}
        whole = self._post(json.dumps(body, separators=(",", ":")).encode(), method, params)
        before, after = whole.split(b'"id":%d' % IDS, 1)
        return before + b'"id":', after

    def files(self) -> list[int]:
        """Return on which files answers come."""
        return [self._socket.fileno()]

    def call(self, id_: int) -> None:
        """Send the request that was prepared."""
        before, after = self._call
        self._socket.sendall(before + b"%d" % id_ + after)

    def arrived(self, _file: int) -> list[bytes]:
        """Take what came; return the answers that are complete, as they came.

        One that asks for roots is none: the call is made again with them, under its id.
        """
        body = self._reading.feed(self._received())
        if body is None:
            return []
        if INPUT_REQUIRED in body:
            before, after = self._retry
            id_ = body.split(b'"id":', 1)[1].lstrip()[:8]
            self._socket.sendall(before + id_ + after)
            return []
        return [body]

    def _received(self) -> bytes:
        chunk = self._socket.recv(CHUNK)
        if not chunk:
            raise WrongAnswerError("the server closed a connection")
        return chunk

    def one_by_one(
        self, params: dict[str, Any], times: int, method: str = "tools/call"
    ) -> list[float]:
        """Ask `times` times, one after the other; return the seconds that each took."""
        self.prepare(params, method)
        taken: list[float] = []
        bodies: list[bytes] = []
        for id_ in range(IDS, IDS + times):
            began = time.perf_counter()
            self.call(id_)
            bodies += self._waited()
            taken.append(time.perf_counter() - began)
        checked([message_in(body) for body in bodies], range(IDS, IDS + times))
        return taken

    def _waited(self) -> list[bytes]:
        while not (found := self.arrived(0)):
            pass
        return found

    def _enveloped(self, params: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters with what this era wants in them."""
        if not self._modern:
            return params
        capabilities: dict[str, Any] = {"elicitation": {"form": {}}}  # as most of them do
        if self._roots is not None:
            capabilities["roots"] = {}
        meta: dict[str, Any] = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        }
        return {**params, "_meta": meta}

    def _post(self, body: bytes, method: str, params: dict[str, Any]) -> bytes:
        headers = {**self._headers, "Content-Length": str(len(body))}
        if self._modern and method:
            headers["Mcp-Method"] = method
            if "name" in params:
                headers["Mcp-Name"] = params["name"]
        lines = [f"{name}: {value}" for name, value in headers.items()]
        return "\r\n".join([f"POST {self._path} HTTP/1.1", *lines, "", ""]).encode() + body
