"""A server that many use at once: it answers later ones first, and tells whose roots it serves.

Its tools: `echo` gives its argument back out of order; `mine` refuses a path outside its roots, of
its own; `crash`, `noise` (stderr) and `hang`. `--hang` never answers at all.
"""

import asyncio  # noqa: TID251 - no part of the hub
import json
import os
import sys
from typing import Any

ROOTS = [root for root in os.environ.get("MCP_ROOTS_PATHS", "").split("\n") if root]
TOOLS = [
    {
        "name": name,
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}, **more}},
        "annotations": {"readOnlyHint": True},
    }
    for name, more in (
        ("echo", {}),
        ("mine", {"path": {"type": "string"}}),
        ("crash", {}),
        ("noise", {}),
        ("hang", {}),
    )
]


async def call(name: str, arguments: dict[str, Any]) -> str:
    if name == "crash":
        os._exit(7)
    if name == "hang":
        await asyncio.sleep(3600)
    if name == "noise":
        for _ in range(2000):
            os.write(2, b"e" * 200 + b"\n")
    if name == "mine" and not any(arguments["path"].startswith(root + "/") for root in ROOTS):
        return f"a path of somebody else's came through: {arguments['path']} to {ROOTS}"
    text = str(arguments.get("text", ""))
    if name == "echo":
        await asyncio.sleep(hash(text) % 7 / 1000)
    return text


async def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        return {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "many", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": TOOLS}
    if method != "tools/call":
        return {}
    text = await call(params["name"], params.get("arguments", {}))
    return {"content": [{"type": "text", "text": text}]}


async def serve(message: dict[str, Any]) -> None:
    result = await answer(message["method"], message.get("params", {}))
    line = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result})
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


async def main() -> None:
    if "--hang" in sys.argv:
        await asyncio.sleep(3600)
    reader = asyncio.StreamReader(limit=2**24)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    tasks: set[asyncio.Task[None]] = set()
    while line := await reader.readline():
        message = json.loads(line)
        if "id" in message and "method" in message:
            task = asyncio.create_task(serve(message))
            tasks.add(task)
            task.add_done_callback(tasks.discard)


if __name__ == "__main__":
    asyncio.run(main())
