"""What the operator has configured, as it is now: the roots, and the state of the config file.

The roots are the fallback and the ceilings, which are checked on disk before use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from hub.jsonrpc.rated_log import RatedLog
from hub.launch.plan import LaunchTemplate, passes_roots
from hub.roots.effective import OperatorRoots, why_no_roots
from hub.roots.roots import Root, RootPresence, RootSet
from hub.roots.state import State
from hub.specs import ServerSpec
from hub.system.machine import Machine
from hub.values import JsonObject, ServerName

MAX_WARNED, MAX_WARNED_OF_ONE = 1024, 16
"""Principals whose warnings about clients without roots are remembered, until the roots are
replaced; and how many of one principal, which gets no more of them."""

_WHY: Final = "it shares no roots, and there is no fallback"
_NAME_FOLDERS: Final = "name folders with --root or roots.fallback"


class Operator:
    """The operator's roots: fallback, ceiling, and a ceiling per server.

    A directory grants nothing while it is gone from the disk. `version` increases when the roots
    are replaced, and when a check finds that a directory is gone, replaced or back.
    """

    def __init__(
        self,
        roots: OperatorRoots,
        servers: Mapping[ServerName, ServerSpec],
        machine: Machine,
    ) -> None:
        self._roots = roots
        self._machine = machine
        self._fallback = _presence_of(roots.fallback)
        self._ceiling = _presence_of(roots.ceiling)
        self._servers = {name: _presence_of(spec.ceiling) for name, spec in servers.items()}
        self._followers: dict[object, Callable[[], None]] = {}
        self._warned: dict[str, set[tuple[str, str]]] = {}
        self.version = 0

    def take(
        self, roots: OperatorRoots, servers: Mapping[ServerName, ServerSpec] | None = None
    ) -> None:
        """Replace the operator's roots, and the servers with their ceilings; call all followers."""
        self._roots = roots
        if servers is not None:
            self._servers = {name: _presence_of(spec.ceiling) for name, spec in servers.items()}
        self._fallback, self._ceiling = _presence_of(roots.fallback), _presence_of(roots.ceiling)
        self.version += 1
        self._warned.clear()
        for tell in list(self._followers.values()):
            tell()

    def follow(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call `changed` after each `take`; returns a function that ends this."""
        key = object()
        self._followers[key] = changed

        def end() -> None:
            self._followers.pop(key, None)

        return end

    def is_first_warning(self, principal: str, client: str, about: str) -> bool:
        """Return whether to log a warning `about` a client's roots: True once per client.

        Clients with the same principal and name count as one: many have a session per request.
        """
        warned = self._warned.get(principal)
        if warned is None:
            if len(self._warned) >= MAX_WARNED:
                del self._warned[next(iter(self._warned))]
            warned = self._warned[principal] = set()
        if (client, about) in warned or len(warned) >= MAX_WARNED_OF_ONE:
            return False
        warned.add((client, about))
        return True

    def warn_of_no_paths(
        self, log: RatedLog, state: State, principal: str, named: JsonObject
    ) -> None:
        """Log why no path is allowed for a client, and what to do; once per client and advice.

        `named` says who the client is.
        """
        told = why_no_roots(state, self.roots())
        if self.is_first_warning(principal, str(named["client"]), told.fix):
            log.warning(
                "no path is allowed for this client",
                **named,
                reason=told.reason,
                fix=told.fix,
            )

    def warn_of_all_paths(
        self, log: RatedLog, servers: Iterable[ServerSpec], principal: str, named: JsonObject
    ) -> None:
        """Log, once per client, at which servers no roots restrict it."""
        event, fix = _unrestricted([one for one in servers if one.ceiling is None])
        if event and self.is_first_warning(principal, str(named["client"]), event):
            log.warning(event, **named, fix=fix)

    def roots(self) -> OperatorRoots:
        """Return the operator's roots; directories that are gone or replaced now are rejected."""
        fallback = self._fallback = self._refreshed(self._fallback)
        self._ceiling = self._refreshed(self._ceiling)
        absent = () if fallback is None else fallback.absent
        return replace(
            self._roots,
            fallback=_present(fallback),
            ceiling=_present(self._ceiling),
            rejected=(*self._roots.rejected, *absent),
        )

    @property
    def ceiling(self) -> RootSet | None:
        """The ceiling of all servers as it was looked at last; None if there is none."""
        return _present(self._ceiling)

    def ceiling_of(self, server: ServerName) -> RootSet | None:
        """Return the ceiling from a server's own arguments; None if they name no directory."""
        known = self._servers[server] = self._refreshed(self._servers.get(server))
        return _present(known)

    def bounds(self, server: ServerName, shared: RootSet | None) -> tuple[Root, ...] | None:
        """Return all roots that bound the calls at a server, uncombined.

        They are the ceilings and the client's roots (`shared`, or the fallback if None). Returns
        None if the last check found a directory of a ceiling gone or replaced.
        """
        ceilings = [one for one in (self._ceiling, self._servers.get(server)) if one is not None]
        if any(presence.absent for presence in ceilings):
            return None
        own = _present(self._fallback) if shared is None else shared
        sets = [*(presence.present for presence in ceilings), *([] if own is None else [own])]
        return tuple(root for each in sets for root in each.roots)

    def presences(self, server: ServerName) -> tuple[RootPresence, ...]:
        """Return fallback, ceiling and server ceiling as last checked; as long as `version` is."""
        its = (self._fallback, self._ceiling, self._servers.get(server))
        return tuple(presence for presence in its if presence is not None)

    def _refreshed(self, presence: RootPresence | None) -> RootPresence | None:
        if presence is None:
            return None
        looked = presence.refresh(self._machine.links, self._machine.flavour)
        if looked is not presence:
            self.version += 1
        return looked


def _presence_of(roots: RootSet | None) -> RootPresence | None:
    return None if roots is None else RootPresence.of(roots.roots)


def _present(presence: RootPresence | None) -> RootSet | None:
    return None if presence is None else presence.present


def _unrestricted(servers: list[ServerSpec]) -> tuple[str, str]:
    """Return the warning about a client that reaches these servers without roots, and the advice.

    A server that is launched with roots gets none then: it is no place without restrictions.
    """
    bare = [
        one
        for one in servers
        if isinstance(one.target, LaunchTemplate) and passes_roots(one.target)
    ]
    free = [one for one in servers if one not in bare]
    if not bare:
        event = f"this client is NOT restricted: {_WHY}" if free else ""
        return event, f"{_NAME_FOLDERS}, or set roots.when_missing: deny"
    rest = f"; its paths are not checked at {_named(free)}" if free else ""
    verb = "gets" if len(bare) == 1 else "get"
    event = f"{_named(bare)} {verb} no folder for this client: {_WHY}{rest}"
    return event, _NAME_FOLDERS


def _named(servers: list[ServerSpec]) -> str:
    names = ", ".join(repr(str(spec.name)) for spec in servers)
    return f"server {names}" if len(servers) == 1 else f"servers {names}"


MAX_GRANTED: Final = 4096
"""So many folders of clients are remembered. With more, the file counts as writable by calls."""


class ConfigState(Struct, frozen=True):
    """The config file as last read. `file` None: there is none.

    `error` says why it was not taken over; then the last config that was in order stays in force.
    `waiting` are the changed keys that wait for the user, `restart` those that need a restart.
    """

    file: str | None = None
    error: str | None = None
    waiting: tuple[str, ...] = ()
    restart: tuple[str, ...] = ()

    def to_json(self) -> JsonObject:
        """Return all of it, for the operator."""
        return {
            "file": self.file,
            "error": self.error,
            "waiting": list(self.waiting),
            "restart": list(self.restart),
        }

    def shown(self) -> JsonObject | None:
        """Return what a model may read of it: names of keys and no values; None without a file."""
        if self.file is None:
            return None
        return {"file": self.file, "error": self.error, "waiting": list(self.waiting)}


class ConfigFile:
    """The state of the config file, and the folders that clients were granted so far.

    The folders are remembered after a client has gone: its calls may have written the file.
    """

    def __init__(self, file: str | None = None, *, max_granted: int = MAX_GRANTED) -> None:
        self.state = ConfigState(file)
        self._max_granted = max_granted
        self._granted: dict[str, None] = {}
        self._last: RootSet | None = None
        self.is_overflowing = False

    def grant(self, roots: RootSet) -> None:
        """Remember the roots that a client is granted."""
        if roots is self._last or self.state.file is None:
            return
        self._last = roots
        for path in roots.paths:
            if path in self._granted:
                continue
            if len(self._granted) >= self._max_granted:
                self.is_overflowing = True
                return
            self._granted[path] = None

    @property
    def granted(self) -> tuple[str, ...]:
        """The paths of all folders that clients were granted, as they were resolved then."""
        return tuple(self._granted)
