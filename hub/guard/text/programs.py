"""What well-known programs make of the words of a command: files, patterns, texts or commands."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from hub.guard.text.expansion import forms_from_top

_RENAMES = re.compile(r"\b(?:alias|function|hash)\b|\(\s*\)")
"""Signs that a command gives the name of a program to something else."""


def renames_programs(command: str) -> bool:
    """Return whether a program's name may stand for something else behind `command`."""
    return _RENAMES.search(command) is not None


PREFIXES = frozenset(
    {"sudo", "env", "exec", "time", "nohup", "nice", "command", "xargs", "then", "do"}
)
"""Behind these the name of a program follows."""
_SEARCHES = frozenset({"find", "grep", "egrep", "fgrep", "zgrep", "rg", "ag", "sed"})
_RUNS_OR_PRINTS = re.compile(r"-(?:exec|ok|f?printf)")
"""Options of `find`: what stands behind them is no pattern."""
_PATTERN_OPTION = re.compile(r"--(?:(?:ex|in)clude|i?glob|ignore|\w*pattern)\b", re.IGNORECASE)
RUNNERS = re.compile(
    r"(?:.*/)?(?:watch|tmux|screen|script|parallel|entr|nodemon|concurrently|hyperfine|flock|xterm"
    r"|expect|unbuffer)"
)
"""Programs that give their words to a shell."""
RUN_BY_OPTION = re.compile(
    r"(?:--[\w-]*(?:exec|run|command|cmd|program|action)=(?:exec=)?"
    r"|\w*(?:COMMAND|PAGER|EDITOR|ProxyCommand)=|alias\.\w+=!)(.+)",
    re.DOTALL,
)
"""A word that gives a command to a shell (group 1): `--exec='ls /'`."""
_CREATES = re.compile(
    r"(?:.*/)?(?:touch|mkdir|cp|mv|ln|install|tee|truncate|mkfifo|mknod|rsync|dd|c?split|sponge"
    r"|unzip|(?:bsd)?tar|cpio|7za?|zip|clone|init|v(?:irtual)?env|ditto|mktemp)"
)
"""Programs, and commands of programs, whose operands may be new files or folders."""
_OUTPUT_OPTION = re.compile(
    r"-[oOP]|--(?:out|dest|target-dir)[\w-]*|--[\w-]*(?:dir|directory|file|folder)|-out"
)
_CREATED = re.compile(r"(?:(--?[A-Za-z][\w-]*=|-[A-Za-z])|of=)?(/.*)", re.DOTALL)
_WILD = re.compile(r"[*?\[]")
_COMPARES = frozenset({"==", "!="})
_END_OF_CASE = re.compile(r"[ \t]*\)")
_SEPARATORS = re.compile(r"[;&|\n]")


class Before(NamedTuple):
    """What stands before a word of a command.

    `computes`: the text of a word may come to a shell once more. `mark`: the last sign of the shell
    before. `searches`: the program takes patterns. `creates`: its operands may be new files.
    `option`: the word just before.
    """

    computes: bool
    mark: str = ""
    searches: bool = False
    creates: bool = False
    option: str = ""

    def takes_pattern(self, word: str) -> bool:
        """Return whether `word` goes to a program as a pattern, and to no other shell."""
        if self.computes:
            return False
        return self.searches or self._is_behind_pattern_option(word)

    def creates_file(self, word: str) -> bool:
        """Return whether `word` may name a file or folder that the command creates."""
        if self.mark[:1] == ">":
            return True
        if self._is_behind_pattern_option(word):
            return False
        option = (_CREATED.match(word) or [word, None])[1] or self.option
        is_output = not self.searches and _OUTPUT_OPTION.fullmatch(option.rstrip("=")) is not None
        return self.creates or is_output

    def compares(self, rest: str) -> bool:
        """Return whether a word, with `rest` behind it, is for comparing: `x == *.y`, `a*)`."""
        if self.option in _COMPARES:
            return True
        is_first = self.option == "in" or (self.option == "" and self.mark in {";", "\n"})
        return is_first and _END_OF_CASE.match(rest) is not None

    def _is_behind_pattern_option(self, word: str) -> bool:
        return _PATTERN_OPTION.match(word if "=" in word else self.option) is not None

    def then(self, word: str, *, program: bool) -> Before:
        """Return what stands before the next word."""
        mark = "" if self.mark[:1] in {"<", ">"} else self.mark
        creates = self.creates or _CREATES.fullmatch(word) is not None
        if program:
            searches, option = word in _SEARCHES, ""
        else:
            searches, option = self.searches and _RUNS_OR_PRINTS.match(word) is None, word
        return Before(self.computes, mark, searches, creates, option)

    def behind(self, mark: str) -> Before:
        """Return what stands before the next word if a sign of the shell comes first."""
        creates = self.creates and _SEPARATORS.match(mark) is None
        return Before(self.computes, mark, creates=creates)


