"""What well-known programs make of the words of a command: files, patterns, texts or commands."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import dropwhile
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


class WordContext(NamedTuple):
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

    def then(self, word: str, *, program: bool) -> WordContext:
        """Return what stands before the next word."""
        mark = "" if self.mark[:1] in {"<", ">"} else self.mark
        creates = self.creates or _CREATES.fullmatch(word) is not None
        if program:
            searches, option = word in _SEARCHES, ""
        else:
            searches, option = self.searches and _RUNS_OR_PRINTS.match(word) is None, word
        return WordContext(self.computes, mark, searches, creates, option)

    def behind(self, mark: str) -> WordContext:
        """Return what stands before the next word if a sign of the shell comes first."""
        creates = self.creates and _SEPARATORS.match(mark) is None
        return WordContext(self.computes, mark, creates=creates)


def created_paths(word: str, env: Mapping[str, str]) -> list[str]:
    """Return the absolute paths of what a word creates: `/x`, `$y/x`, `of=/x`, `-o/x`."""
    forms = (form for form in forms_from_top(word, env) if not _WILD.search(form))
    found = map(_CREATED.fullmatch, (word, *forms))
    return [f"/{created[2].lstrip('/')}" for created in found if created is not None]


_DOCUMENT = (
    r"\"\$\(cat[ \t]+<<-?[ \t]*'(?P<name>\w+)'\n(?:(?![ \t]*(?P=name)\n).*\n)*"
    r"[ \t]*(?P=name)\n\s*\)\"(?=[\s;&|)]|$)"
)
"""A text of several lines: `"$(cat <<'E'`, the lines, `E` and `)"`."""
_PIECE = re.compile(
    # What a shell takes apart in the same way whatever its settings are.
    rf"(?P<literal>(?:{_DOCUMENT}|(?:[\w.,:/@%+=-]|'[^']*'|\"[^\"\\`$]*\")+(?=[\s;&|<>()]|$)))"
    r"|(?P<word>(?:[^\s;&|<>()`'\"\\$#]|(?<=[^\s;&|<>()])#|\$\w|\$\{\w+\}|\\[^\n]|'[^']*'"
    r"|\"(?:[^\"\\`$]|\$\w|\$\{\w+\})*\")+)"
    r"|(?P<end>&&|\|\|?|[;\n()])"
    r"|[ \t]+|\\\n|#[^\n'\"\\`]*(?=\n|$)|\d?(?:>>?|<(?!<))[ \t]*(?:&\d|[\w./-]+)"
)
_VARIES = re.compile(r"=\(|\bIFS\b")
_BEFORE_PROGRAM = re.compile(r"\w+=|(?:sudo|time|env)\Z")
_INSTALLED = r"=/(?:usr|opt)(?:/[\w-][\w.-]*)*"
_DIRECTORIES = (
    "(?:s?bin|lib|libexec|include|data|dataroot|sysconf|localstate|sharedstate|runstate|man|info|doc"
    "|locale|html)dir"
)
_TEXTS = tuple(
    (re.compile(program), re.compile(rf"(?:{option})(=.+)?", re.DOTALL), place)
    for program, option, place in (
        (r"git (?:commit|tag|merge|stash push|notes add)\b", "-[a-z]*m|--message", 1),
        (r"gh (?:pr|issue|release)\b", "-[tbn]|--(?:title|body|notes|subject)", 1),
        (r"curl\b", "-[HAed]|--(?:header|user-agent|referer|data(?:-ascii|-raw)?|json)", 1),
        (r"jq\b", "--arg(?:json)?", 2),
        (r"kubectl create\b", "--from-literal", 1),
        (r"helm\b", "--set(?:-string)?", 1),
        (
            r"(?:docker|podman|nerdctl)(?: buildx| compose)? (?:build|run|create|exec)\b",
            "-e|--(?:env|label|build-arg)",
            1,
        ),
        (
            r"(?:[\w./-]*/)?configure\b|meson setup\b",
            rf"--(?:exec-)?prefix{_INSTALLED}|--{_DIRECTORIES}=/\w[\w/-]*",
            0,
        ),
        (r"cmake\b", rf"-DCMAKE_INSTALL_PREFIX{_INSTALLED}", 0),
    )
)
"""Programs, their options that take a text, and which word behind these is the text."""
_FINDS = re.compile(r"(?:(?:[ef]|z)?grep|rg|ag|git grep)\b")
_FLAG = re.compile(
    r"-[rRnivwxclLoPEFhHsqzaUI]+|--(?:[\w-]+=.*|colou?r|line-number|ignore-case|recursive|hidden"
    r"|files-with-matches|word-regexp|fixed-strings|no-heading|count)",
    re.DOTALL,
)
"""An option that leaves the next word alone."""
_OPENS_NOTHING = frozenset(
    {"cd", "git", "gh", "kubectl", "helm", "npm", "pnpm", "yarn", "docker", "export"}
)
"""Programs that open none of the words behind the sign where a shell would end their command."""
_OF_FILE = re.compile(r"(?:-+[\w-]+=)?['\"]?@")
_NOTHING = ("''",)
_QUOTED_SIGN = re.compile(r"[;&|<>()\"'\\`*?\[{]")


class _Word(NamedTuple):
    text: str
    start: int
    is_literal: bool


def without_texts(command: str) -> str:
    """Return a command without the words that its programs take for texts, as in `-m 'see ../x'`.

    A child that starts a program without a shell may take a quoted text apart at its spaces. What
    that program may open stays.
    """
    commands = _commands_in(command)
    if not commands or _VARIES.search(command) or renames_programs(command):
        return command
    opens = commands[0][0].text not in _OPENS_NOTHING
    texts = [(text, n) for n, words in enumerate(commands) for text in _texts_of(words)]
    for (text, start, _), n in reversed(texts):
        parts = text.split() if opens else []
        if len(parts) == 1 and n:
            continue
        kept = [f"'{part}'" for part in parts[len(parts) == 1 :] if not _QUOTED_SIGN.search(part)]
        command = f"{command[:start]}{' '.join(kept or _NOTHING)}{command[start + len(text) :]}"
    return command


def _commands_in(command: str) -> list[list[_Word]]:
    """Return the words of each simple command; none if another shell may read them otherwise."""
    commands, at = [list[_Word]()], 0
    while at < len(command):
        piece = _PIECE.match(command, at)
        if piece is None:
            return []
        if piece["end"]:
            commands.append([])
        elif text := piece["literal"] or piece["word"]:
            commands[-1].append(_Word(text, at, piece["literal"] is not None))
        at = piece.end()
    return [words for words in commands if words]


def _texts_of(words: list[_Word]) -> list[_Word]:
    """Return the words of a simple command that its program takes for texts, in order."""
    words = list(dropwhile(lambda word: _BEFORE_PROGRAM.match(word.text), words))
    head = " ".join(word.text for word in words[:4])
    found = list[_Word]()
    for option, place in ((one[1], one[2]) for one in _TEXTS if one[0].match(head)):
        for n, word in enumerate(words):
            if given := option.fullmatch(word.text):
                found += words[n:][:1] if given[1] else words[n + place :][:1]
    if finds := _FINDS.match(head):
        found += _pattern_in(words[len(finds[0].split()) :])
    texts = (word for word in found if word.is_literal and not _OF_FILE.match(word.text))
    return sorted(dict.fromkeys(texts), key=lambda word: word.start)


def _pattern_in(words: list[_Word]) -> list[_Word]:
    rest = list(dropwhile(lambda word: _FLAG.fullmatch(word.text), words))
    if rest and rest[0].text == "-e":
        return rest[1:2]
    return [] if not rest or rest[0].text[0] == "-" else rest[:1]


_NUMBER = r"(?:\$?\w+|\$\{\w+\})"
_SUM = rf"\$\(\(\s*{_NUMBER}(?:\s*[-+*/%]\s*{_NUMBER})*\s*\)\)"
_SIGN = r"""'(?:[^\s'"$`\\*?\[]|\\[nrt0])'"""
_REDIRECTION = r"[ \t]*(?:2>&1|(?:<|>>?)[ \t]*[\w./-]+)"
_CALCULATED = rf"(?:[\w.,:+%=-]|\$(?:\{{\w+\}}|(?=\w))|{_SUM})+"
_TEXT = rf"\"(?:[\w\s.,:/+%={{}}-]|\\[nrt]|\$(?!\()|{_SUM})*\"|'(?:[\w\s.,:/+%=-]|\\[nrt])*'"
_OPENS = (
    rf"(?:cut|head|sort|tail|tr|uniq|wc)(?:{_REDIRECTION}"
    rf"|[ \t]+(?:(?!-\w*T|--)[\w.,:/+%=*-]+|{_SIGN}|\"[^\s'\"$`\\]\"))*"
)
_GIT = (
    r"git (?:branch|tag|log|remote|describe|rev-parse|status|shortlog|ls-files|ls-tree|for-each-ref"
    r"|rev-list|symbolic-ref|diff --name-only)(?:[ \t]+(?:[\w.,:=+%@/^-]+|'[\w\s.,:()%/=]*'))*"
)
_SPLITS = (
    r"[gm]?awk[ \t]+-F[ \t]*(?:/|'/'|\"/\")[ \t]+"
    rf"'(?![^']*(?:system|getline|ARGV|ENVIRON))[^'|<>`]*'(?:{_REDIRECTION}|[ \t]+[\w./-]+)*"
)
_LISTS_NOTHING = re.compile(
    rf"[ \t]*(?:(?!PATH=)\w+=(?:\"?{_SUM}\"?|[\w.]*|\$\({_OPENS}\))"
    # These open no files, so what is computed may stand behind them; but no wildcards.
    rf"|(?:echo(?![ \t]+-\w*e)|expr|let|printf(?![ \t]+-)|seq|sleep|test)(?:{_REDIRECTION}"
    rf"|[ \t]+(?!-\w*T|--)(?:{_CALCULATED}|[\w.,:+%=-]*/[\w.,:/+%=-]*|{_SIGN}|{_TEXT}))*"
    # These do.
    rf"|{_OPENS}|{_GIT}|{_SPLITS})[ \t]*",
    re.ASCII,
)
"""A simple command that gives only an error for `/`, even if no shell reads it."""
_TAKES_FOLDER = re.compile(r"-\w*T|--", re.ASCII)
"""Options such as `sort -T /`, which writes there, and `--compress-program=sh`, which runs it."""
_BETWEEN_COMMANDS = re.compile(r"&&|\|\|?|[;\n]")
_OF_SHELL = re.compile(r"(?:[akz]|ba|da)?sh\s+-c\s+'([^']*)'", re.ASCII)
_LONE_SLASH = re.compile(r"(?<=[ \t])(['\"]?)/\1(?=[ \t\n]|$)")


