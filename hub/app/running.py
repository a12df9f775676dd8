"""Build a hub, own its children and tasks, and end them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager

import anyio

from hub.app.hub import INFO, AuditLogs, Hub, configured
from hub.app.machine import machine_with
from hub.app.setting import Setting
from hub.children.known.cache import CatalogCache
from hub.children.pool.opener import Opener, opener
from hub.children.pool.pool import ChildPool
from hub.children.process.process_tree import ProcessSupervisor, inherits_orphans, reap_orphans
from hub.config.models import HubConfig
from hub.config.own_files import catalog_directory, state_directory
from hub.config.watch import watching
from hub.system.cache_files import CacheFiles
from hub.system.machine import Machine
from hub.system.shutdown import Shutdown
from hub.system.tasks import IndependentTasks, TaskStarter

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
    machine, shutdown = machine_with(environment), shutdown or Shutdown()
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
    """Own the children, and what starts their processes, which can be prepared."""
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