def created_paths(word: str, env: Mapping[str, str]) -> list[str]:
    """Return the absolute paths of what a word creates: `/x`, `$y/x`, `of=/x`, `-o/x`."""
    forms = (form for form in forms_from_top(word, env) if not _WILD.search(form))
    found = map(_CREATED.fullmatch, (word, *forms))
    return [f"/{created[2].lstrip('/')}" for created in found if created is not None]


_LITERAL = r"""'[^']*'|"[^"\\`$]*\""""
_UNQUOTING = r"""#[^\n'"`\\]*+(?=\n|$)"""
"""What may be a remark, to its line's end, without signs that elsewhere would be quotes."""
_MESSAGE = re.compile(
    # Matched from the start of the command: otherwise it is unknown what is quoted.
    rf"""((?:(?:[^'"`$\\<#]|{_UNQUOTING}|{_LITERAL})*(?:&&|;))?\s*"""
    r"(?:git\s+(?:commit|tag|merge|stash\s+push|notes\s+add)|gh\s+(?:pr|issue|release)\s+\w+)"
    rf"""\s(?:[^;&|<\n'"`$\\#]|{_LITERAL}){{0,200}}?(?<=\s)(?:-a?m|--message|--title|--body)[ =])"""
    rf"(?:{_LITERAL})(?=[\s;&|)]|$)"
)
_MOST_MESSAGES = 4


def without_messages(command: str) -> str:
    """Return a command without the texts of a version control tool's message options.

    Such a text is quoted, so the shell does not read it; for the tool it is no path.
    """
    for _ in range(_MOST_MESSAGES):
        message = _MESSAGE.match(command)
        if message is None or renames_programs(message[1]):
            break
        command = f"{message[1]}message{command[message.end() :]}"
    return command


_NUMBER = r"(?:\$?\w+|\$\{\w+\})"
_SUM = rf"\$\(\(\s*{_NUMBER}(?:\s*[-+*/%]\s*{_NUMBER})*\s*\)\)"
_SIGN = r"""'[^\s'"$`\\*?\[]'"""
_REDIRECTION = r"[ \t]*(?:2>&1|(?:<|>>?)[ \t]*[\w./-]+)"
_CALCULATED = rf"(?:[\w.,:+%=-]|\$(?:\{{\w+\}}|(?=\w))|{_SUM})+"
_TEXT = rf"\"(?:[\w\s.,:/+%={{}}-]|\$(?!\()|{_SUM})*\""
_LISTS_NOTHING = re.compile(
    rf"[ \t]*(?:(?!PATH=)\w+=(?:\"?{_SUM}\"?|[\w.]*)"
    # These open no files, so what is computed may stand behind them; but no wildcards.
    rf"|(?:echo|expr|let|seq|sleep|test)(?:{_REDIRECTION}"
    rf"|[ \t]+(?:{_CALCULATED}|[\w.,:+%=-]*/[\w.,:/+%=-]*|{_SIGN}|{_TEXT}))*"
    # These do.
    rf"|(?:cut|head|sort|tail|tr|uniq|wc)(?:{_REDIRECTION}"
    rf"|[ \t]+(?:[\w.,:/+%=*-]+|{_SIGN}|\"[^\s'\"$`\\]\"))*)[ \t]*",
    re.ASCII,
)
"""A simple command that gives only an error for `/`, even if no shell reads it."""
_TAKES_FOLDER = re.compile(r"-\w*T|--", re.ASCII)
"""Options such as `sort -T /`, which writes there, and `--compress-program=sh`, which runs it."""
_BETWEEN_COMMANDS = re.compile(r"&&|\|\|?|[;\n]")
_OF_SHELL = re.compile(r"(?:[akz]|ba|da)?sh\s+-c\s+'([^']*)'", re.ASCII)
_LONE_SLASH = re.compile(r"(?<=[ \t])(['\"]?)/\1(?=[ \t\n]|$)")


def without_lone_slashes(command: str) -> str:
    """Return a command with a digit for each lone `/`, if no program in it can list a folder.

    Such as `expr 4 / 2`, `echo $((4 / 2))`, `cut -d / -f 1 | tr / _`.
    """
    inner = _OF_SHELL.fullmatch(command)
    parts = _BETWEEN_COMMANDS.split(command if inner is None else inner[1])
    if _LONE_SLASH.search(command) is None or _TAKES_FOLDER.search(command):
        return command
    return _LONE_SLASH.sub("0", command) if all(map(_LISTS_NOTHING.fullmatch, parts)) else command
