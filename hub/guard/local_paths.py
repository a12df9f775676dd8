"""Tell which texts are meant as paths of the child's machine, and which cannot be judged."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from itertools import chain
from posixpath import normpath, relpath

from msgspec import Struct
from msgspec.structs import replace

from hub.guard.containment import DRIVE, OUTSIDE, PathTracer
from hub.guard.entered_folders import from_entered_folders
from hub.guard.keys.vocabulary import Kind
from hub.guard.text.assignments import FOLDER
from hub.guard.text.commands import is_installed, makes_links
from hub.guard.text.expansion import VARIABLE, alternatives, plainly, with_sequences
from hub.guard.text.prose import is_prose
from hub.guard.text.readings import (
    BRACES,
    INNER,
    LOCAL_URI,
    SLASHED,
    WHOLE_WORDS,
    Reader,
    Readings,
    readings,
)
from hub.guard.text.sure_commands import ANY, GONE
from hub.guard.text.uris import is_special
from hub.paths.resolve import Flavour, PathError, collapse

_DOUBTS = (
    (re.compile(r"[\x00-\x1f\x7f-\x9f]"), "it contains a control character"),
    (re.compile(r"[\ud800-\udfff]"), "it contains an unpaired surrogate"),
    (re.compile(r"\$\(|`|\$env:|\$\{\w*[^\w}]", re.I), "it contains a shell substitution"),
)
_COMPUTED = re.compile(r"\$\(|\$\{\w+(?:[%#/^@]|,,?|:\d)", re.I)
_SUSPECT = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff$`~]")
_USERS_HOME = re.compile(r"~(?:[+-]|\d+|[A-Za-z_][\w.-]*)(?:[/\\]|$)")
_FOREIGN = re.compile(r"\s*content://", re.I)
_NAMED = frozenset({Kind.PATH, Kind.WEAK})
WILDCARD = re.compile(r"[*?\[{(|^$]")
_BASE64 = re.compile(r"[A-Za-z0-9+/]{16,}={0,2}")
_ENCODED = re.compile(r"(?:data:[\w.+/-]*;base64,)?[A-Za-z0-9+/]+={0,2}", re.ASCII)
SHORTEST_ENCODED, _LENGTH_OF_A_NAME = 256, 12
_LIST = re.compile(r"[,;|\s]")
_OPTION = re.compile(r"!|--?[\w-]*=|-[A-Za-z]|\w+=")
_PLAIN_RELATIVE = re.compile(r"(?:\./)?(?!\.\./)[\w.-]+(?:/(?!\.\./)[\w.+-]+)+", re.ASCII)
_ANYTHING = frozenset({"*", "**"})
_TOP = re.compile(r"(?<![\w.])/\.")
_LOCAL = re.compile(r"file:", re.I)
_MOVES_LINKS = re.compile(
    r"(?<![\w.-])(?:mv|tar|rsync|cpio|pax|link|ln(?! .{0,4096}?-\w*s)"
    r"|cp(?= .{0,4096}?-\w*[aPdRr]))(?![\w.-])",
    re.DOTALL,
)
"""A command that may move or copy a link as it is."""
_MOVES_FOUND = re.compile(
    r"(?:-exec(?:dir)? |\bxargs |\bparallel )[^;&|\n]{0,512}?(?<![\w.-])(?:mv|ln|rsync|tar"
    r"|cp(?= [^;&|\n]{0,512}-\w*[aPdRr]))\b"
    r"|\b(?:cpio|pax)\b"
)
"""The same of what is found."""
_NEXT_COMMAND = re.compile(r"(?<!\\)[;&|\n)]+\s*\w")
_MOVED_INTO = re.compile(
    r"(?:\A|&& *|; *)(?:cp|mv)(?: -[a-su-zA-SU-Z]+)*(?: [\w./*@+][\w./*@+-]*)+? ([\w./@+-]+)"
    r"(?: 2>/dev/null)?(?:\s*(?:&&|\|\||;)\s*[\w-]+(?: (?!\.\.)[\w.-]+)*)*\s*\Z"
)
"""A folder that something is moved into, if no word behind that leads below or above a folder."""
_MOVED_BY_CODE = re.compile(
    r"\b(?:(?:rename\w*|move|replace|link)[\s(]{1,8}"
    r"|Path\((?=['\"][^'\"]{1,512}['\"]\)\.re(?:name|place)\b))"
    r"[frb]?['\"]([^'\"]{1,512})['\"]"
)
_FROM_HERE = re.compile(r"(?:\$(?:PWD|\{PWD\}|\(pwd\))|`pwd`|~\+)/")
_MOST_SEEN, _SELDOM_LINKED = 256, frozenset({"node_modules", ".git", ".venv"})


class LocalPaths(Struct, frozen=True):
    """Tells which texts of one call are meant as paths of the child's machine.

    `posix`: it is no Windows machine. `all_local`: every absolute path is meant so, as the operator
    says with `paths: local`.
    """

    tracer: PathTracer
    reader: Reader
    posix: bool
    all_local: bool

    def is_meant(self, text: str, kind: Kind, value: str) -> bool:
        """Return whether a value that may be a path is meant as a path of this machine."""
        if self.is_elsewhere(text, value):
            return False
        if not self.posix and (DRIVE.match(text) or text[:1] == "\\"):
            return True
        if kind is Kind.VIRTUAL:
            return text[:1] != "/" and ".." in text
        return text[:1] != "/" or self._is_meant_absolute(text, kind, value)

    def is_elsewhere(self, text: str, value: str) -> bool:
        """Return whether a path is an absolute path of another machine."""
        if self.all_local or _LOCAL.search(value):
            return False
        return self.tracer.is_absolute(text)

    def is_top_pattern(self, text: str, first: str, how: str, value: str) -> bool:
        r"""Return whether a pattern that begins at the top directory is meant to find files there.

        `first` is its first name, with a wildcard. In a search for code a slash at the start of a
        part means nothing: `\s*\{`, `"/.*"`.
        """
        if first in _ANYTHING and how != INNER:
            return True
        wholes = readings(value, replace(self.reader, whole=True, is_pattern=True))
        if not first and text in wholes:
            return True
        given = (whole for whole, made in wholes.items() if made != SLASHED)
        is_item = how in {BRACES, LOCAL_URI} or any(text in _items(one) for one in given)
        if "\\" not in first and is_item:
            return True
        return any(map(str.isalnum, first)) and bool(self.tracer.matching(plainly(first)))

    def is_long_path(self, text: str, kind: Kind) -> bool:
        """Return whether a text longer than any path is meant as a path of this machine."""
        if text[:1] == "/" or DRIVE.match(text):
            return self.is_meant(text, kind, text)
        first, slash, _ = text.partition("/")
        return first in {"..", "~"} or (bool(slash) and self.tracer.has(first))

    def runs_program(self, word: str) -> bool:
        """Return whether a word is a link to an installed program, such as `.venv/bin/python`."""
        if not _PLAIN_RELATIVE.fullmatch(word):
            return False
        results = list(self.tracer.follow(word, "as given", strict=False))
        return any(one.objection for one in results) and all(
            one.objection is None or (one.objection == OUTSIDE and is_installed(one.leads_to or ""))
            for one in results
        )

    def enters(self, folder: str) -> bool:
        """Return whether `folder` is a directory wherever a relative path can start."""
        starts = (*self.tracer.bases, *self.tracer.around())
        places = 1 if self.tracer.is_absolute(folder) else len(starts)
        return len(self.tracer.folders_at(folder, starts)) == places

    def from_entered(self, command: str, env: Mapping[str, str]) -> str:
        """Return a command with the folders that it enters before its `..`."""
        return from_entered_folders(command, env, self.enters, self._makes, self._found)

    def _makes(self, folder: str) -> bool:
        """Return whether `mkdir -p` surely makes a folder, wherever a relative path can start."""
        starts = (*self.tracer.bases, *self.tracer.around())
        return self.enters(folder) or all(self._can_make(folder, start) for start in starts)

    def _found(self, folder: str, wildcard: str) -> list[str]:
        """Return a folder, and something else, for all that `a/*` or `*/` finds in a folder.

        An empty name if a link is among these, or a name that `cd $x` takes otherwise, such as
        that of two words, or if there are too many.
        """
        above, _, _ = wildcard.rstrip("/").rpartition("/")
        folders, others = list[str](), list[str]()
        for start in dict.fromkeys((*self.tracer.bases, *self.tracer.around())):
            around = self.tracer.folders_at(f"{folder}/{above}", [start])
            names = self.tracer.matching("*", around[0]) if around else []
            for name in names[: _MOST_SEEN + 1]:
                found = self.tracer.folders_at(name, around)
                (folders if found else others).append(f"{above}/{name}".lstrip("/"))
                is_link = found and found != [f"{around[0]}/{name}"]
                if is_link or not FOLDER.fullmatch(name) or len(names) > _MOST_SEEN:
                    return [""]
        kept = [one for one in folders if not GONE[ANY - 1].search(one)] or folders
        return [*kept[:1], *(others[:1] if wildcard[-1] != "/" else ())]

    def _can_make(self, folder: str, start: str) -> bool:
        names = folder.split("/")
        for n in range(len(names)):
            if not self.tracer.exists("/".join((start, *names[: n + 1]))):
                above = self.tracer.folders_at("/".join((".", *names[:n])), [start])
                return any(map(self.tracer.can_write, above))
        return False

    def is_new(self, path: str) -> bool:
        """Return whether nothing is at `path`, wherever a relative path can start."""
        starts = (*self.tracer.bases, *self.tracer.beside())
        places = [path] if self.tracer.is_absolute(path) else [f"{one}/{path}" for one in starts]
        return not any(map(self.tracer.exists, places))

    def check_new_links(self, command: str, words: Collection[str]) -> None:
        """Check that no word of a command climbs from what may be a link when the command is done.

        Nor moves a link, which may then lead elsewhere.

        Raises:
            PathError: one does: `ln -s . a; ls a/../..`, `mv src/link link; ls link/`.
        """
        makes = makes_links(command, words)
        moves = _MOVES_LINKS.search(command) is not None
        if (makes or moves) and any(map(self._climbs_from_missing, words)):
            raise PathError("it has '..' after a component that does not exist")
        climbs = makes and "mv" in words and any(".." in word for word in words)
        found = _MOVES_FOUND.search(command)
        unpacks = command.count("tar ") > 1 or not command.count("tar ")
        moved = _MOVED_INTO.search(command) if len(_MOVES_LINKS.findall(command)) == 1 else None
        finds = partial(self._finds_link, unpacks=unpacks, into=moved[1] if moved else "")
        if (
            climbs
            or (moves and any(map(self._is_link, words)))
            or any(map(self._is_link, _MOVED_BY_CODE.findall(command)))
            or (moves and any(map(finds, words)))
            or (found and _NEXT_COMMAND.search(command, found.end()) and self._has_link())
        ):
            raise PathError("it moves a link, which then may lead elsewhere")

    def _finds_link(self, word: str, *, unpacks: bool, into: str) -> bool:
        """Return whether a word's wildcards, or a folder of which all is taken, have such a link.

        Not one that leads into the roots from the folder `into`, too.

        Raises:
            TooManyWaysError: it has too many alternatives in braces.
        """
        ways = alternatives(word) if "{" in word else [word]
        if any(map(self._is_link, ways[1:])):
            return True
        is_content = unpacks and word.rpartition("/")[2] == "."
        wild = (
            f"{word}/?*" if is_content else plainly(VARIABLE.sub("*", one.replace("{}", "*")))
            for one in ways
        )
        found = map(self.tracer.found_by_shell, filter(WILDCARD.search, wild))
        climbs = partial(self._climbs, into=into)
        return self.posix and any(map(climbs, chain.from_iterable(found)))

    def _climbs(self, path: str, *, into: str = "") -> bool:
        """Return whether a link leads to a folder that is not below the one that it is in.

        Nor is it one that roots have, from there and from the folder `into`.
        """
        found, around = (self.tracer.folders_at(one) for one in (path, path.rpartition("/")[0]))
        if not (found and around) or found[0].startswith(f"{around[0]}/"):
            return False
        moved = self.tracer.folders_at(into) if into else []
        shown = [normpath(f"{one}/{relpath(found[0], around[0])}") for one in moved]
        return not shown or not all(map(self.tracer.is_open, (*found, *shown)))

    def _has_link(self) -> bool:
        """Return whether there is such a link below a root, as far as that is looked through."""
        waiting, seen = list(self.tracer.bases), 0
        for folder in waiting:  # grows in the loop
            names = self.tracer.matching("?*", folder)[: _MOST_SEEN - seen]
            seen += len(names)
            for path in (f"{folder}/{one}" for one in names if one not in _SELDOM_LINKED):
                found = self.tracer.folders_at(path)
                if found and found != [path] and self._climbs(path):
                    return True
                waiting += found if found == [path] else ()
        return False

    def _is_link(self, word: str) -> bool:
        """Return whether a word without a slash behind it is a link to a directory."""
        word = _FROM_HERE.sub("./", word, 1)
        above, _, name = word.rpartition("/")
        if not name.strip("."):
            return False
        bases, others = self.tracer.bases, (*self.tracer.beside(), *self.tracer.around())
        for start in (*bases, *others):
            found = self.tracer.folders_at(word, [start])
            # One that leads outside from a folder that a word names is judged as that word.
            if found and (start in bases or self.tracer.is_open(found[0])):
                around = self.tracer.folders_at(above or ".", [start])
                if found != [f"{one}/{name}" for one in around]:
                    return True
        return False

    def _climbs_from_missing(self, word: str) -> bool:
        start, climbs, _ = word.rpartition("/..")
        exists = self.tracer.exists if self.tracer.is_absolute(start) else self.tracer.has
        return bool(climbs) and not exists(start)

    def found_by_shell(self, forms: Readings) -> Iterator[str]:
        """Yield what a shell finds for the forms of a word, if it may not be reached."""
        whole = (text for text, how in forms.items() if how in WHOLE_WORDS)
        for pattern in dict.fromkeys(plainly(with_sequences(text)) for text in whole):
            yield from self.tracer.found_by_shell(pattern)

    def _is_meant_absolute(self, text: str, kind: Kind, value: str) -> bool:
        if kind is Kind.WEAK and text[:2] != "//" and not _BASE64.fullmatch(text):
            return True
        straight = collapse(text, cwd=None, flavour=Flavour.POSIX) or text
        # A lone slash in a longer text is only punctuation; so is `\.` with a slash for its first.
        if not (straight.strip("/") and (_first(straight) or _TOP.search(value))):
            is_path = kind is Kind.WEAK or bool(text.strip("/. ")) or _LOCAL.search(value)
            return bool(is_path) or self._is_whole(text, value)
        return any(map(self._is_top, {_first(straight), _first(text)}))

    def _is_top(self, first: str) -> bool:
        """Return whether an entry of the file system's top directory has or matches this name."""
        if self.tracer.is_top(first):
            return True
        if not WILDCARD.search(first) or not any(map(str.isalnum, first)):
            return False  # `/*` and `/.*` are more likely part of a search pattern
        return bool(self.tracer.matching(plainly(first)))

    def _is_whole(self, text: str, value: str) -> bool:
        """Return whether a text is the whole value or a reading of it, not a part."""
        return text == value or text in readings(value, replace(self.reader, whole=True))


