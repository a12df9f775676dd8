"""An MCP server that runs a command for its client, as servers do that drive a browser."""

import json
import subprocess
import sys


def answer(method: str, params: dict[str, object]) -> object:
    if method == "initialize":
        info = {"name": "running", "version": "1"}
        version = {"protocolVersion": "2025-11-25"}
        return {**version, "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": [{"name": "run", "inputSchema": {"type": "object"}}]}
    command = params["arguments"]["argv"]  # type: ignore[index] # pyright: ignore
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=40)  # noqa: S603 # pyright: ignore
    said = f"{ran.returncode}\n{ran.stdout}\n{ran.stderr}"
    return {"content": [{"type": "text", "text": said}]}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        found = answer(message["method"], message.get("params", {}))
        sys.stdout.write(
            json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": found}) + "\n"
        )
        sys.stdout.flush()
