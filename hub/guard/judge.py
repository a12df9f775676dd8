"""Judge one value: list the ways to read it as a path, follow each, and find the objections."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from functools import lru_cache

from msgspec.structs import replace

from hub.guard.arguments import PathCandidate, is_shaped
from hub.guard.budget import FULL_BUDGET, Budget, Meter
from hub.guard.containment import CallContext, PathTracer, ReadingResult
from hub.guard.keys.key_words import LONGEST_KEY, is_mount, is_revision
from hub.guard.keys.vocabulary import Kind
from hub.guard.own_files import OwnFileRules
from hub.guard.plain_paths import is_plain, reads_once
from hub.guard.policy import Policy
from hub.guard.text.commands import (
    is_null,
    is_program,
    plainly_quoted,
    without_messages,
    words_of,
)
from hub.guard.text.overlong import is_one_path, paths_in, shortened, straightened
from hub.guard.text.prose import is_list_of_words, is_prose
from hub.guard.text.readings import (
    Reader,
    climbing,
    defaulted,
    is_local_uri,
    is_remote,
    is_special,
    plainly,
    readings,
)
from hub.paths.resolve import PATH_MAX, Flavour, PathError, collapse

_WEIGHT = 128  # so many characters count as one more reading

_DOUBTS = (
    (re.compile(r"[\x00-\x1f\x7f-\x9f]"), "it contains a control character"),
    (re.compile(r"[\ud800-\udfff]"), "it contains half of a character"),
    (re.compile(r"\$\(|`|\$env:|\$\{\w*[^\w}]", re.I), "it is a substitution"),
)
_COMPUTED = re.compile(r"\$\(|\$\{\w+(?:[%#/^@]|,,?|:\d)", re.I)
_SUSPECT = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff$`~]")
_USERS_HOME = re.compile(r"~(?:[+-]|\d+|[A-Za-z_][\w.-]*)(?:[/\\]|$)")
_WILDCARD = re.compile(r"[*?\[{(|^$]")
_BASE64 = re.compile(r"[A-Za-z0-9+/]{16,}={0,2}")
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_QUERY = re.compile(r"[?#]")
_MOUNTED = re.compile(r"((?:[A-Za-z]:[/\\])?[^:,;\s]+):/[^:,;\s]*(?::[a-zA-Z]+)?")
_A_NAME = "one item of a list"  # of a text without path signs: costs a disk query, no reading
_SHAPE_OF_A_NAME = re.compile(r"[\w.-]+")
_SPACES = re.compile(r"\s+")
_LONGEST_NAME = 255
_BY_SHAPE = frozenset({Kind.NEUTRAL, Kind.WEAK})
_NAMED = frozenset({Kind.PATH, Kind.WEAK})
_LONGEST_LIST = 1024
_ITEMS = re.compile(r"[,;|\x00-\x1f\"'`<>(){}\[\]]+")
_ENCLOSED = re.compile(r"[\x00-\x1f\"'`<>(){}\[\]\u201c\u201d\u2018\u2019\u00ab\u00bb]+")
_BRACED = re.compile(r"(?!.*\x00).*[\"'`<>(){}\[\]]", re.S)
_SIDES = re.compile(r"[=@:!+&?#]+")
_MOST_SIGNS = 8
_ALTERED = re.compile(r"[;&|<>()\"'\\`]")
_LONGEST_WORD = 512
_BRACKET = re.compile(r"[()\[\]{}<>]")
_LOCAL = re.compile(r"file:", re.I)
_WILD_CLIMB = re.compile(r"[*?\[][^/]*/(?:[^?]*/)?\.\.(?:/|$)")
_ESCAPE = re.compile(r"\\(.)")
_FOREIGN = re.compile(r"\s*content://", re.I)
_BEFORE_A_NAME = re.compile(r"\\(?![;(){}&|!\"'$`])")
"""A backslash that another shell takes for a separator; not before signs that start no name."""
_ODD = re.compile(r"[^\w./-]")
_SHORT_OPTION = re.compile(r"-[A-Za-z].")
_CLIMBING = re.compile(r"(?:^|[^\w.])(?:\\?\.){2}(?:$|[^\w.])")


class Judge:
    """Judges the path candidates of one call, within `budget`."""

    def __init__(
        self,
        context: CallContext,
        policy: Policy,
        *,
        needs_write: bool,
        budget: Budget = FULL_BUDGET,
        reach: OwnFileRules | None = None,
    ) -> None:
        self._policy = policy
        self._posix = context.flavour is not Flavour.WINDOWS
        roots = context.roots.roots
        self._reader = Reader(
            context.env,
            context.flavour,
            folders=tuple(root.path for root in roots),
        )
        self._tracer = PathTracer(
            context, policy, needs_write=needs_write, most=budget.effort, reach=reach
        )
        self._to_read = Meter(budget.readings, "there is too much to judge")

    @property
    def is_at_its_end(self) -> bool:
        """Whether the budget was used up: a larger one may lead to another result."""
        return self._to_read.is_spent or self._tracer.effort.is_spent

    def objection(self, candidate: PathCandidate) -> str | None:
        """Return the first objection to a value, or None."""
        value = candidate.value
        if (
            candidate.kind is Kind.PATH
            and isinstance(value, str)
            and self._posix
            and is_plain(value)
            and reads_once(value)
            and not self._policy.deny
            and self._policy.paths == "local"
        ):
            # The value reads in one way only: its readings need not be listed.
            return self._tracer.objection(value)
        for evaluated in self.evaluate(candidate):
            if evaluated.objection is not None:
                return evaluated.objection
        return None

    def evaluate(self, candidate: PathCandidate) -> Iterator[ReadingResult]:
        """Yield the result of each reading of a value."""
        value = candidate.value
        if not isinstance(value, str):
            yield ReadingResult(_shown(value), "as given", None, "a number is not a path")
            return
        if (
            self._policy.refuse_options
            and value[0] == "-"
            and is_revision(candidate.key[-LONGEST_KEY:])
        ):
            yield ReadingResult(value, "as given", None, "it would be an option, not a revision")
            return
        try:
            for text, how, kind in self._texts_of(candidate, value):
                if how is not _A_NAME:
                    self._to_read.spend(1 + len(text) // _WEIGHT)
                yield from self._evaluate_text(text, how, kind, value)
        except PathError as exc:
            yield ReadingResult(value, "as given", None, exc.reason)

    def canonical(self, candidate: PathCandidate) -> str | None:
        """Return the resolved path of an absolute `Kind.PATH` value that has one reading only.

        None for any other value.
        """
        if candidate.kind is not Kind.PATH or not isinstance(candidate.value, str):
            return None
        evaluated = list(self.evaluate(candidate))
        if len(evaluated) != 1 or not self._tracer.is_absolute(candidate.value):
            return None
        return evaluated[0].leads_to

    def _texts_of(self, candidate: PathCandidate, value: str) -> Iterator[tuple[str, str, Kind]]:
        mounted = _MOUNTED.fullmatch(value) if candidate.kind is Kind.WEAK else None
        if candidate.whole and len(value) < PATH_MAX:
            yield from self._readings(value, candidate.kind, replace(self._reader, whole=True))
            return
        if candidate.kind is Kind.GLOB:
            value = self._from_folders(value)
        if mounted is None or not is_mount(candidate.key[-LONGEST_KEY:]):
            yield from self._texts(candidate.kind, value)
            return
        yield from self._texts(Kind.WEAK, mounted[1])
        yield from self._readings(value, Kind.WEAK, replace(self._reader, whole=True))

    def _texts(self, kind: Kind, value: str) -> Iterator[tuple[str, str, Kind]]:
        if kind is Kind.COMMAND or (kind in _BY_SHAPE and _is_options(value)):
            yield from self._texts_of_command(value, starts=kind is Kind.COMMAND)
        elif kind is Kind.PATH:
            yield from self._texts_of_path(value)
        elif kind is Kind.NEUTRAL and not is_shaped(value):
            yield from self._names_in(value)
        elif is_local_uri(value):
            yield from self._texts_of_path(value)
        elif is_remote(value):
            yield from self._texts_of_url(kind, value)
        elif len(value) >= PATH_MAX:
            yield from self._long_texts(kind, value)
        else:
            yield from self._texts_of_value(kind, value)
            if kind is Kind.GLOB and "\\" in value and self._posix:
                yield from self._readings(_ESCAPE.sub(r"\1", value), kind, self._reader)

    def _texts_of_path(self, value: str) -> Iterator[tuple[str, str, Kind]]:
        """Yield the value as one path, and the parts that some child may take for paths."""
        one = readings(value, replace(self._reader, whole=True, as_shell=True))
        for text, how in one.items():
            yield text, how, Kind.PATH
        if not reads_once(value) or not is_plain(value):
            reader = replace(self._reader, as_shell=True, is_path=True)
            for text, how in readings(value, reader).items():
                if text not in one:
                    yield text, how, Kind.NEUTRAL
                    yield from self._tops_of(text)

    def _texts_of_value(self, kind: Kind, value: str) -> Iterator[tuple[str, str, Kind]]:
        """Yield a value that may be a path, and the parts that some child may take for paths."""
        reader = self._reader_of(kind, value)
        if kind is not Kind.WEAK or not _BRACKET.search(value):
            yield from self._readings(value, kind, reader)
            return
        # `[id]/page.tsx` does not contain the path `/page.tsx`.
        one = readings(value, replace(reader, whole=True))
        for text, how in readings(value, reader).items():
            yield text, how, kind if text in one else Kind.NEUTRAL

    def _reader_of(self, kind: Kind, value: str) -> Reader:
        """Return the reader for a value that may be a path."""
        if is_prose(value):
            return replace(self._reader, whole=True)
        if kind is Kind.WEAK:
            return replace(self._reader, as_shell=True)
        return replace(self._reader, words="names")

    def _texts_of_url(self, kind: Kind, value: str) -> Iterator[tuple[str, str, Kind]]:
        # An argument whose name says nothing of paths may take any URL: ignore its query.
        path = climbing(_QUERY.split(value, 1)[0] if kind is Kind.NEUTRAL else value)
        if path is not None:
            yield path, "as a relative path", Kind.WEAK
        if "::" in value:
            yield from self._readings(value, Kind.NEUTRAL, self._reader)

    def _texts_of_command(self, value: str, *, starts: bool) -> Iterator[tuple[str, str, Kind]]:
        reader = replace(self._reader, as_shell=True)
        if starts and len(value) <= PATH_MAX:
            value = without_messages(value)
        value = self._from_folders(value)
        words = dict.fromkeys(self._words(value, starts=starts))
        for word in words:
            yield from self._texts_of_word(word, reader)
        for word in dict.fromkeys(_arguments(value)):
            if word not in words:
                texts = self._texts_of_word(word, replace(reader, words="never"))
                yield from (one for one in texts if not (is_program(one[0]) or is_null(one[0])))

    def _from_folders(self, text: str) -> str:
        """Return a text with `.` for each root path in it that has special signs.

        This loses nothing, since a relative path is read from every root.
        """
        folders = _odd_folders(self._reader.folders) if self._posix else None
        return text if folders is None else folders.sub(".", text)

    def _texts_of_word(self, word: str, reader: Reader) -> Iterator[tuple[str, str, Kind]]:
        if is_local_uri(word):
            yield from self._texts_of_path(word)
        elif self._posix and not (is_shaped(word) or _WILDCARD.search(word) or "%" in word):
            yield from self._names_in(word)
            if is_prose(word):
                yield from ((name, _A_NAME, Kind.NEUTRAL) for name in _quoted_in(word))
        else:
            is_top = not word.rstrip("/.") or word.rstrip("/.")[-1] in "=@"
            kind = Kind.WEAK if is_top or word[0] == "~" else Kind.NEUTRAL
            for text, how, of in self._readings(word, kind, reader):
                if _WILD_CLIMB.search(text):
                    raise PathError("it has '..' after a wildcard")
                yield text, how, of
            if self._posix:
                yield from self._tops_of(word)

    def _tops_of(self, word: str) -> Iterator[tuple[str, str, Kind]]:
        """Yield the paths for the top directories that a shell finds for a word with a wildcard."""
        if word[:1] != "/" or not _WILDCARD.search(word):
            return
        first, _, rest = word.lstrip("/.").partition("/")
        for top in self._tracer.matching_tops(plainly(first)):
            yield f"/{top}/{rest}", "as a shell reads its wildcards", Kind.NEUTRAL

    def _names_in(self, text: str) -> Iterator[tuple[str, str, Kind]]:
        """Yield the parts of a text without path signs that can be file names.

        Most are none. Such a name leads outside only if it is a link.
        """
        if _SHAPE_OF_A_NAME.fullmatch(text):
            yield text, "as given", Kind.NEUTRAL
            if _SHORT_OPTION.match(text):
                yield text[2:], "the right-hand side", Kind.NEUTRAL
            return
        if len(text) <= _LONGEST_LIST and _BRACED.match(text) and not is_prose(text):
            yield from self._texts_of_value(Kind.NEUTRAL, text)
        for whole in dict.fromkeys((text, *self._plainer(text))):
            if "\x00" not in whole:  # no name has a NUL, but some children read only up to it
                yield whole, "as given" if whole == text else "percent-decoded", Kind.NEUTRAL
            if not is_prose(whole):
                names = _names_of(whole, words=is_list_of_words(whole))
                yield from ((name, _A_NAME, Kind.NEUTRAL) for name in names)

    def _plainer(self, text: str) -> Iterator[str]:
        if ("%" in text or not text.isascii()) and len(text) <= _LONGEST_LIST:
            yield from readings(text, replace(self._reader, whole=True))

    def _words(self, command: str, *, starts: bool) -> Iterator[str]:
        """Yield the words of a command that are judged, for each way that a shell may read it."""
        spellings = (command, *defaulted(command, self._reader)) if self._posix else ()
        for spelled in spellings:
            if "$'" in spelled:
                yield from words_of(plainly_quoted(spelled), starts=starts)
            yield from words_of(spelled, starts=starts)
        if "\\" in command or not self._posix:
            # In the shells of Windows a backslash separates names; they escape in other ways.
            slashed = (
                _BEFORE_A_NAME.sub("/", command) if self._posix else command.replace("\\", "/")
            )
            yield from words_of(slashed, starts=starts)

    def _long_texts(self, kind: Kind, value: str) -> Iterator[tuple[str, str, Kind]]:
        """Yield what a child may make of a value that is longer than any path, by tidying it up.

        Raises:
            PathError: the value is a path that stays too long, or cannot be read for certain.
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
            return self._is_meant(text, kind, text)
        first, slash, _ = text.partition("/")
        return first in {"..", "~"} or (bool(slash) and self._tracer.has(first))

    def _readings(self, text: str, kind: Kind, reader: Reader) -> Iterator[tuple[str, str, Kind]]:
        for reading, how in readings(text, reader).items():
            yield reading, how, kind

    def _evaluate_text(
        self, text: str, how: str, kind: Kind, value: str
    ) -> Iterator[ReadingResult]:
        doubt = _doubt(text, kind)
        if doubt is not None:
            yield ReadingResult(text, how, None, doubt)
        elif kind is Kind.PATH:
            if text.strip() and not self._is_elsewhere(text, value):
                yield from self._tracer.follow(text, how, strict=True)
        elif kind is Kind.GLOB:
            yield from self._evaluate_glob(text, how)
        elif self._is_meant(text, kind, value):
            yield from self._tracer.follow(text, how, strict=False)
        elif text[:1] == "/" and self._policy.paths == "local" and text.strip("/. "):
            # Some servers read `/name` as a path below a root.
            yield from self._tracer.follow(text.lstrip("/"), how, strict=False)

    def _evaluate_glob(self, text: str, how: str) -> Iterator[ReadingResult]:
        names = (text if self._posix else text.replace("\\", "/")).split("/")
        wild = next((n for n, name in enumerate(names) if _WILDCARD.search(name)), len(names))
        if any(_CLIMBING.search(name) for name in names[wild:]):
            yield ReadingResult(text, how, None, "it has '..' after a wildcard")
            return
        absolute = text[:1] == "/"
        static = "/".join(names[:wild]) or ("/" if absolute else "")
        if self._is_elsewhere(static, static):
            return
        if static and (static == "/" or self._is_meant(static, Kind.NEUTRAL, static)):
            yield from self._tracer.follow(static, how, strict=False)
        is_name = self._posix and wild < len(names) and len(text) < PATH_MAX
        if is_name and self._is_meant(text, Kind.NEUTRAL, text):
            # Characters like `*` may be part of a real file name.
            yield from self._tracer.follow(text, how, strict=False)

    def _is_meant(self, text: str, kind: Kind, value: str) -> bool:
        """Return whether a value that may be a path is meant as a path of this machine."""
        if self._is_elsewhere(text, value):
            return False
        if not self._posix and (_DRIVE.match(text) or text[:1] == "\\"):
            return True
        if kind is Kind.VIRTUAL:
            return text[:1] != "/" and ".." in text
        return text[:1] != "/" or self._is_meant_absolute(text, kind, value)

    def _is_meant_absolute(self, text: str, kind: Kind, value: str) -> bool:
        if kind is Kind.WEAK and text[:2] != "//" and not _BASE64.fullmatch(text):
            return True
        straight = collapse(text, cwd=None, flavour=Flavour.POSIX) or text
        if not straight.strip("/"):  # a lone slash in a longer text is only punctuation
            is_path = kind is Kind.WEAK or bool(text.strip("/. ")) or _LOCAL.search(value)
            return bool(is_path) or self._is_whole(text, value)
        return any(map(self._is_top, {_first(straight), _first(text)}))

    def _is_top(self, first: str) -> bool:
        """Return whether an entry of the file system's top directory has or matches this name."""
        if self._tracer.tops(first):
            return True
        if not _WILDCARD.search(first) or not any(map(str.isalnum, first)):
            return False  # `/*` and `/.*` are more likely part of a search pattern
        return bool(self._tracer.matching_tops(first))

    def _is_whole(self, text: str, value: str) -> bool:
        return text == value or text in readings(value, replace(self._reader, whole=True))

    def _is_elsewhere(self, text: str, value: str) -> bool:
        """Return whether a path is an absolute path of another machine."""
        if self._policy.paths == "local" or _LOCAL.search(value):
            return False
        return self._tracer.is_absolute(text)


