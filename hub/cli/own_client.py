"""A client of the hub in the hub's own process: its calls go the way of any client's."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Final

import anyio

from hub import __version__
from hub.app.machine import Setting
from hub.app.running import ConnectionBuilder, running_hub
from hub.children.child import Ready
from hub.config.models import HubConfig
from hub.errors import ChildError, HubError, RouteError
from hub.jsonrpc.messages import Failure, Message, Notification, Request, Response, as_object
from hub.protocol.constants import HANDSHAKE_VERSIONS
from hub.server.connection import ConnectionFactory
from hub.sessions.services import Services
from hub.system.tasks import TaskStarter
from hub.values import STDIO, Json, JsonObject, ServerName, object_or_empty

AT_ONCE: Final = 16
"""So many servers are started at once: of hundreds many would not answer in time."""
_NEXT: Final = re.compile(r"; it can be started again in [\d.]+ s")
"""What holds for a hub that goes on, and not for one that ends with its command."""


class OwnClient:
    """A client that shares no roots and can be asked nothing; implements `Outlet`."""

    def __init__(
        self,
        open_connection: ConnectionFactory,
        tasks: TaskStarter,
        services: Services,
        principal: str,
    ) -> None:
        self.services = services
        self._connection = open_connection(self, tasks, principal)
        self._ids = itertools.count(1)
        self._answers: dict[Json, Response | Failure] = {}
        self._came = anyio.Event()

    async def send(self, message: Message) -> None:
        """Take a message of the hub's: an answer, or a notification, which nobody reads."""
        if isinstance(message, Response | Failure):
            self._answers[message.id] = message
            came, self._came = self._came, anyio.Event()
            came.set()

    async def request(self, method: str, params: JsonObject) -> JsonObject:
        """Send a request, and return its result.

        Raises: RouteError with the text of the error that the hub answered.
        """
        id_ = next(self._ids)
        await self._connection.peer.receive(Request(id_, method, params))
        while id_ not in self._answers:
            await self._came.wait()
        answer = self._answers.pop(id_)
        if isinstance(answer, Failure):
            error = as_object(answer.error)
            said = _NEXT.sub("", str(error.get("message")))
            if said.startswith("Unknown tool"):
                raise RouteError(f"{said}\n`roots-hub tools` lists what can be called.")
            raise RouteError(
                f"{said}\nClients get this as an error, with code {error.get('code')}."
            )
        result = as_object(answer.result)
        if result.get("isError") is True:  # perhaps it says why a server does not run
            result = as_object(json.loads(_NEXT.sub("", json.dumps(result))))
        return result

    async def begin(self) -> None:
        """Do the handshake."""
        params: JsonObject = {
            "protocolVersion": HANDSHAKE_VERSIONS[-1],
            "capabilities": {},
            "clientInfo": {"name": "roots-hub command line", "version": __version__},
        }
        await self.request("initialize", params)
        await self._connection.peer.receive(Notification("notifications/initialized"))

    async def start(self, server: ServerName) -> Ready:
        """Start a server for this client, and return what it offers. Raises: HubError."""
        session = self._connection.session
        slot = session.slot_for(self.services.servers[server], session.known_effective())
        try:
            return await (await self.services.children.obtain(slot)).ready()
        except ChildError as exc:
            raise ChildError(_NEXT.sub("", str(exc))) from exc

    async def start_each(
        self,
        servers: Iterable[ServerName],
        told: Callable[[ServerName, Ready | str], None],
        patience: float = math.inf,
    ) -> None:
        """Start servers side by side; `told` gets what each offers, or why it does not start.

        Each may take `patience` seconds.
        """
        places = anyio.CapacityLimiter(AT_ONCE)

        async def start(name: ServerName) -> None:
            outcome: Ready | str = f"has not answered within {patience:.0f} s"
            async with places:
                with anyio.move_on_after(patience):
                    try:
                        outcome = await self.start(name)
                    except HubError as exc:
                        outcome = str(exc).removeprefix(f"server {name!r} ")
            told(name, outcome)

        async with anyio.create_task_group() as tasks:
            for name in servers:
                tasks.start_soon(start, name)

    async def tools(self) -> list[JsonObject]:
        """Return the definitions of all tools, from all pages."""
        found: list[JsonObject] = []
        params: JsonObject = {}
        while True:
            page = await self.request("tools/list", params)
            listed = page.get("tools")
            found += map(object_or_empty, listed if isinstance(listed, list) else ())
            cursor = page.get("nextCursor")
            if cursor is None:
                return found
            params = {"cursor": cursor}

    def close(self) -> None:
        """End the connection."""
        self._connection.close()


@asynccontextmanager
async def own_client(
    config: HubConfig, setting: Setting, principal: str = STDIO
) -> AsyncGenerator[OwnClient]:
    """Run a hub with this config and yield its only client; all tools have their public names.

    What its servers list is kept for the clients of `principal`.

    Raises: ConfigError, StartError, alone or in an exception group.
    """
    shown = config.model_copy(update={"expose": "tools"})
    async with running_hub(shown, setting) as hub, anyio.create_task_group() as tasks:
        client = OwnClient(ConnectionBuilder(hub.services), tasks, hub.services, principal)
        await client.begin()
        yield client
        client.close()
        tasks.cancel_scope.cancel()
