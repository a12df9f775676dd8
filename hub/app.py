"""The composition root: the only module that builds the hub's objects and connects them."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from functools import partial
from itertools import count
from pathlib import Path

import anyio
import structlog
from anyio.abc import TaskGroup
from msgspec import Struct

from hub import __version__
from hub.audit.log_file import AuditSink, LoggedAudit, NoAudit, audit_log
from hub.audit.open_file import UnfitFileError
from hub.calls.dispatch import Relay
from hub.calls.in_flight import CallDispatcher, InFlightRegistry
from hub.calls.modern_calls import ModernCalls
from hub.calls.rounds.modern_routes import Headers
from hub.calls.rounds.sealed_state import StateSealer
from hub.calls.routes import CallRoute, KnownAnswer
from hub.catalog.names import Names
from hub.children.pool import ChildPool, Opener, opener
from hub.children.process.process_tree import inherits_orphans, keeping, reap_orphans
from hub.config.bare_names import names_record, settled
from hub.config.models import HubConfig, StdioServer
from hub.config.operator_roots import PathContext, operator_roots
from hub.config.own_files import own_files
from hub.config.to_specs import UsableServers, usable_servers
from hub.config.watch import Watched, watching
from hub.config.withholding import warn_of_left_out, warn_of_missed
from hub.confinement.confined_launch import this_kernel
from hub.confinement.startup_check import settle_confinement
from hub.errors import StartError
from hub.jsonrpc.messages import Request
from hub.jsonrpc.peer import Outlet
from hub.launch.environments import inherited
from hub.launch.plan import LaunchTemplate
from hub.paths.resolve import Flavour, PathError, resolve
from hub.roots.roots import UnsafePaths
from hub.server.connection import ClientConnection
from hub.sessions.kept_roots import principal_key_of
from hub.sessions.operator_roots import Operator
from hub.sessions.services import LaunchPlanCache, ResultLimit, RootsSettings, Services
from hub.specs import ServerSpec
from hub.system.disk import OsDisk
from hub.system.log import is_logged
from hub.system.machine import Machine
from hub.system.shutdown import Shutdown
from hub.values import JsonObject, ServerName, SessionKey

log = structlog.stdlib.get_logger(__name__)

INFO: JsonObject = {"name": "roots-hub", "title": "Roots Hub", "version": __version__}
_FLAVOURS = {"darwin": Flavour.MACOS, "win32": Flavour.WINDOWS}
_OWN_VARIABLES = frozenset({"HUB_TOKEN", "HUB_ROOTS", "HUB_CONFIG", "HUB_STARTED_BY"})


class Setting(Struct, frozen=True):
    """What the command line adds: `given` are `--root` options, `ceiling` limits all clients.

    `watched` is the config file; a running hub takes over changes of its roots. `is_for_one`: the
    hub serves one client, over stdio. `log_file` is where the log goes beside stderr.
    """

    given: Sequence[str] = ()
    ceiling: Sequence[str] = ()
    watched: Watched | None = None
    is_for_one: bool = False
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


def children_environment(config: HubConfig, environment: Mapping[str, str]) -> dict[str, str]:
    """Return what children may inherit at most: all but the hub's own secrets and settings."""
    listen = config.listen
    own = [*listen.keys, *([] if listen.token is None else [listen.token])]
    secrets = {one.get_secret_value() for one in own}
    return {
        key: value
        for key, value in environment.items()
        if key not in _OWN_VARIABLES and value not in secrets
    }


def environments(
    config: HubConfig, servers: Mapping[ServerName, ServerSpec], machine: Machine
) -> dict[ServerName, Mapping[str, str]]:
    """Return the environment that each launched server inherits."""
    base = children_environment(config, machine.environment)
    return {
        name: inherited(base, spec.environment, machine.flavour)
        for name, spec in servers.items()
        if isinstance(spec.target, LaunchTemplate)
    }


