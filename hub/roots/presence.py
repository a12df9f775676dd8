"""Check before each guarded call that the roots still exist and were not moved or replaced."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from msgspec import Struct

from hub.paths.resolve import Flavour, LinkReader, PathError, resolve
from hub.roots.roots import Rejected, Root, RootSet, entry_of


class RootCondition(Enum):
    """Whether a root is in place; the value of the other members is the reason for the client."""

    PRESENT = "present"
    GONE = "Path is not accessible"
    REPLACED = "Path was replaced by another one since it was shared"


class RootPresence(Struct, frozen=True):
    """Roots in the client's order, each with its condition; only `PRESENT` roots grant access.

    One that is `GONE` or `REPLACED` grants access again when the original is back, or when it is
    announced anew. So no change on disk makes a root mean a different place.
    """

    roots: tuple[tuple[Root, RootCondition], ...]

    @staticmethod
    def of(roots: Iterable[Root]) -> RootPresence:
        """Return the presence of roots that were just parsed: all of them `PRESENT`."""
        return RootPresence(tuple((root, RootCondition.PRESENT) for root in roots))

    @property
    def present(self) -> RootSet:
        return RootSet(tuple(root for root, how in self.roots if how is RootCondition.PRESENT))

    @property
    def absent(self) -> tuple[Rejected, ...]:
        return tuple(
            Rejected(root.uri, how.value)
            for root, how in self.roots
            if how is not RootCondition.PRESENT
        )

    def is_unchanged(self, links: LinkReader, flavour: Flavour) -> bool:
        """Return whether each root that grants access is still the same file at the same path.

        One disk query per root, where `refresh` also asks for each directory above the root. If a
        root is not `PRESENT`, `refresh` is called: true if no condition changed.
        """
        if any(how is not RootCondition.PRESENT for _, how in self.roots):
            return self.refresh(links, flavour) is self
        try:
            return all(links.entry(root.path) == entry_of(root) for root, _ in self.roots)
        except PathError:
            return False

    def refresh(self, links: LinkReader, flavour: Flavour) -> RootPresence:
        """Look at all roots again; return this same object if no condition changed."""
        looked = tuple((root, _condition(root, links, flavour)) for root, _ in self.roots)
        return self if looked == self.roots else RootPresence(looked)


def _condition(root: Root, links: LinkReader, flavour: Flavour) -> RootCondition:
    try:
        is_moved = resolve(root.path, cwd=None, links=links, flavour=flavour) != root.path
        found = links.entry(root.path)
    except PathError:
        return RootCondition.GONE
    if found is None:
        return RootCondition.GONE
    is_same = not is_moved and found == entry_of(root)
    return RootCondition.PRESENT if is_same else RootCondition.REPLACED
