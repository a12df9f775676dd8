"""The yardstick on stdio: `bare_relay.py [OPTION] COMMAND ARGS...` relays one client to a child.

As fast as a relay on plain asyncio and orjson gets that does no more than give each request an id
of its own and each answer its old one. No guard, no sessions, no limits, no audit. With `--batch`
what comes in one piece leaves in one piece; without, each message is written when it is read.
With `--ask` it asks the client's user before each `tools/call`, and passes the call on then.
"""

import asyncio  # noqa: TID251 - no part of the hub
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import orjson

Sink = Callable[[bytes], None]
ASKED = "question"
_DECISION = {"type": "string", "title": "Decision", "enum": ["allow once", "refuse"]}
QUESTION = orjson.dumps(
    {
        "jsonrpc": "2.0",
        "id": ASKED,
        "method": "elicitation/create",
        "params": {
            "message": "Allow access outside of the shared folders?",
            "requestedSchema": {"type": "object", "properties": {"decision": _DECISION}},
        },
    },
    option=orjson.OPT_APPEND_NEWLINE,
)


class Lines(asyncio.Protocol):
    """Gives whole lines, as many as came at once, to `take`."""

    def __init__(self, take: Callable[[list[bytes]], None], ended: Callable[[], None]) -> None:
        self._take = take
        self._ended = ended
        self._parts: list[bytes] = []

    def data_received(self, data: bytes) -> None:
        *lines, rest = data.split(b"\n")
        if lines:
            if self._parts:
                lines[0] = b"".join([*self._parts, lines[0]])
                self._parts.clear()
            self._take(lines)
        if rest:
            self._parts.append(rest)

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended()


class Ids:
    """Which of the client's ids each request had."""

    def __init__(self) -> None:
        self._waiting: dict[int, Any] = {}
        self._last = 0

    def to_child(self, line: bytes) -> bytes:
        """Return a request under the child's id, and all else as it is."""
        message = orjson.loads(line)
        if "method" in message and "id" in message:
            self._last += 1
            self._waiting[self._last] = message["id"]
            message["id"] = self._last
        return orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE)

    def to_client(self, line: bytes) -> bytes:
        """Return an answer under the client's id, and all else as it is."""
        message = orjson.loads(line)
        if "method" not in message:
            message["id"] = self._waiting.pop(message["id"])
        return orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE)


class Asking(Ids):
    """Holds each tool call back until the client has answered a question; one call at a time."""

    def __init__(self, ask: Sink) -> None:
        super().__init__()
        self._ask = ask
        self._held = b""

    def to_child(self, line: bytes) -> bytes:
        """Return what the child gets of a line: the call that was held back, once it may pass."""
        message = orjson.loads(line)
        if message.get("method") == "tools/call":
            self._held = super().to_child(line)
            self._ask(QUESTION)
            return b""
        if message.get("id") == ASKED:
            return self._held
        return super().to_child(line)


def passing(change: Callable[[bytes], bytes], write: Sink, batch: bool) -> Callable[..., None]:
    """Return what takes lines, and writes each of them changed."""

    def each(lines: list[bytes]) -> None:
        for line in lines:
            write(change(line))

    def all_at_once(lines: list[bytes]) -> None:
        write(b"".join(map(change, lines)))

    return all_at_once if batch else each


async def main(command: list[str]) -> None:
    """Relay until the client closes its end."""
    batch, asks = command[0] == "--batch", command[0] == "--ask"
    loop = asyncio.get_running_loop()
    child = subprocess.Popen(
        command[batch or asks :], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdin is not None
    assert child.stdout is not None
    ended = asyncio.Event()
    inlet, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, child.stdin)
    outlet, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, sys.stdout)
    ids = Asking(outlet.write) if asks else Ids()
    answer = passing(ids.to_client, outlet.write, batch)
    forward = passing(ids.to_child, inlet.write, batch)
    await loop.connect_read_pipe(lambda: Lines(answer, ended.set), child.stdout)
    await loop.connect_read_pipe(lambda: Lines(forward, inlet.close), sys.stdin)
    await ended.wait()
    child.wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
