"""Services shared by all sessions of a hub: child pool, names, settings, audit, launch plans."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from hub.audit.log_file import AuditSink
from hub.catalog.merge import merged_instructions
from hub.catalog.names import Names
from hub.catalog.search import Expose
from hub.children.pool import ChildPool
from hub.jsonrpc.rated_log import RatedLog
from hub.launch.plan import LaunchPlan, LaunchTemplate, plan
from hub.roots.effective import EffectiveRoots, OperatorRoots
from hub.roots.roots import EMPTY, RootSet, UnsafePaths
from hub.sessions.logins import ServerLogins
from hub.sessions.operator import ConfigFile, Operator
from hub.sessions.tool_guards import ToolGuards
from hub.specs import LeftOut, ServerSpec
from hub.system.machine import Machine
from hub.system.tasks import FairWorker, TaskStarter
from hub.usage.principals import UsageByPrincipal
from hub.values import JsonObject, ServerName, identity_of

KEPT: Final = 4 * 1024 * 1024
"""Bytes of launch plans in the cache, about; the oldest are dropped first."""
SMALL: Final = KEPT // 256
"""Bytes that a launch plan counts as at least."""
_PART: Final = 64
"""Bytes that a component of a path takes as an object of its own, beside its characters."""
MAX_LOGS: Final = 1024
"""Principals whose shares of the log are remembered; the one that came first is forgotten first."""


class LaunchPlanCache:
    """Cache of launch plans, by server and roots; all plans use the same `environment`.

    `directory` is the hub's working directory, used for an unrestricted child without `cwd`.
    """

    def __init__(
        self, environment: Mapping[str, str], directory: str, *, max_bytes: int = KEPT
    ) -> None:
        self._max_bytes = max_bytes
        self._environment = environment
        self._directory = directory
        self._kept: dict[tuple[ServerName, RootSet, bool], tuple[ServerSpec, LaunchPlan]] = {}
        self._bytes = 0

    def of(self, spec: ServerSpec, here: EffectiveRoots) -> LaunchPlan | None:
        """Return the launch plan of a server with the roots `here`; None for a remote server.

        Raises: ConfigError if an environment variable that it needs is not set.
        """
        if not isinstance(spec.target, LaunchTemplate):
            return None
        shared = spec.share == "all"
        roots, anywhere = EMPTY if shared else here.roots, shared or not here.enforcing
        kept = self._kept.get((spec.name, roots, anywhere))
        if kept is not None and kept[0] is spec:
            return kept[1]
        made = plan(spec.target, roots, self._environment, directories=spec.directories)
        if made.cwd is None and anywhere:
            made = replace(made, cwd=self._directory)
        self._bytes += _size_of(made) - (0 if kept is None else _size_of(kept[1]))
        self._kept[spec.name, roots, anywhere] = spec, made
        while self._bytes > self._max_bytes and len(self._kept) > 1:
            _, oldest = self._kept.pop(next(iter(self._kept)))
            self._bytes -= _size_of(oldest)
        return made


def _size_of(made: LaunchPlan) -> int:
    """Return about how many bytes a plan takes, with the roots that it was made for."""
    texts = sum(map(len, (*made.argv, *made.shown, *(value for _, value in made.env))))
    roots = sum(
        len(one.uri) + 2 * len(one.path) + _PART * len(one.parts) for one in made.roots.roots
    )
    return max(SMALL, texts + roots)


class RootsSettings(Struct, frozen=True):
    """How clients are asked for roots, and how long answers are reused. Times are in seconds."""

    timeout: float = 10.0
    debounce: float = 0.25
    unsafe: UnsafePaths | None = None
    reuse: float = 0.0


class ResultLimit(Struct, frozen=True):
    """The largest result of a call, in `bytes` of JSON; `key` is the config key that says so."""

    bytes: int
    key: str


class Configured(Struct, frozen=True):
    """What a config says, for the sessions; `roots` are the operator's.

    `left_out` are servers of the config that cannot be used; they are among the `names` only.
    `preface` is the operator's text before the servers' instructions. `max_result` None: results of
    any size are passed on. `profiles` has what is left of it for the clients of each profile.
    """

    servers: Mapping[ServerName, ServerSpec]
    names: Names
    roots: OperatorRoots
    settings: RootsSettings = RootsSettings()
    expose: Expose = "tools"
    preface: str | None = None
    left_out: Sequence[LeftOut] = ()
    max_result: ResultLimit | None = None
    profiles: Mapping[str, Configured] = field(default_factory=dict[str, "Configured"])


class ClientLogs:
    """The log of each principal; all sessions of a principal share it. `clock` is in seconds."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, *, max_logs: int = MAX_LOGS
    ) -> None:
        self._clock = clock
        self._max_logs = max_logs
        self._logs: dict[str, RatedLog] = {}

    def of(self, principal: str) -> RatedLog:
        """Return the log for lines about the clients of a principal."""
        found = self._logs.get(principal)
        if found is not None:
            return found
        if len(self._logs) >= self._max_logs:
            self._logs.pop(next(iter(self._logs))).finish()
        made = self._logs[principal] = RatedLog({"principal": principal}, self._clock)
        return made


