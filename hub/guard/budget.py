"""What it may cost to judge a call, so that no call holds up all others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from hub.paths.resolve import Entry, LinkReader, PathError


class TooMuchError(PathError):
    """It would cost too much to judge a call."""

    def __init__(
        self, reason: str = "the call names more paths for these roots than are judged at once"
    ) -> None:
        super().__init__(reason)


class Budget(Struct, frozen=True):
    """How much may be done for one call, whatever multiplies with what.

    `search` is the effort to find what is a path in the arguments, and `effort` that to follow
    them: about a microsecond each. `readings` may be made of them, which take fifty.
    """

    search: int
    readings: int
    effort: int


FULL_BUDGET = Budget(search=5_000_000, readings=20_000, effort=1_000_000)
"""What any call may cost: a second, or more where it comes with megabytes of arguments."""
INLINE_BUDGET = Budget(search=8000, readings=100, effort=5000)
"""What may be done where others wait meanwhile: some thousandths of a second."""


class Meter:
    """How much of one thing is left to be done for a call."""

    __slots__ = ("_reason", "left")

    def __init__(self, most: int, reason: str | None = None) -> None:
        self.left = most
        self._reason = reason

    @property
    def is_spent(self) -> bool:
        """Whether more than all was to be done."""
        return self.left < 0

    def spend(self, effort: int) -> None:
        """Account for what is about to be done.

        Raises:
            TooMuchError: it is too much.
        """
        self.left -= effort
        if self.left < 0:
            raise TooMuchError(self._reason) if self._reason else TooMuchError


_CHARACTERS: Final = 4
"""So many of a link's text count as one question more."""


class MeteredDisk(LinkReader):
    """Asks `inner`, and keeps account of it: a question takes an `effort` of 1."""

    def __init__(self, inner: LinkReader, effort: Meter) -> None:
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