_PRINTED = re.compile(r"\$(?:\w+|\{\w+\})", re.ASCII)
_WITH_DOCUMENT = re.compile(
    r"((?:cat|tee|python3?|node)[\w./> \t-]*<<-?[ \t]*(['\"]?)(\w+)\2(?:[ \t>][\w./> \t-]*)?\n)"
    r"((?:(?![ \t]*\3\n).*\n)*)([ \t]*\3\s*)"
)
"""A program, the lines that it reads, and what stands behind; for `/` it gives only an error."""
_RUNS = re.compile(r"\$\(|`")


def tamed(command: str) -> str:
    """Return a command without lone slashes and variables, if nothing in it can list a folder.

    Such as `expr 4 / 2`, `echo $((4 / 2))`, `cut -d / -f 1 | tr / _`, `echo $HOME`.
    """
    inner = _OF_SHELL.fullmatch(command)
    parts = _BETWEEN_COMMANDS.split(command if inner is None else inner[1])
    is_git = parts[0].split()[:1] == ["git"]  # without a shell it would get all words
    if all(map(_LISTS_NOTHING.fullmatch, parts)) and (is_git or not _TAKES_FOLDER.search(command)):
        return _PRINTED.sub("x", _LONE_SLASH.sub("0", command))
    document = _WITH_DOCUMENT.fullmatch(command)
    if document is None or (not document[2] and _RUNS.search(document[4])):
        return command
    return f"{document[1]}{_LONE_SLASH.sub('0', document[4])}{document[5]}"
