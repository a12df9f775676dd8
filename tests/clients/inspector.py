"""The MCP Inspector's command line as a client: each request is a run of its own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio

from tests.clients.driven import Answer, ClientError
from tests.live.programs import environment


class InspectorClient:
    """The Inspector before one hub; `home` is where it may write."""

    def __init__(self, command: Sequence[str], job: Mapping[str, Any], home: Path) -> None:
        self._command = list(command)
        self._era = job["era"]
        self._home = home
        target = job["target"]
        self._entry: dict[str, Any] = (
            {"type": "streamable-http", "url": target}
            if isinstance(target, str)
            else {"command": target[0], "args": target[1:]}
        )
        self._entry["roots"] = [{"uri": uri} for uri in job["roots"]]

    async def call(self, tool: str, **arguments: Any) -> Answer:
        """Call a tool."""
        found = await self._ask(
            "tools/call", "--tool-name", tool, "--tool-args-json", json.dumps(arguments)
        )
        return Answer(found["content"][0]["text"], found.get("isError") is True)

    async def resources(self) -> list[str]:
        return [one["uri"] for one in (await self._ask("resources/list"))["resources"]]

    async def read(self, uri: str) -> str:
        return (await self._ask("resources/read", "--uri", uri))["contents"][0]["text"]

    async def prompts(self) -> list[str]:
        return [one["name"] for one in (await self._ask("prompts/list"))["prompts"]]

    async def prompt(self, name: str) -> str:
        found = await self._ask("prompts/get", "--prompt-name", name)
        return found["messages"][0]["content"]["text"]

    async def _ask(self, method: str, *arguments: str) -> Any:
        config = anyio.Path(self._home / "mcp.json")
        await config.write_text(json.dumps({"mcpServers": {"hub": self._entry}}))
        chosen = ["--config", str(config), "--server", "hub", "--protocol-era", self._era]
        done = await anyio.run_process(
            [*self._command, *chosen, "--method", method, *arguments],
            env=environment(HOME=str(self._home)),
            stdin=subprocess.DEVNULL,
            check=False,
        )
        if not done.stdout:
            raise ClientError(done.stderr.decode(errors="replace").strip()[-300:])
        return json.loads(done.stdout)
