"""Judges one value: each way to read it as a path, where that leads, and what speaks against it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

from hub.core.claims import Claim
from hub.core.commands import words_of
from hub.core.naming import is_revision
from hub.core.paths import (
    PATH_MAX,
    DeadEndError,
    Entry,
    Flavour,
    LinkReader,
    PathError,
    collapse,
    parts_of,
    resolve,
    split,
)
from hub.core.policy import Policy
from hub.core.readings import Reader, is_local_uri, is_remote, readings
from hub.core.roots import RootSet
from hub.core.vocabulary import Kind

OUTSIDE = "outside the allowed roots boundaries"
MAX_WEIGHED = 20_000

_DOUBTS = (
    (re.compile(r"[\x00-\x1f\x7f]"), "it contains a control character"),
    (re.compile(r"[\ud800-\udfff]"), "it contains half of a character"),
    (re.compile(r"\$\(|`|\$env:|\$\{\w*[^\w}]", re.I), "it is a substitution"),
)
_USERS_HOME = re.compile(r"~(?:[+-]|\d+|[A-Za-z_][\w.-]*)(?:[/\\]|$)")
_SUSPECT = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff$`~]")
_WILDCARD = re.compile(r"[*?\[{(|^$]")
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_SIGIL = re.compile(r"\s*(?:[/\\~.-]|[A-Za-z]:[\\/])")
_FEW_WORDS = 4


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The world that one call is judged in: what its client shares and where its child runs.

    `enforcing` False: no roots are in force for this client; only the operator's patterns are. `links`
    should remember what it was told for as long as one call is judged, and no longer.
    """

    roots: RootSet
    cwd: str | None
    env: Mapping[str, str]
    links: LinkReader
    flavour: Flavour
    enforcing: bool = True


@dataclass(frozen=True, slots=True)
class Weighed:
    """One reading: the path, how it comes about, where it leads, and what speaks against it."""

    reading: str
    how: str
    leads_to: str | None
    objection: str | None


