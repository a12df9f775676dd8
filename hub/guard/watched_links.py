"""A disk that knows what was asked of it last, and that answers only so much in one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hub.guard.budget import Effort
from hub.paths.resolve import Entry, LinkReader

_CHARACTERS: Final = 4
"""So many of a link's text count as one question more."""


class WatchedLinks(LinkReader):
    """Asks `inner`, and keeps account of it: a question takes an `effort` of 1."""

    def __init__(self, inner: LinkReader, effort: Effort) -> None:
        self._inner = inner
        self.effort = effort
        self.last = ""

    def entry(self, path: str) -> Entry | None:
        self.last = path
        self.effort.spend(1)
        return self._inner.entry(path)

    def target(self, path: str) -> str:
        text = self._inner.target(path)
        self.effort.spend(1 + len(text) // _CHARACTERS)
        return text

    def names(self, path: str) -> Sequence[str]:
        names = self._inner.names(path)
        self.effort.spend(1 + len(names))
        return names
