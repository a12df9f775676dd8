"""A server of the handshake era that asks its client within a call, without the SDK.

`ask` asks for a form so many times and answers with all it was told, or with `waits` does not; what
happens to it, it writes down in the file `$ASKING_LOG`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

LOG = Path(os.environ["ASKING_LOG"])
TOOL = {
    "name": "ask",
    "inputSchema": {
        "type": "object",
        "properties": {
            "times": {"type": "integer"},
            "waits": {"type": "boolean"},
            "path": {"type": "string"},
        },
    },
}


def say(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


class AskingServer:
    """Calls under way, by id: how often they still ask, and what they were told."""

    def __init__(self) -> None:
        self.calls: dict[Any, tuple[int, list[Any]]] = {}
        self.waiting: set[Any] = set()

    def take(self, message: Any) -> None:
        method, id_ = message.get("method"), message.get("id")
        match method:
            case None:
                self.answered(id_, message)
            case "initialize":
                version = message["params"]["protocolVersion"]
                info = {"name": "asking", "version": "1"}
                result: dict[str, Any] = {"protocolVersion": version}
                result["capabilities"] = {"tools": {}}
                say(id=id_, result={**result, "serverInfo": info})
            case "tools/list":
                say(id=id_, result={"tools": [TOOL]})
            case "tools/call":
                arguments = message["params"]["arguments"]
                self.calls[id_] = (arguments["times"], [])
                if arguments.get("waits"):
                    self.waiting.add(id_)
                self.go_on(id_)
            case "notifications/cancelled":
                self.calls.pop(message["params"]["requestId"], None)
                note("cancelled")
            case _:
                pass

    def go_on(self, call: Any) -> None:
        left, said = self.calls[call]
        if not left and call in self.waiting:
            note("waiting")
            return
        if not left:
            del self.calls[call]
            say(id=call, result={"content": [{"type": "text", "text": json.dumps(said)}]})
            return
        self.calls[call] = (left - 1, said)
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
        params = {"message": f"{left} left", "requestedSchema": schema}
        say(id=f"{call}/{left}", method="elicitation/create", params=params)

    def answered(self, id_: Any, message: Any) -> None:
        call = int(id_.partition("/")[0])
        if "error" in message:
            note(f"error {message['error']['code']}")
        elif call in self.calls:
            self.calls[call][1].append(message["result"])
            self.go_on(call)


def note(line: str) -> None:
    with LOG.open("a") as file:
        file.write(f"{line}\n")


def main() -> None:
    server = AskingServer()
    for line in sys.stdin:
        server.take(json.loads(line))


if __name__ == "__main__":
    main()
