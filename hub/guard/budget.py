"""Limits on the work of judging one call, so that no call holds up all others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from hub.paths.resolve import Entry, LinkReader, PathError


class TooMuchError(PathError):
    """Judging the call would take more work than its budget allows."""

    def __init__(
        self, reason: str = "the call names too many paths to judge for these roots"
    ) -> None:
        super().__init__(reason)


class TooManyWaysError(PathError):
    """A string that has more readings than can be judged."""

    def __init__(self) -> None:
        super().__init__("it can be read in too many ways")


MAX_WAYS = 256
"""The most readings of one string."""


class Budget(Struct, frozen=True):
    """The most work that judging one call may take.

    `search` limits the work to find the paths in the arguments, `effort` the work to follow these
    paths. A unit of both is about a microsecond. `readings` limits how many readings are made of
    the paths; a reading takes about fifty microseconds.
    """

    search: int
    readings: int
    effort: int


FULL_BUDGET = Budget(search=5_000_000, readings=20_000, effort=1_000_000)
"""The limit for any call: about a second, or more if the arguments have megabytes."""
INLINE_BUDGET = Budget(search=8000, readings=100, effort=5000)
"""The limit while other calls wait for the event loop: some milliseconds."""


class Meter(Struct, eq=False):
    """Count down how much work of one sort may still be done for a call.

    `left` is below 0 once more work was requested than was left; `reason` is what the error says.
    """

    left: int
    reason: str | None = None

    def spend(self, effort: int, reason: str | None = None) -> None:
        """Subtract the effort of work that is about to be done.

        Raises:
            TooMuchError: less than `effort` was left; `reason` says more than that, if given.
        """
        self.left -= effort
        if self.left < 0:
            said = reason or self.reason
            raise TooMuchError(said) if said else TooMuchError


_CHARACTERS: Final = 4
"""So many characters of a link's target count as one more disk query."""


class MeteredDisk(Struct, eq=False):
    """A `LinkReader` that passes queries on to `inner` and spends `effort` on each, at least 1.

    Long link targets and listings cost more. `last` is the path of the latest `entry` query.
    """

    inner: LinkReader
    effort: Meter
    last: str = ""

    def entry(self, path: str) -> Entry | None:
        self.last = path
        self.effort.spend(1)
        return self.inner.entry(path)

    def target(self, path: str) -> str:
        text = self.inner.target(path)
        self.effort.spend(1 + len(text) // _CHARACTERS)
        return text

    def names(self, path: str) -> Sequence[str]:
        names = self.inner.names(path)
        self.effort.spend(1 + len(names))
        return names

    def can_write(self, path: str) -> bool:
        self.effort.spend(1)
        return self.inner.can_write(path)
