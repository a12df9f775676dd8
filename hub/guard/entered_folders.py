"""The folders that the `cd` of a command enters, and from where its `..` climb."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import chain, dropwhile, product, takewhile
from posixpath import normpath
from typing import TypeAlias

from msgspec import Struct

from hub.guard.text.assignments import FOLDER, MOST_VALUES, folders_given
from hub.guard.text.code import climbs_in_code
from hub.guard.text.expansion import VARIABLE
from hub.guard.text.shell import CommandWord, SimpleCommand, without_quotes
from hub.guard.text.sure_commands import (
    ACTIVATES,
    ANY,
    CHANGES_FOLDERS,
    GONE,
    IS_OF_SHELL,
    KEYWORDS,
    LOOPS,
    MOVES_PROGRAM,
    PLAIN_REMARK,
    SET_BEFORE,
    CommandLine,
    Replacement,
    harm_of,
    is_literal,
    may_hinder,
    may_not_run,
    remarks_behind,
    renames_programs,
    replaced,
)

_NAMES_FOLDER = re.compile(r"(\"?)[\w./@+-]*\$[\w{}]+[\w./@+-]*\1")
_PLAIN_FOLDER = re.compile(r"\w[\w@+-]*(?:[./]\w[\w@+-]*)*")
_PROGRAM = re.compile(r"[\w./-]*\w|\[\[?|[:.]")
_MOVES = {
    *("cd", "chdir", "pushd", "popd", "eval", "source", "trap", "shopt", "setopt"),
    *("alias", "enable", "select", "coproc"),
}
"""What else may change the folder that a command runs in, or how `cd` does so."""
_HIDES = re.compile(
    r"(?:(?:command|builtin|time) )+(?!(?:-[vV] )?\w[\w./-]*(?: |\Z))"
    r"|\. |time (?:-p )?(?:for|if|while|until)\b"
    r"|(?:export|readonly|declare|typeset|read|mapfile|readarray|getopts|printf -v)"
    r"(?: [^\s=]+(?:=\S*)?)* [^\s=]*\$"
)
"""Signs that nobody knows what is run or set, such as in `command $x` or `export $x=a`."""
_OTHER_CD = re.compile(r"CDPATH|IFS|PWD=|\bphysical\b|\bset (?:-\w+ )*-\w*P")
"""Signs that `cd` leads elsewhere than it says."""
_OPENS_NO_FOLDER = re.compile(
    r"(?:git (?:add|checkout|clone|commit|fetch|merge|pull|push|rebase|stash|submodule|switch)"
    r"|(?:npm|pnpm|yarn) (?:ci|run|test)|make|cargo|docker|command -v)\b"
)
"""Without a shell these open no folder behind another word that they do not know, such as `&&`."""
_Places: TypeAlias = frozenset[str]
_Disk: TypeAlias = tuple[Callable[[str], bool], Callable[[str], bool], Callable[..., list[str]]]
_NONE, _MOST_PLACES = frozenset[str](), MOST_VALUES
_CLIMB = re.compile(
    # At the start of a word, or of one in `$(...)`.
    r"""\A(?:(-[A-Za-z])|['"]?(?:-{0,2}[\w-]+=)?)(?=\.\.(?:/|['"]?\Z))|(?<=[\s=])(?=\.\.[/\s)])"""
)
_PLAIN_INNER = re.compile(rf"(?!(?s:.*)[\s(](?:{MOVES_PROGRAM.pattern}))[^'\\]*\$\([^'\\]*")
"""No script in quotes, which starts elsewhere itself, nor a program that does: `$(tar -C ..)`."""
_ABOVE, _ABOVE_NAME = re.compile(r"(?:\.\./?)+"), re.compile(r"[^./].*/\.\.")
_WILD_ABOVE = re.compile(r"(?=.*[*?\[{$])(?:[/$].|.*\.\.)|\{\}|xargs\Z")
"""What may name the folder that a command runs in, or one around that."""


def from_entered_folders(
    command: str,
    env: Mapping[str, str],
    enters: Callable[[str], bool],
    makes: Callable[[str], bool],
    finds: Callable[[str, str], list[str]],
) -> str:
    """Return a command with the folder that its `..` start in before them.

    `enters`: whether a folder is there, wherever a relative path can start; `makes`: whether
    `mkdir -p` surely makes it, if it is not there; `finds`: what a wildcard finds in a folder.
    For `cd a && ls ..` it is `cd a && ls a/..`, and so for `cd a; ls ..` if `a` is there. It is
    `ls {.,a}/..` where nobody knows whether `cd` was done.
    """
    moves = ".." in command and re.search("cd |pushd ", command) and "CDPATH" not in env
    if not moves or _OTHER_CD.search(without_quotes(command)):
        return command
    line, disk = CommandLine.of(command), (enters, makes, finds)
    climbs, behind = _climbs_in(line, env, disk), remarks_behind(command, line.script)
    # A shell that knows no remarks gives them to the commands: it must go the same way.
    if behind and not (
        all(map(PLAIN_REMARK.fullmatch, behind))
        and _climbs_in(CommandLine.of(command, remarks=False), env, disk) == climbs
    ):
        return command
    return replaced(command, (Replacement(start, start, folder) for start, folder in climbs))


def _climbs_in(line: CommandLine, env: Mapping[str, str], disk: _Disk) -> list[tuple[int, str]]:
    commands = line.sure if not renames_programs(line.text) else []
    is_aside = any("&" in {*one.signs, one.after} for one in commands)
    if is_aside and "mv" in line.text:  # it may move the folder that another command is in
        return []
    words = [word.raw for one in commands[:1] for word in one.given]
    words = list(dropwhile(SET_BEFORE.match, words)) or ["cd"]
    if not (words[0] in IS_OF_SHELL or _OPENS_NO_FOLDER.match(" ".join(words))):
        return []
    values = folders_given(line.text, commands, env)
    in_code = partial(climbs_in_code, line.text, line.script.documents)
    ways = (_Walk(commands, values, disk, is_careful=how) for how in (False, True))
    found = (way.climbs(words[0], in_code) for way in ways)
    return next((one for one in found if one is not None), None) or []


class _LostError(Exception):
    """Nobody knows any more which folder a shell is in, or what a loop pushes."""


class _Compound(Struct):
    """A command of several: `word` opens it, `sign` is before it, `entry` where it starts.

    `outer`: where the command before ended, and its list starts; `names`: the variables that are
    set there. `other`: where its next branch starts; `done` and `failed`: where those before end.
    """

    word: str
    sign: str
    entry: _Places
    outer: tuple[_Places, _Places, tuple[_Places, frozenset[str]]]
    names: frozenset[str]
    other: _Places = _NONE
    done: _Places = _NONE
    failed: _Places = _NONE


class _Walk:
    """Follows the folders that a shell may be in through the commands of a script.

    `_done` are those if the last command went well, `_failed` if not; `.` is where it starts.
    `values` are those of variables. `is_careful`: no `cd` in a loop counts as done, so that the
    loop may start again below where it started.
    """

    def __init__(
        self,
        commands: list[SimpleCommand],
        values: dict[str, list[str]],
        disk: _Disk,
        *,
        is_careful: bool,
    ) -> None:
        self._commands, self._values, self._given = commands, {**values}, values
        self._enters, self._makes, self._finds = disk
        self._made: dict[str, int] = {}
        self._is_careful = is_careful
        self._done, self._failed, self._sign = frozenset({"."}), _NONE, ";"
        self._entry = self._done
        self._open = list[_Compound]()
        self._names, self._pushed = frozenset[str](), _NONE
        self._list = (self._done, self._names)
        self._awaits_do = False
        self._most_harm = max(map(harm_of, commands), default=0)
        is_aside = any("&" in {*one.signs, one.after} for one in commands)
        self._harm = self._most_harm if is_aside else 0
        self._is_odd = is_aside

    def climbs(
        self, first: str, in_code: Callable[[SimpleCommand], Iterator[int]]
    ) -> list[tuple[int, str]] | None:
        """Return what to put before each `..`; None if a loop may start elsewhere the next time."""
        found = list[tuple[int, str]]()
        try:
            for one in self._commands:
                for sign in one.signs:
                    self._pass(sign)
                words = self._behind_keywords(one)
                start = sorted(self._start() if words else self._entry)
                at = start[0] if len(start) == 1 else f"{{{','.join(start)}}}"
                if start not in ([], ["."]):
                    found += _climbs_of(one, at, first)
                    found += ((n, f"{at}/") for n in in_code(one) if len(start) == 1)
                if words:
                    self._run(one, words)
                self._is_odd = self._is_odd or may_hinder(one)
        except _LostError:
            return None if any(one.word in LOOPS for one in self._open) else found
        return found

    def _start(self) -> _Places:
        if self._sign != "|":  # all commands of a pipe start in one folder
            rest = {"&&": self._done, "||": self._failed}
            self._entry = rest.get(self._sign, self._done | self._failed)
            if self._sign not in rest:
                self._list = (self._entry, self._names)
        return self._entry

    def _end(self, done: _Places, failed: _Places, after: str) -> None:
        if "|" in {self._sign, after}:  # in another shell, or not
            done, failed = done | self._entry, failed | self._entry
        self._failed = failed | (self._failed if self._sign in {"&&", "|"} else _NONE)
        self._done = done | (self._done if self._sign in {"||", "|"} else _NONE)
        self._sign = ""
        if len(self._done | self._failed) > _MOST_PLACES:
            raise _LostError

    def _pass(self, sign: str) -> None:
        if sign == "(":
            self._begin(sign)
        elif sign == ")":
            self._close("(", None)
        elif sign == "&":  # all of the list ran in another shell
            (self._done, self._names), self._failed, self._sign = self._list, _NONE, ";"
        else:
            self._sign = sign

    def _begin(self, word: str) -> None:
        entry = self._start()
        outer = (self._done, self._failed, self._list)
        self._open.append(_Compound(word, self._sign, entry, outer, self._names))
        self._done, self._failed, self._sign = entry, _NONE, ";"
        if word in LOOPS:
            self._harm = ANY if self._is_careful else self._most_harm

    def _behind_keywords(self, command: SimpleCommand) -> list[CommandWord]:
        words = command.given
        for n, word in enumerate(words):
            if self._awaits_do and word.raw != "do":  # `for x in a; { ls; }`
                raise _LostError
            self._awaits_do = word.raw == "for"
            if word.raw not in KEYWORDS:
                return words[n:]
            if word.raw in LOOPS | {"if", "{"}:
                self._begin(word.raw)
            elif word.raw in {"fi", "done", "}"}:
                self._close(word.raw, command)
            else:
                self._turn(word.raw)
            if word.raw == "for":
                self._names |= {one.text for one in words[n + 1 : n + 2]}
                self._find(words[n + 1].text)
                break
        return []

    def _find(self, name: str) -> None:
        """Note what the wildcards stand for that a variable of a loop is given."""
        *around, loop = self._open
        values = self._given.get(name, [])
        if len(loop.entry) == 1 and LOOPS.isdisjoint(one.word for one in around):
            at = next(iter(loop.entry))
            found = (self._finds(at, one) if "*" in one else [one] for one in values)
            values = list(chain.from_iterable(found))
        self._values[name] = values  # not those of a loop before, which may start elsewhere

    def _turn(self, word: str) -> None:
        """Go on with the next branch of a command: behind `then`, `elif`, `else` or `do`."""
        opens = LOOPS if word == "do" else {"if"}
        if not self._open or self._open[-1].word not in opens:
            raise _LostError
        one = self._open[-1]
        if word in {"then", "do"}:
            ends = (self._done, self._failed if one.word != "for" else one.entry)
            self._done, one.other = ends if one.word != "until" else ends[::-1]
        else:
            one.done, one.failed = one.done | self._done, one.failed | self._failed
            self._done, one.other = one.other, _NONE
            self._names = one.names
        self._failed, self._sign = _NONE, ";"

    def _close(self, word: str, command: SimpleCommand | None) -> None:
        closes = {"(": {"("}, "fi": {"if"}, "done": LOOPS, "}": {"{"}}[word]
        if not self._open or self._open[-1].word not in closes:
            raise _LostError
        one = self._open[-1]
        done, failed = one.done | self._done | one.other, one.failed | self._failed
        if command is not None and may_not_run(command):
            failed |= one.entry
        if word == "done" and not all(map(partial(self._starts_again, one.entry), done | failed)):
            raise _LostError
        if word == "(":
            done = failed = one.entry
        elif word == "done":
            failed = done = done | failed
        self._open.pop()
        (self._done, self._failed, self._list), self._names = one.outer, one.names
        self._sign, self._entry = one.sign, one.entry
        self._end(done, failed, command.after if command is not None else "")

    def _starts_again(self, starts: _Places, folder: str) -> bool:
        is_below = self._is_careful and folder[:2] != ".."
        above = [f"{one}/".removeprefix("./") for one in starts]
        return folder in starts or (is_below and any(map(f"{folder}/".startswith, above)))

    def _run(self, command: SimpleCommand, words: list[CommandWord]) -> None:
        given = list(takewhile(lambda word: SET_BEFORE.match(word.raw), words))
        program, *behind = [word.raw for word in words[len(given) :]] or ["true"]
        if len(given) == len(words) and self._sign in {"", ";", "\n"} and command.after != "|":
            self._names |= {word.text.partition("=")[0] for word in given}
        enters = program in {"cd", "pushd"} and len(behind) == 1
        folders = self._folders(words[-1]) if enters else []
        if folders:
            self._pushed |= self._entry if program == "pushd" else _NONE
            self._enter(command, folders, is_known=program == "cd")  # not each shell has `pushd`
            return
        if program == "popd" and not (behind or LOOPS & {one.word for one in self._open}):
            self._end(self._pushed, self._entry, command.after)
            return
        if not _PROGRAM.fullmatch(program) or _may_move(words, self._entry):
            raise _LostError
        ends = program in {"exit", "break", "continue"}
        is_plain = not (behind[1:] or "".join(behind).strip("0123456789") or may_not_run(command))
        if ends and program != "exit":
            self._leave(is_plain=is_plain and not behind)
        rest = _NONE if ends and is_plain else self._entry
        sign = self._sign
        self._end(rest, rest, command.after)
        self._harm = max(self._harm, harm_of(command))
        self._made = {one: max(harm, harm_of(command)) for one, harm in self._made.items()}
        is_run = sign in {";", "\n"} and command.after not in {"|", "&"}
        is_run = is_run and len(self._made) < _MOST_PLACES
        if program == "mkdir" and is_run and not (self._is_odd or self._open):
            self._make(command, behind)

    def _make(self, command: SimpleCommand, words: list[str]) -> None:
        """Note the folders that `mkdir` surely makes, if they are not there."""
        names = [word for word in words if word not in {"-p", "-v", "-pv"}]
        if all(map(_PLAIN_FOLDER.fullmatch, names)) and not may_not_run(command):
            made = {normpath(f"{at}/{name}") for at in self._entry for name in names}
            above = {one.rpartition("/")[0] for one in made} - {"", *self._made}
            if {"-p", "-pv"} & {*words} or all(map(self._enters, above)):
                self._made |= dict.fromkeys(filter(self._makes, made), 0)

    def _leave(self, *, is_plain: bool) -> None:
        """Note where a loop is left, or starts again, in the midst of it."""
        around = [one for one in self._open if one.word not in {"if", "{"}]
        if not around or around[-1].word not in LOOPS or not is_plain:
            raise _LostError
        around[-1].done |= self._entry

    def _folders(self, word: CommandWord) -> list[str]:
        """Return the folders that a word may name; none if it may be something else."""
        given = VARIABLE.search(word.text) if _NAMES_FOLDER.fullmatch(word.raw) else None
        texts = [word.text] if is_literal(word) else []
        if given is not None:
            name = given[1] or given[2]
            values = self._values.get(name, ()) if name in self._names else ()
            texts = [word.text.replace(given[0], value) for value in values]
        return texts if all(map(FOLDER.fullmatch, texts)) else []

    def _enter(self, command: SimpleCommand, folders: list[str], *, is_known: bool) -> None:
        there = frozenset(
            normpath(one if one[0] == "/" else f"{at}/{one}")
            for at, one in product(self._entry, folders)
        )
        # Above there surely is a folder, or the next `..` leads nowhere; not behind a name: `a/..`.
        is_there = all(self._is_kept(one, self._harm, self._enters) for one in there) or all(
            self._is_kept(one, self._made.get(one, ANY), self._made.__contains__) for one in there
        )
        is_there = is_there and not any(map(_ABOVE_NAME.search, folders))
        is_sure = is_known and (is_there or all(map(_ABOVE.fullmatch, folders)))
        is_sure = is_sure and not may_not_run(command)
        self._end(there, _NONE if is_sure else self._entry, command.after)

    @staticmethod
    def _is_kept(folder: str, harm: int, is_there: Callable[[str], bool]) -> bool:
        return GONE[harm].search(folder) is None and is_there(folder)


def _may_move(words: list[CommandWord], places: _Places) -> bool:
    """Return whether a command may change the folder, or how `cd` does so: `mv ../a ../../b`."""
    texts = [word.text for word in words]
    line = " ".join(dropwhile(SET_BEFORE.match, texts))
    if _HIDES.match(line) or not _MOVES.isdisjoint(texts):
        return ACTIVATES.fullmatch(line) is None
    around = {"$PWD"}.union(*(at.split("/") for at in places)) - {"", ".", ".."}
    parts = re.split(r"[\s'\"()|]+", " ".join(texts))
    return "mv" in parts and any(
        part.rstrip("/").rpartition("/")[2] in around or _WILD_ABOVE.match(part) for part in parts
    )


def _climbs_of(command: SimpleCommand, at: str, first: str) -> Iterator[tuple[int, str]]:
    words = command.words
    if first not in IS_OF_SHELL and words[0].raw != "cd":  # without a shell it gets all words
        return
    # What such a program runs starts in the folder that stands behind its option.
    texts = [word.text for word in words]
    pairs = (" ".join(texts[n : n + 2]) for n in range(len(texts)))
    moved = next((n for n, pair in enumerate(pairs) if MOVES_PROGRAM.match(pair)), None)
    for word in words if moved is None else words[moved : moved + 2]:
        for climb in _CLIMB.finditer(word.raw):
            if (climb.end() == 0 or climb[0] or _PLAIN_INNER.fullmatch(word.raw)) and (
                first not in CHANGES_FOLDERS or _ABOVE.fullmatch(word.text)
            ):
                # `-Ia/../b` has the path `/../b` in it.
                yield word.start + climb.end(), f" {at}/" if climb[1] else f"{at}/"
