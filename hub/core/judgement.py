"""Judges one value: each way to read it as a path, where that leads, and what speaks against it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal

from msgspec.structs import replace

from hub.core.claims import Claim, is_shaped
from hub.core.commands import words_of
from hub.core.effort import WHOLE, Effort, Patience
from hub.core.naming import LONGEST_KEY, is_mount, is_revision
from hub.core.overlong import is_one_path, paths_in, shortened, straightened
from hub.core.own_files import Reach
from hub.core.paths import PATH_MAX, Flavour, PathError
from hub.core.plain_paths import is_plain
from hub.core.policy import Policy
from hub.core.readings import Reader, climbing, is_local_uri, is_remote, readings
from hub.core.vocabulary import Kind
from hub.core.whereabouts import Surroundings, Weighed, Whereabouts

_WEIGHT = 128  # characters that count as one reading more

_DOUBTS = (
    (re.compile(r"[\x00-\x1f\x7f-\x9f]"), "it contains a control character"),
    (re.compile(r"[\ud800-\udfff]"), "it contains half of a character"),
    (re.compile(r"\$\(|`|\$env:|\$\{\w*[^\w}]", re.I), "it is a substitution"),
)
_SUSPECT = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff$`~]")
_USERS_HOME = re.compile(r"~(?:[+-]|\d+|[A-Za-z_][\w.-]*)(?:[/\\]|$)")
_WILDCARD = re.compile(r"[*?\[{(|^$]")
_BASE64 = re.compile(r"[A-Za-z0-9+/]{16,}={0,2}")
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_SIGIL = re.compile(r"\s*(?:[/\\~.-]|[A-Za-z]:[\\/])")
_QUERY = re.compile(r"[?#]")
_MOUNTED = re.compile(r"((?:[A-Za-z]:[/\\])?[^:,;\s]+):/[^:,;\s]*(?::[a-zA-Z]+)?")
_FEW_WORDS = 4
_BY_SHAPE = frozenset({Kind.NEUTRAL, Kind.WEAK})


class Judge:
    """Weighs the claims of one call, as far as `patience` goes."""

    def __init__(
        self,
        around: Surroundings,
        policy: Policy,
        *,
        needs_write: bool,
        patience: Patience = WHOLE,
        reach: Reach | None = None,
    ) -> None:
        self._policy = policy
        self._posix = around.flavour is not Flavour.WINDOWS
        self._reader = Reader(around.env, around.flavour)
        self._whereabouts = Whereabouts(
            around, policy, needs_write=needs_write, most=patience.effort, reach=reach
        )
        self._to_read = Effort(patience.readings, "there is too much to judge")

    @property
    def is_at_its_end(self) -> bool:
        """Whether it lost its patience: a longer look may come to something else."""
        return self._to_read.is_spent or self._whereabouts.effort.is_spent

    def objection(self, claim: Claim) -> str | None:
        """Return the first thing that speaks against a value."""
        value = claim.value
        if (
            claim.kind is Kind.PATH
            and isinstance(value, str)
            and self._posix
            and is_plain(value)
            and not self._policy.deny
        ):
            # It reads in one way only: no need to ask for its readings.
            return self._whereabouts.objection(value)
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
        if (
            self._policy.refuse_options
            and value[0] == "-"
            and is_revision(claim.key[-LONGEST_KEY:])
        ):
            yield Weighed(value, "as given", None, "it would be an option, not a revision")
            return
        try:
            for text, how, kind in self._texts_of(claim, value):
                self._to_read.spend(1 + len(text) // _WEIGHT)
                yield from self._weigh_text(text, how, kind)
        except PathError as exc:
            yield Weighed(value, "as given", None, exc.reason)

    def canonical(self, claim: Claim) -> str | None:
        """Return where an absolute path under a path's name leads, if it reads in one way only."""
        if claim.kind is not Kind.PATH or not isinstance(claim.value, str):
            return None
        weighed = list(self.weigh(claim))
        if len(weighed) != 1 or not self._whereabouts.is_absolute(claim.value):
            return None
        return weighed[0].leads_to

    def _texts_of(self, claim: Claim, value: str) -> Iterator[tuple[str, str, Kind]]:
        mounted = _MOUNTED.fullmatch(value) if claim.kind is Kind.WEAK else None
        if mounted is None or not is_mount(claim.key[-LONGEST_KEY:]):
            yield from self._texts(claim.kind, value)
            return
        yield from self._texts(Kind.WEAK, mounted[1])
        yield from self._readings(value, Kind.WEAK, replace(self._reader, whole=True))

    def _texts(self, kind: Kind, value: str) -> Iterator[tuple[str, str, Kind]]:
        if kind is Kind.COMMAND or (kind in _BY_SHAPE and _is_options(value)):
            for word in self._words(value, starts=kind is Kind.COMMAND):
                kind = Kind.WEAK if word == "/" else Kind.NEUTRAL
                yield from self._readings(word, kind, self._reader)
        elif kind is Kind.PATH:
            yield from self._readings(value, kind, self._reader)
        elif is_local_uri(value):
            yield from self._readings(value, Kind.PATH, self._reader)
        elif is_remote(value):
            # A name that says nothing of paths may take a URL, whatever its query asks for.
            path = climbing(_QUERY.split(value, 1)[0] if kind is Kind.NEUTRAL else value)
            if path is not None:
                yield path, "as a relative path", Kind.WEAK
        elif len(value) >= PATH_MAX:
            yield from self._long_texts(kind, value)
        else:
            reader = replace(self._reader, whole=True) if _is_prose(value) else self._reader
            yield from self._readings(value, kind, reader)

    def _words(self, command: str, *, starts: bool) -> Iterator[str]:
        """Yield the words of a command that are judged; most of a long one's look like no path."""
        if self._posix:
            words = words_of(command, starts=starts)
            return (word for word in words if is_shaped(word) or "\x00" in word)
        # Windows' shells escape in other ways; there a backslash separates names.
        return words_of(command.replace("\\", "/"), starts=starts)

    def _long_texts(self, kind: Kind, value: str) -> Iterator[tuple[str, str, Kind]]:
        """Yield what a value becomes that is longer than any path but may be tidied up first.

        Raises:
            PathError: it is a path all the same.
        """
        doubt = _doubt(value, kind)
        if doubt is not None:
            raise PathError(doubt)
        forms, rest = shortened(value, self._reader)
        for form in forms:
            for text, how, of in self._texts(kind, form):
                yield text, f"tidied up, {how}", of
        if not is_one_path(rest):
            return
        if kind is Kind.GLOB:
            yield rest, "tidied up", kind
        elif self._is_long_path(straightened(rest), kind):
            raise PathError("it is longer than any path can be")
        for piece in paths_in(rest):
            yield from self._texts(kind if kind is Kind.GLOB else Kind.NEUTRAL, piece)

    def _is_long_path(self, text: str, kind: Kind) -> bool:
        if text[:1] == "/" or _DRIVE.match(text):
            return self._is_meant(text, kind)
        first, slash, _ = text.partition("/")
        return first in {"..", "~"} or (bool(slash) and self._whereabouts.has(first))

    def _readings(self, text: str, kind: Kind, reader: Reader) -> Iterator[tuple[str, str, Kind]]:
        for reading, how in readings(text, reader).items():
            yield reading, how, kind

    def _weigh_text(self, text: str, how: str, kind: Kind) -> Iterator[Weighed]:
        doubt = _doubt(text, kind)
        if doubt is not None:
            yield Weighed(text, how, None, doubt)
        elif kind is Kind.PATH:
            if text.strip():
                yield from self._whereabouts.follow(text, how, strict=True)
        elif kind is Kind.GLOB:
            yield from self._weigh_glob(text, how)
        elif self._is_meant(text, kind):
            yield from self._whereabouts.follow(text, how, strict=False)

    def _weigh_glob(self, text: str, how: str) -> Iterator[Weighed]:
        names = (text if self._posix else text.replace("\\", "/")).split("/")
        wild = next((n for n, name in enumerate(names) if _WILDCARD.search(name)), len(names))
        if ".." in names[wild:]:
            yield Weighed(text, how, None, "it has '..' after a wildcard")
            return
        absolute = text[:1] == "/"
        static = "/".join(names[:wild]) or ("/" if absolute else "")
        if static and (static == "/" or not absolute or self._is_meant(static, Kind.NEUTRAL)):
            yield from self._whereabouts.follow(static, how, strict=False)

    def _is_meant(self, text: str, kind: Kind) -> bool:
        """Return whether a value under a key that need not be a path is meant as one."""
        if not self._posix and (_DRIVE.match(text) or text[:1] == "\\"):
            return True
        if text[:1] != "/":
            return kind is Kind.WEAK or "/" in text or ".." in text or "\\" in text
        if kind is Kind.WEAK and text[:2] != "//" and not _BASE64.fullmatch(text):
            return True
        first = text.lstrip("/").partition("/")[0]
        return first == ".." or (first not in {"", "."} and self._whereabouts.tops(first))


def _is_options(text: str) -> bool:
    """Return whether a value that need not be a path is one line of a program's options."""
    return text[:1] == "-" and " " in text and "\n" not in text


def _is_prose(text: str) -> bool:
    """Return whether a value that need not be a path reads as text rather than as a list."""
    if _SIGIL.match(text) and "\n" not in text:
        return False
    return len(text.split(None, _FEW_WORDS)) >= _FEW_WORDS


def _doubt(text: str, kind: Kind) -> str | None:
    if not _SUSPECT.search(text):
        return None
    if _USERS_HOME.match(text) and ("/" in text or kind is Kind.PATH):
        return "nobody knows whose home it starts in"
    if kind is not Kind.PATH:
        return "it contains a NUL character" if "\x00" in text else None
    return next((reason for doubt, reason in _DOUBTS if doubt.search(text)), None)


def _shown(value: object) -> str:
    return str(value) if isinstance(value, int | float | Decimal) else type(value).__name__
