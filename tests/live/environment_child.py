"""A server that shows its process: `show` returns its id, arguments, environment and directory."""

import json
import os
import sys
from typing import Any

TOOLS = [{"name": "show", "inputSchema": {"type": "object"}}]


def answer(method: str) -> dict[str, Any]:
    match method:
        case "initialize":
            return {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "environment", "version": "1"},
            }
        case "tools/list":
            return {"tools": TOOLS}
        case _:
            shown = {
                "pid": os.getpid(),
                "arguments": sys.argv[1:],
                "environment": dict(os.environ),
                "directory": os.getcwd(),  # noqa: PTH109 - as text
            }
            return {"content": [{"type": "text", "text": json.dumps(shown)}]}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and "method" in message:
        reply = {"jsonrpc": "2.0", "id": message["id"], "result": answer(message["method"])}
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()