def _first(path: str) -> str:
    """Return the first name of an absolute path."""
    return next((name for name in path.split("/") if name not in {"", ".", ".."}), "")


def _names_of(text: str, *, words: bool) -> Iterator[str]:
    """Yield, each once, the items of a list and both sides of a sign that can be names."""
    seen = {text}
    spaces = _SPACES.split(text) if words else ()
    sides = () if "\x00" in text else (text, text.strip().strip("\"'`<>"))
    lists = (item for sign in ",;|" if sign in text for item in text.split(sign))
    for item in (*sides, *_ENCLOSED.split(text), *_ITEMS.split(text), *lists, *spaces):
        for piece in _sides_of(item):
            word = piece.strip()
            for name in (word, word[2:] if _SHORT_OPTION.match(word) else ""):
                if name and name not in seen and len(name) <= _LONGEST_NAME:
                    seen.add(name)
                    yield name


def _sides_of(item: str) -> Iterator[str]:
    """Yield an item, and what stands between any two of its signs: a name may have signs too."""
    yield item
    signs = [sign.span() for sign in _SIDES.finditer(item)]
    starts, ends = [0, *(end for _, end in signs)], [*(start for start, _ in signs), len(item)]
    for n, start in enumerate(starts):
        yield item[start : ends[n]]
        for end in (*ends[n + 1 : n + _MOST_SIGNS], ends[-1]):
            if end - start <= _LONGEST_NAME:
                yield item[start:end]
    yield from (item[:end] for end in ends[_MOST_SIGNS:] if end <= _LONGEST_NAME)