class Services(Struct, eq=False):
    """The parts of one hub that sessions share; those of its config change when it is reloaded.

    `info` is the hub's `Implementation` (name and version). `tasks` is for tasks that outlive their
    request. `profile` names the profile that these are for; None where the config has no profiles.
    `is_for_one`: one client is served. `is_shared`: other clients are served by other
    `Services`, with the same `children`. `has_config` False: the folders that the command line
    names bound all clients. `usage` is what the hub's principals use.
    `client_logs` limits the log lines about a client.
    `logins` lets people log in at servers within a call; None: only by command. The
    other fields are those of `Configured`. `needs_scopes`: some server needs scopes of tokens.
    """

    info: JsonObject
    servers: Mapping[ServerName, ServerSpec]
    names: Names
    children: ChildPool
    operator: Operator
    machine: Machine
    settings: RootsSettings
    audit: AuditSink
    tasks: TaskStarter
    plans: LaunchPlanCache
    expose: Expose = "tools"
    is_for_one: bool = False
    is_shared: bool = False
    preface: str | None = None
    left_out: Sequence[LeftOut] = ()
    max_result: ResultLimit | None = None
    worker: FairWorker = field(default_factory=FairWorker)
    guards: ToolGuards = field(default_factory=ToolGuards)
    has_config: bool = True
    config_file: ConfigFile = field(default_factory=ConfigFile)
    usage: UsageByPrincipal = field(default_factory=UsageByPrincipal)
    profile: str | None = None
    logins: ServerLogins | None = None
    client_logs: ClientLogs = field(default_factory=ClientLogs)
    needs_scopes: bool = False

    def __post_init__(self) -> None:
        self.needs_scopes = any(spec.scopes for spec in self.servers.values())

    def take(self, new: Configured) -> None:
        """Serve by a changed config from now on; sessions are told, and calls are judged again."""
        self.servers, self.names, self.left_out = new.servers, new.names, new.left_out
        self.settings, self.expose, self.preface = new.settings, new.expose, new.preface
        self.max_result = new.max_result
        self.needs_scopes = any(spec.scopes for spec in new.servers.values())
        self.operator.take(new.roots, new.servers)

    def identity_of(self, principal: str) -> str:
        """Return the identity of a principal: with its profile, if it has one."""
        return identity_of(principal, self.profile)

    def environment_of(self, spec: ServerSpec, plan: LaunchPlan | None) -> Mapping[str, str]:
        """Return the environment variables of a server's child, as far as they are known."""
        if not isinstance(spec.target, LaunchTemplate):
            return self.machine.environment
        return spec.inherits if plan is None else plan.environment(spec.inherits)

    @property
    def can_names_move(self) -> bool:
        """Whether a change of a server's tool list can route a tool name to another server."""
        return self.expose == "tools" and self.names.mode == "never" and len(self.servers) > 1

    def instructions(self, identity: str) -> str | None:
        """Return the merged instructions of the servers, as far as they are known; else None."""
        said = self.children.known.instructions_of
        texts = {name: said(spec, identity) for name, spec in self.servers.items()}
        return merged_instructions(texts, preface=self.preface, several=len(self.servers) > 1)

    def starts_early(self, spec: ServerSpec) -> bool:
        """Whether a server's child starts as soon as its roots are known, before any call.

        The default is no with `expose: search`, where a child may never be needed, and where
        clients share children; and no for a child whose lists are known already.
        """
        if spec.eager is not None:
            return spec.eager
        return self.is_for_one and not self.is_shared and self.expose == "tools"
