"""Speaks to a real server without the hub's guard, launched bare or confined as the hub does it."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import anyio

from hub.children.link import ChildConnection
from hub.children.opener import open_launched
from hub.children.process.process_tree import ProcessSupervisor
from hub.confinement.confined_launch import this_kernel
from hub.guard.policy import Policy
from hub.jsonrpc.messages import Failure, Notification, Request, Response, as_object
from hub.jsonrpc.rated_log import ChildLog
from hub.launch.plan import LaunchTemplate, plan
from hub.launch.templates import parse_template
from hub.secrets.reading import SecretReader
from hub.specs import ConfineMode, ConfineSetting, ServerSpec
from hub.system.shutdown import Shutdown
from hub.values import JsonObject, ServerName
from tests.kit.rigs import roots_at
from tests.live.programs import environment

SLOW_START = 150.0
"""Seconds in which a server must start and answer all that a test asks."""


class Direct:
    """A server at the other end of a link, after its handshake."""

    def __init__(self, link: ChildConnection) -> None:
        self._link = link
        self._ids = 0

    async def request(self, method: str, params: JsonObject) -> JsonObject:
        """Return the result, or an error's text as that of a tool."""
        self._ids += 1
        await self._link.outlet.send(Request(self._ids, method, params))
        while True:
            message = await self._link.next()
            if isinstance(message, Request):
                await self._link.outlet.send(Response(message.id, {"roots": []}))
            elif isinstance(message, Failure) and message.id == self._ids:
                return {"content": [{"type": "text", "text": json.dumps(message.error)}]}
            elif isinstance(message, Response) and message.id == self._ids:
                return as_object(message.result)

    async def shake_hands(self) -> None:
        info: JsonObject = {"name": "test", "version": "1"}
        params: JsonObject = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": info,
        }
        await self.request("initialize", params)
        await self._link.outlet.send(Notification("notifications/initialized", {}))

    async def call(self, tool: str, **arguments: Any) -> str:
        """Call a tool, and return all texts of its result."""
        result = await self.request("tools/call", {"name": tool, "arguments": arguments})
        content = cast("list[dict[str, Any]]", result["content"])
        return "\n".join(str(one.get("text")) for one in content)


@asynccontextmanager
async def server(
    mode: ConfineMode,
    root: Path,
    *argv: str | Path,
    policy: Policy | None = None,
    env: Mapping[str, str] | None = None,
    setting: ConfineSetting | None = None,
) -> AsyncGenerator[Direct]:
    """Launch a server for one root, bare (`off`) or confined (`require`), or as a setting says."""
    command, *args = (parse_template(str(word), spread=True) for word in argv)
    template = LaunchTemplate("server", command, tuple(args), args_mode="none")
    spec = ServerSpec(
        ServerName("server"),
        template,
        policy or Policy(),
        confine=setting or ConfineSetting(mode),
        inherits=environment(**(env or {})),
    )
    planned = plan(template, roots_at(root), os.environ)
    with anyio.fail_after(SLOW_START):
        async with (
            ProcessSupervisor(Shutdown()) as supervisor,
            open_launched(
                spec, planned, this_kernel(), supervisor, ChildLog("server"), secrets=SecretReader()
            ) as link,
        ):
            direct = Direct(link)
            await direct.shake_hands()
            yield direct
