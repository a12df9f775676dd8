"""Whether announced roots are still the places they were: looked at before each guarded call."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from hub.paths.resolve import Flavour, LinkReader, PathError, resolve
from hub.roots.roots import Rejected, Root, RootSet, entry_of


class RootCondition(Enum):
    """How a root stands."""

    PRESENT = "present"
    GONE = "Path is not accessible"
    REPLACED = "Path was replaced by another one since it was shared"


class RootPresence(Struct, frozen=True):
    """Roots in their order, each with its condition; only those that are present grant anything.

    A root that went grants again when something that is no link stands at the same place. One that
    was replaced behind our back grants again when the original is back, or when the client shares
    it anew. So no change of the tree ever makes a root mean another place than it did.
    """

    roots: tuple[tuple[Root, RootCondition], ...]

    @staticmethod
    def of(roots: RootSet) -> RootPresence:
        """Return the standing of roots that were just parsed."""
        return RootPresence(tuple((root, RootCondition.PRESENT) for root in roots.roots))

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
        """Return whether the very files and directories that grant something are in their places.

        One question a root, where `refresh` asks for each directory above it too.
        """
        if any(how is not RootCondition.PRESENT for _, how in self.roots):
            return self.refresh(links, flavour) is self
        try:
            return all(links.entry(root.path) == entry_of(root) for root, _ in self.roots)
        except PathError:
            return False

    def refresh(self, links: LinkReader, flavour: Flavour) -> RootPresence:
        """Look again; returns this very object if nothing is different."""
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
