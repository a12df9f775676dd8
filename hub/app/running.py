"""Build a hub, own its children and tasks, and end them; open the connections of its clients."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager
from itertools import count

import anyio

from hub.app.hub import INFO, AuditLogs, Hub, configured
from hub.app.machine import Setting, this_machine
from hub.calls.dispatch import CallDispatcher, RequestRegistry
from hub.calls.modern_calls import ModernCalls, client_key_of
from hub.calls.resolve import Relay
from hub.calls.rounds.modern_routes import Headers
from hub.calls.rounds.sealed_state import StateSealer
from hub.calls.routes import CallRoute, KnownAnswer
from hub.children.known.cache import CatalogCache
from hub.children.opener import Opener, opener
from hub.children.pool import ChildPool
from hub.children.process.process_tree import ProcessSupervisor, inherits_orphans, reap_orphans
from hub.config.models import HubConfig
from hub.config.own_files import catalog_directory, state_directory
from hub.config.watch import watching
from hub.jsonrpc.messages import Request
from hub.jsonrpc.peer import Outlet
from hub.server.connection import ClientConnection
from hub.sessions.services import Services
from hub.system.machine import Machine
from hub.system.private_file import CacheFiles
from hub.system.shutdown import Shutdown
from hub.system.tasks import IndependentTasks, TaskStarter
from hub.values import SessionKey

MAX_CHILDREN = 64
"""The limit on running children, until a config says another."""


@asynccontextmanager
async def open_hub(
    machine: Machine, shutdown: Shutdown, open_child: Opener | None = None
) -> AsyncGenerator[Hub]:
    """Build a hub without a view; its children end within little more than a second after it."""
    async with _children(machine, shutdown, open_child) as (children, prepare):
        with ExitStack() as files:
            audits = AuditLogs(files)
            async with _tasks() as tasks:
                yield Hub(machine, children, audits, tasks, prepare)


@asynccontextmanager
async def running_hub(
    config: HubConfig,
    setting: Setting,
    *,
    environment: Mapping[str, str] | None = None,
    open_child: Opener | None = None,
    shutdown: Shutdown | None = None,
) -> AsyncGenerator[Hub]:
    """Build a hub with its own view of `config`, which changes with the config file.

    Raises: ConfigError, StartError, alone or in an exception group.
    """
    if environment is None:
        # A plain dict where possible: each call reads it. On Windows names match in any case, which
        # only `os.environ` itself does.
        environment = os.environ if sys.platform == "win32" else dict(os.environ)
    machine, shutdown = this_machine(environment), shutdown or Shutdown()
    made = configured(config, setting, machine)
    async with open_hub(machine, shutdown, open_child) as hub:
        hub.own = await hub.view(config, setting, machine, made)
        watch = hub.own_watch = hub.watch(hub.own)
        async with watching(watch, shutdown.asked_to_reload):
            yield hub


@asynccontextmanager
async def _tasks() -> AsyncGenerator[TaskStarter]:
    """Own the tasks that outlive the requests that started them; they are cancelled at the end."""
    async with anyio.create_task_group() as tasks:
        if inherits_orphans():
            tasks.start_soon(reap_orphans)
        try:
            yield IndependentTasks(tasks)
        finally:
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def _children(
    machine: Machine, shutdown: Shutdown, open_child: Opener | None
) -> AsyncGenerator[tuple[ChildPool, Callable[[], None]]]:
    """Own the children; yield them, and a function that prepares the start of processes."""
    state = state_directory(machine)
    async with ProcessSupervisor(shutdown) as supervisor:
        children = ChildPool(
            open_child=open_child or opener(machine.kernel, supervisor, state),
            info=INFO,
            flavour=machine.flavour,
            max_children=MAX_CHILDREN,
            clock=machine.clock,
            cache=CatalogCache(CacheFiles(catalog_directory(machine))),
        )
        async with children.running():
            try:
                yield children, supervisor.prepare if open_child is None else lambda: None
            finally:
                shutdown.begin()


class ConnectionBuilder:
    """Opens the client connections of one hub; implements `ConnectionFactory`.

    `seals` is for states that outlive the process. `profiles` has the services of each profile; it
    may change.
    """

    def __init__(
        self,
        services: Services,
        seals: StateSealer | None = None,
        profiles: Mapping[str, Services] | None = None,
    ) -> None:
        self._services = services
        self._seals = seals
        self._profiles: Mapping[str, Services] = {} if profiles is None else profiles
        self._within: dict[str, ConnectionBuilder] = {}
        self._relay = Relay(services)
        self._rounds = ModernCalls(self._relay, services, seals)
        self._clients = count(1)

    def __call__(self, outlet: Outlet, tasks: TaskStarter, principal: str, /) -> ClientConnection:
        return ClientConnection(
            self._relay, self._rounds, self._services, outlet, tasks, principal=principal
        )

    def within(self, profile: str | None, /) -> ConnectionBuilder:
        if profile is None:
            return self
        made = self._within.get(profile)
        if made is None:
            made = ConnectionBuilder(self._profiles[profile], self._seals)
            made._clients = self._clients  # the keys of their sessions are the hub's
            self._within[profile] = made
        return made

    def route_for(
        self, principal: str, request: Request, headers: Headers, /
    ) -> CallRoute | KnownAnswer | None:
        kept = client_key_of(principal, None)
        return self._rounds.route_for(self._services.identity_of(principal), kept, request, headers)

    def dispatcher(self, register: RequestRegistry, tasks: TaskStarter, /) -> CallDispatcher:
        return self._rounds.dispatcher(register, tasks, SessionKey(f"post {next(self._clients)}"))
