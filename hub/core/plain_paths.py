"""Plain paths below a root: what is admitted without being weighed, for nothing can speak against.

Such a path reads in one way only. It leads straight down from a directory that is shared, over
directories and no link, so that wherever it ends is inside.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from hub.core.claims import Claim
from hub.core.paths import Entry, LinkReader, is_process_relative
from hub.core.policy import Policy
from hub.core.roots import Root, RootSet, entry_of
from hub.core.vocabulary import Kind

# Without anything that reads in two ways.
_PLAIN = re.compile(r"(?:/(?!\.\.?(?:/|$))[\w.-]+)+", re.ASCII)
_LONGEST = 512
_MANY = 64


def is_plain(text: str) -> bool:
    """Return whether `text` is an absolute path, not long, that reads in one way only."""
    return len(text) <= _LONGEST and _PLAIN.fullmatch(text) is not None


class Ground(Struct, frozen=True):
    """Where nothing but a link, or a directory that was moved, can speak against a plain path.

    `marks` are directories that bound the roots from outside, and what stands there as long as they
    are where they were; `folders` are those directories among the roots, each with a slash behind.
    """

    marks: tuple[tuple[str, Entry], ...]
    folders: tuple[tuple[str, Entry], ...]

    @staticmethod
    def of(
        roots: RootSet, bounds: Iterable[Root], policy: Policy, *, needs_write: bool
    ) -> Ground | None:
        """Return the ground of `roots` within `bounds`; None where a policy has more to say."""
        restricts = policy.deny or (policy.access and needs_write)
        if restricts or policy.rewrite != "verbatim":
            return None
        folders = (root for root in roots.roots if _is_ground(root, policy))
        return Ground(
            marks=tuple({(root.path, entry_of(root)): None for root in bounds}),
            folders=tuple((f"{root.path}/", entry_of(root)) for root in folders),
        )

    def bears(self, claims: Sequence[Claim], links: LinkReader) -> bool:
        """Return whether all that is claimed are plain paths, not many, that lead straight down.

        Raises:
            PathError: the disk does not say what is there.
        """
        for path, was in self.marks:
            if links.entry(path) != was:
                return False
        if len(claims) > _MANY:
            return False
        for _, _, kind, value, _ in claims:
            if kind is not Kind.PATH or not isinstance(value, str) or not is_plain(value):
                return False
            if not self._has(value, links):
                return False
        return True

    def _has(self, path: str, links: LinkReader) -> bool:
        for folder, was in self.folders:
            if path.startswith(folder):
                return links.entry(folder[:-1]) == was and _is_straight(path, len(folder), links)
        return False


def _is_ground(root: Root, policy: Policy) -> bool:
    """Return whether everything below a root may be reached, as far as its name tells."""
    if root.is_file or not is_plain(root.path) or is_process_relative(root.path):
        return False
    return policy.unsafe is None or not policy.unsafe.touches(root.parts)


def _is_straight(path: str, at: int, links: LinkReader) -> bool:
    """Return whether no link, and no file, is on the way down from a directory to a path's end."""
    while (end := path.find("/", at)) >= 0:
        entry = links.entry(path[:end])
        if entry is None:
            return True  # nothing is there yet, nor below it
        if entry.kind != "directory":
            return False
        at = end + 1
    entry = links.entry(path)
    return entry is None or entry.kind != "link"