def _quoted_in(text: str) -> Iterator[str]:
    """Yield what stands between any two quotes and brackets, also where they do not match."""
    pieces = dict.fromkeys(piece.strip() for piece in _ENCLOSED.split(text))
    yield from (piece for piece in pieces if 0 < len(piece) <= _LONGEST_NAME)


def _arguments(command: str) -> Iterator[str]:
    """Yield words that a shell would change, as they are without a shell.

    Also yield the whole value: it may be one argument of a list.
    """
    words = command.split()
    yield from (word for word in words if _ALTERED.search(word))
    if len(command) <= _LONGEST_WORD and words and not is_program(words[0]):
        yield command


@lru_cache(maxsize=256)
def _odd_folders(folders: tuple[str, ...]) -> re.Pattern[str] | None:
    """Return a pattern for the folder paths that have special signs, or None if none has.

    Without it a command would be split inside these paths. It matches them plain and escaped.
    """
    odd = sorted((one for one in folders if _ODD.search(one) and "$" not in one), key=len)[::-1]
    if not odd:
        return None
    spelled = (form for one in odd for form in (one, _ODD.sub(r"\\\g<0>", one)))
    return re.compile(rf"(?<![^\s'\"=@:,(<>])(?:{'|'.join(map(re.escape, spelled))})(?=[/\s'\"]|$)")


def _is_options(text: str) -> bool:
    """Return whether a value that may be a path is one line of a program's options."""
    return text[:1] == "-" and " " in text[2:] and text[1] != " " and "\n" not in text


def _doubt(text: str, kind: Kind) -> str | None:
    if is_special(text) or (kind is Kind.PATH and _FOREIGN.match(text)):
        return "it opens something that is no file"
    if not _SUSPECT.search(text):
        return None
    if _USERS_HOME.match(text) and ("/" in text or kind in _NAMED):
        return "nobody knows whose home it starts in"
    if kind is Kind.WEAK and _COMPUTED.search(text) and not is_prose(text):
        return "it is a substitution"
    if kind is not Kind.PATH:
        return "it contains a NUL character" if "\x00" in text else None
    return next((reason for doubt, reason in _DOUBTS if doubt.search(text)), None)


def _shown(value: object) -> str:
    return str(value) if isinstance(value, int | float | Decimal) else type(value).__name__