@asynccontextmanager
async def running_hub(
    config: HubConfig,
    setting: Setting,
    *,
    environment: Mapping[str, str] | None = None,
    open_child: Opener | None = None,
    shutdown: Shutdown | None = None,
) -> AsyncGenerator[Services]:
    """Build a hub; when the context ends, its children are ended within little more than a second.

    Raises: ConfigError, StartError, alone or in an exception group.
    """
    machine, shutdown = _machine(environment), shutdown or Shutdown()
    place, usable, given_to = _settled(config, setting, machine)
    given = partial(operator_roots, given=setting.given, place=place, ceiling=setting.ceiling)
    operator = Operator(given(config.roots), usable.specs, machine)
    async with (
        _children(config, machine, open_child, shutdown) as children,
        watching(setting.watched, config, given, operator, shutdown.asked_to_reload),
        _audit_and_tasks(config) as (audit, tasks),
    ):
        yield Services(
            info=INFO,
            servers=usable.specs,
            names=_names(config, setting, usable, machine),
            left_out=usable.left_out,
            children=children,
            operator=operator,
            machine=machine,
            settings=_roots_settings(config, place),
            audit=audit,
            tasks=tasks,
            plans=LaunchPlanCache(machine.environment, machine.directory),
            expose=config.expose,
            is_for_one=setting.is_for_one,
            preface=config.instructions,
            max_result=_max_result(config, setting),
            environments=given_to,
            has_config=not setting.ceiling,
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


def _settled(
    config: HubConfig, setting: Setting, machine: Machine
) -> tuple[PathContext, UsableServers, dict[ServerName, Mapping[str, str]]]:
    """Return the context of paths, the usable servers, and each launched one's environment.

    Warns of servers that are left out or get less than asked.

    Raises: ConfigError if no server is usable, or one must be confined and cannot be.
    """
    place = place_of(machine, config, setting.config_path, setting.log_file)
    usable = usable_servers(config, place)
    servers = usable.specs
    warn_of_left_out(usable.left_out)
    settle_confinement(servers.values(), machine.kernel)
    given_to = environments(config, servers, machine)
    warn_of_missed(servers.values(), given_to, machine.environment)
    return place, usable, given_to


def _max_result(config: HubConfig, setting: Setting) -> ResultLimit | None:
    part, key = (config.stdio, "stdio") if setting.is_for_one else (config.listen, "listen")
    return None if part.max_result is None else ResultLimit(part.max_result, f"{key}.max_result")


def _roots_settings(config: HubConfig, place: PathContext) -> RootsSettings:
    roots = config.roots
    return RootsSettings(roots.timeout, roots.debounce, place.unsafe, roots.reuse)


@asynccontextmanager
async def _audit_and_tasks(config: HubConfig) -> AsyncGenerator[tuple[AuditSink, TaskGroup]]:
    """Own the audit log, and the tasks that outlive the requests that started them.

    The tasks are cancelled with the context.
    """
    with _audit(config) as audit:
        async with anyio.create_task_group() as tasks:
            if inherits_orphans():
                tasks.start_soon(reap_orphans)
            try:
                yield audit, tasks
            finally:
                tasks.cancel_scope.cancel()


@asynccontextmanager
async def _children(
    config: HubConfig, machine: Machine, open_child: Opener | None, shutdown: Shutdown
) -> AsyncGenerator[ChildPool]:
    environment = children_environment(config, machine.environment)
    async with keeping(shutdown) as supervisor:
        if open_child is None and any(
            isinstance(one, StdioServer) for one in config.servers.values()
        ):
            supervisor.prepare()
        children = ChildPool(
            open_child=open_child
            or opener(environment, machine.kernel, supervisor, machine.flavour),
            info=INFO,
            flavour=machine.flavour,
            max_children=config.max_children,
            max_per_session=config.max_children_per_session,
            clock=machine.clock,
        )
        async with children.running():
            try:
                yield children
            finally:
                shutdown.begin()


@contextmanager
def _audit(config: HubConfig) -> Generator[AuditSink]:
    with _audit_file(config) as sink:
        yield LoggedAudit(sink) if is_logged("debug") else sink


def _audit_file(config: HubConfig) -> AbstractContextManager[AuditSink]:
    if config.audit is None:
        return nullcontext(NoAudit())
    path = Path(config.audit.file)
    try:
        return audit_log(path)
    except UnfitFileError as exc:
        raise StartError(f"audit.file {path}: {exc.strerror}", exc.fix) from exc
    except OSError as exc:
        raise StartError(
            f"audit.file {path}: {exc.strerror}", "Name a file that the hub may write."
        ) from exc


class ConnectionBuilder:
    """Opens the client connections of one hub; implements `ConnectionFactory`."""

    def __init__(self, services: Services, seals: StateSealer | None = None) -> None:
        self._services = services
        self._relay = Relay(services)
        self._rounds = ModernCalls(self._relay, services, seals)
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


def connection_builder(services: Services, seals: StateSealer | None = None) -> ConnectionBuilder:
    """Return the `ConnectionFactory` of a hub; `seals` is for states that outlive the process."""
    return ConnectionBuilder(services, seals)
