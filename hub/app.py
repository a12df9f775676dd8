"""The composition root: the only module that builds the hub's objects and connects them."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, nullcontext
from functools import partial
from itertools import count
from pathlib import Path

import anyio
import structlog
from anyio import to_thread
from anyio.abc import TaskGroup
from msgspec import Struct

from hub import __version__
from hub.audit.log_file import AuditSink, LoggedAudit, NoAudit, audit_log
from hub.audit.open_file import UnfitFileError
from hub.calls.dispatch import Relay
from hub.calls.in_flight import CallDispatcher, InFlightRegistry
from hub.calls.modern_calls import ModernCalls
from hub.calls.rounds.modern_routes import Headers
from hub.calls.routes import CallRoute, KnownAnswer
from hub.catalog.names import Names
from hub.children.known.cache import CatalogCache
from hub.children.pool import ChildPool, Opener, opener
from hub.children.process.process_tree import inherits_orphans, keeping, reap_orphans
from hub.config.bare_names import names_record, settled
from hub.config.models import HubConfig, StdioServer
from hub.config.operator_roots import PathContext, operator_roots
from hub.config.own_files import catalog_directory, own_files
from hub.config.reload.writable import PathLookup, WritablePlace, writable_places
from hub.config.to_specs import UsableServers, usable_servers
from hub.config.trust import trust_record
from hub.config.watch import ConfigWatch, Watched, WritableBy, watching
from hub.config.withholding import warn_of_left_out, warn_of_missed
from hub.confinement.confined_launch import this_kernel
from hub.confinement.startup_check import settle_confinement
from hub.errors import StartError
from hub.jsonrpc.messages import Request
from hub.jsonrpc.peer import Outlet
from hub.paths.resolve import Flavour, PathError, resolve
from hub.roots.roots import UnsafePaths
from hub.server.connection import ClientConnection
from hub.sessions.config_file import ConfigFile
from hub.sessions.kept_roots import principal_key_of
from hub.sessions.operator_roots import Operator
from hub.sessions.services import (
    Configured,
    LaunchPlanCache,
    ResultLimit,
    RootsSettings,
    Services,
)
from hub.specs import ServerSpec
from hub.system.cache_files import CacheFiles
from hub.system.disk import OsDisk
from hub.system.log import is_logged
from hub.system.machine import Machine
from hub.system.shutdown import Shutdown
from hub.values import JsonObject, ServerName, SessionKey

log = structlog.stdlib.get_logger(__name__)

INFO: JsonObject = {"name": "roots-hub", "title": "Roots Hub", "version": __version__}
MAX_CHILDREN = 64
"""The limit on running children, until a config says another."""
_FLAVOURS = {"darwin": Flavour.MACOS, "win32": Flavour.WINDOWS}


class Setting(Struct, frozen=True):
    """What the command line adds: `given` are `--root` options, `ceiling` limits all clients.

    `watched` is the config file; a running hub takes over its changes. `is_for_one`: one
    client is served, over stdio; `is_shared`: others are served beside it. `log_file` is where the
    log goes beside stderr.
    """

    given: Sequence[str] = ()
    ceiling: Sequence[str] = ()
    watched: Watched | None = None
    is_for_one: bool = False
    is_shared: bool = False
    log_file: str | None = None

    @property
    def config_path(self) -> Path | None:
        """The path of the config file; None if there is no config file."""
        return None if self.watched is None else self.watched.path


def this_machine(environment: Mapping[str, str], platform: str = sys.platform) -> Machine:
    """Return the machine that this process runs on; `platform` says how its paths are written."""
    return Machine(
        links=OsDisk(),
        flavour=_FLAVOURS.get(platform, Flavour.POSIX),
        environment=environment,
        directory=str(Path.cwd()),
        clock=time.monotonic,
        wall_clock=time.time,
        kernel=this_kernel(),
    )


def _machine(environment: Mapping[str, str] | None) -> Machine:
    """Return this machine with `environment`, or with this process's own."""
    if environment is not None:
        return this_machine(environment)
    # A plain dict where possible: each call reads it. On Windows names match in any case, which
    # only `os.environ` itself does.
    return this_machine(os.environ if sys.platform == "win32" else dict(os.environ))


def place_of(
    machine: Machine,
    config: HubConfig | None = None,
    source: Path | None = None,
    log_file: str | None = None,
) -> PathContext:
    """Return the `PathContext` of `machine`; `source` is the file that `config` came from."""
    audit = config.audit.file if config is not None and config.audit is not None else None
    own = own_files(machine, config=source, audit=audit, log=log_file)
    unsafe = UnsafePaths(
        _home(machine),
        machine.flavour,
        own=(place.parts for place in own.secret),
        lifted=config is not None and config.roots.allow_unsafe,
    )
    return PathContext(
        machine.links, machine.flavour, unsafe, machine.directory, machine.environment, own
    )


