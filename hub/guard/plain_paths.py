"""Plain paths below a root: what is admitted without being weighed, for nothing can speak against.

Such a path reads in one way only. It leads straight down from a directory that is shared, over
directories and no link, so that wherever it ends is inside; and no pattern or right of the
operator's is about it. A relative one does so from each directory that it may start in; of a glob
that holds for the names before its first wildcard.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct

from hub.guard.arguments import PathCandidate
from hub.guard.containment import CallContext, RootIndex
from hub.guard.keys.vocabulary import Kind
from hub.guard.own_files import OwnFileRules
from hub.guard.policy import DenyPatterns, Policy
from hub.guard.text.readings import IGNORABLE
from hub.paths.resolve import (
    Entry,
    Flavour,
    LinkReader,
    is_inside,
    is_process_relative,
    parts_of,
)
from hub.roots.roots import Root, RootSet, entry_of


class _Form(NamedTuple):
    """How something looks that never reads in two ways: in ASCII, and in letters of any script."""

    ascii: re.Pattern[str]
    any: re.Pattern[str]

    def reads_once(self, text: str) -> bool:
        """Return whether `text` looks so, and is not long."""
        if len(text) > _LONGEST:
            return False
        if text.isascii():
            return self.ascii.fullmatch(text) is not None
        if self.any.fullmatch(text) is None:
            return False
        return unicodedata.is_normalized("NFKC", text) and IGNORABLE.search(text) is None


def _form(text: str, wildcards: str = "") -> _Form:
    """Return the form of a pattern in which N stands for names with slashes between."""

    def compiled(letters: str) -> re.Pattern[str]:
        signs = rf"{wildcards}{letters}@+()\[\]-"
        # After a space a dot could be the first of `../`.
        name = rf"(?!\.\.?(?:/|$))[.{signs}]++(?: [{signs}][.{signs}]*+)*+"
        return re.compile(text.replace("N", rf"{name}(?:/{name})*+"))

    return _Form(compiled("a-zA-Z0-9_"), compiled(r"\w"))


_LONGEST = 512
_ABSOLUTE = _form(r"/N/?")
# What begins with another sign could be an option, a list, or marked for somebody else.
_RELATIVE = _form(r"\.|(?:\./|(?=[.\w]))N/?")
_GLOB = _form(r"(?:/|\./|(?=[.\w*?]))N/?", wildcards="*?")
_SIMPLE = re.compile(r"(?:/[a-zA-Z0-9_][a-zA-Z0-9_.-]*+)++")
"""An absolute path that nobody takes apart: most are, and that is found out the soonest."""
_URI = "file:///"
"""What comes before the names of a path in a URI; nothing is encoded in a plain one."""
_PARTS = re.compile(r"[ @+()\[\]]|(?<![^/])-")
"""What some child takes a value apart at, of the characters of a plain path."""
_SIGNS = frozenset(" @+()[]")
_KINDS = 2
_NO_INODES = frozenset[tuple[int, int]]()
_WILD = re.compile(r"[*?(\[]")
_SEVERAL = re.compile(r"[?@+ ()\[\]]|\.\.")
"""What in a pattern has some child take it apart, or climb."""
# Found once.
_PATH, _WEAK, _NEUTRAL, _GLOB_KIND = Kind.PATH, Kind.WEAK, Kind.NEUTRAL, Kind.GLOB
_POSIX = Flavour.POSIX
_FEW = 8
_MOST = 1000
"""Paths that are looked for, each from one place and against few patterns."""
_PATTERNS = 32
"""Patterns that take as long as a path that is looked for."""
_MUCH = 1024
"""Patterns times roots that every path is held against, from wherever it may start."""


def is_plain(text: str) -> bool:
    """Return whether `text` is an absolute path that reads in one way only, without end slash."""
    return _ABSOLUTE.reads_once(text) and text[-1] != "/"


def reads_once(text: str) -> bool:
    """Return whether nobody takes a plain path for a list, a flag or two words."""
    return _PARTS.search(text) is None


def _fixed(glob: str) -> str | None:
    """Return what of a glob stands before its first wildcard; None if it reads in several ways."""
    if not _GLOB.reads_once(glob):
        return None
    wild = _WILD.search(glob)
    if wild is None:
        return glob
    fixed = glob[: wild.start()].rpartition("/")[0]
    return None if glob[0] == "/" and not fixed else fixed


class _Folder(NamedTuple):
    """A directory among the roots; `inner` is what all paths in it begin with.

    `marks` are the directory itself and those above it without which it would not be shared, each
    with what stands there as long as nobody has moved it. `top` is the length of the path of the
    uppermost with a slash behind: from there on no link may be on the way. `own` are the places of
    the hub's own in it, or around it.
    """

    path: str
    inner: str
    marks: tuple[tuple[str, Entry], ...]
    top: int
    own: tuple[str, ...]


class _Exceptions(Struct, frozen=True):
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


class PlainPathCheck(Struct, frozen=True):
    """Where nothing but a link, or a directory that was moved, can speak against a plain path.

    A relative path starts at each of the `bases`, if those are few and plain paths themselves.
    `reserve` is what the operator has kept back, if anything, and `reach` says what is the hub's
    own. More than `most` paths in a call are left to who keeps account.
    """

    folders: tuple[_Folder, ...]
    bases: tuple[str, ...]
    reserve: _Exceptions | None
    most: int
    reach: OwnFileRules | None = None
    flavour: Flavour = Flavour.POSIX

    @staticmethod
    def of(
        context: CallContext,
        bounds: Sequence[Root],
        policy: Policy,
        *,
        needs_write: bool,
        tool: str = "",
    ) -> PlainPathCheck | None:
        """Return the ground of some roots within `bounds`; None where a policy has more to say."""
        roots = context.roots
        patterns = len(policy.deny.lines) * len(roots.roots)
        if policy.rewrite != "verbatim" or patterns > _MUCH or policy.deny.brings_back:
            return None
        folders = (root for root in roots.roots if _is_ground(root, policy))
        reach = None if policy.own is None else policy.own.rules_for(tool, writes=needs_write)
        bases = _bases(context, patterns)
        return PlainPathCheck(
            tuple(_folder(root, bounds, reach) for root in folders),
            bases,
            _reserve(roots, policy, context.flavour, needs_write=needs_write),
            _MOST // (max(1, len(bases)) * (1 + patterns // _PATTERNS)),
            reach,
            context.flavour,
        )

    def admits(self, find_candidates: Sequence[PathCandidate], links: LinkReader) -> bool:
        """Return whether all that is claimed are plain paths, not many, that lead straight down.

        Raises:
            PathError: the disk does not say what is there.
        """
        if len(find_candidates) > self.most:
            return False
        for candidate in find_candidates:
            kind, value = candidate.kind, candidate.value
            if not isinstance(value, str):
                return False
            if kind is _WEAK and ":" in value:
                return False  # it can be two places, one mounted at the other
            if kind is _PATH or kind is _WEAK or kind is _NEUTRAL:
                if not self._admits(value, links):
                    return False
            elif kind is not _GLOB_KIND or not self._admits_glob(value, links):
                return False
        return True

    def _admits(self, text: str, links: LinkReader) -> bool:
        if _SIMPLE.fullmatch(text) is not None and len(text) <= _LONGEST:
            return self._has(text, links)
        if not text.startswith("/"):
            if not text.startswith(_URI):
                return self._admits_relative(text, links)
            text = text[len(_URI) - 1 :]
        if not _ABSOLUTE.reads_once(text) or not self._has(text, links):
            return False
        return reads_once(text) or self._admits_parts(text, links)

    def _admits_relative(self, text: str, links: LinkReader) -> bool:
        if not self.bases or not _RELATIVE.reads_once(text):
            return False
        if not self._admits_from_bases(text, links):
            return False
        return reads_once(text) or self._admits_parts(text, links)

    def _admits_from_bases(self, text: str, links: LinkReader) -> bool:
        return all(self._has(f"{base}/{text}", links) for base in self.bases)

    def _admits_parts(self, text: str, links: LinkReader) -> bool:
        """Return whether what stands between spaces and the like leads straight down, too.

        A text with signs of more than two kinds is left to the judge.
        """
        signs = {sign for sign in text if sign in _SIGNS}
        if not self.bases or len(signs) > _KINDS or text[0] == "-" or "/-" in text:
            return False
        splits = ([text.split(sign) for sign in signs], [_PARTS.split(text)])
        seen = {part for split in splits for parts in split for part in parts[1:]}
        firsts = {parts[0] for split in splits for parts in split}
        if text[0] != "/":
            seen |= firsts
        elif not all(self._is_above_a_folder(one) or self._has(one, links) for one in firsts):
            return False
        return all(self._admits_part(part, links) for part in seen if part)

    def _admits_part(self, part: str, links: LinkReader) -> bool:
        if part[0] in "/-" or part == "." or ".." in part.split("/"):
            return False
        return self._admits_from_bases(part, links)

    def _admits_glob(self, glob: str, links: LinkReader) -> bool:
        fixed = _fixed(glob)
        if fixed is None or not self._admits(fixed or ".", links):
            return False
        if fixed == glob:
            return True
        if _SEVERAL.search(glob, len(fixed)):
            return False
        # The signs of a wildcard may be those of a name.
        if glob[0] == "/":
            return self._has(glob, links)
        return bool(self.bases) and self._admits_from_bases(glob, links)

    def _is_above_a_folder(self, path: str) -> bool:
        return any(folder.path.startswith(path) for folder in self.folders)

    def _has(self, path: str, links: LinkReader) -> bool:
        for folder, inner, marks, top, own in self.folders:
            if path.startswith(inner) or path == folder:
                for place, was in marks:
                    if links.entry(place) != was:
                        return False
                shut = _NO_INODES if self.reach is None else self.reach.shut_inodes()
                if not _is_straight(path, top, links, shut):
                    return False
                if own and self._is_own(path, own, links):
                    return False
                return self.reserve is None or not self.reserve.touches(path)
        return False

    def _is_own(self, path: str, own: tuple[str, ...], links: LinkReader) -> bool:
        """Return whether a path is one of the hub's own files; most differ from all at sight."""
        if self.reach is None:
            return False
        is_spelled_plainly = self.flavour is _POSIX and "/./" not in path and path[-2:] != "/."
        if is_spelled_plainly and not any(
            path.startswith(one) or one.startswith(path) for one in own
        ):
            return False
        return self.reach.has(path, parts_of(path, self.flavour), links)


