"""List the texts of a path candidate that are judged: the whole value, its parts and readings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from hub.guard.arguments import PathCandidate, is_shaped
from hub.guard.budget import TooManyWaysError
from hub.guard.containment import DRIVE, PathTracer
from hub.guard.keys.key_words import LONGEST_KEY, is_mount, is_typed, takes_arguments, takes_patch
from hub.guard.keys.vocabulary import Kind
from hub.guard.local_paths import WILDCARD, LocalPaths, doubt_about
from hub.guard.plain_paths import reads_as_one_path
from hub.guard.text.commands import (
    ShellWord,
    effort_to_read,
    expands,
    inner_commands,
    is_harmless,
    quoted_words,
    spellings_of,
    uncut_words,
    without_interpreters,
    words_in,
)
from hub.guard.text.containers import mounts_whole_disk, without_mount_targets, without_targets
from hub.guard.text.emptiness import variables_set_in
from hub.guard.text.expansion import forms_from_top, joins_braces, plainly, with_plain_signs
from hub.guard.text.inert.parts import without_inert
from hub.guard.text.names import (
    SHORT_OPTION,
    count_signs,
    is_options,
    names_in,
    patched_names_in,
    quoted_names_in,
    smallest_pieces_in,
)
from hub.guard.text.overlong import is_one_path, paths_in, shortened, straightened, with_short_roots
from hub.guard.text.programs import created_paths
from hub.guard.text.prose import is_list_of_words, is_prose
from hub.guard.text.readings import FOUND, ITEM, SIDE, WITH_HOST, Reader, readings
from hub.guard.text.shell import ways_to_parse
from hub.guard.text.sure_commands import from_its_link
from hub.guard.text.uris import climbing, is_local_uri, is_remote, is_server, without_host
from hub.paths.resolve import PATH_MAX, PathError

_QUERY = re.compile(r"[?#]")
_MOUNTED = re.compile(r"((?:[A-Za-z]:[/\\])?[^:,;\s]+):/[^:,;\s]*(?::[a-zA-Z]+)?")
ONE_NAME = "one item of a list"
"""How a name in a text without path signs comes about; it costs a disk query, but no reading."""
NAMED = "a file that the patch or the text names"
_CHARACTERS = 64
"""So many characters of a command take one unit of effort to be searched for another command."""
_PER_SIGN = 10
"""The effort of taking a text apart at one of its signs."""
_SHAPE_OF_A_NAME = re.compile(r"[\w.-]+", re.ASCII)
_BRACED = re.compile(r"(?!.*\x00).*[\"'`<>(){}\[\]]", re.S)
_BRACKET = re.compile(r"[()\[\]{}<>]")
_WILD_CLIMB = re.compile(r"[^*?\[]*[*?\[].*/\.\.(?:/|$)", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)")
_SIGN_OF_A_LIST = re.compile(r"[\s,;|:&=@!+?#\"'`<>(){}\[\]]")
_MOST_STARTS, _LONGEST_LIST = 64, 1024
_START_OF_PATH = re.compile(r"/|~|\.\.?(?:/|$)")
_TOP_OR_HOME = re.compile(r"~|(?:-C|(?:.*[^/.])?(?<=[=@]))?[/.]+\Z", re.DOTALL)
_SHELL_SIGNS = re.compile(r"[\s;|&<>()`]+")


Texts: TypeAlias = "Iterator[tuple[str, str, Kind]]"
"""Each a text, how it comes about (in words for `explain`), and the kind that it is judged as."""


class CandidateTexts(Struct, frozen=True):
    """Lists the texts of one call's candidates that are judged.

    The tracer is asked only which names there are on the disk.
    """

    tracer: PathTracer
    reader: Reader
    posix: bool
    local_paths: LocalPaths

    def of(self, candidate: PathCandidate, value: str) -> Texts:
        """Yield the texts of a candidate whose value is a string.

        Raises:
            PathError: the value cannot be read for certain, or in too many ways.
        """
        key = candidate.key[-LONGEST_KEY:]
        is_of_mount = candidate.kind is Kind.WEAK and is_mount(key)
        mounted = _MOUNTED.fullmatch(value) if is_of_mount and not is_local_uri(value) else None
        is_patch = candidate.kind is not Kind.PAYLOAD and (not candidate.whole or takes_patch(key))
        named = patched_names_in(value, mentions="@" in candidate.why) if is_patch else ()
        one_path = replace(self.reader, whole=True)
        yield from ((one, NAMED, Kind.WEAK) for path in named for one in readings(path, one_path))
        if candidate.whole and len(value) < PATH_MAX:
            yield from self._readings(value, candidate.kind, one_path)
            return
        is_command = candidate.kind is Kind.COMMAND
        if is_command and not candidate.is_element and takes_arguments(key):
            # A line of arguments for a program that is named elsewhere.
            yield from self._texts_of_command(value, starts=True, is_line=False)
            return
        if is_command and candidate.is_element and value[:1] == '"':
            yield from self._texts_of_value(Kind.NEUTRAL, value)  # JSON, if the program reads that
        if candidate.kind is Kind.GLOB or (is_command and candidate.is_element):
            short = with_short_roots(value, self.reader, "start", is_pattern=not is_command)
            found = self.tracer.found_by_shell(value) if short != value else ()
            yield from ((path, FOUND, Kind.NEUTRAL) for path in found)
            value = short
        if mounted is None:
            yield from self._texts(candidate.kind, without_targets(value) if is_of_mount else value)
            typed = is_typed(key, candidate.why) or value.endswith("\r")
            if candidate.kind is Kind.NEUTRAL and typed:
                yield from self._texts_of_typed(value)
            return
        yield from self._texts(Kind.WEAK, mounted[1])
        tracer, whole = self.tracer, f"{mounted[1]}:"
        if ".." in value or (tracer.exists if tracer.is_absolute(whole) else tracer.has)(whole):
            yield from self._readings(value, Kind.WEAK, one_path)

    def _texts(self, kind: Kind, value: str) -> Texts:
        if kind is Kind.COMMAND or (kind in {Kind.NEUTRAL, Kind.WEAK} and is_options(value)):
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
            if kind is Kind.GLOB and "\\" in value and self.posix:
                reader = replace(self.reader, is_pattern=True)
                yield from self._readings(_ESCAPE.sub(r"\1", value), kind, reader)

    def _texts_of_path(self, value: str) -> Texts:
        """Yield the value as one path, and the parts that some child may take for paths."""
        one = readings(value, replace(self.reader, whole=True, as_shell=True))
        for text, how in one.items():
            # A host is seldom meant as a directory: it counts where `/` has one of its name.
            yield text, how, Kind.NEUTRAL if how == WITH_HOST else Kind.PATH
        if not reads_as_one_path(value):
            reader = replace(self.reader, as_shell=True, is_path=True)
            for text, how in readings(value, reader).items():
                if text not in one:
                    yield text, how, Kind.NEUTRAL
                    yield from self._tops_of(text)
            for text in one:
                yield from self._starts_of(text)
        yield from self._without_host(value)
        if is_remote(value):
            yield from self._climbing(value)

    def _starts_of(self, path: str) -> Texts:
        """Yield the starts of an absolute path that are there: a child may take it for a list.

        One that begins with a folder's path as it is has been taken apart already.
        """
        if path[:1] != "/" or path.startswith(self.reader.folders):
            return
        for sign in islice(_SIGN_OF_A_LIST.finditer(path, 1), _MOST_STARTS):
            if self.tracer.exists(start := path[: sign.start()]):
                yield start, ITEM, Kind.NEUTRAL

    def _without_host(self, value: str) -> Texts:
        path = without_host(value.strip())
        if path is not None and not self.posix:
            path = path.lstrip("/") if DRIVE.match(path.lstrip("/")) else None
        if path is not None:
            yield from self._readings(path, Kind.NEUTRAL, replace(self.reader, whole=True))

    def _texts_of_value(self, kind: Kind, value: str) -> Texts:
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
            return replace(self.reader, whole=True)
        if kind is Kind.WEAK:
            return replace(self.reader, as_shell=True)
        return replace(self.reader, words="names", is_pattern=kind is Kind.GLOB)

    def _texts_of_url(self, kind: Kind, value: str) -> Texts:
        # An argument whose name says nothing of paths may take any URL: ignore its query.
        yield from self._climbing(_QUERY.split(value, 1)[0] if kind is Kind.NEUTRAL else value)
        yield from self._without_host(value)
        if "::" in value:
            yield from self._readings(value, Kind.NEUTRAL, self.reader)
        elif is_server(value):
            parts = self._readings(value, Kind.NEUTRAL, self.reader)
            yield from (part for part in parts if part[0] != value)

    @staticmethod
    def _climbing(uri: str) -> Texts:
        if (path := climbing(uri)) is not None:
            yield path, "as a relative path", Kind.WEAK

    def _texts_of_typed(self, value: str) -> Texts:
        """Yield the words of what may be typed into a shell that runs.

        Of prose and long texts only the paths count, none of several lines or of a sentence.
        """
        if " " not in value:
            return
        only_paths, reader = len(value) >= PATH_MAX or is_prose(value), self._shell()
        if only_paths and ("\n" in value.strip() or value.strip()[0].isupper()):
            return
        if mounts_whole_disk(value, reader, self.tracer.effort):
            yield "/", SIDE, Kind.WEAK
        for word in dict.fromkeys(with_short_roots(value, self.reader, "quoted").split()):
            if not only_paths or _START_OF_PATH.match(word):
                yield from self._texts_of_word(word, reader, is_part=True)

    def _texts_of_command(self, value: str, *, starts: bool, is_line: bool = True) -> Texts:
        for _, texts in self.words_of_command(value, starts=starts, is_line=is_line):
            yield from texts

    def words_of_command(
        self, value: str, *, starts: bool = True, is_line: bool = True
    ) -> Iterator[tuple[str, Texts]]:
        """Yield the words of a command that can be paths, each with its texts that are judged.

        `starts`: the first word names the program. `is_line`: that program gets all the words.
        """
        self.tracer.effort.spend(effort_to_read(value))
        reader, is_whole = self._shell(), starts and is_line
        value = without_interpreters(with_plain_signs(value, reader.env))
        written = entered = value = without_inert(value, posix=self.posix) if is_whole else value
        if mounts_whole_disk(value, reader, self.tracer.effort):
            yield "/", iter((("/", SIDE, Kind.WEAK),))
        if is_whole and len(value) <= PATH_MAX:
            value = without_mount_targets(value)
            entered = from_its_link(value, self.local_paths.is_new)
            entered = self.local_paths.from_entered(entered, reader.env)
        # No program opens all of a command as one name that starts with `cd`.
        short = with_short_roots(entered, self.reader)
        uncut = () if entered != value else uncut_words(short)
        value = with_short_roots(entered, self.reader, "escaped")
        spellings = list(dict.fromkeys(spellings_of(value, reader)))
        self.tracer.effort.spend(sum(map(len, spellings)) + len(value) // _CHARACTERS)
        scripts = {spelling: ways_to_parse(spelling) for spelling in spellings}
        words, runs_program = words_in(scripts, starts=starts), self.local_paths.runs_program
        runs = {text for text, word in words.items() if word.runs and runs_program(text)}
        self.local_paths.check_new_links(value, words)
        for word in (one for one in words if one not in runs):
            yield word, self._texts_of_shell_word(words[word], reader)
        known = {**reader.env, **variables_set_in(value, reader.env)}
        yield from ((word, self._texts_from_top(words[word], known)) for word in words)
        quoted = dict.fromkeys(word for word in quoted_words(short) if word not in words)
        yield from ((word, iter(((word, ONE_NAME, Kind.NEUTRAL),))) for word in quoted)
        whole = replace(self.reader, as_shell=True, words="never")
        inner = (one for one in inner_commands(value, scripts) if one != written)
        yield from ((one, self._texts_of_command(one, starts=True)) for one in dict.fromkeys(inner))
        for word in (one for one in dict.fromkeys(uncut) if one not in words):
            given = ShellWord(word, expands(word), globs=False, runs=False, creates=False)
            texts = self._texts_of_shell_word(given, whole)
            yield word, (one for one in texts if not (one[0] in runs or is_harmless(one[0])))

    def _texts_of_shell_word(self, word: ShellWord, reader: Reader) -> Texts:
        text = with_short_roots(word.text, self.reader, is_pattern=word.globs)
        is_wild = word.expands or not self.posix
        return self._texts_of_word(text, replace(reader, expands=is_wild, globs=word.globs))

    def _shell(self) -> Reader:
        """Return the reader for a shell, which sets `PWD` itself."""
        env = {**self.reader.env, "PWD": cwd} if (cwd := self.tracer.cwd) else self.reader.env
        return replace(self.reader, as_shell=True, env=env)

    def _texts_of_word(self, word: str, reader: Reader, *, is_part: bool = False) -> Texts:
        if is_local_uri(word):
            yield from self._texts_of_path(word)
        elif self.posix and not (is_shaped(word) or WILDCARD.search(word) or "%" in word):
            yield from self._names_in(word)
            if is_prose(word):
                yield from ((name, ONE_NAME, Kind.NEUTRAL) for name in quoted_names_in(word))
        else:
            # In a longer text a lone slash is only punctuation.
            kind = Kind.NEUTRAL if is_part or not _TOP_OR_HOME.match(word) else Kind.WEAK
            try:
                found = readings(word, reader)
            except TooManyWaysError:
                yield from self._texts_of_rich_word(word, reader)
                return
            for text, how in found.items():
                if _WILD_CLIMB.match(text):
                    raise PathError("it has '..' after a wildcard")
                yield text, how, kind
            yield from self._without_host(word)
            if self.posix:
                yield from self._tops_of(word)
                paths = self.local_paths.found_by_shell(found) if reader.globs else ()
                yield from ((path, FOUND, Kind.NEUTRAL) for path in paths)

    def _texts_of_rich_word(self, word: str, reader: Reader) -> Texts:
        """Yield the texts of a word that has too many readings, such as JSON or code in quotes.

        It is split as an inner shell would, and a part that is still too rich at each of its signs.

        Raises:
            TooManyWaysError: a part has alternatives in braces that a shell joins to names.
        """
        forms = readings(word, replace(reader, whole=True))
        parts = dict.fromkeys(part for form in forms for part in _SHELL_SIGNS.split(form) if part)
        names: dict[str, None] = {}
        for form, how in forms.items():
            yield form, how, Kind.NEUTRAL
            self.tracer.effort.spend(_PER_SIGN * count_signs(form))
            names |= dict.fromkeys(names_in(form, words=True))
        for part in parts:
            if part not in forms:
                yield from self._texts_of_word(part, reader, is_part=True)
                continue
            if joins_braces(part):
                raise TooManyWaysError
            for piece in smallest_pieces_in(part):
                yield from self._readings(piece, Kind.NEUTRAL, reader)
        yield from ((name, ONE_NAME, Kind.NEUTRAL) for name in names if name not in parts)

    def _tops_of(self, word: str) -> Texts:
        """Yield the paths for the top directories that a shell finds for a word with a wildcard."""
        if word[:1] != "/" or not WILDCARD.search(word):
            return
        first, _, rest = word.lstrip("/.").partition("/")
        tops = self.tracer.matching(plainly(first))
        yield from ((f"/{top}/{rest}", FOUND, Kind.NEUTRAL) for top in tops)

    def _texts_from_top(self, word: ShellWord, env: Mapping[str, str]) -> Texts:
        """Yield what a shell may find in the top folder, or create there, for a word."""
        for path in created_paths(word.text, env) if word.creates else ():
            yield path, SIDE, Kind.WEAK
        for form in forms_from_top(word.text, env):
            yield from ((("/", SIDE, Kind.WEAK),) if form == "/" else self._tops_of(form))

    def _names_in(self, text: str) -> Texts:
        """Yield the parts of a text without path signs that can be file names.

        Most are none. Such a name leads outside only if it is a link.
        """
        if _SHAPE_OF_A_NAME.fullmatch(text):
            yield text, "as given", Kind.NEUTRAL
            if SHORT_OPTION.match(text):
                yield text[2:], "the right-hand side", Kind.NEUTRAL
            return
        if len(text) <= _LONGEST_LIST and _BRACED.match(text) and not is_prose(text):
            yield from self._texts_of_value(Kind.NEUTRAL, text)
        for whole in dict.fromkeys((text, *self._decoded(text))):
            if "\x00" not in whole:  # no name has a NUL, but some children read only up to it
                yield whole, "as given" if whole == text else "percent-decoded", Kind.NEUTRAL
            if not is_prose(whole):
                self.tracer.effort.spend(_PER_SIGN * count_signs(whole))
                names = names_in(whole, words=is_list_of_words(whole))
                yield from ((name, ONE_NAME, Kind.NEUTRAL) for name in names)

    def _decoded(self, text: str) -> Iterator[str]:
        if ("%" in text or not text.isascii()) and len(text) <= _LONGEST_LIST:
            yield from readings(text, replace(self.reader, whole=True))

    def _long_texts(self, kind: Kind, value: str) -> Texts:
        """Yield what a child may make of a value that is longer than any path, by tidying it up.

        Raises:
            PathError: the value is a path that stays too long, or cannot be read for certain.
        """
        if (doubt := doubt_about(value, kind)) is not None:
            raise PathError(doubt)
        forms, rest = shortened(value, self.reader)
        for form in forms:
            for text, how, of in self._texts(kind, form):
                yield text, f"tidied up, {how}", of
        if not is_one_path(rest):
            return
        if kind is Kind.GLOB:
            yield rest, "tidied up", kind
        elif self.local_paths.is_long_path(straightened(rest), kind):
            raise PathError("it is longer than any path can be")
        for piece in paths_in(rest):
            yield from self._texts(kind if kind is Kind.GLOB else Kind.NEUTRAL, piece)

    def _readings(self, text: str, kind: Kind, reader: Reader) -> Texts:
        yield from ((reading, how, kind) for reading, how in readings(text, reader).items())
