"""Split a shell command into the words that can be paths."""

from __future__ import annotations

import re
import sys
from collections.abc import Container, Generator, Iterable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple

from hub.guard.text.assignments import COMPUTES, split_elsewhere, with_assigned
from hub.guard.text.code import constants_in, with_folders_of_code
from hub.guard.text.expansion import NUMBER, SEQUENCE, VARIABLE, defaulted
from hub.guard.text.inert.signs import RUNS_SCRIPTS
from hub.guard.text.names import SERIAL_PORT
from hub.guard.text.printed import texts_run
from hub.guard.text.programs import PREFIXES, RUN_BY_OPTION, RUNNERS, WordContext
from hub.guard.text.readings import Reader
from hub.guard.text.shell import (
    QUOTE_SIGNS,
    QUOTED,
    HereDocument,
    Script,
    SimpleCommand,
    without_remarks,
)
from hub.guard.text.sure_commands import goes_home
from hub.paths.resolve import Flavour

_ANSI = re.compile(r"\$'([^'\\]*+(?:\\.[^'\\]*+)*)'", re.DOTALL)
_CODE = re.compile(
    r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3}))|\\(.)",
    re.DOTALL,
)
_WILD = re.compile(rf"[*?\[]|{SEQUENCE.pattern}")
_READS_LINES = re.compile(r"cat|tee|apply_patch|patch|git|jq")
_READS_CODE = re.compile(
    r"python[\d.]*|node|ruby|perl|php|psql|mysql|sqlite3|docker|podman|kubectl"
)
"""Programs that read the lines of a here-document, and are no shells."""
_ENDS = frozenset({"}", "done", "fi", "esac"})
"""Words that end several commands, which may be piped to a shell together."""
_OF_INNER_SHELL = re.compile(r"[\s<>{;]|\$\w")
"""Signs that a quoted text has if it is a command of its own."""
_ASSIGNMENT = re.compile(r"\w+=")
_SEARCH_PATH = re.compile(r"([A-Z][A-Z_]*PATH=)[^:]*:(?!//)")
_GLUED = re.compile(r"\$([A-Za-z_]\w*)(?=['\"\\]+\w)", re.ASCII)
_LONG = 4096
_PER_SIGN = 16
"""The effort of taking a long command apart at each of these signs, several times over."""
_SIGNS = "\n;&|()<>#'\"`$\\"
_FINDS_HIDDEN = re.compile(r"dotglob|globdots|glob_dots|GLOBIGNORE", re.IGNORECASE)
_FINDS_ANY_CASE = re.compile(r"no_?case_?glob", re.IGNORECASE)
_LEADING_STAR = re.compile(r"(?<![^\s/'\"=,{(])\*+")
_BESIDE_WILD = re.compile(r"[A-Za-z](?=[^\s/;&|]*[*?\[])|(?<=[*?\]])[A-Za-z]+")
_IN_WORD = re.compile(r"(?:(?<=[\w./])|(?<=[\w./]['\"]))(?:\$\([^()`]*\)|`[^`]*`)")
"""What a shell computes behind the start of a word, and may be nothing: `l$(x)s`."""
_SUM = re.compile(r"\$\(\([^()]*(?:\([^()]*\)[^()]*)*\)\)|\$\[[^\[\]]*\]")
_INNER_SHELL = re.compile(
    r"sh|su|eval|\$|watch|tmux|scr|parallel|entr|nodemon|conc|hyper|flock|xterm|expect|unbuf|exec|run"
    r"|command|cmd|alias|npx|npm|env|program|trap|COMMAND|PAGER|EDITOR|xargs|system|popen|spawn"
    r"|call|check_|output|\||(?<![\w.-])\.(?=\s)|\./"
)
"""Each command that hands another one to a shell has one of these."""
_RUN_NEXT = frozenset({"eval", "--exec", "--run", "--command", "--cmd", "-S", "foreach", "trap"})
_NAME = re.compile(r"[\w./:@%+=,*?\[\]-]+")
_SEVERAL_WORDS = re.compile(r"\S\s+\S")
_SCRIPT_IN_VARIABLE = re.compile(r"(?:\w+|\[[^\]\s]*\])\+?=(?=\S[^\n]*\s)(.*[$`(].*)", re.DOTALL)
"""A word that sets a variable to what may be a script that computes something."""
_SHELL = re.compile(r"(?:.*/)?(?:[akz]|ba|da|fi)?sh|su|.*/su|npx|npm|flock|script")
_COMMAND_OPTION = re.compile(r"-[A-Za-z]*c[A-Za-z]*")
_PWD = re.compile(r"\$(?:PWD\b|\{PWD\})")
_NULL_IN_COMMAND = re.compile(r"(?<![^\s'\"=<>])/dev/(?:null|zero|u?random|tty)(?![^\s'\";|&)])")
_EXECUTABLE = re.compile(r"/(?:usr/(?:local/)?|opt/homebrew/)?s?bin/[\w.+-]+", re.ASCII)
_INTERPRETER = re.compile(rf"(?<![^\s'\"])#![ ]?{_EXECUTABLE.pattern}(?=[\s'\"]|$)", re.ASCII)
_INSTALLED = re.compile(r"(?:/[^/]+)*/bin/(?:python|pypy|node|ruby)[\d.]*")
_DEVICE = re.compile(rf"/dev/(?:null|zero|u?random|tty)|{SERIAL_PORT}", re.ASCII)
_ENDS_WORD = ";&|)"
_STREAMS = frozenset({"/dev/stdin", "/dev/stdout", "/dev/stderr"})
_ALTERED = re.compile(r"[;&|<>()\"'\\`]")
_URL_IN_QUOTES = re.compile(r"(?<!\S)(['\"])https?://[^\s'\"`$\\]+\1", re.IGNORECASE)
_LONGEST_WORD = 512
_LINKS = re.compile(
    r"(?<![\w.-])(?:ln|cp(?= .{0,4096}?(?:-\w*s|--symbolic-link)\b))(?![\w.-])", re.DOTALL
)
_BEFORE_A_NAME = re.compile(r"\\(?![;(){}&|!\"'$`\n])")
"""A backslash that another shell takes for a separator; not before signs that start no name."""
_WINDOWS_HOME = re.compile(r"\$(?:home\b|\{home\})", re.IGNORECASE)
_GLUED_ON_WINDOWS = re.compile(r"(?:(?<![^&|(\n;])|(?<=[&|;] ))(?:cd|chdir|dir|type)(?=\\)", re.I)
_ODD_SPACE = re.compile(r"[^\S \t\n]")


