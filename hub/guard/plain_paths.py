"""Quick check for plain paths below a root, and plain URLs: admit them without the full judge.

A plain path reads in one way only. It goes straight down from a root, through directories and no
link, so it ends inside the root; and no deny pattern or access rule matches it. A plain relative
path does so from each directory that it can start in. In a plain glob this is true of the names
before the first wildcard. A plain URL leads to another place, and has nothing that reads as a path.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct

from hub.guard.arguments import PathCandidate
from hub.guard.containment import CallContext
from hub.guard.keys.vocabulary import Kind
from hub.guard.own_files import OwnFileRules
from hub.guard.policy import DenyPatterns, Policy
from hub.guard.text.names import IGNORABLE
from hub.guard.text.uris import is_remote
from hub.paths.resolve import Entry, Flavour, LinkReader, is_inside, is_process_relative, parts_of
from hub.roots.roots import Root, RootSet, entry_of


class _Form(NamedTuple):
    """Patterns for text that reads in one way only: for ASCII, and for letters of any script."""

    ascii: re.Pattern[str]
    any: re.Pattern[str]

    def reads_once(self, text: str) -> bool:
        """Return whether `text` matches and has at most 512 characters."""
        if len(text) > _LONGEST:
            return False
        if text.isascii():
            return self.ascii.fullmatch(text) is not None
        if self.any.fullmatch(text) is None:
            return False
        return unicodedata.is_normalized("NFKC", text) and IGNORABLE.search(text) is None


def _form(text: str, wildcards: str = "") -> _Form:
    """Return the form for the pattern `text`, where N stands for names with slashes between."""

    def compiled(letters: str) -> re.Pattern[str]:
        signs = rf"{wildcards}{letters}@+()\[\]-"
        # A dot after a space could be the start of `../`.
        name = rf"(?!\.\.?(?:/|$))[.{signs}]++(?: [{signs}][.{signs}]*+)*"
        return re.compile(text.replace("N", rf"{name}(?:/{name})*"))

    return _Form(compiled("a-zA-Z0-9_"), compiled(r"\w"))


_LONGEST = 512
_ABSOLUTE = _form(r"/N/?")
# Text that begins with another sign could be an option, a list or a reference like `@file`.
_RELATIVE = _form(r"\.|(?:\./|(?=[.\w]))N/?")
_GLOB = _form(r"(?:/|\./|(?=[.\w*?]))N/?", wildcards="*?")
_SIMPLE = re.compile(r"(?:/[a-zA-Z0-9_][a-zA-Z0-9_.-]*+)+")
"""The simplest absolute path, which no child splits: most paths match, and this is quickest."""
_URI = "file:///"
"""The start of a URI before the names of its path; a plain URI has no percent-encoding."""
_URL = re.compile(r"[a-z][a-z0-9+.-]*+://[a-zA-Z0-9][\w-]*+(?:\.[\w-]++)*(?:/[\w-][\w.-]*+)*", re.A)
"""A URL with a host, and with nothing but plain names behind it."""
_PARTS = re.compile(r"[ @+()\[\]]|(?<![^/])-")
"""Characters of a plain path where some child may take it for a list, a flag or two words."""
_SIGNS = frozenset(" @+()[]")
_KINDS = 2
"""The most different `_SIGNS` in a value that this check handles."""
_NO_INODES = frozenset[tuple[int, int]]()
_WILD = re.compile(r"[*?(\[]")
_SEVERAL = re.compile(r"[?@+ ()\[\]]|\.\.")
"""Parts of a glob where some child may split the glob, or go up with `..`."""
# Looked up once: looking up an enum's member takes longer than the comparison with it.
_PATH, _WEAK, _NEUTRAL, _GLOB_KIND = Kind.PATH, Kind.WEAK, Kind.NEUTRAL, Kind.GLOB
_POSIX = Flavour.POSIX
_FEW = 8
"""The most directories that a relative path may start in."""
_MOST = 1000
"""The most paths in a call, if there is one start directory and few deny patterns."""
_PATTERNS = 32
"""So many pattern matches take as long as one path on the disk."""
_MUCH = 1024
"""The most pattern matches for one path: patterns times roots times start directories."""


def is_plain(text: str) -> bool:
    """Return whether `text` is a plain absolute path without a slash at its end."""
    return _ABSOLUTE.reads_once(text) and text[-1] != "/"


def reads_as_one_path(text: str) -> bool:
    """Return whether `text` is a plain absolute path that no child takes for anything else."""
    if _SIMPLE.fullmatch(text) is not None:
        return len(text) <= _LONGEST
    return is_plain(text) and _PARTS.search(text) is None


def is_plain_url(text: str) -> bool:
    """Return whether `text` is a URL of another place that no child takes for a path."""
    return _URL.fullmatch(text) is not None and is_remote(text)


def _fixed(glob: str) -> str | None:
    """Return the names of a glob before its first wildcard; None if it reads in several ways."""
    if not _GLOB.reads_once(glob):
        return None
    wild = _WILD.search(glob)
    if wild is None:
        return glob
    fixed = glob[: wild.start()].rpartition("/")[0]
    return None if glob[0] == "/" and not fixed else fixed


class _Folder(NamedTuple):
    """A directory among the roots; `inner` is its path with a slash, the start of all paths in it.

    `marks` are the directory itself and the bounds that contain it, each with its entry as long as
    nobody has moved it. `top` is the length of the topmost of these paths plus a slash: no link may
    follow after it. `own` are the closed places of the hub's own in, at or above the directory.
    """

    path: str
    inner: str
    marks: tuple[tuple[str, Entry], ...]
    top: int
    own: tuple[str, ...]


class _Exceptions(Struct, frozen=True):
    """The operator's exceptions: `deny` patterns below each of the `roots`, and `read_only` places.

    Roots and places are given by their components.
    """

    deny: DenyPatterns
    roots: tuple[tuple[str, ...], ...]
    read_only: tuple[tuple[str, ...], ...]
    flavour: Flavour

    def touches(self, path: str) -> bool:
        """Return whether an exception applies, or may apply, to a path."""
        parts, folded = parts_of(path, self.flavour), self.flavour is not _POSIX
        for place in self.read_only:
            if is_inside(parts, place) or is_inside(place, parts):
                return True
        for root in self.roots:
            if is_inside(parts, root) and self.deny.refuses(parts[len(root) :], folded=folded):
                return True
        return False


class PlainPathCheck(Struct, frozen=True):
    """The check for plain paths: only a link or a moved directory can be an objection to them.

    `folders` are the roots to check against. A relative path starts in each of the `bases`; there
    are none if they are too many or not plain themselves. `exceptions` are those of the operator,
    if any, `reach` the rules for the hub's own files. A call with more than `most` paths is left to
    the judge, which has a budget.
    """

    folders: tuple[_Folder, ...]
    bases: tuple[str, ...]
    exceptions: _Exceptions | None
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
        """Return the check for the roots in `context`; None if the policy needs the full judge.

        `bounds` are the roots that must be in place for these roots to apply: the ceilings, and the
        roots that the ceilings narrow.
        """
        roots = context.roots
        patterns = len(policy.deny.lines) * len(roots.roots)
        if policy.rewrite != "verbatim" or patterns > _MUCH:
            return None
        if policy.deny.brings_back or policy.deny.is_slow:
            return None
        folders = (root for root in roots.roots if _is_plain_root(root, policy))
        reach = None if policy.own is None else policy.own.rules_for(tool, writes=needs_write)
        bases = _bases(context, patterns)
        return PlainPathCheck(
            tuple(_folder(root, bounds, reach) for root in folders),
            bases,
            _exceptions(roots, policy, context.flavour, needs_write=needs_write),
            _MOST // (max(1, len(bases)) * (1 + patterns // _PATTERNS)),
            reach,
            context.flavour,
        )

    def is_for(self, tool: str, policy: Policy, *, needs_write: bool) -> bool:
        """Return whether this is the check for the tool, too, if it is one of the same policy."""
        own = policy.own
        return (None if own is None else own.rules_for(tool, writes=needs_write)) is self.reach

    def admits(self, candidates: Sequence[PathCandidate], links: LinkReader) -> bool:
        """Return whether all candidates are plain, and the paths straight down from a root.

        Of plain URLs only those count whose argument may be anything. Many are left to the judge.

        False is no refusal: the judge decides then.

        Raises:
            PathError: the disk does not say what is at a path.
        """
        if len(candidates) > self.most:
            return False
        paths: list[str] = []
        for candidate in candidates:
            kind, value = candidate.kind, candidate.value
            # What is weak and has a colon can be a mount, `host:container`.
            if not isinstance(value, str) or (kind is _WEAK and ":" in value):
                return False
            if kind is _NEUTRAL and is_plain_url(value):
                continue  # nothing in it reads as a path
            if kind is _PATH or kind is _WEAK or kind is _NEUTRAL:
                if not self._admits(value, links):
                    return False
            elif kind is not _GLOB_KIND or not self._admits_glob(value, links):
                return False
            paths.append(value)
        return len(paths) == 1 or self._admits_in_folders(paths, links)

    def _admits_in_folders(self, paths: Sequence[str], links: LinkReader) -> bool:
        """Return whether relative paths lead inside from a folder that another path names, too.

        More than one such folder is left to the judge: one may be named from the other.
        """
        relative = [path for path in paths if path[0] != "/" and ":" not in path]
        if not relative:
            return True
        if any(":" in path for path in paths):
            return False
        folders = {folder for path in paths for folder in self._folders_at(path, links)}
        if len(folders) > 1 or (folders and any(map(_PARTS.search, relative))):
            return False
        inner = [f"{folder}/{one}" for folder in folders for one in relative]
        if len(relative) > 1 and any(map(links.entry, inner)):
            return False
        return all(self._has(one, links) for one in inner)

    def _folders_at(self, path: str, links: LinkReader) -> list[str]:
        """Return the directories that a path names, without those that all paths may start in."""
        path = path.rstrip("/")
        places = [path] if path[:1] == "/" else [f"{base}/{path}" for base in self.bases]
        found = ((place, links.entry(place)) for place in places if place not in self.bases)
        return [place for place, entry in found if entry is not None and entry.kind == "directory"]

    def _admits(self, text: str, links: LinkReader) -> bool:
        if _SIMPLE.fullmatch(text) is not None and len(text) <= _LONGEST:
            return self._has(text, links)
        if text.startswith(_URI):
            text = text[len(_URI) - 1 :]
        is_absolute = text[:1] == "/"
        if not (_ABSOLUTE if is_absolute else _RELATIVE).reads_once(text):
            return False
        if not (self._has if is_absolute else self._admits_from_bases)(text, links):
            return False
        return _PARTS.search(text) is None or self._admits_parts(text, links)

    def _admits_from_bases(self, text: str, links: LinkReader) -> bool:
        return bool(self.bases) and all(self._has(f"{base}/{text}", links) for base in self.bases)

    def _admits_parts(self, text: str, links: LinkReader) -> bool:
        """Return whether the parts between spaces and other signs are plain paths, too.

        A text with more than two different signs is left to the judge.
        """
        signs = {sign for sign in text if sign in _SIGNS}
        if not self.bases or len(signs) > _KINDS or text[0] == "-" or "/-" in text:
            return False
        splits = ([text.split(sign) for sign in signs], [_PARTS.split(text)])
        seen = {part for split in splits for parts in split for part in parts[1:]}
        firsts = {parts[0] for split in splits for parts in split}
        if text[0] != "/":
            seen |= firsts
        elif not all(self._admits_start(one, links) for one in firsts):
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
        # Characters like `*` may be part of a real file name.
        return (self._has if glob[0] == "/" else self._admits_from_bases)(glob, links)

    def _admits_start(self, start: str, links: LinkReader) -> bool:
        if start[-3:] == "/..":
            return False
        return any(one.path.startswith(start) for one in self.folders) or self._has(start, links)

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
                return self.exceptions is None or not self.exceptions.touches(path)
        return False

    def _is_own(self, path: str, own: tuple[str, ...], links: LinkReader) -> bool:
        """Return whether a path is one of the hub's own files; text alone rules out most paths."""
        if self.reach is None:
            return False
        is_spelled_plainly = self.flavour is _POSIX and "/./" not in path and path[-2:] != "/."
        if is_spelled_plainly and not any(
            path.startswith(one) or one.startswith(path) for one in own
        ):
            return False
        return self.reach.has(path, parts_of(path, self.flavour), links)


