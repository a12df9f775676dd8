"""From which level on one child logs, where several clients want several levels of it."""

from __future__ import annotations

from typing import Final

from hub.protocol.constants import LOG_LEVELS
from hub.values import Json, SessionKey

_UNSAID: Final = "info"
"""What a client gets that names no level, once the child logs more than it would by itself."""


def reaches(level: Json, least: str) -> bool:
    """Return whether a message of `level` is wanted from `least` on; an unknown level is."""
    known = isinstance(level, str) and level in LOG_LEVELS
    return not known or LOG_LEVELS.index(level) >= LOG_LEVELS.index(least)


class LogLevels:
    """What a child's sessions want, and what the child was told: the lowest of them.

    `told` is None for a child that logs as it likes.
    """

    def __init__(self) -> None:
        self.told: str | None = None
        self._wanted: dict[SessionKey, str] = {}

    def of_session(self, session: SessionKey, level: str) -> str | None:
        """Take a session's level; returns what the child is to be told, None if it knows."""
        self._wanted[session] = level
        return self._tell(min(self._wanted.values(), key=LOG_LEVELS.index))

    def of_call(self, level: str) -> str | None:
        """Take one call's level, below which the child stays as it is: it is never told more."""
        return None if self.told and reaches(level, self.told) else self._tell(level)

    def _tell(self, level: str) -> str | None:
        if level == self.told:
            return None
        self.told = level
        return level

    def forget(self) -> None:
        """Take note that the child could not be told."""
        self.told = None

    def leave(self, session: SessionKey) -> None:
        """Forget what a session wanted."""
        self._wanted.pop(session, None)

    def is_filtered(self, session: SessionKey, level: Json) -> bool:
        """Return whether a session is not told: it named no level, and others want this one."""
        return self.told is not None and session not in self._wanted and not reaches(level, _UNSAID)
