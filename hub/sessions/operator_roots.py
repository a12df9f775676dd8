"""The operator's roots while the hub runs: in force, as long as they are where they were."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from msgspec.structs import replace

from hub.paths.resolve import LinkReader
from hub.roots.effective import OperatorRoots
from hub.roots.presence import RootPresence
from hub.roots.roots import Root, RootSet
from hub.specs import ServerSpec
from hub.system.machine import Machine
from hub.values import ServerName

MAX_WARNED: Final = 1024
"""Of how many clients is said that nothing restricts them, until there are other roots."""


class Operator:
    """The operator's roots as they stand now: a folder grants nothing while it is gone.

    `version` counts how often others were put in force, or were found to stand otherwise.
    """

    def __init__(
        self, roots: OperatorRoots, servers: Mapping[ServerName, ServerSpec], machine: Machine
    ) -> None:
        self._roots = roots
        self._machine = machine
        self._fallback = _presence_of(roots.fallback)
        self._ceiling = _presence_of(roots.ceiling)
        self._servers = {name: _presence_of(spec.ceiling) for name, spec in servers.items()}
        self._followers: dict[object, Callable[[], None]] = {}
        self._warned: set[tuple[str, str]] = set()
        self.version = 0

    def take(self, roots: OperatorRoots) -> None:
        """Put other roots in force from now on, and tell all who follow."""
        self._roots = roots
        self._fallback, self._ceiling = _presence_of(roots.fallback), _presence_of(roots.ceiling)
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
        self._fallback, self._ceiling = (
            self._refreshed(self._fallback),
            self._refreshed(self._ceiling),
        )
        return replace(
            self._roots, fallback=_present(self._fallback), ceiling=_present(self._ceiling)
        )

    def ceiling_of(self, server: ServerName) -> RootSet | None:
        """Return the directories that a server's own arguments name; None if they name none."""
        self._servers[server] = self._refreshed(self._servers[server])
        return _present(self._servers[server])

    def bounds(self, server: ServerName, shared: RootSet | None) -> tuple[Root, ...] | None:
        """Return what bounds a server's clients: the ceilings, and the roots that they narrow.

        Those are `shared`, or the stand-in for them. None if a directory of a ceiling was not where
        it had been, when it was looked at last.
        """
        standings = [one for one in (self._ceiling, self._servers[server]) if one is not None]
        if any(presence.absent for presence in standings):
            return None
        own = _present(self._fallback) if shared is None else shared
        sets = [*(presence.present for presence in standings), *([] if own is None else [own])]
        return tuple(root for each in sets for root in each.roots)

    def is_current(self, server: ServerName, links: LinkReader) -> bool:
        """Return whether all that concerns a server is where it was when it was looked at last."""
        flavour = self._machine.flavour
        return all(
            presence is None or presence.is_unchanged(links, flavour)
            for presence in (self._fallback, self._ceiling, self._servers[server])
        )

    def _refreshed(self, presence: RootPresence | None) -> RootPresence | None:
        if presence is None:
            return None
        looked = presence.refresh(self._machine.links, self._machine.flavour)
        if looked is not presence:
            self.version += 1
        return looked


def _presence_of(roots: RootSet | None) -> RootPresence | None:
    return None if roots is None else RootPresence.of(roots)


def _present(presence: RootPresence | None) -> RootSet | None:
    return None if presence is None else presence.present
