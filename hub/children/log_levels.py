"""The log level of one child when several clients want different levels."""

from __future__ import annotations

from typing import Final

from hub.protocol.constants import LOG_LEVELS
from hub.values import Json, SessionKey

_UNSAID: Final = "info"
"""The lowest level for a client that set none, once the hub has set the child's level."""


def reaches(level: Json, least: str) -> bool:
    """Return whether `level` is at least `least`; True for an unknown level."""
    known = isinstance(level, str) and level in LOG_LEVELS
    return not known or LOG_LEVELS.index(level) >= LOG_LEVELS.index(least)


class LogLevels:
    """The levels that a child's sessions want, and the level the child was set to.

    `told` is None if no level was set: the child logs as it likes. Each level to set is followed by
    `confirm` or `forget`.
    """

    def __init__(self) -> None:
        self.told: str | None = None
        self._is_sure = False
        self._wanted: dict[SessionKey, str] = {}

    def of_session(self, session: SessionKey, level: str) -> str | None:
        """Store a session's level; return the level to set at the child, or None if that is set.

        A level is set again while somebody else's request for it is under way, and may fail.
        """
        self._wanted[session] = level
        lowest = min(self._wanted.values(), key=LOG_LEVELS.index)
        return None if lowest == self.told and self._is_sure else self._tell(lowest)

    def of_call(self, level: str) -> str | None:
        """Return the level to set at the child for one call; None if it already logs that much.

        A call never raises a level that was set before.
        """
        return None if self.told and reaches(level, self.told) else self._tell(level)

    def _tell(self, level: str) -> str:
        self.told, self._is_sure = level, False
        return level

    def confirm(self, level: str) -> None:
        """Record that the child was set to a level."""
        if self.told in {None, level}:
            self.told, self._is_sure = level, True

    def forget(self, level: str) -> None:
        """Record that the child could not be set to a level."""
        if self.told == level and not self._is_sure:
            self.told = None

    def leave(self, session: SessionKey) -> None:
        """Forget the level of a session."""
        self._wanted.pop(session, None)

    def is_filtered(self, session: SessionKey, level: Json) -> bool:
        """Return whether a message of `level` is withheld from a session.

        That is so below `_UNSAID` if the session set no level and the child was set to one.
        """
        return self.told is not None and session not in self._wanted and not reaches(level, _UNSAID)
