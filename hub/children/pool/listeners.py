"""The open notification streams, whose clients hear what children announce."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Final, Protocol

from hub.children.clients import ChildUser
from hub.errors import ChildError
from hub.values import ServerName, SessionKey

MAX_LISTENERS: Final = 1024
"""The number of notification streams that may be open at the same time."""


class Listener(ChildUser, Protocol):
    """A notification stream: its client hears of changes here, and lists by separate requests."""

    def missed(self, server: ServerName) -> None:
        """Record that a listing was sent without this server, whose child is not ready yet."""
        ...


class Listeners:
    """The open notification streams, with the principal of each."""

    def __init__(self) -> None:
        self._open: dict[SessionKey, tuple[str, SessionKey, Listener]] = {}

    @contextmanager
    def listening(
        self,
        session: SessionKey,
        principal: str,
        listener: Listener,
        party: SessionKey | None = None,
    ) -> Generator[None]:
        """Notify `listener` of the principal's children while the context lasts.

        `party` is the client, if it is not the session alone.

        Raises: ChildError if too many streams are open.
        """
        if len(self._open) >= MAX_LISTENERS:
            raise ChildError(f"{MAX_LISTENERS} streams of notifications are open; try again later")
        self._open[session] = (principal, party or session, listener)
        try:
            yield
        finally:
            del self._open[session]

    def missed(self, principal: str, server: ServerName) -> None:
        """Tell the principal's listeners that a listing was sent without this server."""
        for listener in self.of(principal).values():
            listener.missed(server)

    def of(self, principal: str, owner: SessionKey | None = None) -> Mapping[SessionKey, Listener]:
        """Return the listeners for a child of `principal`; all if that is empty (`share: all`).

        `owner` is the client that the child belongs to; None if clients share it.
        """
        return {
            session: listener
            for session, (whose, party, listener) in self._open.items()
            if (not principal or whose == principal) and owner in {None, party}
        }
