"""An MCP server that misbehaves in one way, once its tool `provoke` was called.

`misbehaving_child.py KIND [CPU]`; until then, and where its way leaves room for that, it answers.
The kind `none` is the one that does not misbehave. With a CPU it runs on that one alone.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

BLOCK = 4096
"""Bytes that a pipe takes as one write (PIPE_BUF): no answer gets in between."""
HUGE = 8 << 20
MANY = 500_000
EVADERS = 5
FOR_LONG = "86400"


def whole(line: bytes) -> bytes:
    """Return as many of a line as are written as one."""
    return (line + b"\n") * max(1, BLOCK // (len(line) + 1))


def telling(method: str, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode()


def forever(data: bytes, descriptor: int = 1) -> None:
    """Write it again and again, as fast as it is read."""
    while True:
        os.write(descriptor, data)


def flood(line: bytes, descriptor: int = 1) -> Callable[[], None]:
    return lambda: forever(whole(line), descriptor)


def nested() -> None:
    forever(b'{"jsonrpc":"2.0","method":"n","params":' + b'{"a":' * 800 + b"[" * 60 + b"\n")


def new_ids() -> None:
    for number in count(10**9):
        os.write(1, whole(b'{"jsonrpc":"2.0","id":%d,"result":{}}' % number))


def close_stdout() -> None:
    os.close(1)


def leave_stdout_open() -> None:
    """End, while a descendant keeps what this process writes to."""
    null = os.open(os.devnull, os.O_RDWR)
    quiet = [(os.POSIX_SPAWN_DUP2, null, number) for number in (0, 2)]
    os.posix_spawn("/bin/sleep", ["sleep", FOR_LONG], os.environ, file_actions=quiet)
    os._exit(3)


def evade() -> None:
    """Start processes that nothing leads back from."""
    for _ in range(EVADERS):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                soft = resource.getrlimit(resource.RLIMIT_RTTIME)[0]
                lower = 10**9 if soft == resource.RLIM_INFINITY else soft // 2
                resource.setrlimit(resource.RLIMIT_RTTIME, (lower, lower))
                null = os.open(os.devnull, os.O_RDWR)
                for number in range(3):
                    os.dup2(null, number)
                os.execve("/bin/sleep", ["sleep", FOR_LONG], {})  # noqa: S606 - it is the point
            os._exit(0)
        os.wait()


def say_changed() -> None:
    forever(whole(telling("notifications/tools/list_changed")))


def asking(method: str) -> Callable[[], None]:
    """Ask again and again, each time by another id."""

    def ask() -> None:
        params: dict[str, Any] = {
            "messages": [],
            "maxTokens": 1,
            "message": "?",
            "requestedSchema": {},
        }
        for number in count(10**9):
            asked = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            os.write(1, whole(json.dumps(asked).encode()))

    return ask


def read_no_more() -> None:
    """Keep the reader of stdin from reading on."""
    MisbehavingChild.stops_reading = True


FLOODS: Mapping[str, Callable[[], None]] = {
    "none": lambda: None,
    "junk lines": flood(b"this is no message at all"),
    "blank lines": flood(b""),
    "endless line": lambda: forever(b"x" * 65536),
    "progress flood": flood(telling("notifications/progress", progressToken=10**9, progress=1)),
    "notification flood": flood(telling("notifications/message", level="info", data="again")),
    "closed stdout": close_stdout,
    "held stdout": leave_stdout_open,
    "wrong ids": new_ids,
    "double answers": lambda: forever(whole(b'{"jsonrpc":"2.0","id":1,"result":{}}')),
    "ignored TERM": lambda: None,
    "evading forks": evade,
    "huge results": lambda: None,
    "huge errors": lambda: None,
    "changing tools": say_changed,
    "stderr flood": flood(b"this is said on stderr", 2),
    "unread stdin": read_no_more,
    "nested JSON": nested,
    "pings": asking("ping"),
    "questions": asking("sampling/createMessage"),
    "roots wanted": asking("roots/list"),
}


class MisbehavingChild:
    """The server; it floods by a thread of its own."""

    stops_reading = False

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._tools = count()
        self._is_provoked = False

    def serve(self) -> None:
        """Answer until stdin ends; one that ignores SIGTERM goes on without it."""
        if self._kind == "ignored TERM":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for line in sys.stdin.buffer:
            message = json.loads(line)
            if "id" in message:
                self._answer(message)
            while MisbehavingChild.stops_reading:
                time.sleep(3600)
        if self._kind == "ignored TERM":
            time.sleep(float(FOR_LONG))

    def _answer(self, message: dict[str, Any]) -> None:
        id_, method, params = message["id"], message["method"], message.get("params", {})
        result: dict[str, Any] = {}
        if method == "initialize":
            result = {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {"listChanged": True}, "logging": {}},
                "serverInfo": {"name": self._kind, "version": "1"},
            }
        elif method == "tools/list":
            result = {"tools": self._listed()}
        elif method == "tools/call" and params["name"] == "hang":
            return
        elif method == "tools/call":
            result = {"content": [{"type": "text", "text": self._called(params["name"])}]}
        answered = {"result": result}
        if method == "tools/call" and params["name"] == "provoke" and self._kind == "huge errors":
            answered = {"error": {"code": -32000, "message": "no", "data": [{"a": [1]}] * MANY}}
        text = json.dumps({"jsonrpc": "2.0", "id": id_, **answered}).encode() + b"\n"
        while text:
            text = text[os.write(1, text) :]
        if method == "tools/call" and params["name"] == "provoke" and not self._is_provoked:
            self._is_provoked = True
            threading.Thread(target=FLOODS[self._kind], daemon=True).start()

    def _called(self, name: str) -> str:
        if name == "pid":
            return str(os.getpid())
        return "x" * HUGE if name == "provoke" and self._kind == "huge results" else "done"

    def _listed(self) -> list[dict[str, Any]]:
        names = ["echo", "provoke", "pid", "hang"]
        if self._kind == "changing tools":
            names += [f"tool_{next(self._tools)}" for _ in range(50)]
        text = {"type": "object", "properties": {"text": {"type": "string"}}}
        return [{"name": name, "description": "Does it.", "inputSchema": text} for name in names]


if __name__ == "__main__":
    if len(sys.argv) > 2:
        os.sched_setaffinity(0, {int(sys.argv[2])})
    MisbehavingChild(sys.argv[1]).serve()
