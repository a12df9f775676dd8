"""What well-known programs make of the words of a command: files, patterns or commands."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from hub.guard.text.expansion import forms_from_top

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
_CREATED = re.compile(r"(?:(--?[A-Za-z][\w-]*=|-[A-Za-z])|of=)?([/${].*)", re.DOTALL)
_STARTS_CONTAINERS = frozenset({"docker", "podman", "nerdctl", "docker-compose"})
_VOLUME = re.compile(r"(?:-[ditPqT]*v|--volume)=?")
_WILD = re.compile(r"[*?\[]")
_COMPARES = frozenset({"==", "!="})
_SEPARATORS = re.compile(r"[;&|\n]")


class WordContext(NamedTuple):
    """What stands before a word of a command.

    `computes`: the text of a word may come to a shell once more. `mark`: the last sign of the shell
    before. `searches`: the program takes patterns. `creates`: its operands may be new files.
    `option`: the word just before. `mounts`: the program makes the folders that it mounts.
    """

    computes: bool
    mark: str = ""
    searches: bool = False
    creates: bool = False
    option: str = ""
    mounts: bool = False

    def takes_pattern(self, word: str) -> bool:
        """Return whether `word` goes to a program as a pattern, and to no other shell."""
        if self.computes:
            return False
        return self.searches or self._is_behind_pattern_option(word)

    def creates_file(self, word: str) -> bool:
        """Return whether `word` may name a file or folder that the command creates."""
        if self._is_behind_pattern_option(word):
            return False
        option = (_CREATED.match(word) or [word, None])[1] or self.option
        is_output = not self.searches and _OUTPUT_OPTION.fullmatch(option.rstrip("=")) is not None
        # A folder of this machine has its place in the container behind it, if that is not removed.
        has_place = ":" in word or option[-1:] == "="
        is_mounted = self.mounts and has_place and _VOLUME.fullmatch(option) is not None
        return self.creates or is_output or is_mounted

    def compares(self, *, is_last: bool) -> bool:
        """Return whether a word is for comparing: `x == *.y`, `a*)`; `is_last`: before a `)`."""
        if self.option in _COMPARES:
            return True
        is_first = self.option == "in" or (self.option == "" and self.mark in {";;", ";", "\n"})
        return is_first and is_last

    def _is_behind_pattern_option(self, word: str) -> bool:
        return _PATTERN_OPTION.match(word if "=" in word else self.option) is not None

    def then(self, word: str, *, program: bool) -> WordContext:
        """Return what stands before the next word."""
        creates = self.creates or _CREATES.fullmatch(word) is not None
        if program:
            searches, option, mounts = word in _SEARCHES, "", word in _STARTS_CONTAINERS
        else:
            searches, option = self.searches and _RUNS_OR_PRINTS.match(word) is None, word
            mounts = self.mounts
        return WordContext(self.computes, self.mark, searches, creates, option, mounts)

    def behind(self, mark: str, *, goes_on: bool) -> WordContext:
        """Return what stands before the next word if a sign of the shell comes first."""
        creates = goes_on and self.creates and _SEPARATORS.match(mark) is None
        return WordContext(self.computes, mark, creates=creates)


def created_paths(word: str, env: Mapping[str, str]) -> list[str]:
    """Return the absolute paths of what a word creates: `/x`, `$y/x`, `of=/x`, `-o/x`."""
    created = _CREATED.fullmatch(word)
    text = word if created is None else created[2]
    forms = (text, *(form for form in forms_from_top(text, env) if not _WILD.search(form)))
    paths = (form.lstrip("/") for form in forms if form[:1] == "/")
    return [f"/{form}" for path in paths for form in dict.fromkeys((path, path.partition(":")[0]))]
