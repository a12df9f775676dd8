"""Opens many connections to a hub and leaves each of them unfinished: `HOST:PORT COUNT FILE`.

Of each kind there are equally many. What the hub closes is opened again, so that there is no rest
for it. Ends with stdin, and says then how many the hub closed.
"""

from __future__ import annotations

import json
import selectors
import socket
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from itertools import cycle, islice
from subprocess import PIPE, Popen
from typing import Final

KINDS: Final = ("nothing", "line", "headers", "body", "reader")
OPENED_AT_ONCE: Final = 50
SETTLED: Final = "all have been opened"
_HEAD = (
    "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    "Accept: application/json, text/event-stream\r\n"
)


def posted(message: dict[str, object], **headers: str) -> bytes:
    """Return a whole request with a message."""
    body = json.dumps({"jsonrpc": "2.0", **message})
    more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"{_HEAD}{more}Content-Length: {len(body)}\r\n\r\n{body}".encode()


def session(address: tuple[str, int]) -> str:
    """Begin a session, and return its id."""
    params: dict[str, object] = {"protocolVersion": "2025-11-25", "capabilities": {}}
    with socket.create_connection(address) as client:
        client.sendall(posted({"id": 1, "method": "initialize", "params": params}))
        for line in client.makefile("rb"):
            name, _, value = line.decode().partition(": ")
            if name.lower() == "mcp-session-id":
                return value.strip()
    raise ConnectionError("no session")


class Unfinished:
    """Connections to a hub; `file` is a large one that readers do not read."""

    def __init__(self, address: tuple[str, int], file: str) -> None:
        self.address = address
        self.opened = self.closed = 0
        self._open = selectors.DefaultSelector()
        call = {"name": "read_file", "arguments": {"path": file}}
        read = posted(
            {"id": 2, "method": "tools/call", "params": call}, Mcp_Session_Id=session(address)
        )
        self._parts: dict[str, bytes] = {
            "nothing": b"",
            "line": b"POST /mc",
            "headers": _HEAD.encode(),
            "body": f"{_HEAD}Content-Length: 9999\r\n\r\n{{".encode(),
            "reader": read,
        }

    def open(self, kind: str) -> None:
        """Open one of a kind."""
        self.opened += 1
        client = socket.socket()
        if kind == "reader":
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(5)
        try:
            client.connect(self.address)
            client.sendall(self._parts[kind])
        except OSError:
            self.closed += 1
            client.close()
            return
        client.setblocking(False)
        # What a reader has to read says nothing; an error makes the connection writable, too.
        event = selectors.EVENT_WRITE if kind == "reader" else selectors.EVENT_READ
        self._open.register(client, event, kind)

    def lost(self) -> list[str]:
        """Close what the hub has closed, and return of which kinds that was."""
        found: list[str] = []
        for key, _ in self._open.select(0):
            client, kind = key.fileobj, str(key.data)
            assert isinstance(client, socket.socket)
            if kind == "reader" and not client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                continue
            self._open.unregister(client)
            client.close()
            found.append(kind)
        self.closed += len(found)
        return found


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(where: str, count: str, file: str) -> None:
    """Open them, and keep them open until stdin ends."""
    host, _, port = where.rpartition(":")
    made = Unfinished((host, int(port)), file)
    left = list(islice(cycle(KINDS), int(count)))
    has_settled = False
    waiting = selectors.DefaultSelector()
    waiting.register(sys.stdin, selectors.EVENT_READ)
    while not waiting.select(0.05):
        for kind in left[:OPENED_AT_ONCE]:
            made.open(kind)
        del left[:OPENED_AT_ONCE]
        if made.opened >= int(count) and not has_settled:
            has_settled = True
            _say(SETTLED)
        left += made.lost()
    _say(str(made.closed))


@contextmanager
def unfinished(address: str, count: int, file: str) -> Generator[Popen[str]]:
    """Run this as a program until the context ends; all have been opened once when it begins."""
    command = [sys.executable, "-m", "tests.live.half_requests", address, str(count), file]
    with Popen(command, stdin=PIPE, stdout=PIPE, text=True) as process:  # noqa: S603 - our own
        assert process.stdout is not None
        assert process.stdout.readline().strip() == SETTLED
        try:
            yield process
        finally:
            with suppress(BrokenPipeError):
                process.communicate()


if __name__ == "__main__":
    main(*sys.argv[1:])
