"""A raw client of the older HTTP transport: it posts requests, and reads answers on one stream."""

from __future__ import annotations

import json
import select
import socket
import time
from typing import Any

from bench.piped import CHUNK, WrongAnswerError
from bench.posting import TIMEOUT, Session

OPENS = 10.0
"""Seconds that a server may take from when it listens until it opens streams."""


class Events:
    """The messages of an event stream in a chunked body, as they arrive."""

    def __init__(self) -> None:
        self._raw = b""
        self._text = b""
        self._in_body = False

    def feed(self, got: bytes) -> list[bytes]:
        """Return what each event carries that is complete now."""
        self._raw += got
        if not self._in_body:
            _, found, rest = self._raw.partition(b"\r\n\r\n")
            if not found:
                return []
            self._raw, self._in_body = rest, True
        self._text += b"".join(self._chunks())
        *events, self._text = self._text.split(b"\n\n")
        return [
            line[5:].strip()
            for event in events
            for line in event.split(b"\n")
            if line.startswith(b"data:")
        ]

    def _chunks(self) -> list[bytes]:
        chunks: list[bytes] = []
        while b"\r\n" in self._raw:
            size, rest = self._raw.split(b"\r\n", 1)
            length = int(size, 16)
            if len(rest) < length + 2:
                break
            chunks.append(rest[:length])
            self._raw = rest[length + 2 :]
        return chunks


class StreamSession(Session):
    """One client of a server that answers on an event stream."""

    def open(self) -> None:
        """Open the stream, which says where to post; a server may listen before it serves that.

        Raises: WrongAnswerError.
        """
        until, where = time.monotonic() + OPENS, self._path
        while True:
            try:
                self._ask_for_stream(where)
            except WrongAnswerError:
                self._stream.close()
                if time.monotonic() > until:
                    raise
                time.sleep(0.02)
            else:
                return

    def _ask_for_stream(self, where: str) -> None:
        self._stream = socket.create_connection(self._address, TIMEOUT)
        self._events = Events()
        head = f"GET {where} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
        self._stream.sendall(head.encode())
        self._path = self._next().decode()

    def begin(self) -> None:
        """Open the stream, and do the handshake."""
        self.open()
        super().begin()

    def end(self) -> None:
        """Leave: with its stream the session ends."""
        self.close()
        self._stream.close()

    def _next(self) -> bytes:
        while True:
            chunk = self._stream.recv(CHUNK)
            if not chunk or chunk.startswith((b"HTTP/1.1 4", b"HTTP/1.1 5")):
                raise WrongAnswerError(f"the server ended the stream: {chunk[:100]!r}")
            if found := self._events.feed(chunk):
                return found[-1]

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a request.

        Raises: WrongAnswerError.
        """
        id_ = next(self._ids)
        self._tell({"id": id_, "method": method, "params": params})
        while True:
            message = json.loads(self._next())
            if message.get("id") == id_ and "method" not in message:
                if message.get("result", {"isError": True}).get("isError"):
                    raise WrongAnswerError(f"{method} {params}: {message}"[:1000])
                return message["result"]

    def _tell(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._socket.sendall(self._post(body, "", {}))
        while self._reading.feed(self._received()) is None:
            pass

    def files(self) -> list[int]:
        """Return on which files something comes."""
        return [self._socket.fileno(), self._stream.fileno()]

    def arrived(self, file: int) -> list[bytes]:
        """Take what came; return the answers that are complete."""
        if file == self._socket.fileno():
            self._reading.feed(self._received())
            return []
        chunk = self._stream.recv(CHUNK)
        if not chunk:
            raise WrongAnswerError("the server closed the stream")
        return [one for one in self._events.feed(chunk) if b'"id"' in one]

    def _waited(self) -> list[bytes]:
        while True:
            ready, _, _ = select.select(self.files(), [], [])
            found = [body for file in ready for body in self.arrived(file)]
            if found:
                return found
