"""Cache of modern clients' roots for their next requests, if the operator sets `roots.reuse`.

Without `roots.reuse`, an answer is used for its own request only. Roots are kept for an
authenticated principal or for one stdio connection; other clients cannot be told apart safely.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from hub.roots.roots import Announcement
from hub.values import LOCAL, STDIO, SessionKey

MAX_KEPT: Final = 1024
"""Number of clients whose roots are kept; the oldest are dropped first."""


class KeptAnswer(Struct, frozen=True):
    """The roots that a client announced, and when (seconds of the hub's clock)."""

    announcement: Announcement
    at: float


class KeptRoots:
    """The newest answer of each client (`caller`), kept for `reuse()` seconds; 0 keeps none."""

    def __init__(
        self, reuse: Callable[[], float], clock: Callable[[], float], *, max_kept: int = MAX_KEPT
    ) -> None:
        self._max_kept = max_kept
        self._reuse = reuse
        self._clock = clock
        self._kept: dict[str, KeptAnswer] = {}

    def keep(self, caller: str | None, announcement: Announcement) -> None:
        """Keep an answer; it replaces the last one of the same `caller`."""
        if caller is None or not self._reuse():
            return
        self._kept.pop(caller, None)
        while len(self._kept) >= self._max_kept:
            del self._kept[next(iter(self._kept))]
        self._kept[caller] = KeptAnswer(announcement, self._clock())

    def of(self, caller: str | None) -> KeptAnswer | None:
        """Return the last answer of `caller`; None if there is none or it is too old."""
        kept = self._kept.get(caller) if caller is not None else None
        if kept is None or self._clock() - kept.at < self._reuse():
            return kept
        del self._kept[caller or ""]
        return None

    def announced(self, caller: str | None) -> Announcement | None:
        """Return the roots in the last answer of `caller`; None as `of`."""
        kept = self.of(caller)
        return None if kept is None else kept.announcement


def principal_key_of(principal: str, connection: SessionKey | None) -> str | None:
    """Return the key under which a client's answers are kept; None if it is not identifiable.

    Only over stdio does the `connection` identify the client.
    """
    if principal == STDIO:
        return f"{principal} {connection}"
    return None if principal == LOCAL else principal
