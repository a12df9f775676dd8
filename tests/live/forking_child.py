"""An MCP server that starts child processes, and ends them as badly as a server can.

Its arguments say how: `noeof` and `noterm` ignore what asks it to end, `busy` never reads on once a
call has come, and each `child=...` is one of its own children: `plain`, `noterm`, `setsid`, `lost`
(its parent has exited), `bare` (all of these, and an empty environment) or `evader` (all of these,
and other limits: no mark is left).
"""

import json
import os
import signal
import subprocess
import sys
import time

ASLEEP = "import signal, sys, time; signal.signal(signal.SIGTERM, {}); time.sleep(300)"
QUIET = subprocess.DEVNULL
OBEYS, IGNORES = "signal.SIG_DFL", "signal.SIG_IGN"


def start(kind: str) -> None:
    ignores = kind in {"noterm", "lost", "bare", "evader"}
    command = [sys.executable, "-S", "-c", ASLEEP.format(IGNORES if ignores else OBEYS)]
    if kind in {"lost", "bare", "evader"}:
        # The one between starts it in a session of its own, and is gone.
        env = "None" if kind == "lost" else "{}"
        code = (
            "import subprocess, sys; subprocess.Popen(sys.argv[1:], start_new_session=True, "
            f"env={env})"
        )
        if kind == "evader":
            code = f"from resource import *; setrlimit(RLIMIT_RTTIME, (10**9, 10**9)); {code}"
        command = [sys.executable, "-S", "-c", code, *command, f"family={os.getpid()}"]
    subprocess.Popen(  # noqa: S603 - this Python
        [*command, MARK],
        stdin=QUIET,
        stdout=QUIET,
        stderr=QUIET,
        start_new_session=kind == "setsid",
    )


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