def _bases(context: CallContext, patterns: int) -> tuple[str, ...]:
    """Return where a relative path may start; nowhere if not all of it can be vouched for."""
    bases = (context.index or RootIndex.of(context.roots, context.cwd)).bases
    is_few = len(bases) <= _FEW and len(bases) * patterns <= _MUCH
    return bases if is_few and all(map(is_plain, bases)) else ()


def _folder(root: Root, bounds: Sequence[Root], reach: OwnFileRules | None) -> _Folder:
    above = (bound for bound in bounds if bound.covers(root.parts))
    marks = {(one.path, entry_of(one)): None for one in (root, *above)}
    # One that is spelled otherwise does not tell where in this path it ends.
    ends = (len(path) if root.path.startswith(path) else 0 for path, _ in marks)
    own = () if reach is None else reach.near(root.parts)
    near = tuple(f"/{'/'.join(parts)}" for parts in own)
    return _Folder(root.path, f"{root.path}/", tuple(marks), min(ends) + 1, near)


def _reserve(
    roots: RootSet, policy: Policy, flavour: Flavour, *, needs_write: bool
) -> _Exceptions | None:
    rules = policy.access if needs_write else ()
    read_only = tuple(rule.parts for rule in rules if rule.access == "read")
    if not policy.deny and not read_only:
        return None
    return _Exceptions(policy.deny, tuple(root.parts for root in roots.roots), read_only, flavour)


def _is_ground(root: Root, policy: Policy) -> bool:
    """Return whether everything below a root may be reached, as far as its name tells."""
    if root.is_file or not is_plain(root.path) or is_process_relative(root.path):
        return False
    return policy.unsafe is None or not policy.unsafe.touches(root.parts)


def _is_straight(path: str, at: int, links: LinkReader, shut: frozenset[tuple[int, int]]) -> bool:
    """Return whether no link, and no file, is on the way down from a directory to a path's end.

    Nor what is `shut` at its end.
    """
    while (end := path.find("/", at)) >= 0:
        entry = links.entry(path[:end])
        if entry is None:
            return True  # nothing is there yet, nor below it
        if entry.kind != "directory":
            return False
        at = end + 1
    if at == len(path):
        return True  # it ends in a slash
    entry = links.entry(path)
    if entry is None:
        return True
    return entry.kind != "link" and not (shut and (entry.device, entry.inode) in shut)
