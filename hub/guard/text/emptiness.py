"""What a shell may make nothing of: a `cd` to that goes to the user's home."""

from __future__ import annotations

import re
from bisect import bisect
from collections import defaultdict
from collections.abc import Mapping
from itertools import dropwhile, islice
from typing import TypeAlias

from hub.guard.text.shell import CommandWord, SimpleCommand, parsed, without_quotes

UNSURE = "/././"
"""Stands in a path that is printed only if a program finds it, and then behind all links."""
NAME_OF_ROOT = f".{UNSURE}."
"""The name of a folder that may be a root; as a path it is that folder, or leads nowhere."""
_NESTED = r"\((?:[^()`]|\((?:[^()`]|\([^()`]*\))*\))*\)"
_BRACED = r"\$\{[^{}]*\}"
_FOUND = rf"(?:\.|\$\w+|{_BRACED})?{re.escape(UNSURE)}(?!node_modules\b)[^\s;&|<>()'\"`]*"
_COMPUTED = re.compile(
    rf"{_FOUND}|\${_NESTED}|`[^`]*`|{_BRACED}|\$(?:\w+|[@*!])|\{{,+\}}", re.ASCII
)
_PROGRAM = re.compile(r"\$\((.*)\)|`(.*)`", re.DOTALL)
_VARIABLE = re.compile(r"\$\{?(\w+|[@*!])(?::?([-=?+])([^}]*))?", re.ASCII)
"""A name, and behind a sign what stands in its place."""
_PLAIN_VARIABLE = re.compile(r"\$(?:([A-Za-z_]\w*)|\{(\w+)\})", re.ASCII)
_ENTERS = re.compile(r"\bcd(?: -[LPe]+| --)*[ \t]+")
_ALL_WORDS = re.compile(r"\"\$(?:@|\{(?:@|\w+\[@\])\})\"")
"""The only ones that can be nothing in quotes."""
_ELEMENTS = re.compile(r"\"\$\{(\w+)\[@\]\}\"")
_ARRAY = re.compile(r"\([^'\"$`]*\)")
_END_OF_CD = re.compile(r" *(?:\d?>|[;&|)\n'\"]|\Z)")
_QUOTES = re.compile(r"\$?(?:\"|'')")
_SPACE = re.compile(r"[ \t]+")
ERRORS = re.compile(r" *2> ?(?:/dev/null|&1) *")
"""Where the errors of a program go: it prints the same without that."""
_PRINTS_WORDS = re.compile(r"(dirname|basename|echo|printf)\b(?: -\w+| --)*([^|;&<>]*)")
_SURELY_PRINTS = re.compile(
    r"npm\b[^|;&<>]*|pwd(?: -[LP])?|mktemp(?: -[dqtu]+)*(?: [\w.-]*XXX[\w.-]*)?"
    r"|(?:uname|hostname|whoami|id|nproc)(?: -[mnrsu]+)?"
)
_OTHER_TMPDIR = re.compile(r"\bTMPDIR=(?!\"?\$\(mktemp)")
_OF_FORMAT = re.compile(r"%\w|\\n")
_SETS_WORDS = re.compile(
    r"\bset(?: +[-+]\w+)*(?: +--)? +(?!pipefail|''|\"\")[^-+\s;&|]|\b\w*sh +-\w*c\b"
)
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\[.*?\])?=(.*)", re.ASCII | re.DOTALL)
SETS_DEFAULT = re.compile(r"\$\{(\w+):?=([^{}]*)\}", re.ASCII)
_ALTERED = re.compile(r"\$\{\w+(?:(?!%/\*?\}|%%?\.)[^\w}:?+=-]|:[^?+=-])", re.ASCII)
"""A variable of which a part is taken, other than `${x%/*}` or `${x%.js}`."""
_DECLARES = frozenset({"export", "readonly", "local", "declare", "typeset"})
_TAKES = _DECLARES - {"export"} | {
    *("unset", "read", "mapfile", "readarray", "getopts", "let", "select", "-v")
}
"""Behind these stand names of variables whose values are then not known, or gone."""
_HIDES = re.compile(
    r"\b(?:eval|alias|trap(?! (?:-- )?(?:rm|kill|docker|echo)\b[^=;&|\n]* (?:EXIT|INT|TERM|0)\b)"
    r"|IFS|wait +-\w*p|printf +-v\w+)\b|\(\([^()]*\w *=(?!=)"
    r"|\b(?:declare|local|typeset)(?: +[-+]\w+)* +-\w*n"
)
"""Signs that values are given, or taken apart, in a way that is not followed."""
_TAKING = re.compile(
    r"(?=.*\b(?:unset|read|mapfile|readarray|let|local|declare|typeset|export|source)\b).*\W",
    re.DOTALL,
)
"""A text with the name of such a command in it, which another one may hand on."""
_COMPUTED_NAME = re.compile(r"(?![A-Za-z_]\w*=)[^\s$`{]*[$`{]", re.ASCII)
_BEFORE_PROGRAM = re.compile(r"command|builtin|-p|--|[A-Za-z_]\w*=.*", re.ASCII | re.DOTALL)
_NO_FILES = frozenset({"/dev/null", "1"})
_REMARK = re.compile(r"[ \t]+#")
"""Behind `x=a`: a shell that knows no remarks, as `zsh -i`, gives that to the program `#` alone."""
_SIGNS = re.compile(r";;|&&|\|\||[();&|\n]")
_LOOPS = frozenset({"for", "while", "until", "select"})
_CLOSES = {"fi": {"if"}, "done": _LOOPS, "esac": {"case"}, "}": {"{"}}
_OPENS = _LOOPS | {"if", "case", "{"}
_TURNS = frozenset({"else", "elif"})
_GOES_ON = _CLOSES.keys() | _TURNS | {"then", "do", "if", "while", "until", "{", "!", "time"}
"""Words of the shell behind which a command stands."""
_IN_SHELL = frozenset({"", "&&", ";", "\n", "(", ")"})
"""Behind these a command is run in the same shell, if what is before it is."""
SET_BY_SHELL = (
    r"(?:REPLY|S?RANDOM|SECONDS|LINENO|OPT[A-Z]+|E?UID|PPID|EPOCH\w+|BASH\w*|DIRSTACK|GROUPS|FUNCNAME"
    r"|HISTCMD|COMP\w*|PIPESTATUS|MAPFILE|COPROC\w*)"
)
_SET_BY_SHELL = re.compile(SET_BY_SHELL, re.ASCII)
"""Variables that a shell may set anew whenever it likes, or that it gives no other value."""
_ALWAYS_SET = frozenset({"PWD", "_"})
_MOST = 64
"""So many `cd` of a command are looked at, and so many values of each variable."""
_MOST_COMMANDS = 512
"""In a longer script no variable surely has a value: the work grows with the square."""
_DEEPEST = 24