def is_program(word: str) -> bool:
    """Return whether `word` is the full path of a system program, such as `/usr/bin/env`."""
    return _EXECUTABLE.fullmatch(word) is not None


def is_installed(path: str) -> bool:
    """Return whether `path` is a system program, or an interpreter wherever it is installed."""
    return is_program(path) or _INSTALLED.fullmatch(path) is not None


def without_interpreters(command: str) -> str:
    """Return a command without the programs that run the scripts in it: `#!/bin/sh`."""
    return _INTERPRETER.sub("#!", command) if "#!" in command else command


def plainly_quoted(command: str) -> str:
    r"""Return a command with its `$'...'` strings decoded: `$'\x2f'` becomes `'/'`."""
    return _ANSI.sub(lambda quoted: _quote(_CODE.sub(_character, quoted[1])), command)


def _quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _character(code: re.Match[str]) -> str:
    digits = code[1] or code[2] or code[3]
    if not digits and not code[4]:
        return code[5] if code[5] in "\\'\"?" else " "
    number = int(digits, 16) if digits else int(code[4], 8)
    return chr(number) if number <= sys.maxunicode else "\ufffd"


def is_harmless(text: str) -> bool:
    """Return whether `text` is a system program, a stream or a device such as `/dev/null`.

    A stream's number may stand behind it, or the signs where a shell ends the word: `/dev/null;`.
    """
    name = text.removesuffix(" 2").removesuffix(" 1").rstrip(_ENDS_WORD)
    return bool(_DEVICE.fullmatch(name)) or name in _STREAMS or is_program(name)


