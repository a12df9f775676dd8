"""Who wants to hear of all children of a principal, whichever of them it uses."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Final

from hub.core.errors import ChildError
from hub.core.values import SessionKey
from hub.runtime.parties import Lessee

MAX_LISTENERS: Final = 1024
"""How many streams of notifications may be open at once."""


class Listeners:
    """The open streams, by principal."""

    def __init__(self) -> None:
        self._open: dict[SessionKey, tuple[str, Lessee]] = {}

    @contextmanager
    def listening(self, session: SessionKey, principal: str, lessee: Lessee) -> Generator[None]:
        """Let `lessee` hear of the principal's children while the context lasts.

        Raises: ChildError if too many do.
        """
        if len(self._open) >= MAX_LISTENERS:
            raise ChildError(f"{MAX_LISTENERS} streams of notifications are open; try again later")
        self._open[session] = (principal, lessee)
        try:
            yield
        finally:
            del self._open[session]

    def of(self, principal: str) -> Mapping[SessionKey, Lessee]:
        """Return who hears of a child of `principal`; a child of nobody's is everybody's."""
        return {
            session: lessee
            for session, (whose, lessee) in self._open.items()
            if not principal or whose == principal
        }