def with_homes(command: str, env: Mapping[str, str]) -> str:
    """Return a command with `cd ~` for each `cd` to what may be nothing: `cd $x`, `cd $(true)`.

    In quotes it would stay where it is. The lines for a program are left as they are.
    """
    if not any(sign in command for sign in ("$", "`", "{,", UNSURE)):
        return command
    given = _Given(command, env)
    read, kept, at = given.command, list[str](), 0
    for entered in islice(_ENTERS.finditer(read), _MOST):
        start = entered.end()
        end = _end_of_parts(read, start, _COMPUTED, _ALL_WORDS, _SPACE)
        folder = read[start:end].strip()
        # In single quotes it is read once more if a shell gets it.
        is_read = start >= at and _END_OF_CD.match(read, end) and not read.count("'", 0, start) % 2
        if folder and is_read and given.can_be_nothing(folder, start):
            kept += (command[at:start], "~")
            at = start + len(folder)
    return "".join((*kept, command[at:]))


def variables_set_in(command: str, env: Mapping[str, str]) -> dict[str, str]:
    """Return some value for each variable that surely has one wherever a command uses it.

    And nothing for those that it may leave without.
    """
    given = _Given(command, env) if "$" in command else None
    if given is None or not (given.values or given.taken):
        return {}
    unsure = {
        use[1] or use[2]
        for use in _PLAIN_VARIABLE.finditer(command)
        if given.can_be_nothing(use[0], use.start())
    }
    sure = dict.fromkeys(given.values.keys() - unsure - given.found, "x")
    return sure | dict.fromkeys(unsure & (given.values.keys() | given.taken), "")


