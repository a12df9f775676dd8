"""Takes a shell command apart, as far as its words can be paths."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

_TOKEN = re.compile(
    r"""(?P<word>(?:'[^']*+'|"[^"\\]*+(?:\\.[^"\\]*+)*+"|\\.|[^\s;&|<>()`'"\\]++)+)"""
    r"""|(?P<mark>[;&|<>()`\n'"])""",
    re.DOTALL,
)
_QUOTING = re.compile(r"""'([^']*+)'|"([^"\\]*+(?:\\.[^"\\]*+)*+)"|\\(.)""", re.DOTALL)
_ANSI = re.compile(r"\$'((?:[^'\\]|\\.)*+)'", re.DOTALL)
_CODE = re.compile(
    r"\\(?:x([0-9a-f]{1,2})|u([0-9a-f]{1,4})|U([0-9a-f]{1,8})|([0-7]{1,3}))|\\(.)",
    re.IGNORECASE | re.DOTALL,
)
_ASSIGNMENT = re.compile(r"\w+=")
_PREFIXES = frozenset(
    {"sudo", "env", "exec", "time", "nohup", "nice", "command", "xargs", "then", "do"}
)
_EXECUTABLE = re.compile(r"/(?:usr/(?:local/)?|opt/homebrew/)?s?bin/[\w.+-]+", re.ASCII)
_DEVICES = frozenset({"/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/tty"})
_STREAMS = frozenset({"/dev/stdin", "/dev/stdout", "/dev/stderr"})


def is_program(word: str) -> bool:
    """Return whether `word` is the full path of one of the system's programs."""
    return _EXECUTABLE.fullmatch(word) is not None


def plainly_quoted(command: str) -> str:
    r"""Return a command with `$'\x2f'` written as `'/'`."""
    return _ANSI.sub(lambda quoted: _quote(_CODE.sub(_character, quoted[1])), command)


def _quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _character(code: re.Match[str]) -> str:
    digits = code[1] or code[2] or code[3]
    if not digits and not code[4]:
        return code[5] if code[5] in "\\'\"?" else " "
    number = int(digits, 16) if digits else int(code[4], 8)
    return chr(number) if number <= sys.maxunicode else "\ufffd"


def words_of(command: str, *, starts: bool) -> Iterator[str]:
    """Yield the words of a command that can be paths: not a system's programs, nor its null device.

    `starts` says that the first word names the program.
    """
    program = starts
    for token in _TOKEN.finditer(command):
        if token["mark"]:
            program = token["mark"] not in "<>\"'"
            continue
        word = _QUOTING.sub(lambda part: part[1] or part[2] or part[3] or "", token["word"])
        if not (program and _EXECUTABLE.fullmatch(word)) and word not in _DEVICES | _STREAMS:
            yield word
        program = program and (word in _PREFIXES or _ASSIGNMENT.match(word) is not None)