def _home(machine: Machine) -> str | None:
    home = str(Path.home())
    try:
        return resolve(home, cwd=None, links=machine.links, flavour=machine.flavour)
    except PathError:
        return home


class View(Struct, eq=False):
    """How the config is for some clients: for all of a hub's, or for one with its environment."""

    config: HubConfig
    setting: Setting
    machine: Machine
    services: Services


class Hub:
    """A running hub: what all its clients share, and its views of the config.

    `own` is the view for this process's environment, if clients are served by it. `prepare` is
    called before the first view that launches servers.
    """

    own: View

    def __init__(
        self, children: ChildPool, audits: AuditLogs, tasks: TaskGroup, prepare: Callable[[], None]
    ) -> None:
        self._children = children
        self._audits = audits
        self._tasks = tasks
        self._prepare = prepare
        self._files: dict[str | None, ConfigFile] = {}
        self._followers: list[Callable[[HubConfig], None]] = []

    def follow(self, take: Callable[[HubConfig], None]) -> None:
        """Call `take` with each config that the hub takes over; it raises as `take` here does."""
        self._followers.append(take)

    @property
    def services(self) -> Services:
        """The parts of its own view."""
        return self.own.services

    def view(
        self,
        config: HubConfig,
        setting: Setting,
        machine: Machine,
        configured: Configured | None = None,
    ) -> View:
        """Return a new view; `take` changes it.

        Raises: ConfigError, StartError.
        """
        made = configured or _configured(config, setting, machine)
        if any(isinstance(one, StdioServer) for one in config.servers.values()):
            self._prepare()
        self._children.limit(config.max_children, config.max_children_per_session)
        services = Services(
            info=INFO,
            servers=made.servers,
            names=made.names,
            left_out=made.left_out,
            children=self._children,
            operator=Operator(made.roots, made.servers, machine),
            machine=machine,
            settings=made.settings,
            audit=self._audits.of(config),
            tasks=self._tasks,
            plans=LaunchPlanCache(machine.environment, machine.directory),
            expose=made.expose,
            is_for_one=setting.is_for_one,
            is_shared=setting.is_shared,
            preface=made.preface,
            max_result=made.max_result,
            has_config=not setting.ceiling,
            config_file=self._file_of(setting),
        )
        return View(config, setting, machine, services)

    def _file_of(self, setting: Setting) -> ConfigFile:
        """Return what is known of a view's config file: all views of one file share that."""
        source = None if setting.watched is None else setting.watched.source
        return self._files.setdefault(source, ConfigFile(source))

    def watch(self, view: View) -> ConfigWatch:
        """Return the watch that takes over the changes of a view's config file."""
        machine, services = view.machine, view.services

        def places() -> Iterable[WritablePlace]:
            granted = services.config_file.granted
            own, roots = services.servers.values(), services.operator.roots()
            return writable_places(own, roots, granted, machine.environment)

        lookup = PathLookup(machine.links, machine.flavour, machine.directory)
        writable_by = WritableBy(services.config_file, lookup, places, trust_record(machine))
        take = partial(self.take, view)
        return ConfigWatch(view.setting.watched, view.config, take, writable_by)

    async def take(self, view: View, config: HubConfig) -> None:
        """Serve a view's clients by a changed config from now on.

        Servers that did not change keep their children. Calls that were not sent yet are judged by
        the new config; those under way finish at the old child.

        Raises: ConfigError, StartError; then nothing has changed.
        """
        made = await to_thread.run_sync(_configured, config, view.setting, view.machine)
        audit = self._audits.of(config)
        for take in self._followers:
            take(config)
        self._children.limit(config.max_children, config.max_children_per_session)
        self._children.forget(_launched_otherwise(view.services.servers, made.servers))
        before, view.config, view.services.audit = view.config, config, audit
        view.services.take(made)
        is_changed = config.roots.fallback != before.roots.fallback
        if made.roots.fallback_source in {"--root", "HUB_ROOTS"} and is_changed:
            log.warning("roots.fallback has no effect", before_it=made.roots.fallback_source)


def _launched_otherwise(
    old: Mapping[ServerName, ServerSpec], new: Mapping[ServerName, ServerSpec]
) -> list[ServerName]:
    """Return the servers that are gone, or whose children are not those of before."""
    return [
        name
        for name, spec in old.items()
        if name not in new
        or (spec.target, spec.fingerprint) != (new[name].target, new[name].fingerprint)
    ]


@asynccontextmanager
async def open_hub(
    machine: Machine, shutdown: Shutdown, open_child: Opener | None = None
) -> AsyncGenerator[Hub]:
    """Build a hub without a view; its children end within little more than a second after it."""
    async with _children(machine, shutdown, open_child) as (children, prepare):
        with ExitStack() as files:
            audits = AuditLogs(files)
            async with _tasks() as tasks:
                yield Hub(children, audits, tasks, prepare)


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
    machine, shutdown = _machine(environment), shutdown or Shutdown()
    configured = _configured(config, setting, machine)
    async with open_hub(machine, shutdown, open_child) as hub:
        hub.own = hub.view(config, setting, machine, configured)
        async with watching(hub.watch(hub.own), shutdown.asked_to_reload):
            yield hub