class ShellWord(NamedTuple):
    """A word of a command without its quotes.

    `expands`: a shell may expand the wildcards in it; not those in the quotes of a pattern that is
    searched for. `globs`: a shell looks for files by the word as a whole. `runs`: it names the
    program that is run. `creates`: it may name a new file.
    """

    text: str
    expands: bool
    globs: bool
    runs: bool
    creates: bool


def expands(text: str) -> bool:
    """Return whether a shell expands a wildcard in `text`, and not only passes it on in quotes.

    A quoted text that may be a command itself counts as one that another shell expands.
    """
    return _WILD.search(text) is not None and _WILD.search(QUOTED.sub(_if_inner, text)) is not None


def _if_inner(quoted: re.Match[str]) -> str:
    return quoted[0] if _OF_INNER_SHELL.search(quoted[1] or quoted[2] or "") else ""


def _without_colons(word: str) -> list[str]:
    """Return a word, or the folders of a list of folders to search: `PYTHONPATH=a:b`."""
    name = _SEARCH_PATH.match(word)
    return [f"{name[1]}{one}" for one in word[name.end(1) :].split(":")] if name else [word]


def words_of(command: str, scripts: Iterable[Script], *, starts: bool) -> Iterator[ShellWord]:
    """Yield the words of a command that can be paths: no system programs, null device or streams.

    `scripts` are the ways to parse it. `starts`: the first word names the program.
    """
    context = WordContext(computes=COMPUTES.search(command) is not None)
    # The lines of a document and the elements of a list are no commands.
    may_run = "<<" not in command and "=(" not in command
    signs = RUNS_SCRIPTS.finditer(command) if "<<" in command else ()
    last_run = max((command.rfind("$("), *(one.end() - 1 for one in signs)))
    for script in scripts:
        piped = (one.words[-1:] for one in script.commands if one.after == "|")
        pipes = any(word.raw in _ENDS for words in piped for word in words)
        documents = script.documents if not pipes else ()
        # By their ids: there may be very many.
        literal = {id(one.owner) for one in documents if _is_only_text(one, command, last_run)}
        for one in script.commands:
            # Where a quote is not closed it is unknown where a command ends.
            context = context.behind(one.before, goes_on=not script.is_closed)
            program = starts or one.before != "" or one.depth > 0
            runs = may_run and one.before not in {")", "`"}
            finds = id(one.lines_of) not in literal
            context = yield from _judged_words(
                one, context, program=program, runs=runs, finds=finds
            )
            if goes_home(one, command):
                yield ShellWord("~", expands=True, globs=False, runs=False, creates=False)


def _is_only_text(document: HereDocument, command: str, last_run: int) -> bool:
    """Return whether no shell reads the lines of a here-document, not even for wildcards.

    `last_run`: where the last sign is that a shell may.
    """
    owner, lines = document.owner, command[document.start : document.end]
    is_whole = owner.before != "(" and owner.after == "\n" and not owner.depth
    program = owner.words[0].raw if is_whole and owner.words else ""
    is_code = _READS_CODE.fullmatch(program) is not None
    is_read = is_code or _READS_LINES.fullmatch(program) is not None
    is_inert = document.is_literal or not COMPUTES.search(lines)
    return is_read and is_inert and last_run < (document.start if is_code else document.end)


