"""What a shell may make nothing of: a `cd` to that goes to the user's home."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from itertools import islice

from hub.guard.text.shell import parsed

UNSURE = "/././"
"""Stands in a path that is printed only if a program finds it, and then behind all links."""
_NESTED = r"\((?:[^()`]|\((?:[^()`]|\([^()`]*\))*\))*\)"
_BRACED = r"\$\{[^{}]*\}"
_FOUND = rf"(?:\.|\$\w+|{_BRACED})?{re.escape(UNSURE)}(?!node_modules\b)[^\s;&|<>()'\"`]*"
_COMPUTED = re.compile(
    rf"{_FOUND}|\${_NESTED}|`[^`]*`|{_BRACED}|\$(?:\w+|[@*!])|\{{,+\}}", re.ASCII
)
_PROGRAM = re.compile(r"\$\((.*)\)|`(.*)`", re.DOTALL)
_VARIABLE = re.compile(r"\$\{?(\w+|[@*!])(?::?([-=?+])([^}]*))?", re.ASCII)
"""A name, and behind a sign what stands in its place."""
_ENTERS = re.compile(r"\bcd(?: -[LPe]+| --)*[ \t]+")
_ALL_WORDS = re.compile(r"\"\$(?:@|\{@\})\"")
"""The only ones that can be nothing in quotes."""
_END_OF_CD = re.compile(r" *(?:\d?>|[;&|)\n'\"]|\Z)")
_END_OF_VALUE = re.compile(r"[\s;&|)]|\Z")
_QUOTES = re.compile(r"\"|''")
_SPACE = re.compile(r"[ \t]+")
ERRORS = re.compile(r" *2> ?(?:/dev/null|&1) *")
"""Where the errors of a program go: it prints the same without that."""
_PRINTS_WORDS = re.compile(r"(dirname|basename|echo|printf)\b(?: -\w+| --)*([^|;&<>]*)")
_SURELY_PRINTS = re.compile(
    r"npm\b[^|;&<>]*|pwd(?: -[LP])?|mktemp(?: -\w+)*"
    r"|(?:uname|hostname|whoami|id|nproc)(?: -[mnrsu]+)?"
)
_OF_FORMAT = re.compile(r"%\w|\\n")
_SETS_WORDS = re.compile(
    r"\bset(?: +[-+]\w+)*(?: +--)? +(?!pipefail)[^-+\s;&|]|\bfunction\b|\(\s*\)|\b\w*sh +-\w*c\b"
)
_ASSIGNS = re.compile(
    r"(?<![\w$])([A-Za-z_]\w*)(?:\[[^\]\[]*\])?\+?:?="
    # For one command only, or in a shell of its own: `x=a true`, `x=a | true`.
    r"(?![\w./-]*[ \t]+(?!\w+=|\d*[<>])[\w./-]|[\w./-]*[ \t]*\|(?!\|))"
    r"|[()]|\b(?:then|do|else|fi|done)\b",
    re.ASCII,
)
"""An assignment (group 1 its variable), or where what may not be done here begins or ends."""
_GIVES = re.compile(
    r"(?:\b(?:read|mapfile|readarray|getopts|for(?! \w+ in *;)|select|let|printf -v)\b|\(\()"
    r"([^;&|\n)]*)"
)
_TAKES_AWAY = re.compile(r"\bunset\b([^;&|\n]*)")
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_ALWAYS_SET = frozenset({"PWD", "_"})
_MOST = 64
"""So many `cd` of a command are looked at, and so many values for each."""
_DEEPEST = 24


def with_homes(command: str, env: Mapping[str, str]) -> str:
    """Return a command with `cd ~` for each `cd` to what may be nothing: `cd $x`, `cd $(true)`.

    In quotes it would stay where it is. The lines for a program are left as they are.
    """
    read = command
    for one in parsed(command, remarks=True).documents if "<<" in command else ():
        read = f"{read[: one.start]}{' ' * (one.end - one.start)}{read[one.end :]}"
    kept, at, given = list[str](), 0, _Given(read)
    for entered in islice(_ENTERS.finditer(read), _MOST):
        start = entered.end()
        end = _end_of_parts(read, start, _COMPUTED, _ALL_WORDS, _SPACE)
        folder = read[start:end].strip()
        # In single quotes it is read once more if a shell gets it.
        is_read = start >= at and _END_OF_CD.match(read, end) and not given.is_quoted(start)
        if folder and is_read and _Place(given, start, env).can_be_nothing(folder):
            kept += (command[at:start], "~")
            at = start + len(folder)
    return "".join((*kept, command[at:]))


def _end_of_parts(text: str, at: int, *parts: re.Pattern[str]) -> int:
    """Return where the parts end that follow one another from `at` on."""
    while found := next((one for part in parts if (one := part.match(text, at))), None):
        at = found.end()
    return at


class _Given:
    """Where a command gives values to variables, by their names.

    `assigned`: where the value begins; `ends`: where it may be gone again, by that place. `filled`
    and `taken`: the first place where a program such as `read` may give them one, and where `unset`
    takes it.
    """

    def __init__(self, command: str) -> None:
        self.command = command
        self.assigned: defaultdict[str, list[int]] = defaultdict(list)
        self.ends: dict[int, int] = {}
        blocks: list[list[int]] = [[]]
        for one in _ASSIGNS.finditer(command):
            if one[1]:
                self.assigned[one[1]].append(one.end())
                blocks[-1].append(one.end())
            elif one[0] in {"(", "then", "do"}:
                blocks.append([])
            elif one[0] == "else":  # one of several ways is gone
                blocks[-1].clear()
            elif len(blocks) > 1:
                self.ends |= dict.fromkeys(blocks.pop(), one.start())
        self.filled = self._first_named(_GIVES)
        self.taken = self._first_named(_TAKES_AWAY)

    def _first_named(self, by: re.Pattern[str]) -> dict[str, int]:
        found: dict[str, int] = {}
        for one in by.finditer(self.command):
            for name in _NAME.findall(one[1]):
                found.setdefault(name, one.start())
        return found

    def is_quoted(self, at: int) -> bool:
        """Return whether a place is in single quotes."""
        return self.command.count("'", 0, at) % 2 == 1

    def value(self, start: int) -> str | None:
        """Return what is given at a place, if all of it is computed."""
        end = _end_of_parts(self.command, start, _COMPUTED, _QUOTES)
        value = self.command[start:end]
        is_whole = _END_OF_VALUE.match(self.command, end) and value.count('"') % 2 == 0
        return value if is_whole else None


class _Place:
    """A place in a command: what can be nothing there, without quotes.

    That can if all of it is computed, and each part can be empty: a variable that has no value yet,
    what is printed by a program that may print nothing. It can, too, if so much is in one another
    that it is not followed to its end.
    """

    def __init__(self, given: _Given, at: int, env: Mapping[str, str]) -> None:
        self._given = given
        self._at = at
        self._is_set = dict.fromkeys(_ALWAYS_SET | {name for name in env if env[name]}, True)
        self._depth = 0
        self._left = _MOST

    def can_be_nothing(self, text: str) -> bool:
        """Return whether a shell may make nothing of a text."""
        if _COMPUTED.sub("", text).strip(" \t\"'"):
            return False
        if self._depth == _DEEPEST:
            return True
        self._depth += 1
        parts = dict.fromkeys(part[0] for part in _COMPUTED.finditer(text))
        can_be = not any(map(self._is_something, parts))
        self._depth -= 1
        return can_be

    def _is_something(self, part: str) -> bool:
        program = _PROGRAM.fullmatch(part)
        if program is not None:
            return part[:3] == "$((" or self._prints(program[1] or program[2])
        variable = _VARIABLE.match(part)
        if variable is None or UNSURE in part:
            return False
        name, sign, other = variable.groups("")
        if sign in {"?", "+"}:  # the shell ends there; it is nothing if the variable is
            return sign == "?"
        return self._has_value(name) or (sign != "" and not self.can_be_nothing(other))

    def _prints(self, program: str) -> bool:
        """Return whether a program surely prints something."""
        program = ERRORS.sub(" ", program).strip()
        printed = _PRINTS_WORDS.fullmatch(program)
        if printed is None:
            return _SURELY_PRINTS.fullmatch(program) is not None
        if printed[1] == "dirname" and printed[2].strip()[:1] == '"':  # it prints `.` of nothing
            return True
        return not self.can_be_nothing(_OF_FORMAT.sub("", printed[2]))

    def _has_value(self, name: str) -> bool:
        """Return whether a variable has a value that is not empty, for all that is known."""
        if name not in self._is_set:
            self._is_set[name] = False  # if its value needs itself
            self._is_set[name] = self._is_given(name)
        return self._is_set[name]

    def _is_given(self, name: str) -> bool:
        given, at = self._given, self._at
        if name == "OLDPWD":
            return given.command.find("cd ") < at - len("cd ")
        if not name.strip("0123456789@*!"):
            return _SETS_WORDS.search(given.command, 0, at) is not None
        if given.taken.get(name, at) < at:
            return False
        assigned, ends = given.assigned.get(name, ()), given.ends
        starts = [start for start in assigned if start < at <= ends.get(start, at)]
        if starts and given.value(starts[-1]) == "":
            return False
        return given.filled.get(name, at) < at or any(map(self._is_value, starts[-_MOST:]))

    def _is_value(self, start: int) -> bool:
        """Return whether what a variable is given at a place is something."""
        self._left -= 1
        value = self._given.value(start) if self._left > 0 else ""
        return value is None or not self.can_be_nothing(value)
