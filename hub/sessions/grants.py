"""What a client's user let pass for as long as the session lasts."""

from __future__ import annotations

from hub.roots.roots import Root
from hub.values import ServerName


class Grants:
    """Places outside of the roots, each for one server, and for reading alone or for both."""

    def __init__(self) -> None:
        self._places: dict[tuple[ServerName, bool, tuple[str, ...], bool], Root] = {}

    def add(self, server: ServerName, place: Root, *, writes: bool) -> None:
        """Let a server's tools reach `place` from now on; those that write only if it `writes`."""
        self._places[server, writes, place.parts, place.is_file] = place

    def of(self, server: ServerName, *, writes: bool) -> tuple[Root, ...]:
        """Return what a server's tools that read, or that write too, may reach."""
        return tuple(
            place
            for (owner, written, _, _), place in self._places.items()
            if owner == server and (written or not writes)
        )