def _judged_words(
    command: SimpleCommand, context: WordContext, *, program: bool, runs: bool, finds: bool
) -> Generator[ShellWord, None, WordContext]:
    for word in command.words:
        text, is_run = word.text, program and not word.operator
        is_device = _DEVICE.fullmatch(text.rpartition("=")[2]) or text in _STREAMS
        # An empty word names nothing.
        if text and not (is_device or (is_run and is_program(text))):
            # A pattern in quotes is not looked for by a shell.
            is_wild = expands(word.raw) if context.takes_pattern(text) else bool(_WILD.search(text))
            is_wild = is_wild and finds
            creates = ">" in word.operator or context.creates_file(text)
            is_last = word is command.words[-1] and command.after == ")"
            is_found = finds and (NUMBER in text or expands(word.raw))
            globs = is_found and not context.compares(is_last=is_last)
            for one in _without_colons(text):
                yield ShellWord(one, is_wild, globs, is_run and runs, creates)
        if not word.operator:
            context = context.then(text, program=is_run)
            program = is_run and (text in PREFIXES or _ASSIGNMENT.match(text) is not None)
    return context


def makes_links(command: str, words: Container[str]) -> bool:
    """Return whether a command may make a link, `words` being all its words."""
    return "ln" in words or _LINKS.search(command) is not None


def inner_commands(command: str, spellings: Mapping[str, list[Script]]) -> Iterator[str]:
    """Yield the commands that a command hands to another shell, as in `sh -c 'ls /'`.

    `spellings` has the ways to parse each of its spellings. A text that code puts together counts
    as a word for `xargs`.
    """
    parts = dict[str, None]()
    for spelling, scripts in spellings.items():
        joined = constants_in(spelling, _texts_of(spelling, scripts))
        yield from (f"xargs {one}" for one in joined)
        parts |= dict.fromkeys(split_elsewhere(spelling, scripts))
    if parts:
        # Behind that a shell looks for files.
        yield f"xargs {' '.join(one if _NAME.fullmatch(one) else _quote(one) for one in parts)}"
    if _INNER_SHELL.search(command) is None:
        return
    for spelling, scripts in spellings.items():
        yield from _with_arguments(scripts)
        yield from texts_run(spelling, scripts)
        is_shell = is_variable = waits = runs = False
        for word in _words_and_ends(scripts):
            if word is None:
                is_variable = waits = runs = False
                continue
            if waits or (runs and _SEVERAL_WORDS.search(word)):
                yield word
            ways = (RUN_BY_OPTION.fullmatch(word), _SCRIPT_IN_VARIABLE.fullmatch(word))
            yield from (of[1] for of in ways if of is not None)
            runs = runs or RUNNERS.fullmatch(word) is not None
            is_option, fixed = word[:1] in {"-", "+"}, VARIABLE.sub("", word)
            is_shell = is_shell or _SHELL.fullmatch(fixed) is not None
            is_variable = fixed == "" != word or (is_variable and is_option)
            starts = (is_shell or is_variable) and _COMMAND_OPTION.fullmatch(word) is not None
            waits = starts or word in _RUN_NEXT or (waits and is_option)


def _texts_of(command: str, scripts: list[Script]) -> Iterator[str]:
    """Yield the words of a command with quotes in them, and the lines of its here-documents."""
    for script in scripts:
        yield from (command[one.start : one.end] for one in script.documents)
        words = (word for one in script.commands for word in one.given if not one.lines_of)
        yield from (word.text for word in words if QUOTE_SIGNS.search(word.raw))


def _with_arguments(scripts: list[Script]) -> Iterator[str]:
    """Yield the scripts of `sh -c` behind which the script's own arguments stand, and are set."""
    for one in (one for script in scripts for one in script.commands):
        words = [word.text for word in one.given]
        for n, word in enumerate(words[:-2]):
            is_script = "$" in words[n + 1] and _COMMAND_OPTION.fullmatch(word) is not None
            if is_script and any(map(_SHELL.fullmatch, words[:n])):
                # What `find` puts in may be the folder that it starts in.
                given = (_quote(word.replace("{}", ".")) for word in words[n + 2 :])
                yield f"set -- {' '.join(given)}\n{words[n + 1]}"
                break  # the others are arguments of this one


def _words_and_ends(scripts: list[Script]) -> Iterator[str | None]:
    """Yield the words that programs may get, and None where one command surely ends."""
    for script in scripts:
        for one in script.commands:
            if one.before not in {"(", ")", "`"}:
                yield None
            yield from (word.text for word in one.given)


