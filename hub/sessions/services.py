"""What all sessions of a hub share."""

from __future__ import annotations

from collections.abc import Mapping

from anyio.abc import TaskGroup
from msgspec import Struct, field
from msgspec.structs import replace

from hub.audit.log_file import AuditSink
from hub.catalog.instructions import merged
from hub.catalog.names import Names
from hub.catalog.search import Expose
from hub.children.pool import ChildPool
from hub.launch.plan import LaunchPlan, LaunchTemplate, plan
from hub.roots.effective import EffectiveRoots
from hub.roots.roots import EMPTY, RootSet, UnsafePaths
from hub.sessions.operator_roots import Operator
from hub.specs import ServerSpec
from hub.system.machine import Machine
from hub.system.worker import FairWorker
from hub.values import JsonObject, ServerName

KEPT = 256
"""How many plans are remembered; the oldest make room."""


class LaunchPlanCache:
    """The plans of one hub: with the same environment there is one for a server and its roots.

    `directory` is where a child runs that is to run where the hub does.
    """

    def __init__(self, environment: Mapping[str, str], directory: str) -> None:
        self._environment = environment
        self._directory = directory
        self._kept: dict[tuple[ServerName, RootSet, bool], tuple[ServerSpec, LaunchPlan]] = {}

    def of(self, spec: ServerSpec, here: EffectiveRoots) -> LaunchPlan | None:
        """Return how a server's process is launched under these roots; None for a remote one.

        Raises: ConfigError if a variable it needs is not set.
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
        while len(self._kept) >= KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept[spec.name, roots, anywhere] = spec, made
        return made


class RootsSettings(Struct, frozen=True):
    """How clients are asked for roots. Times are in seconds."""

    timeout: float = 10.0
    debounce: float = 0.25
    unsafe: UnsafePaths | None = None
    reuse: float = 0.0


class Services(Struct, frozen=True):
    """One hub's shared parts; `info` is its name and version as the protocol's `Implementation`.

    `tasks` is for what outlives the request that began it. `is_for_one`: the hub has one client,
    which will use what there is. `preface` is what the operator tells clients of the servers' use.
    `plans` are those of `servers` on `machine`. `environments` are what launched servers inherit.
    """

    info: JsonObject
    servers: Mapping[ServerName, ServerSpec]
    names: Names
    children: ChildPool
    operator: Operator
    machine: Machine
    settings: RootsSettings
    audit: AuditSink
    tasks: TaskGroup
    plans: LaunchPlanCache
    expose: Expose = "tools"
    is_for_one: bool = False
    preface: str | None = None
    worker: FairWorker = field(default_factory=FairWorker)
    environments: Mapping[ServerName, Mapping[str, str]] = field(
        default_factory=dict[ServerName, Mapping[str, str]]
    )

    def environment_of(self, spec: ServerSpec, plan: LaunchPlan | None) -> Mapping[str, str]:
        """Return the variables that a server's child sees, as far as they are known."""
        own = self.environments.get(spec.name, self.machine.environment)
        return own if plan is None else {**own, **dict(plan.env)}

    @property
    def can_names_move(self) -> bool:
        """Whether a tool's name may come to lead to another server, as that one's list changes."""
        return self.expose == "tools" and self.names.mode == "never" and len(self.servers) > 1

    def instructions(self, principal: str) -> str | None:
        """Return what a client is told of the servers' use, as far as it is known now."""
        texts = {name: self.children.instructions_of(name, principal) for name in self.servers}
        return merged(texts, preface=self.preface, several=len(self.servers) > 1)

    def starts_early(self, spec: ServerSpec) -> bool:
        """Whether a server's child starts as soon as it is known for which roots.

        One whose tools are found by search may never be needed.
        """
        return spec.eager if spec.eager is not None else self.is_for_one and self.expose == "tools"
