"""A running hub: the values that its config becomes, what its clients share, and their views."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from pathlib import Path

import structlog
from anyio import Lock, to_thread
from msgspec import Struct, field
from msgspec.structs import replace

from hub import __version__
from hub.app.machine import Setting, place_of
from hub.audit.log_file import AuditSink, LoggedAudit, NoAudit, audit_log
from hub.audit.open_file import UnfitFileError
from hub.catalog.names import Names
from hub.children.opener import LoginAddress
from hub.children.pool import ChildPool
from hub.children.slot import ChildSlot
from hub.config.inheritance import missed_by
from hub.config.models import HubConfig, StdioServer
from hub.config.operator_roots import operator_roots
from hub.config.own_files import state_directory
from hub.config.records import names_record, settled, trust_record
from hub.config.reload.tightening import changed_keys
from hub.config.reload.writable import PathLookup, WritablePlace, writable_places
from hub.config.to_specs import UsableServers, narrowed, usable_servers, warn_of_left_out
from hub.config.watch import ConfigWatch, WritableBy
from hub.confinement.confined_launch import settle_confinement
from hub.errors import StartError
from hub.logins.login_process import LoginRuns
from hub.sessions.logins import ServerLogins
from hub.sessions.operator import ConfigFile, Operator
from hub.sessions.services import Configured, LaunchPlanCache, ResultLimit, RootsSettings, Services
from hub.specs import ServerSpec
from hub.system.log import is_logged
from hub.system.machine import Machine
from hub.system.tasks import TaskStarter
from hub.system.this_process import resident
from hub.usage.principals import UsageByPrincipal
from hub.values import Json, JsonObject, ServerName

log = structlog.stdlib.get_logger(__name__)

INFO: JsonObject = {"name": "roots-hub", "title": "Roots Hub", "version": __version__}


def configured(config: HubConfig, setting: Setting, machine: Machine) -> Configured:
    """Return the values of a config on this machine; warn of what the machine cannot do.

    Raises: ConfigError if no server is usable, or one must be confined and cannot be; StartError
        if a root of the command line cannot be used.
    """
    place = place_of(
        machine, config, setting.config_path, setting.log_file, shared_by=setting.shared_by
    )
    usable = usable_servers(config, place)
    if not setting.is_told:
        warn_of_left_out(usable.left_out)
        settle_confinement(usable.specs.values(), machine.kernel)
        for warning in missed_by(usable.specs.values(), machine.environment):
            log.warning(warning)
    roots = config.roots
    made = Configured(
        servers=usable.specs,
        names=_names(config, setting, usable, machine),
        roots=operator_roots(roots, setting.given, place, ceiling=setting.ceiling),
        settings=RootsSettings(roots.timeout, roots.debounce, place.unsafe, roots.reuse),
        expose=config.expose,
        preface=config.instructions,
        left_out=usable.left_out,
        max_result=_max_result(config, setting),
    )
    profiles = {name: narrowed(made, config, name, place) for name in config.profiles}
    return replace(made, profiles=profiles) if profiles else made


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


class View(Struct, eq=False):
    """The config as it applies to all clients of a hub, or to one client with its environment.

    `profiles` has what serves the clients of each profile; one that the config has no more is
    without servers.
    """

    config: HubConfig
    setting: Setting
    machine: Machine
    services: Services
    profiles: dict[str, Services] = field(default_factory=dict[str, Services])


class Hub:
    """A running hub: what all its clients share, and its views of the config.

    `own` is the view for this process's environment, if clients are served by it, and `own_watch`
    takes over the changes of its config. `usage` is what its principals use; none has
    limits unless it is told so. `prepare` is called before the first view that launches
    servers.
    """

    own: View
    own_watch: ConfigWatch

    def __init__(
        self,
        machine: Machine,
        children: ChildPool,
        audits: AuditLogs,
        tasks: TaskStarter,
        prepare: Callable[[], None],
    ) -> None:
        self._clock = machine.clock
        self._children = children
        self._audits = audits
        self._tasks = tasks
        self._prepare = prepare
        self._files: dict[str | None, ConfigFile] = {}
        self.usage = UsageByPrincipal(machine.clock)
        self.usage.counts["children"] = children.count_of
        children.usage = self.usage
        self.logins = self._logins_in(state_directory(machine), machine.environment)
        self._followers: list[Callable[[HubConfig], None]] = []

    def follow(self, take: Callable[[HubConfig], None]) -> None:
        """Call `take` with each config that the hub takes over; it raises as `take` here does."""
        self._followers.append(take)

    @property
    def services(self) -> Services:
        """The services of its own view."""
        return self.own.services

    async def view(
        self, config: HubConfig, setting: Setting, machine: Machine, made: Configured | None = None
    ) -> View:
        """Return a new view; `take` changes it. Raises: ConfigError, StartError."""
        made = made or await to_thread.run_sync(configured, config, setting, machine)
        if any(isinstance(one, StdioServer) for one in config.servers.values()):
            self._prepare()
        audit = await self._audits.of(config)
        self._children.limit(config.max_children, config.max_children_per_session)
        view = View(config, setting, machine, self._services(made, setting, machine, audit))
        self._take_profiles(view, made, audit)
        return view

    def _services(
        self,
        made: Configured,
        setting: Setting,
        machine: Machine,
        audit: AuditSink,
        profile: str | None = None,
    ) -> Services:
        return Services(
            info=INFO,
            servers=made.servers,
            names=made.names,
            left_out=made.left_out,
            children=self._children,
            operator=Operator(made.roots, made.servers, machine),
            machine=machine,
            settings=made.settings,
            audit=audit,
            tasks=self._tasks,
            plans=LaunchPlanCache(machine.environment, machine.directory),
            expose=made.expose,
            is_for_one=setting.is_for_one,
            is_shared=setting.shared_by is not None,
            preface=made.preface,
            max_result=made.max_result,
            has_config=not setting.ceiling,
            config_file=self._file_of(setting),
            usage=self.usage,
            profile=profile,
            logins=self.logins,
        )

    def _logins_in(
        self, directory: Path | None, environment: Mapping[str, str]
    ) -> ServerLogins | None:
        """Return the logins of all views, kept in `directory`; None if there is no directory."""
        if directory is None:
            return None
        runs = LoginRuns(self._tasks, environment, directory)
        runs.kept = self._children.logged_in
        return ServerLogins(runs)

    def send_to_log_in(self, page: LoginAddress) -> None:
        """Name the address to principals that have no login at a server."""
        self._children.login_page = page

    def _take_profiles(self, view: View, made: Configured, audit: AuditSink) -> None:
        """Serve the clients of each profile by `made` from now on."""
        for name, own in made.profiles.items():
            services = view.profiles.get(name)
            if services is None:
                services = self._services(own, view.setting, view.machine, audit, name)
                view.profiles[name] = services
            else:
                services.audit = audit
                services.take(own)
        for name in view.profiles.keys() - made.profiles.keys():
            view.profiles[name].audit = audit
            view.profiles[name].take(replace(made, servers={}, left_out=()))

    def _file_of(self, setting: Setting) -> ConfigFile:
        """Return the state of a view's config file, which all views of the same file share."""
        source = None if setting.watched is None else setting.watched.source
        return self._files.setdefault(source, ConfigFile(source))

    def children_now(self) -> list[Json]:
        """Return the running children, for people: server, state, roots, users, process."""
        return [_as_json(slot, self._clock()) for slot in self._children.running_slots()]

    def down_now(self, views: Iterable[View]) -> list[Json]:
        """Return the servers that are down, and why: left out of the config, or did not start."""
        left_out = (one for view in views for one in view.services.left_out)
        why = [(one.name, one.reason) for one in left_out]
        why += (
            (slot.spec.name, slot.spec.without_secrets(slot.trouble or ""))
            for slot in self._children.troubled_slots()
        )
        return [{"server": name, "error": error} for name, error in dict.fromkeys(why)]

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
        the new config; those under way finish at the old child. Of the same config only the folders
        are looked up anew.

        Raises: ConfigError, StartError; then nothing has changed.
        """
        made = await to_thread.run_sync(configured, config, view.setting, view.machine)
        if not any(changed_keys(view.config, config)):
            view.services.operator.take(made.roots, made.servers)
            for name, own in made.profiles.items():
                view.profiles[name].operator.take(own.roots, own.servers)
            return
        audit = await self._audits.of(config)
        for take in self._followers:
            take(config)
        self._children.limit(config.max_children, config.max_children_per_session)
        self._children.forget(_launched_otherwise(view.services.servers, made.servers))
        before, view.config, view.services.audit = view.config, config, audit
        view.services.take(made)
        self._take_profiles(view, made, audit)
        is_changed = config.roots.fallback != before.roots.fallback
        if made.roots.fallback_source in {"--root", "HUB_ROOTS"} and is_changed:
            log.warning("roots.fallback has no effect", before_it=made.roots.fallback_source)


def _as_json(slot: ChildSlot, now: float) -> JsonObject:
    pid = None if slot.child is None else slot.child.pid
    return {
        "server": slot.spec.name,
        "state": slot.state,
        "pid": pid,
        "users": len(slot.users),
        "memory": None if pid is None else resident(pid),
        "uptime": now - slot.started_at,
        "roots": list(slot.key.roots.paths),
    }


def _launched_otherwise(
    old: Mapping[ServerName, ServerSpec], new: Mapping[ServerName, ServerSpec]
) -> list[ServerName]:
    """Return the servers that are gone, or whose children have to be launched anew."""
    return [
        name
        for name, spec in old.items()
        if name not in new
        or (spec.target, spec.fingerprint) != (new[name].target, new[name].fingerprint)
    ]


class AuditLogs:
    """The open audit logs, by file: views with one file share its log. `files` closes them."""

    def __init__(self, files: ExitStack) -> None:
        self._files = files
        self._open: dict[str | None, AuditSink] = {}
        self._opening = Lock()

    async def of(self, config: HubConfig) -> AuditSink:
        """Return the audit log of a config; a thread opens its file, as the disk may be slow.

        Raises: StartError if its file cannot be written.
        """
        file = None if config.audit is None else config.audit.file
        if file not in self._open:
            async with self._opening:
                if file not in self._open:
                    opened = await to_thread.run_sync(_audit_file, file)
                    sink = self._files.enter_context(opened)
                    self._open[file] = LoggedAudit(sink) if is_logged("debug") else sink
        return self._open[file]


def _audit_file(file: str | None) -> AbstractContextManager[AuditSink]:
    if file is None:
        return nullcontext(NoAudit())
    try:
        return audit_log(Path(file))
    except OSError as exc:
        fix = exc.fix if isinstance(exc, UnfitFileError) else "Name a file that the hub may write."
        raise StartError(f"audit.file {file}: {exc.strerror}", fix) from exc