def words_in(spellings: Mapping[str, list[Script]], *, starts: bool) -> dict[str, ShellWord]:
    """Return the words of a command that are judged, for each way that a shell may read it.

    A word that stands several times `runs` if all of these do, and is the rest if one of them is.
    `spellings` and `starts` as in `inner_commands` and `words_of`.
    """
    words: dict[str, ShellWord] = {}
    found = (words_of(one, scripts, starts=starts) for one, scripts in spellings.items())
    for word in chain.from_iterable(found):
        old = words.get(word.text)
        if old is None or old == word:
            words[word.text] = word
            continue
        words[word.text] = ShellWord(
            word.text,
            old.expands or word.expands,
            old.globs or word.globs,
            old.runs and word.runs,
            old.creates or word.creates,
        )
    return words


def _with_more_found(command: str) -> str:
    """Return a command whose wildcards find what the options that it sets let them find."""
    if _FINDS_HIDDEN.search(command):
        command = _LEADING_STAR.sub("{?,}*", command)
    return _BESIDE_WILD.sub("*", command) if _FINDS_ANY_CASE.search(command) else command


def spellings_of(command: str, reader: Reader) -> Iterator[str]:
    """Yield a command as each shell may read it: with remarks and without, quotes decoded."""
    command = with_folders_of_code(_with_more_found(command))
    posix = reader.flavour is not Flavour.WINDOWS
    # A quote in a remark is none, and few kinds of space end a word: so it is read in each way.
    ways = (command, without_remarks(command), _ODD_SPACE.sub("_", command))
    remarked = dict.fromkeys(ways) if posix else ()
    computed = dict.fromkeys(
        form for one in remarked for form in (one, _IN_WORD.sub("", one), _SUM.sub(NUMBER, one))
    )
    assigned = dict.fromkeys(
        form for one in computed for form in (one, *with_assigned(one, reader.env))
    )
    spellings = [form for one in assigned for form in (one, *defaulted(one, reader.env))]
    for written in spellings:
        # `$"x"` is `"x"`.
        for spelling in dict.fromkeys((written, written.replace('$"', '"'))):
            # `$x'y'` is `${x}y`.
            if "$'" in spelling:
                yield _GLUED.sub(r"${\1}", plainly_quoted(spelling))
            yield _GLUED.sub(r"${\1}", spelling)
    if "\\" in command or not posix:
        # In the shells of Windows a backslash separates names; they escape in other ways.
        yield _BEFORE_A_NAME.sub("/", command) if posix else _as_windows_runs(command)


def _as_windows_runs(command: str) -> str:
    r"""Return a command with `/` for each backslash, `~` for `$HOME`, and `cd /` for `cd\`."""
    plain = _GLUED_ON_WINDOWS.sub(r"\g<0> ", _WINDOWS_HOME.sub("~", command))
    return plain.replace("\\", "/")


def uncut_words(command: str) -> Iterator[str]:
    """Yield the words that a shell would change, as they are without a shell; and a short command.

    A value may be one argument of a program that is started without a shell. `$PWD` is `.`.
    """
    command = _URL_IN_QUOTES.sub("x", _PWD.sub(".", command))
    words = command.split()
    yield from (word for word in words if _ALTERED.search(word))
    if len(command) <= _LONGEST_WORD and words and not is_program(words[0]):
        yield _NULL_IN_COMMAND.sub(".", command)


def quoted_words(command: str) -> Iterator[str]:
    """Yield the words of a command with quotes that a shell changes nothing in.

    A child that splits a command at spaces opens them, though a shell takes the quoted text as one.
    """
    if '"' in command or "'" in command:
        yield from (word for word in command.split() if not _ALTERED.search(word))


def effort_to_read(command: str) -> int:
    """Return the effort of taking a command apart; a short one takes too little to count."""
    if len(command) < _LONG:
        return 0
    return len(command) + _PER_SIGN * sum(map(command.count, _SIGNS))
