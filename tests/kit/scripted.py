"""A hub with scripted children, and its clients; all in memory."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, cast

import anyio
from anyio.abc import TaskGroup

from hub.app.hub import Hub
from hub.app.machine import Setting
from hub.app.running import ConnectionBuilder, running_hub
from hub.children.link import ChildConnection
from hub.config.models import HubConfig
from hub.config.watch import Watched
from hub.launch.plan import LaunchPlan
from hub.specs import ServerSpec
from hub.values import Json, JsonObject
from tests.kit.fakes import FakeChild
from tests.kit.hubs import FakeClient

ROOTS: JsonObject = {"roots": {"listChanged": True}}


class ScriptedHub:
    """A running hub."""

    def __init__(self, running: Hub, tasks: TaskGroup, children: Mapping[str, FakeChild]) -> None:
        self.running = running
        self.services = running.services
        self.children = children
        self._tasks = tasks
        self.open_connection = ConnectionBuilder(running.services)

    async def take(self, **keys: Any) -> None:
        """Change the config to these keys beside the servers' own, as an operator does."""
        await self.running.take(self.running.own, _config(self.children, keys))

    def client(self, roots: Sequence[Json] = (), *, principal: str = "test") -> FakeClient:
        """Return a client that has said nothing yet."""
        client = FakeClient(self.open_connection, self._tasks, roots=roots, principal=principal)
        client.children = self.children.values()
        return client

    async def greeted(
        self, capabilities: JsonObject | None = None, roots: Sequence[Json] = ()
    ) -> FakeClient:
        """Return a client after its handshake; without capabilities it has no roots."""
        client = self.client(roots)
        await client.initialize(capabilities or {})
        await client.initialized()
        return client


@asynccontextmanager
async def scripted(  # noqa: PLR0913 - what a test may want of a hub
    children: FakeChild | Mapping[str, FakeChild],
    *,
    config: Mapping[str, Any] | None = None,
    given: Sequence[str] = (),
    is_for_one: bool = False,
    watched: Watched | None = None,
    environment: Mapping[str, str] | None = None,
) -> AsyncGenerator[ScriptedHub]:
    """Run a hub before these children; a single one is called `files`, and keeps bare names."""
    named = {"files": children} if isinstance(children, FakeChild) else children
    made = _config(named, config or {})

    def opened(
        spec: ServerSpec, plan: LaunchPlan | None
    ) -> AbstractAsyncContextManager[ChildConnection]:
        return named[spec.name].opened(spec, plan)

    async with anyio.create_task_group() as tasks:
        setting = Setting(given=given, watched=watched, is_for_one=is_for_one)
        hub = running_hub(made, setting, environment=environment or {}, open_child=opened)
        async with hub as running:
            yield ScriptedHub(running, tasks, named)
        tasks.cancel_scope.cancel()


def _config(children: Iterable[str], keys: Mapping[str, Any]) -> HubConfig:
    servers = {name: {"command": "x", "share": "roots"} for name in children}
    return HubConfig.model_validate({"version": 1, "servers": servers, **keys})


async def refusal(client: FakeClient, method: str, params: JsonObject | None = None) -> Any:
    """Send a request, and return the error that it gets."""
    answer = await client.end(await client.begin(method, params or {}))
    assert "error" in answer, answer
    return cast("Any", answer["error"])
