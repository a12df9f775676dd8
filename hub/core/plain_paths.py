"""Plain paths below a root: what is admitted without being weighed, for nothing can speak against.

Such a path reads in one way only. It leads straight down from a directory that is shared, over
directories and no link, so that wherever it ends is inside; and no pattern or right of the
operator's is about it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct

from hub.core.claims import Claim
from hub.core.paths import (
    Entry,
    Flavour,
    LinkReader,
    is_inside,
    is_process_relative,
    parts_of,
)
from hub.core.policy import DenyPatterns, Policy
from hub.core.roots import Root, RootSet, entry_of
from hub.core.vocabulary import Kind

# Words of what never reads in two ways. After a space a dot could be the first of `../`.
_SIGNS = r"a-zA-Z0-9_@+()\[\]-"
_PLAIN = re.compile(rf"(?:/(?!\.\.?(?:/|$))[.{_SIGNS}]++(?: [{_SIGNS}][.{_SIGNS}]*+)*+)++")
# Found once.
_PATH, _WEAK, _NEUTRAL, _POSIX = Kind.PATH, Kind.WEAK, Kind.NEUTRAL, Flavour.POSIX
_LONGEST = 512
_MANY = 64
_MUCH = 1024
"""Patterns times roots that every path is held against."""


def is_plain(text: str) -> bool:
    """Return whether `text` is an absolute path, not long, that reads in one way only."""
    return len(text) <= _LONGEST and _PLAIN.fullmatch(text) is not None


class _Folder(NamedTuple):
    """A directory among the roots: its path with a slash behind.

    `marks` are the directory itself and those above it without which it would not be shared, each
    with what stands there as long as nobody has moved it. `top` is the length of the path of the
    uppermost with a slash behind: from there on no link may be on the way.
    """

    path: str
    marks: tuple[tuple[str, Entry], ...]
    top: int


class _Reserve(Struct, frozen=True):
    """What the operator keeps from a tool: below each of the `roots`, and where it may not write.

    Places are given by their components.
    """

    deny: DenyPatterns
    roots: tuple[tuple[str, ...], ...]
    read_only: tuple[tuple[str, ...], ...]
    flavour: Flavour

    def touches(self, path: str) -> bool:
        """Return whether a path is kept back, or may be."""
        parts, folded = parts_of(path, self.flavour), self.flavour is not _POSIX
        for place in self.read_only:
            if is_inside(parts, place):
                return True
        for root in self.roots:
            if is_inside(parts, root) and self.deny.refuses(parts[len(root) :], folded=folded):
                return True
        return False


class Ground(Struct, frozen=True):
    """Where nothing but a link, or a directory that was moved, can speak against a plain path.

    `reserve` is what the operator has kept from it, if anything.
    """

    folders: tuple[_Folder, ...]
    reserve: _Reserve | None = None

    @staticmethod
    def of(
        roots: RootSet,
        bounds: Sequence[Root],
        policy: Policy,
        *,
        needs_write: bool,
        flavour: Flavour,
    ) -> Ground | None:
        """Return the ground of `roots` within `bounds`; None where a policy has more to say."""
        if policy.rewrite != "verbatim" or len(policy.deny.lines) * len(roots.roots) > _MUCH:
            return None
        folders = (root for root in roots.roots if _is_ground(root, policy))
        reserve = _reserve(roots, policy, flavour, needs_write=needs_write)
        return Ground(tuple(_folder(root, bounds) for root in folders), reserve)

    def bears(self, claims: Sequence[Claim], links: LinkReader) -> bool:
        """Return whether all that is claimed are plain paths, not many, that lead straight down.

        Raises:
            PathError: the disk does not say what is there.
        """
        if len(claims) > _MANY:
            return False
        for claim in claims:
            kind, value = claim.kind, claim.value
            if kind is not _PATH and kind is not _WEAK and kind is not _NEUTRAL:
                return False
            if not isinstance(value, str) or not is_plain(value):
                return False
            if not self._has(value, links):
                return False
            if self.reserve is not None and self.reserve.touches(value):
                return False
        return True

    def _has(self, path: str, links: LinkReader) -> bool:
        for folder, marks, top in self.folders:
            if path.startswith(folder):
                for place, was in marks:
                    if links.entry(place) != was:
                        return False
                return _is_straight(path, top, links)
        return False


def _folder(root: Root, bounds: Sequence[Root]) -> _Folder:
    above = (bound for bound in bounds if bound.covers(root.parts))
    marks = {(one.path, entry_of(one)): None for one in (root, *above)}
    return _Folder(f"{root.path}/", tuple(marks), min(len(path) for path, _ in marks) + 1)


def _reserve(
    roots: RootSet, policy: Policy, flavour: Flavour, *, needs_write: bool
) -> _Reserve | None:
    rules = policy.access if needs_write else ()
    read_only = tuple(rule.parts for rule in rules if rule.access == "read")
    if not policy.deny and not read_only:
        return None
    return _Reserve(policy.deny, tuple(root.parts for root in roots.roots), read_only, flavour)


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