class Judge:
    """Weighs the claims of one call. Not to be kept: what it asked the disk may change."""

    def __init__(self, around: Surroundings, policy: Policy, *, needs_write: bool) -> None:
        self._around = around
        self._policy = policy
        self._needs_write = needs_write
        self._flavour = around.flavour
        self._posix = around.flavour is not Flavour.WINDOWS
        self._reader = Reader(around.env, around.flavour)
        self._bases = _bases(around)
        self._links = around.links
        if policy.symlinks == "deny":
            self._links = _NoLinksBelow(around.links, around.roots, around.flavour)
        self._weighed = 0

    def objection(self, claim: Claim) -> str | None:
        """Return the first thing that speaks against a value."""
        for weighed in self.weigh(claim):
            if weighed.objection is not None:
                return weighed.objection
        return None

    def weigh(self, claim: Claim) -> Iterator[Weighed]:
        """Yield each reading of a value and where it leads."""
        value = claim.value
        if not isinstance(value, str):
            yield Weighed(_shown(value), "as given", None, "a number is not a path")
            return
        if self._policy.refuse_options and value[0] == "-" and is_revision(claim.key):
            yield Weighed(value, "as given", None, "it would be an option, not a revision")
            return
        try:
            for text, how, kind in self._texts(claim.kind, value):
                self._weighed += 1
                if self._weighed > MAX_WEIGHED:
                    raise PathError("there is too much to judge")
                yield from self._weigh_text(text, how, kind)
        except PathError as exc:
            yield Weighed(value, "as given", None, exc.reason)

    def _texts(self, kind: Kind, value: str) -> Iterator[tuple[str, str, Kind]]:
        if kind is Kind.COMMAND or (kind in _BY_SHAPE and value[0] == "-" and " " in value):
            for word in words_of(value, starts=kind is Kind.COMMAND):
                yield from self._readings(word, Kind.NEUTRAL, self._reader)
        elif kind is Kind.PATH:
            yield from self._readings(value, kind, self._reader)
        elif is_local_uri(value):
            yield from self._readings(value, Kind.PATH, self._reader)
        elif len(value) < PATH_MAX and not is_remote(value):
            prose = "\n" in value or (
                not _SIGIL.match(value) and len(value.split(None, _FEW_WORDS)) >= _FEW_WORDS
            )
            reader = replace(self._reader, whole=True) if prose else self._reader
            yield from self._readings(value, kind, reader)

    def _readings(self, text: str, kind: Kind, reader: Reader) -> Iterator[tuple[str, str, Kind]]:
        for reading, how in readings(text, reader).items():
            yield reading, how, kind

    def _weigh_text(self, text: str, how: str, kind: Kind) -> Iterator[Weighed]:
        doubt = _doubt(text, kind)
        if doubt is not None:
            yield Weighed(text, how, None, doubt)
        elif kind is Kind.PATH:
            if text.strip():
                yield from self._follow(text, how, strict=True)
        elif kind is Kind.GLOB:
            yield from self._weigh_glob(text, how)
        elif self._is_meant(text, kind):
            yield from self._follow(text, how, strict=False)

    def _weigh_glob(self, text: str, how: str) -> Iterator[Weighed]:
        names = (text if self._posix else text.replace("\\", "/")).split("/")
        wild = next((n for n, name in enumerate(names) if _WILDCARD.search(name)), len(names))
        if ".." in names[wild:]:
            yield Weighed(text, how, None, "it has '..' after a wildcard")
            return
        prefix = "/".join(names[:wild])
        if text[:1] == "/" and not prefix:
            prefix = "/"
        if prefix and (prefix == "/" or self._is_meant(prefix, Kind.NEUTRAL) or text[:1] != "/"):
            yield from self._follow(prefix, how, strict=False)

    def _is_meant(self, text: str, kind: Kind) -> bool:
        """Return whether a value under a key that need not be a path is meant as one."""
        if not self._posix and (_DRIVE.match(text) or text[:1] == "\\"):
            return True
        if text[:1] != "/":
            return kind is Kind.WEAK or "/" in text or ".." in text or "\\" in text
        if not self._posix or (kind is Kind.WEAK and text[:2] != "//"):
            return kind is Kind.WEAK
        first = text.lstrip("/").partition("/")[0]
        return first == ".." or (first not in {"", "."} and self._exists("/" + first))

    def _exists(self, path: str) -> bool:
        try:
            return self._links.entry(path) is not None
        except PathError:
            # A name that is too long for any file is not there; what else fails may be.
            return len(path.rpartition("/")[2].encode("utf-8", "replace")) <= 255  # noqa: PLR2004

    def _follow(self, text: str, how: str, *, strict: bool) -> Iterator[Weighed]:
        if self._posix and _DRIVE.match(text):
            if strict and self._around.enforcing:
                yield Weighed(text, how, None, OUTSIDE)
            return
        if split(text, self._flavour)[0]:
            yield from self._lead(text, how, None, strict=True)
            return
        if not self._bases and self._around.enforcing and (strict or ".." in text):
            yield Weighed(text, how, None, OUTSIDE)
        for base in self._bases:
            if strict or self._is_near(text, base):
                yield from self._lead(text, how, base, strict=strict and base == self._around.cwd)

    def _is_near(self, text: str, base: str) -> bool:
        """Return whether a relative value can lead anywhere but to a new name below `base`."""
        if ".." in text or not self._posix:
            return True
        return self._exists(f"{base}/{text.partition('/')[0]}")

    def _lead(self, text: str, how: str, base: str | None, *, strict: bool) -> Iterator[Weighed]:
        """Weigh where the kernel goes, and where a child goes that removes `..` before it looks."""
        lexical = collapse(text, cwd=base, flavour=self._flavour)
        for path in (text,) if lexical is None else (text, lexical):
            try:
                found = resolve(path, cwd=base, links=self._links, flavour=self._flavour)
            except DeadEndError:
                # The kernel goes nowhere; it is the lexical reading that counts.
                if strict or lexical is None:
                    raise
                continue
            yield Weighed(text, how, found, self._speaks_against(found))
            if lexical is not None and self._policy.deny:
                yield Weighed(lexical, how, lexical, self._speaks_against(lexical))

    def _speaks_against(self, path: str) -> str | None:
        parts = parts_of(path, self._flavour)
        policy, around = self._policy, self._around
        root = around.roots.covers(parts)
        if root is None and around.enforcing:
            return OUTSIDE
        if around.enforcing and policy.unsafe is not None and policy.unsafe.refuses(parts):
            return "it is not safe for sharing"
        if policy.deny and self._is_denied(parts):
            return "the operator denies it"
        if self._needs_write and policy.access and policy.access_at(parts) == "read":
            return "it may only be read"
        return None

    def _is_denied(self, parts: tuple[str, ...]) -> bool:
        folded = self._flavour is not Flavour.POSIX
        roots = [root for root in self._around.roots.roots if root.covers(parts)]
        starts = [len(root.parts) for root in roots] or [0]
        return any(self._policy.deny.refuses(parts[start:], folded=folded) for start in starts)


_BY_SHAPE = frozenset({Kind.NEUTRAL, Kind.WEAK})


class _NoLinksBelow(LinkReader):
    """A disk on which links below a root lead nowhere."""

    def __init__(self, links: LinkReader, roots: RootSet, flavour: Flavour) -> None:
        self._links = links
        self._roots = roots
        self._flavour = flavour

    def entry(self, path: str) -> Entry | None:
        found = self._links.entry(path)
        if found is not None and found.kind == "link":
            if self._roots.covers(parts_of(path, self._flavour)) is not None:
                raise PathError("symbolic links are not followed here")
        return found

    def target(self, path: str) -> str:
        return self._links.target(path)


def _bases(around: Surroundings) -> tuple[str, ...]:
    directories = [root.path for root in around.roots.roots if not root.is_file]
    return tuple(dict.fromkeys([around.cwd, *directories] if around.cwd else directories))


def _doubt(text: str, kind: Kind) -> str | None:
    if not _SUSPECT.search(text):
        return None
    if _USERS_HOME.match(text) and ("/" in text or kind is Kind.PATH):
        return "nobody knows whose home it starts in"
    if kind is not Kind.PATH:
        return (
            "it contains a NUL character" if "\x00" in text and kind is not Kind.NEUTRAL else None
        )
    return next((reason for doubt, reason in _DOUBTS if doubt.search(text)), None)


def _shown(value: object) -> str:
    return str(value) if isinstance(value, int | float | Decimal) else type(value).__name__
