"""A server that keeps what it was told: `remember` lists all texts so far, `roots` the roots told.
`learn` adds a tool.

`read_file` reads a path as it is given: a relative one from the directory that the server runs in.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

PATH = {"type": "object", "properties": {"path": {"type": "string"}}}
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}
TOOLS = [
    {"name": "remember", "inputSchema": TEXT},
    {"name": "read_file", "inputSchema": PATH, "annotations": {"readOnlyHint": True}},
    {"name": "roots", "inputSchema": {"type": "object"}},
    {"name": "pid", "inputSchema": {"type": "object"}},
    {"name": "learn", "inputSchema": TEXT},
]

texts: list[str] = []
told: list[str] = []


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def result(params: dict[str, Any]) -> str:
    arguments = params.get("arguments", {})
    match params["name"]:
        case "remember":
            texts.append(arguments["text"])
            return json.dumps(texts)
        case "read_file":
            return Path(arguments["path"]).read_text(encoding="utf-8")
        case "learn":
            TOOLS.append({"name": arguments["text"], "inputSchema": {"type": "object"}})
            send({"method": "notifications/tools/list_changed"})
            return "learnt"
        case "roots":
            return json.dumps(told)
        case _:
            return str(os.getpid())


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        return {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "keeper", "version": "1"},
        }
    if method == "tools/list":
        # Without a path, the hub need not know whose roots they are.
        return {
            "tools": [t for t in TOOLS if "--no-paths" not in sys.argv or t["inputSchema"] != PATH]
        }
    if method == "tools/call":
        return {"content": [{"type": "text", "text": result(params)}]}
    return {}


def main() -> None:
    for line in sys.stdin:
        message: dict[str, Any] = json.loads(line)
        if message.get("method") == "notifications/roots/list_changed":
            send({"id": "roots", "method": "roots/list"})
        elif message.get("id") == "roots":
            told[:] = [root["uri"] for root in message["result"]["roots"]]
        elif "id" in message:
            found = answer(message["method"], message.get("params", {}))
            send({"id": message["id"], "result": found})


if __name__ == "__main__":
    main()
