"""A disk that knows what was asked of it last, and that answers only so much in one call."""

from __future__ import annotations

from typing import Final

from hub.core.paths import Entry, LinkReader, PathError

MAX_EFFORT: Final = 1_000_000
"""How much one call may cost: about a microsecond each, whatever multiplies with what."""

_CHARACTERS: Final = 4
"""So many of a link's text count as one question more."""


class TooMuchError(PathError):
    """A call that would hold up all others."""

    def __init__(self) -> None:
        super().__init__("the call names more paths for these roots than are judged at once")


class WatchedLinks(LinkReader):
    """Asks `inner`, and keeps account of it."""

    def __init__(self, inner: LinkReader) -> None:
        self._inner = inner
        self._left = MAX_EFFORT
        self.last = ""

    def spend(self, effort: int) -> None:
        """Account for work that is not a question.

        Raises:
            TooMuchError: it was too much.
        """
        self._left -= effort
        if self._left < 0:
            raise TooMuchError

    def entry(self, path: str) -> Entry | None:
        self.last = path
        self._left -= 1
        if self._left < 0:
            raise TooMuchError
        return self._inner.entry(path)

    def target(self, path: str) -> str:
        text = self._inner.target(path)
        self.spend(1 + len(text) // _CHARACTERS)
        return text
