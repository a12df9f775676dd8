"""What a running hub knows of its config file: is it in order, what waits, who may write it."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from hub.roots.roots import RootSet
from hub.values import JsonObject

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
