"""Check before each guarded call that the roots still exist and were not moved or replaced."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from hub.paths.resolve import Flavour, LinkReader, PathError, resolve
from hub.roots.roots import Rejected, Root, RootSet, entry_of


class RootCondition(Enum):
    """Whether a root is in place; the value of the other members is the reason for the client."""

    PRESENT = "present"
    GONE = "Path is not accessible"
    REPLACED = "Path was replaced by another one since it was shared"


class RootPresence(Struct, frozen=True):
    """Roots in the client's order, each with its condition; only `PRESENT` roots grant access.

    A root that is `GONE` grants access again when a directory (or file) that is no link is back at
    its path. A root that is `REPLACED` grants access again when the original is back, or when the
    client announces the root anew. So no change on disk makes a root mean a different place.
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
        looked = tuple(_look(root, how, links, flavour) for root, how in self.roots)
        return self if looked == self.roots else RootPresence(looked)


def _look(
    root: Root, how: RootCondition, links: LinkReader, flavour: Flavour
) -> tuple[Root, RootCondition]:
    try:
        moved = resolve(root.path, cwd=None, links=links, flavour=flavour) != root.path
        found = links.entry(root.path)
    except PathError:
        return root, RootCondition.GONE
    if found is None:
        return root, RootCondition.GONE
    if moved or (found.kind == "file") is not root.is_file:
        return root, RootCondition.REPLACED
    if (found.device, found.inode) == (root.device, root.inode):
        return root, RootCondition.PRESENT
    if how is RootCondition.GONE:
        return replace(root, device=found.device, inode=found.inode), RootCondition.PRESENT
    return root, RootCondition.REPLACED
