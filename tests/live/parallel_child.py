"""A server of the handshake era that serves calls side by side and asks in some, without the SDK.

Its questions do not say for which call they are. `elicit` and `sample` ask with the text `mark`,
`times` times, after `after` seconds, and answer with what they were told; `slow` takes `seconds`,
or until `go` is called; `echo` answers at once.
"""

from __future__ import annotations

import json
import sys
import threading
from concurrent.futures import Future
from itertools import count
from typing import Any

NUMBER, TEXT = {"type": "number"}, {"type": "string"}
TOOLS: dict[str, dict[str, Any]] = {
    "elicit": {"mark": TEXT, "times": NUMBER, "after": NUMBER},
    "sample": {"mark": TEXT, "times": NUMBER, "after": NUMBER},
    "slow": {"seconds": NUMBER},
    "echo": {"text": TEXT},
    "go": {},
}
FORM = {"type": "object", "properties": {"told": TEXT}}


class ParallelServer:
    """One thread for each call under way."""

    def __init__(self) -> None:
        self._speaking = threading.Lock()
        self._ids = count(1)
        self._asked: dict[str, Future[Any]] = {}
        self._went = threading.Event()
        self._cancelled: set[Any] = set()

    def say(self, **message: Any) -> None:
        with self._speaking:
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            sys.stdout.flush()

    def ask(self, method: str, params: dict[str, Any]) -> Any:
        id_, answer = f"q{next(self._ids)}", Future[Any]()
        self._asked[id_] = answer
        self.say(id=id_, method=method, params=params)
        told = answer.result()
        if "error" in told:
            raise KeyError(told["error"]["message"])
        return told

    def take(self, message: Any) -> None:
        method, id_ = message.get("method"), message.get("id")
        match method:
            case None:
                self._asked.pop(id_).set_result(message)
            case "initialize":
                about = {"protocolVersion": message["params"]["protocolVersion"]}
                info = {"name": "parallel", "version": "1"}
                self.say(
                    id=id_, result={**about, "capabilities": {"tools": {}}, "serverInfo": info}
                )
            case "tools/list":
                tools = [
                    {"name": name, "inputSchema": {"type": "object", "properties": properties}}
                    for name, properties in TOOLS.items()
                ]
                self.say(id=id_, result={"tools": tools})
            case "tools/call":
                threading.Thread(
                    target=self.call, args=(id_, message["params"]), daemon=True
                ).start()
            case "notifications/cancelled":
                self._cancelled.add(message["params"]["requestId"])
            case _:
                pass

    def call(self, id_: Any, params: Any) -> None:
        arguments: dict[str, Any] = params.get("arguments") or {}
        try:
            text, is_error = self.answer(params["name"], arguments), False
        except KeyError as exc:
            text, is_error = f"refused: {exc}", True
        if id_ not in self._cancelled:
            content = [{"type": "text", "text": text}]
            self.say(id=id_, result={"content": content, "isError": is_error})

    def answer(self, tool: str, arguments: dict[str, Any]) -> str:
        if tool == "slow":
            self._went.wait(arguments.get("seconds", 60))
            return "slow"
        if tool == "go":
            self._went.set()
            return "went"
        if tool == "echo":
            return str(arguments["text"])
        threading.Event().wait(arguments.get("after", 0))
        told: list[str] = []
        for _ in range(int(arguments.get("times", 1))):
            mark = arguments["mark"]
            if tool == "elicit":
                form = {"message": mark, "requestedSchema": FORM}
                told.append(self.ask("elicitation/create", form)["result"]["content"]["told"])
            else:
                content = {"type": "text", "text": mark}
                asked = {"messages": [{"role": "user", "content": content}], "maxTokens": 9}
                told.append(self.ask("sampling/createMessage", asked)["result"]["content"]["text"])
        return json.dumps(told)


def main() -> None:
    server = ParallelServer()
    for line in sys.stdin:
        server.take(json.loads(line))


if __name__ == "__main__":
    main()
