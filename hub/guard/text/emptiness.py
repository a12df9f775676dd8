"""What a shell may make nothing of: a `cd` to that goes to the user's home."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice

UNSURE = "/././"
"""Stands in a path that is printed only if a program finds it, and then behind all links."""
_NESTED = r"\((?:[^()`]|\((?:[^()`]|\([^()`]*\))*\))*\)"
_FOUND = rf"[\w.$/-]{{0,512}}{re.escape(UNSURE)}(?!node_modules\b)[^\s;&|<>()'\"`]*"
_COMPUTED = re.compile(
    rf"{_FOUND}|\${_NESTED}|`[^`]*`|\$\{{[^{{}}]*\}}|\$(?:\w+|[@*!])|\{{,+\}}", re.ASCII
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
_ERRORS = re.compile(r" *2> ?(?:/dev/null|&1) *")
_PRINTS_WORDS = re.compile(r"(dirname|basename|echo|printf)\b(?: -\w+| --)*([^|;&<>]*)")
_SURELY_PRINTS = re.compile(
    r"(?:pwd|npm|date|uname|hostname|whoami|id|nproc|mktemp(?: -\w+)*\Z)\b[^|;&<>]*"
)
_OF_FORMAT = re.compile(r"%\w|\\n")
_SETS_WORDS = re.compile(r"\bset\b|\bfunction\b|\(\s*\)|\b\w*sh +-\w*c\b")
_SETS = r"(?:\b(?:read|mapfile|readarray|getopts|for|select|let|printf -v)\b|\(\()[^;&|\n)]{0,512}"
_ALWAYS_SET = frozenset({"PWD", "_"})
_MOST = 64
"""How many `cd` are looked at in a command: for each all that is before it is searched."""
_DEEPEST = 24


def with_homes(command: str, env: Mapping[str, str]) -> str:
    """Return a command with `cd ~` for each `cd` to what may be nothing: `cd $x`, `cd $(true)`.

    In quotes it would stay where it is. A command with lines for a program is left as it is.
    """
    if "<<" in command:
        return command
    kept, at = list[str](), 0
    for entered in islice(_ENTERS.finditer(command), _MOST):
        start = entered.end()
        end = _end_of_parts(command, start, _COMPUTED, _ALL_WORDS, _SPACE)
        before, folder = command[: entered.start()], command[start:end].strip()
        # In single quotes it is read once more if a shell gets it.
        is_read = start >= at and _END_OF_CD.match(command, end) and before.count("'") % 2 == 0
        if folder and is_read and _Before(before, env).can_be_nothing(folder):
            kept += (command[at:start], "~")
            at = start + len(folder)
    return "".join((*kept, command[at:]))


class _Before:
    """What is known before a place in a command of what can be nothing there, without quotes.

    It can if all of it is computed, and each part can be empty: a variable that nothing gives a
    value, what is printed by a program that may print nothing. If so much is in one another that
    it is not followed to its end, it can.
    """

    def __init__(self, command: str, env: Mapping[str, str]) -> None:
        self._command = command
        self._env = env
        self._given = dict.fromkeys(_ALWAYS_SET | {name for name in env if env[name]}, True)
        self._depth = 0

    def can_be_nothing(self, text: str) -> bool:
        """Return whether a shell may make nothing of a text that stands there."""
        if _COMPUTED.sub("", text).strip(" \t\"'"):
            return False
        if self._depth == _DEEPEST:
            return True
        self._depth += 1
        can_be = not any(self._is_something(part[0]) for part in _COMPUTED.finditer(text))
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
        return self._is_given(name) or (sign != "" and not self.can_be_nothing(other))

    def _prints(self, program: str) -> bool:
        """Return whether a program surely prints something."""
        program = _ERRORS.sub(" ", program).strip()
        printed = _PRINTS_WORDS.fullmatch(program)
        if printed is None:
            return _SURELY_PRINTS.fullmatch(program) is not None
        if printed[1] == "dirname" and printed[2].strip()[:1] == '"':  # it prints `.` of nothing
            return True
        return not self.can_be_nothing(_OF_FORMAT.sub("", printed[2]))

    def _is_given(self, name: str) -> bool:
        """Return whether a variable has a value that is not empty, for all that is known."""
        if name not in self._given:
            self._given[name] = False  # if its value needs itself
            self._given[name] = self._looked_up(name)
        return self._given[name]

    def _looked_up(self, name: str) -> bool:
        command = self._command
        if name == "OLDPWD":
            return "cd " in command
        if not name.strip("0123456789@*!"):
            return _SETS_WORDS.search(command) is not None
        if re.search(rf"\bunset\b[^;&|\n]{{0,512}}\b{name}\b", command):
            return False
        assigned = re.finditer(rf"(?<![\w$]){name}(?:\[[^\]]*\])?\+?:?=", command)
        return re.search(rf"{_SETS}\b{name}\b", command) is not None or any(
            self._is_value(one.end()) for one in assigned
        )

    def _is_value(self, start: int) -> bool:
        """Return whether what a variable is set to at a place is something."""
        end = _end_of_parts(self._command, start, _COMPUTED, _QUOTES)
        value = self._command[start:end]
        is_whole = _END_OF_VALUE.match(self._command, end) and value.count('"') % 2 == 0
        return not (is_whole and self.can_be_nothing(value))


def _end_of_parts(text: str, at: int, *parts: re.Pattern[str]) -> int:
    """Return where the parts end that follow one another from `at` on."""
    while found := next((one for part in parts if (one := part.match(text, at))), None):
        at = found.end()
    return at