def _configured(config: HubConfig, setting: Setting, machine: Machine) -> Configured:
    """Return what a config says on this machine; warn of what is left out, or less than asked.

    Raises: ConfigError if no server is usable, or one must be confined and cannot be; StartError
        if a root of the command line cannot be used.
    """
    place = place_of(machine, config, setting.config_path, setting.log_file)
    usable = usable_servers(config, place)
    warn_of_left_out(usable.left_out)
    settle_confinement(usable.specs.values(), machine.kernel)
    warn_of_missed(usable.specs.values(), machine.environment)
    roots = config.roots
    return Configured(
        servers=usable.specs,
        names=_names(config, setting, usable, machine),
        roots=operator_roots(roots, setting.given, place, ceiling=setting.ceiling),
        settings=RootsSettings(roots.timeout, roots.debounce, place.unsafe, roots.reuse),
        expose=config.expose,
        preface=config.instructions,
        left_out=usable.left_out,
        max_result=_max_result(config, setting),
    )


def _names(config: HubConfig, setting: Setting, usable: UsableServers, machine: Machine) -> Names:
    """Return the public names. Without a config file nothing is known of an earlier start.

    A server that is left out counts: when it is mended, the names of the others stay.
    """
    servers = [*usable.specs, *(one.name for one in usable.left_out)]
    if setting.config_path is None:
        return Names(servers, config.names)
    first = settled(names_record(machine), setting.config_path, servers, config.names)
    return Names(servers, config.names, None if first is None else first.server)


def _max_result(config: HubConfig, setting: Setting) -> ResultLimit | None:
    part, key = (config.stdio, "stdio") if setting.is_for_one else (config.listen, "listen")
    return None if part.max_result is None else ResultLimit(part.max_result, f"{key}.max_result")


@asynccontextmanager
async def _tasks() -> AsyncGenerator[TaskGroup]:
    """Own the tasks that outlive the requests that started them; they are cancelled at the end."""
    async with anyio.create_task_group() as tasks:
        if inherits_orphans():
            tasks.start_soon(reap_orphans)
        try:
            yield tasks
        finally:
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def _children(
    machine: Machine, shutdown: Shutdown, open_child: Opener | None
) -> AsyncGenerator[tuple[ChildPool, Callable[[], None]]]:
    """Own the children, and what starts their processes, which can be prepared."""
    async with keeping(shutdown) as supervisor:
        children = ChildPool(
            open_child=open_child or opener(machine.kernel, supervisor),
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


class AuditLogs:
    """The open audit logs, by file: views with one file share its log. `files` closes them."""

    def __init__(self, files: ExitStack) -> None:
        self._files = files
        self._open: dict[str | None, AuditSink] = {}

    def of(self, config: HubConfig) -> AuditSink:
        """Return the audit log of a config.

        Raises: StartError if its file cannot be written.
        """
        file = None if config.audit is None else config.audit.file
        if file not in self._open:
            sink = self._files.enter_context(_audit_file(file))
            self._open[file] = LoggedAudit(sink) if is_logged("debug") else sink
        return self._open[file]


def _audit_file(file: str | None) -> AbstractContextManager[AuditSink]:
    if file is None:
        return nullcontext(NoAudit())
    try:
        return audit_log(Path(file))
    except UnfitFileError as exc:
        raise StartError(f"audit.file {file}: {exc.strerror}", exc.fix) from exc
    except OSError as exc:
        raise StartError(
            f"audit.file {file}: {exc.strerror}", "Name a file that the hub may write."
        ) from exc


class ConnectionBuilder:
    """Opens the client connections of one hub; implements `ConnectionFactory`."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._relay = Relay(services)
        self._rounds = ModernCalls(self._relay, services)
        self._clients = count(1)

    def __call__(self, outlet: Outlet, tasks: TaskGroup, principal: str, /) -> ClientConnection:
        return ClientConnection(
            self._relay, self._rounds, self._services, outlet, tasks, principal=principal
        )

    def route_for(
        self, principal: str, request: Request, headers: Headers, /
    ) -> CallRoute | KnownAnswer | None:
        kept = principal_key_of(principal, None)
        return self._rounds.route_for(principal, kept, request, headers)

    def dispatcher(self, register: InFlightRegistry, tasks: TaskGroup, /) -> CallDispatcher:
        return self._rounds.dispatcher(register, tasks, SessionKey(f"post {next(self._clients)}"))


def connection_builder(services: Services) -> ConnectionBuilder:
    """Return the `ConnectionFactory` of a hub."""
    return ConnectionBuilder(services)
