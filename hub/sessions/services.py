"""What all sessions of a hub share: servers, children, the operator's roots, and the machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from anyio.abc import TaskGroup
from msgspec import Struct, field
from msgspec.structs import replace

from hub.audit.log_file import AuditSink
from hub.catalog.instructions import merged
from hub.catalog.names import Names
from hub.catalog.search import Expose
from hub.children.pool import Children
from hub.confinement.grants import Kernel
from hub.launch.plan import LaunchPlan
from hub.paths.resolve import Flavour, LinkReader
from hub.roots.effective import OperatorRoots
from hub.roots.presence import Standing
from hub.roots.roots import Root, RootSet, UnsafePaths
from hub.sessions.plans import Plans
from hub.specs import ServerSpec
from hub.system.worker import Aside
from hub.values import JsonObject, ServerName

MAX_WARNED: Final = 1024
"""Of how many clients is said that nothing restricts them, until there are other roots."""


class Machine(Struct, frozen=True):
    """The computer the hub runs on, as the guard and the launch plans see it."""

    links: LinkReader
    flavour: Flavour
    environment: Mapping[str, str]
    directory: str
    clock: Callable[[], float]
    wall_clock: Callable[[], float]
    kernel: Kernel = field(default_factory=Kernel)

    def wall_time(self, at: float) -> float:
        """Return the seconds since 1970 of a moment `at` of the monotonic clock."""
        return round(self.wall_clock() - self.clock() + at, 3)


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
    children: Children
    operator: Operator
    machine: Machine
    settings: RootsSettings
    audit: AuditSink
    tasks: TaskGroup
    plans: Plans
    expose: Expose = "tools"
    is_for_one: bool = False
    preface: str | None = None
    aside: Aside = field(default_factory=Aside)
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


class Operator:
    """The operator's roots as they stand now: a folder grants nothing while it is gone.

    `version` counts how often others were put in force, or were found to stand otherwise.
    """

    def __init__(
        self, roots: OperatorRoots, servers: Mapping[ServerName, ServerSpec], machine: Machine
    ) -> None:
        self._roots = roots
        self._machine = machine
        self._fallback = _standing(roots.fallback)
        self._ceiling = _standing(roots.ceiling)
        self._servers = {name: _standing(spec.ceiling) for name, spec in servers.items()}
        self._followers: dict[object, Callable[[], None]] = {}
        self._warned: set[tuple[str, str]] = set()
        self.version = 0

    def take(self, roots: OperatorRoots) -> None:
        """Put other roots in force from now on, and tell all who follow."""
        self._roots = roots
        self._fallback, self._ceiling = _standing(roots.fallback), _standing(roots.ceiling)
        self.version += 1
        self._warned.clear()
        for tell in list(self._followers.values()):
            tell()

    def follow(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call `changed` after each `take`; returns what ends that."""
        key = object()
        self._followers[key] = changed

        def end() -> None:
            self._followers.pop(key, None)

        return end

    def is_news(self, principal: str, client: str) -> bool:
        """Return whether it was not yet said of such a client that nothing restricts it.

        Clients of a name are one: many have a session for each of their requests.
        """
        if (principal, client) in self._warned or len(self._warned) >= MAX_WARNED:
            return False
        self._warned.add((principal, client))
        return True

    def roots(self) -> OperatorRoots:
        """Return the operator's roots, without those that are not there now."""
        self._fallback, self._ceiling = self._again(self._fallback), self._again(self._ceiling)
        return replace(
            self._roots, fallback=_present(self._fallback), ceiling=_present(self._ceiling)
        )

    def ceiling_of(self, server: ServerName) -> RootSet | None:
        """Return the directories that a server's own arguments name; None if they name none."""
        self._servers[server] = self._again(self._servers[server])
        return _present(self._servers[server])

    def bounds(self, server: ServerName, shared: RootSet | None) -> tuple[Root, ...] | None:
        """Return what bounds a server's clients: the ceilings, and the roots that they narrow.

        Those are `shared`, or the stand-in for them. None if a directory of a ceiling was not where
        it had been, when it was looked at last.
        """
        standings = [one for one in (self._ceiling, self._servers[server]) if one is not None]
        if any(standing.absent for standing in standings):
            return None
        own = _present(self._fallback) if shared is None else shared
        sets = [*(standing.present for standing in standings), *([] if own is None else [own])]
        return tuple(root for each in sets for root in each.roots)

    def stands(self, server: ServerName, links: LinkReader) -> bool:
        """Return whether all that concerns a server is where it was when it was looked at last."""
        flavour = self._machine.flavour
        return all(
            standing is None or standing.is_unmoved(links, flavour)
            for standing in (self._fallback, self._ceiling, self._servers[server])
        )

    def _again(self, standing: Standing | None) -> Standing | None:
        if standing is None:
            return None
        looked = standing.again(self._machine.links, self._machine.flavour)
        if looked is not standing:
            self.version += 1
        return looked


def _standing(roots: RootSet | None) -> Standing | None:
    return None if roots is None else Standing.of(roots)


def _present(standing: Standing | None) -> RootSet | None:
    return None if standing is None else standing.present
