"""Who wants to hear of all children of a principal, whichever of them it uses."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Final, Protocol

from hub.children.clients import Lessee
from hub.errors import ChildError
from hub.values import ServerName, SessionKey

MAX_LISTENERS: Final = 1024
"""How many streams of notifications may be open at once."""


class Listener(Lessee, Protocol):
    """Somebody who is told of changes alone, and lists by requests of its own."""

    def missed(self, server: ServerName) -> None:
        """Take note that a listing went out without this server, whose child is not there yet."""
        ...


class Listeners:
    """The open streams, by principal."""

    def __init__(self) -> None:
        self._open: dict[SessionKey, tuple[str, Listener]] = {}

    @contextmanager
    def listening(self, session: SessionKey, principal: str, listener: Listener) -> Generator[None]:
        """Let `listener` hear of the principal's children while the context lasts.

        Raises: ChildError if too many do.
        """
        if len(self._open) >= MAX_LISTENERS:
            raise ChildError(f"{MAX_LISTENERS} streams of notifications are open; try again later")
        self._open[session] = (principal, listener)
        try:
            yield
        finally:
            del self._open[session]

    def missed(self, principal: str, server: ServerName) -> None:
        """Take note that a principal was shown a listing without this server."""
        for listener in self.of(principal).values():
            listener.missed(server)

    def of(self, principal: str) -> Mapping[SessionKey, Listener]:
        """Return who hears of a child of `principal`; a child of nobody's is everybody's."""
        return {
            session: listener
            for session, (whose, listener) in self._open.items()
            if not principal or whose == principal
        }
