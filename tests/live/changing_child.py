"""A server whose tools are in a file: `changing_child.py STARTS TOOLS`.

It adds a line to STARTS when it starts, and lists the tools whose names are the lines of TOOLS, as
they are then. A tool answers its own name. Where TOOLS says `hang` only, it never answers.
"""

import json
import sys
from pathlib import Path
from typing import Any


def answer(message: dict[str, Any], names: list[str]) -> dict[str, Any]:
    if message["method"] == "initialize":
        return {
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "changing", "version": "1"},
            "instructions": f"Tools: {', '.join(names)}",
        }
    if message["method"] == "tools/list":
        return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names]}
    return {"content": [{"type": "text", "text": message["params"]["name"]}]}


def main(starts: str, tools: str) -> None:
    with Path(starts).open("a") as file:
        file.write("started\n")
    names = Path(tools).read_text().split()
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and names != ["hang"]:
            result = answer(message, names)
            said = {"jsonrpc": "2.0", "id": message["id"], "result": result}
            sys.stdout.write(json.dumps(said) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