def is_encoded(value: str) -> bool:
    """Return whether a value under a path's name is more likely a file's content, in base64."""
    has_few_names = value.count("/") * _LENGTH_OF_A_NAME < len(value) >= SHORTEST_ENCODED
    return has_few_names and _ENCODED.fullmatch(value) is not None


def doubt_about(text: str, kind: Kind) -> str | None:
    """Return why a text cannot be judged as a path, whatever is on the disk, or None."""
    if is_special(text) or (kind is Kind.PATH and _FOREIGN.match(text)):
        return "it opens something that is not a file"
    if not _SUSPECT.search(text):
        return None
    if _USERS_HOME.match(text) and ("/" in text or kind in _NAMED):
        return "it starts with '~' and a name, which the hub does not resolve"
    if kind is Kind.WEAK and _COMPUTED.search(text) and not is_prose(text):
        return "it contains a shell substitution"
    if kind is not Kind.PATH:
        return "it contains a NUL character" if "\x00" in text else None
    return next((reason for doubt, reason in _DOUBTS if doubt.search(text)), None)


def _items(text: str) -> set[str]:
    items = {text, *(item.strip() for item in _LIST.split(text))}
    return {*items, *(_OPTION.sub("", item) for item in items)}


def _first(path: str) -> str:
    """Return the first name of an absolute path."""
    return next((name for name in path.split("/") if name not in {"", ".", ".."}), "")