def _end_of_parts(text: str, at: int, *parts: re.Pattern[str]) -> int:
    """Return where the parts end that follow one another from `at` on."""
    while found := next((one for part in parts if (one := part.match(text, at))), None):
        at = found.end()
    return at


_Names: TypeAlias = frozenset[str]


class _Block:
    """A part of a command that need not be run, or not in the same shell: `if`, `(`.

    `before`: which variables have a value before it; `both`: which have one behind each of the ways
    through it that have ended; `is_run`: it surely is, in the same shell.
    """

    def __init__(self, sign: str, before: _Names, *, is_run: bool = False) -> None:
        self.sign = sign
        self.before = before
        self.is_run = is_run
        self.both: _Names | None = None
        self.is_complete = False

    def turn(self, names: _Names, word: str) -> None:
        self.both = names if self.both is None else self.both & names
        self.is_complete = word == "else"

    def names_behind(self, names: _Names) -> _Names:
        is_sure = self.both is not None and self.is_complete and self.is_run
        return names & self.both if self.both is not None and is_sure else self.before


class _Given:
    """Which variables surely have a value, by the places in a command.

    Those have one that it gives one where it is surely run, in the same shell, and that it gives
    nowhere what can be nothing. `command` is without remarks and the lines for programs. `values`:
    what each variable is given, and which had a value there; `found`: those that get what is not
    known, such as by `while read`.
    """

    def __init__(self, command: str, env: Mapping[str, str]) -> None:
        script, self._written = parsed(command, remarks=True), command
        for start, end in (*script.remarks, *((one.start, one.end) for one in script.documents)):
            blank = "\n" if command[end - 1 : end] == "\n" else " "
            command = f"{command[:start]}{blank * (end - start)}{command[end:]}"
        self.command = command
        self.values: defaultdict[str, list[tuple[str, _Names]]] = defaultdict(list)
        self.taken, self.found = set[str](), set[str]()
        self._now = self._before = _ALWAYS_SET | {name for name in env if env[name]}
        self._blocks = list[_Block]()
        self._by_chance, self._latest = set[str](), set[str]()
        self._starts, self._names = [0], [self._now]
        self._known: dict[tuple[str, _Names], bool] = {}
        self._depth = 0
        commands = [one for one in script.commands if one.lines_of is None]
        has_words = _SETS_WORDS.search(command) is not None or _all_get_words(commands)
        self._has_words = has_words and "shift" not in command
        self._has_names = any(_TAKING.match(word.text) for one in commands for word in one.given)
        is_short = len(commands) <= _MOST_COMMANDS
        self._is_followed = is_short and script.is_closed
        self._is_followed = self._is_followed and not _HIDES.search(without_quotes(command))
        if self._is_followed:
            self._go_through(commands)
        if not self._is_followed or self._blocks:
            self._starts, self._names = [0], [self._before]
            self.taken.update(self.values)

    def _go_through(self, commands: list[SimpleCommand]) -> None:
        at = 0
        for one in commands:
            words = one.given
            if not one.depth:
                start, last = one.words[0].start, one.words[-1]
                for sign in _SIGNS.findall(self.command, at, start):
                    self._pass(sign)
                at = last.start + len(last.raw)
                words = self._behind_keywords(one)
                self._starts.append(start)
                self._names.append(self._now)
            self._take(one, words)
        for sign in _SIGNS.findall(self.command, at):
            self._pass(sign)

    def _pass(self, sign: str) -> None:
        if sign == "(":
            self._blocks.append(_Block(sign, self._now))
        elif self._blocks and (sign == ";;" or (sign == ")" and self._blocks[-1].sign == "(")):
            self._now = self._blocks[-1].before
            del self._blocks[len(self._blocks) - (sign == ")") :]
        if sign == "&":  # what is before it is run in another shell
            self._now -= self._latest
        if sign in {";", "\n", "&", "||"}:
            self._now -= self._by_chance
            self._by_chance.clear()
            self._latest.clear()

    def _behind_keywords(self, command: SimpleCommand) -> list[CommandWord]:
        words = command.given
        for n, word in enumerate(words):
            if word.raw in _OPENS:
                is_run = command.before in _IN_SHELL - {"&&", ")"}
                self._blocks.append(_Block(word.raw, self._now, is_run=is_run))
            elif word.raw in _CLOSES:
                self._close(word.raw, command)
            elif self._blocks and word.raw in _TURNS:
                self._blocks[-1].turn(self._now, word.raw)
                self._now = self._blocks[-1].before
            if word.raw not in _GOES_ON:
                return words[n:]
        return []

    def _close(self, word: str, command: SimpleCommand) -> None:
        block = self._blocks.pop() if self._blocks else _Block("", self._now)
        self._is_followed = self._is_followed and block.sign in _CLOSES[word]
        is_same_shell = command.after not in {"|", "|&", "&"}
        self._now = block.names_behind(self._now) if is_same_shell else block.before
        self._latest |= self._now - block.before

    def _take(self, command: SimpleCommand, given_words: list[CommandWord]) -> None:
        """Note what a command gives to variables, or takes from them."""
        words, texts = [word.raw for word in given_words], [word.text for word in given_words]
        declared = words if _DECLARES.isdisjoint(texts) else texts
        assigned = [one for one in map(_ASSIGNMENT.match, declared) if one]
        given = [(one[1], one[3]) for one in assigned]
        defaults = [(one[1], one[2]) for word in words for one in SETS_DEFAULT.finditer(word)]
        if words[:1] == ["for"] and words[2:3] == ["in"]:
            # A word of these that is nothing is none, unless it is in quotes.
            quoted = [one for one in words[3:] if one[0] in "'\"" and not self._are_given(one)]
            given = defaults = [(words[1], one) for one in ("x", *quoted)]
        elif words[:1] == ["read"] and any(word.raw == "while" for word in command.given):
            # Behind `ls |` and the like a line is something.
            defaults = [(name, "x") for name in words[1:]]
            self.found.update(words[1:])
        else:
            self._take_away(texts)
        for name, value in (*given, *defaults):
            self.values[name].append((value, self._now))
        if words[:1] in (["cd"], ["pushd"]):
            self.values["OLDPWD"].append(("x", self._now))
            self._now |= {"OLDPWD"}
            self.found.add("OLDPWD")
        is_alone = command.before in _IN_SHELL and command.after in _IN_SHELL - {"("}
        # A shell that cannot open the file of a redirection gives no value.
        opens = any(word.operator and word.text not in _NO_FILES for word in command.words)
        is_alone = is_alone and (not opens or words[:1] == ["for"])
        last = command.words[-1]
        is_alone = is_alone and not (
            _DECLARES.isdisjoint(words[:1])
            and _REMARK.match(self._written, last.start + len(last.raw))
        )
        if (is_alone or (words[:1] == ["read"] and defaults)) and not command.depth:
            is_declared = len(words) == len(given) + (words[0] in _DECLARES if words else 0)
            wholes = {one[1] for one in assigned if is_declared and not one[2]}
            names = (wholes | {name for name, _ in defaults}) - self._now
            self._now |= names
            self._latest |= names
            if command.before == "&&" and words[:1] != ["for"]:  # that has one in its loop
                self._by_chance |= names

    def _are_given(self, word: str) -> bool:
        """Return whether a word is all elements of an array that is set to plain words."""
        array = _ELEMENTS.fullmatch(word)
        values = self.values.get(array[1], ()) if array else ()
        if not (array and values) or array[1] in self.taken or f"{array[1]}+=" in self.command:
            return False
        return all(_ARRAY.fullmatch(value) for value, _ in values)

    def _take_away(self, texts: list[str]) -> None:
        """Note which variables a command leaves with values that are not known, or without any."""
        program, *given = [*dropwhile(_BEFORE_PROGRAM.fullmatch, texts)] or [""]
        at = next((n for n, text in enumerate(texts, 1) if text in _TAKES), len(texts))
        named = texts[1:2] if program == "for" else texts[at:]
        named = named[:1] if texts[at - 1 : at] == ["-v"] else named
        self.taken.update(text.partition("[")[0] for text in named if "=" not in text)
        if program in {".", "source"}:
            is_unknown = not "".join(given[:1]).endswith("/activate")
        elif program in _TAKES | {"export", "printf"}:
            names = given if program == "export" else named
            is_unknown = any(map(_COMPUTED_NAME.match, names))
        else:
            is_unknown = self._has_names and program[:1] in {"$", "`"}
        if is_unknown and self._blocks:  # such as a function, which may be called later
            self._is_followed = False
        elif is_unknown:
            self.taken |= self._now - self._before

    def can_be_nothing(self, text: str, at: int) -> bool:
        """Return whether a shell may make nothing of a text at a place.

        It may if all of it is computed, and each part can be empty: a variable that has no value
        yet, what is printed by a program that may print nothing. It may, too, if so much is in one
        another that it is not followed to its end.
        """
        return self._can_be_nothing(text, self._names[bisect(self._starts, at) - 1])

    def _can_be_nothing(self, text: str, names: _Names) -> bool:
        if _COMPUTED.sub("", text).strip(" \t\"'$"):
            return False
        if self._depth == _DEEPEST:
            return True
        self._depth += 1
        parts = dict.fromkeys(part[0] for part in _COMPUTED.finditer(text))
        can_be = not any(self._is_something(part, names) for part in parts)
        self._depth -= 1
        return can_be

    def _is_something(self, part: str, names: _Names) -> bool:
        program = _PROGRAM.fullmatch(part)
        if program is not None:
            return part[:3] == "$((" or self._prints(program[1] or program[2], names)
        variable = _VARIABLE.match(part)
        if part == NAME_OF_ROOT:
            return True
        if variable is None or UNSURE in part or _ALTERED.match(part):
            return False
        name, sign, other = variable.groups("")
        if sign in {"?", "+"}:  # the shell ends there; it is nothing if the variable is
            return sign == "?"
        return self._has_value(name, names) or (
            sign != "" and not self._can_be_nothing(other, names)
        )

    def _prints(self, program: str, names: _Names) -> bool:
        """Return whether a program surely prints something."""
        program = ERRORS.sub(" ", program).strip()
        printed = _PRINTS_WORDS.fullmatch(program)
        if printed is None:
            is_sure = program[:6] != "mktemp" or not _OTHER_TMPDIR.search(self.command)
            return is_sure and _SURELY_PRINTS.fullmatch(program) is not None
        if printed[1] == "dirname" and printed[2].strip()[:1] == '"':  # it prints `.` of nothing
            return True
        return not self._can_be_nothing(_OF_FORMAT.sub("", printed[2]), names)

    def _has_value(self, name: str, names: _Names) -> bool:
        """Return whether a variable surely has a value that is not empty, with those in `names`."""
        if not name.strip("0123456789@*!"):
            return self._has_words
        if (name, names) not in self._known:
            self._known[name, names] = False  # if its value needs itself
            values = self.values.get(name, ())
            is_given = name in names and name not in self.taken and len(values) <= _MOST
            is_given = is_given and not _SET_BY_SHELL.fullmatch(name)
            self._known[name, names] = is_given and all(self._is_value(*one) for one in values)
        return self._known[name, names]

    def _is_value(self, value: str, names: _Names) -> bool:
        is_computed = _end_of_parts(value, 0, _COMPUTED, _QUOTES) == len(value)
        return value[:1] != "(" and not (is_computed and self._can_be_nothing(value, names))


def _all_get_words(commands: list[SimpleCommand]) -> bool:
    """Return whether there are functions, and each is called with words."""
    functions = {one.words[0].raw for one in commands if one.after == "("}
    calls = [one.given for one in commands if one.after != "(" and one.given]
    called = [words for words in calls if words[0].raw in functions]
    is_empty = (words[1:2] == [] or words[1].raw in {"''", '""'} for words in called)
    return called != [] and not any(is_empty)
