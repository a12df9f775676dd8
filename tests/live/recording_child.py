"""An MCP server that does nothing but write down what it gets, to a file of its own below `RECORD`.

Its tool `read_file` answers with the text of any file at all: who gets past the hub does harm.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

TOOLS = [
    {
        "name": "read_file",
        "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}},
        "annotations": {"readOnlyHint": True},
        "example.com/unknown": {"kept": [1, 2.50, 10000000000000000000001]},
    },
    {"name": "pid", "inputSchema": {"type": "object"}},
    {"name": "whereabouts", "inputSchema": {"type": "object"}},
    {"name": "exit", "inputSchema": {"type": "object"}},
]


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    if method == "initialize":
        return {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "recorder", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": TOOLS}
    if method != "tools/call":
        return {}
    return {"content": [{"type": "text", "text": result(params)}], "example.com/x": {"y": [1.50]}}


def result(params: dict[str, Any]) -> str:
    match params["name"]:
        case "read_file":
            return Path(params["arguments"]["path"]).read_text(encoding="utf-8")
        case "try_file":
            try:
                return Path(params["arguments"]["path"]).read_text(encoding="utf-8")
            except OSError as exc:
                return type(exc).__name__
        case "pid":
            return str(os.getpid())
        case "exit":
            os._exit(7)
        case _:
            variables = {key: os.environ[key] for key in os.environ if key.startswith("MCP_ROOTS")}
            return json.dumps({"argv": sys.argv[1:], "cwd": str(Path.cwd()), **variables})


def main() -> None:
    if "--stubborn" in sys.argv:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    folder = os.environ.get("RECORD")
    record = Path(folder, f"{os.getpid()}.jsonl") if folder else None
    for line in sys.stdin:
        if record is not None:
            with record.open("a") as file:
                file.write(line)
        message = json.loads(line)
        if "id" in message and "method" in message:
            found = answer(message["method"], message.get("params", {}))
            reply = {"jsonrpc": "2.0", "id": message["id"], "result": found}
            sys.stdout.write(json.dumps(reply) + "\n")
            sys.stdout.flush()
    if "--stubborn" in sys.argv:
        while True:
            signal.pause()


if __name__ == "__main__":
    main()