def _bases(context: CallContext, patterns: int) -> tuple[str, ...]:
    """Return where a relative path may start; empty if there are too many or not all are plain.

    So it is, too, if the judge has to look for a path in a folder of the server's own.
    """
    bases = context.indexed().bases
    is_few = not context.near and len(bases) <= _FEW and len(bases) * patterns <= _MUCH
    return bases if is_few and all(map(is_plain, bases)) else ()


def _folder(root: Root, bounds: Sequence[Root], reach: OwnFileRules | None) -> _Folder:
    above = (bound for bound in bounds if bound.covers(root.parts))
    marks = {(one.path, entry_of(one)): None for one in (root, *above)}
    # If a bound is spelled differently, its length says nothing about this path.
    ends = (len(path) if root.path.startswith(path) else 0 for path, _ in marks)
    own = () if reach is None else reach.near(root.parts)
    near = tuple(f"/{'/'.join(parts)}" for parts in own)
    return _Folder(root.path, f"{root.path}/", tuple(marks), min(ends) + 1, near)


def _exceptions(
    roots: RootSet, policy: Policy, flavour: Flavour, *, needs_write: bool
) -> _Exceptions | None:
    rules = policy.access if needs_write else ()
    read_only = tuple(rule.parts for rule in rules if rule.access == "read")
    if not policy.deny.lines and not read_only:
        return None
    return _Exceptions(policy.deny, tuple(root.parts for root in roots.roots), read_only, flavour)


def _is_plain_root(root: Root, policy: Policy) -> bool:
    """Return whether a root is a directory with a plain path, and nothing in it is unsafe.

    Paths that differ from process to process count as unsafe.
    """
    if root.is_file or not is_plain(root.path) or is_process_relative(root.path):
        return False
    return policy.unsafe is None or not policy.unsafe.touches(root.parts)


def _is_straight(path: str, at: int, links: LinkReader, shut: frozenset[tuple[int, int]]) -> bool:
    """Return whether `path` passes only directories after `at` and ends at no link.

    A missing component is fine. `shut` are inodes of the hub's own files: none may be at the end.
    """
    while (end := path.find("/", at)) >= 0:
        entry = links.entry(path[:end])
        if entry is None:
            return True  # a missing component has nothing below it
        if entry.kind != "directory":
            return False
        at = end + 1
    if at == len(path):
        return True  # it ends in a slash
    entry = links.entry(path)
    if entry is None:
        return True
    return entry.kind != "link" and not (shut and (entry.device, entry.inode) in shut)
