"""An MCP server that starts child processes, and ends them as badly as a server can.

Its arguments say how: `noeof` and `noterm` ignore what asks it to end, `busy` never reads on once a
call has come, and each `child=...` is one of its own children: `plain`, `noterm`, `setsid`, `lost`
(its parent has exited), `bare` (all of these, and an empty environment) or `evader` (all of these,
and other limits: no mark is left).
"""

import json
import os
import resource
import signal
import sys
import time


def start(kind: str) -> None:
    """Start a process by a fork alone, which takes less time, if its environment is no other."""
    if os.fork():
        return
    try:
        become(kind)
    finally:
        os._exit(0)


def become(kind: str) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    is_lost = kind in {"lost", "bare", "evader"}
    if is_lost and os.fork():
        return  # the one between is gone
    if is_lost or kind == "setsid":
        os.setsid()
    obeys = kind in {"plain", "setsid"}
    signal.signal(signal.SIGTERM, signal.SIG_DFL if obeys else signal.SIG_IGN)
    if kind == "evader":
        resource.setrlimit(resource.RLIMIT_RTTIME, (10**9, 10**9))
    if kind in {"bare", "evader"}:
        command = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(300)", MARK]
        os.execve(sys.executable, command, {})  # noqa: S606 - this Python
    time.sleep(300)


def reply(request: object, found: object) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": request, "result": found}) + "\n")
    sys.stdout.flush()


def answer(request: object, method: str) -> None:
    if method == "initialize":
        info = {"name": "forking", "version": "1"}
        tools = {"tools": {"listChanged": False}}
        reply(request, {"protocolVersion": "2025-11-25", "capabilities": tools, "serverInfo": info})
    elif method == "tools/list":
        reply(request, {"tools": [{"name": "work", "inputSchema": {"type": "object"}}]})
    elif method == "tools/call":
        if "busy" in KINDS:
            time.sleep(300)
        start("plain")
        reply(request, {"content": [{"type": "text", "text": str(os.getpid())}]})


MARK, *KINDS = sys.argv[1:]
if "noterm" in KINDS:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
for each in KINDS:
    if each.startswith("child="):
        start(each.removeprefix("child="))
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and "method" in message:
        answer(message["id"], message["method"])
while "noeof" in KINDS:
    time.sleep(1)
