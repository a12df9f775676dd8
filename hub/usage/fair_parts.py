"""Parts of something that all clients share: nobody takes so much that others get none."""

from __future__ import annotations

from collections.abc import Generator, Hashable
from contextlib import contextmanager
from typing import TypeAlias

Owner: TypeAlias = Hashable
"""Whose a part is: a principal, or an address where clients without a name share a principal."""


class FairParts:
    """Counts the parts of owners, `most` together. Each may have as much as it leaves for others.

    One owner alone gets half, two get a third each. So there is always room for one more, though
    nothing that was taken is ever taken back.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.taken = 0
        self._of: dict[Owner, int] = {}

    def of(self, owner: Owner) -> int:
        """Return how much an owner has."""
        return self._of.get(owner, 0)

    def take(self, owner: Owner, size: int = 1) -> bool:
        """Take so much if there is room for it in the owner's part; return whether there was."""
        has_room = self.has_room(owner, size)
        if has_room:
            self.add(owner, size)
        return has_room

    def has_room(self, owner: Owner, size: int = 1) -> bool:
        """Return whether an owner may take so much."""
        return self._of.get(owner, 0) + size <= self.most - self.taken - size

    def add(self, owner: Owner, size: int = 1) -> None:
        """Count so much as taken, for which there was room."""
        self.taken += size
        self._of[owner] = self._of.get(owner, 0) + size

    @contextmanager
    def held(self, owner: Owner) -> Generator[None]:
        """Count one as taken while the context lasts, for which there was room."""
        self.add(owner)
        try:
            yield
        finally:
            self.give(owner)

    def give(self, owner: Owner, size: int = 1) -> None:
        """Give so much back."""
        self.taken -= size
        left = self._of[owner] - size
        if left:
            self._of[owner] = left
        else:
            del self._of[owner]
