"""`roots.reuse`: modern clients' roots, kept for the next requests because the operator says so.

Without it each answer serves its own request. Kept ones are of one principal that has proven who it
is, or of one connection over stdio; nobody else is told apart well enough.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from hub.roots.roots import Announcement
from hub.values import SessionKey

MAX_KEPT: Final = 1024
"""Of how many askers roots are kept; the oldest go first."""
_ANYBODY: Final = "local"
"""The principal of everybody who may connect without saying who he is."""


class KeptAnswer(Struct, frozen=True):
    """What a client announced, and when."""

    announcement: Announcement
    at: float


class KeptRoots:
    """The newest answer of each asker, for `reuse` seconds; 0 keeps none."""

    def __init__(self, reuse: float, clock: Callable[[], float]) -> None:
        self._reuse = reuse
        self._clock = clock
        self._kept: dict[str, KeptAnswer] = {}

    def keep(self, asker: str | None, announcement: Announcement) -> None:
        """Keep an answer in the place of the asker's last one."""
        if asker is None or not self._reuse:
            return
        self._kept.pop(asker, None)
        while len(self._kept) >= MAX_KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept[asker] = KeptAnswer(announcement, self._clock())

    def of(self, asker: str | None) -> KeptAnswer | None:
        """Return the asker's last answer if it still counts."""
        kept = self._kept.get(asker) if asker is not None else None
        if kept is None or self._clock() - kept.at < self._reuse:
            return kept
        del self._kept[asker or ""]
        return None

    def announced(self, asker: str | None) -> Announcement | None:
        """Return what the asker's last answer announced if it still counts."""
        kept = self.of(asker)
        return None if kept is None else kept.announcement


def asker_of(principal: str, connection: SessionKey | None) -> str | None:
    """Return for whom answers are kept; None for who cannot be told from others.

    A `connection` tells its client from others over stdio only.
    """
    if principal == "stdio":
        return f"{principal} {connection}"
    return None if principal == _ANYBODY else principal
