"""Commands and words that each shell reads in the same way, and the folders that `cd` enters."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import dropwhile
from typing import NamedTuple

from hub.guard.text.shell import (
    QUOTED,
    CommandWord,
    Script,
    SimpleCommand,
    parsed,
    without_documents,
)

_ODD = re.compile(r"[^\S \t\n]|(?<!\$)\(\(")
"""A space that few shells take for one, and what is calculated: `((1 << x))`."""
_LITERAL = re.compile(r"(?:[\w.,:/@%+=-]|'[^']*'|\"(?:[^\"\\`$]|\\[^\n])*\")+")
_EXPANDED = r"\$(?:[\w?#]|\{\w+[^\s{}'\"`$\\;&|<>()]*\}|\((?:[\w \t.,:/@%+=|-]|\$\w)*\))"
"""A variable, or what commands of plain words print: `${x%.*}`, `$(id -u)`, `$(x | tr / -)`."""
_SURE = re.compile(
    # What a shell takes apart in the same way whatever its settings are.
    rf"(?:[^\s;&|<>()`'\"\\$]|{_EXPANDED}|\\[^\n]|'[^']*'|\"(?:[^\"\\`$]|\\[^\n]|{_EXPANDED})*\")+"
)
BETWEEN_COMMANDS = frozenset({"", "&&", "||", "|", ";", "\n"})
_SURE_SIGNS = BETWEEN_COMMANDS | {"&", "(", ")"}
PLAIN_NAME = re.compile(r"[\w./-]+")
RUNS = re.compile(r"\$\(|`|\\\n")
"""Signs that a shell runs something in lines, or joins two of them, which may end there."""
_RUN_IN_REMARK = re.compile(r"[;&|\"\\`]|\$\(")
_OF_LINES = re.compile(r"\"\$\(cat *<<")
OF_DOCUMENT = frozenset({"<<", "<<-"})
_END = re.compile(r"\w+|'\w+'|\"\w+\"", re.ASCII)
_STREAM = re.compile(r"\d")
RENAMES = re.compile(r"\b(?:alias|function|hash)\b|\(\s*\)")
"""Signs that a command gives the name of a program to something else."""
_LINKS = re.compile(
    r"ln(?: -[fnvT]+)* -[fnvT]*s[fnvT]*(?: -[fnvT]+)* \.\./[\w./@+-]+ [\w./][\w./@+-]*/[\w.@+-]+"
)
DEVELOPS = (
    r"ruff|mypy|(?:python3? -m )?pytest|cargo (?:build|check|test)|go (?:build|test|vet)"
    r"|(?:npm|pnpm|yarn) (?:build|ci|install|lint|run|test)"
    r"|npx (?:eslint|jest|mocha|playwright|prettier|tsc|vitest)|node --test"
)
_READS_ONE = (["", "<<"], ["", "<<-"])
"""The operators before the words of `cat <<E`."""
_OF_SHELL = re.compile(
    r"(?:[akz]|ba|da)?sh +-[elux]*c +(?:'([^']*)'|\"([^\"\\`$!]*)\")\s*", re.ASCII
)


def script_of(command: str) -> str:
    """Return the script of `bash -c '...'`, if that is all of a command; others as they are."""
    inner = _OF_SHELL.fullmatch(command)
    return command if inner is None else inner[1] or inner[2] or command


OPENS_NOTHING = frozenset(
    {"cd", "git", "gh", "kubectl", "helm", "npm", "pnpm", "yarn", "docker", "export"}
    | {"docker-compose", "podman", "nerdctl", "sudo", "set", "echo", "true", "make", "for", "if"}
    | {"printf"}
)
"""Programs that open none of the words behind the sign where a shell would end their command."""


class Replacement(NamedTuple):
    """A part of a text, from `start` to `end`, and what to put in its place."""

    start: int
    end: int
    put: str = ""

    @classmethod
    def of(cls, word: CommandWord, put: str) -> Replacement:
        """Return what to put in the place of a whole word."""
        return cls(word.start, word.start + len(word.raw), put)


def replaced(text: str, parts: Iterable[Replacement]) -> str:
    """Return a text with other texts in the places of its parts, of which there may be many."""
    kept, at = list[str](), 0
    for part in sorted(parts):
        kept += (text[at : part.start], part.put)
        at = part.end
    return "".join((*kept, text[at:]))


class CommandLine(NamedTuple):
    """A text for a shell, taken apart once, with remarks as in scripts.

    `sure`: the commands that each shell runs, in order; none if shells may read the text otherwise.
    """

    text: str
    script: Script
    sure: list[SimpleCommand]

    @classmethod
    def of(cls, text: str, *, remarks: bool = True) -> CommandLine:
        """Return what a text consists of; for a shell that knows no remarks if not `remarks`."""
        script = parsed(text, remarks=remarks)
        return cls(text, script, _surely_run(text, script))

    @property
    def commands(self) -> list[SimpleCommand]:
        """The same without those that only have redirections."""
        return [one for one in self.sure if one.given]

    @property
    def opens_words(self) -> bool:
        """Whether the first program may open the words of others, if no shell reads the text."""
        first = self.sure[0].words[0].raw if self.sure else ""
        return not (first in OPENS_NOTHING or SET_BEFORE.match(first))


def run_in(text: str, script: Script) -> list[SimpleCommand]:
    """Return the commands that are run one after the other, as one shell may read them.

    None if a shell that knows no remarks may run more.
    """
    if not all(_is_remark_anywhere(text, *one) for one in script.remarks):
        return []
    return [one for one in script.commands if not one.depth and one.lines_of is None]


def _surely_run(text: str, script: Script) -> list[SimpleCommand]:
    rest = QUOTED.sub("", without_documents(text, script))
    if not (script.is_closed and has_only_texts(text, script)) or _ODD.search(rest):
        return []
    found = run_in(text, script)
    return found if all(map(_is_sure, found)) else []


def _is_remark_anywhere(text: str, start: int, end: int) -> bool:
    """Return whether a shell that knows no remarks, as `zsh -i`, runs no command in one.

    To it the quote of `# it's` opens a text that ends nowhere.
    """
    quote = text.find("'", start, end)
    is_open = quote < 0 or text.find("'", quote + 1) < 0
    return is_open and not _RUN_IN_REMARK.search(text, start, end)


PLAIN_REMARK = re.compile(r"#+(?:[ \t]+\w[\w.,:-]*)+[ \t]*")
"""The plain words of a remark, none of which is an option or expanded."""


def remarks_behind(text: str, script: Script) -> list[str]:
    """Return the remarks that a command may get as words, as they stand in one line with it."""
    found = [text[start:end] for start, end in script.remarks if stands_behind(text, start)]
    return [one for one in found if "'" not in one]


def stands_behind(text: str, start: int) -> bool:
    """Return whether a remark stands in one line with a command, which may get its words."""
    return text[text.rfind("\n", 0, start) + 1 : start].strip(" \t") != ""


def has_only_texts(text: str, script: Script) -> bool:
    """Return whether a shell runs nothing in the lines of the here-documents in `text`."""
    documents = ((one, text[one.start : one.end]) for one in script.documents)
    return all(one.is_literal or not RUNS.search(lines) for one, lines in documents)


def _is_sure(command: SimpleCommand) -> bool:
    return {*command.signs, command.after} <= _SURE_SIGNS and all(
        is_plain_redirection(word)
        or (word.operator in OF_DOCUMENT and _END.fullmatch(word.raw) is not None)
        if word.operator
        else is_literal(word) or _SURE.fullmatch(word.raw) is not None
        for word in command.words
    )


def is_plain_redirection(word: CommandWord) -> bool:
    """Return whether a word is the file of `<`, `>` or `>>` and a plain name, or `1` of `>&1`."""
    plain = _STREAM if word.operator[-1] == "&" else PLAIN_NAME
    sign = word.operator.lstrip("0123456789")
    return sign in {"<", ">", ">>", "<&", ">&"} and plain.fullmatch(word.raw) is not None


def is_literal(word: CommandWord) -> bool:
    """Return whether each shell takes a word as one, with nothing to expand: `'a b'`, `a="b"`.

    A text of several lines is one, too: `"$(cat <<'E'`, the lines, `E` and `)"`.
    """
    if _LITERAL.fullmatch(word.raw):
        return True
    if not _OF_LINES.match(word.raw) or word.raw[-2:] != ')"':
        return False
    script = parsed(word.raw[3:-2])
    run = [one for one in script.commands if one.lines_of is None]
    is_text = [one.is_literal for one in script.documents] == [True] and script.is_closed
    return is_text and [word.operator for one in run for word in one.words] in _READS_ONE


def renames_programs(command: str) -> bool:
    """Return whether a program's name may stand for something else behind `command`."""
    return RENAMES.search(command) is not None


def from_its_link(command: str, is_new: Callable[[str], bool]) -> str:
    """Return `ln -s ../b a/c` as `ln -s a/../b a/c`, from where its target starts; others as given.

    Where there is something at `a/c`, the link may go below that.
    """
    commands = CommandLine.of(command).commands if command[:3] == "ln " else []
    words = commands[0].words if len(commands) == 1 else []
    if not all(map(is_literal, words)) or not _LINKS.fullmatch(" ".join(one.text for one in words)):
        return command
    target, link = words[-2:]
    at = target.start + (target.raw[0] in "'\"")
    folder = link.text.rpartition("/")[0]
    return f"{command[:at]}{folder}/{command[at:]}" if is_new(link.text) else command


_BEFORE_CD = re.compile(
    r"\w+=.*|-p|--|[!{]|if|then|elif|else|while|until|do|time|builtin|command", re.S
)
_OPTION_OF_CD = re.compile(r"-[-LPe]+")
_END_OF_CD = re.compile(r"[^\S\n]*(?:[;&|)}\n#]|\d*[<>]|\Z)")
"""Not what is computed, such as the folder in `cd $(x)`."""


def goes_home(command: SimpleCommand, text: str) -> bool:
    """Return whether a command of `text` is `cd` alone, which goes to the user's home."""
    words = [word.text for word in command.given]
    rest = list(dropwhile(_BEFORE_CD.fullmatch, words))
    if rest[:1] not in (["cd"], ["chdir"]) or not all(map(_OPTION_OF_CD.fullmatch, rest[1:])):
        return False
    if command.lines_of is not None:  # it starts elsewhere in `text`
        return command.after not in {"'", '"', "`", "("}
    last = command.given[-1]
    return _END_OF_CD.match(text, last.start + len(last.raw)) is not None


SET_BEFORE = re.compile(r"[A-Za-z_]\w*\+?=", re.ASCII)
ACTIVATES = re.compile(r"(?:\.|source) [\w./-]+/activate")
MOVES_PROGRAM = re.compile(
    r"-\w*C(?! ?\d+(?:[\s)]|\Z))|-\w*D[ .]|--(?:c(?:h(?:di?r?)?)?|cwd|di(?:r\w*)?|wd|prefix?)\b"
    r"|-(?:exec|ok)dir|chdir\b|[\w./]*tar\s+\w*C"
)
"""Signs that a program starts elsewhere: its option in a group, shortened or without a `-`."""
CHANGES_FOLDERS = frozenset({"mkdir", "rm"})
"""These make or remove folders, but not what a `..` alone names."""
IS_OF_SHELL = CHANGES_FOLDERS | {
    *("cd", "set", "export", "echo", "true", "for", "if", "while", "test", "pwd", *"{[:.", "[["),
    *("source", "pushd"),
}
"""These open nothing, even if no shell reads the command."""
_KEEP_ALL = IS_OF_SHELL - {"rm", "set"} | {
    *("printf", "ls", "cat", "head", "tail", "wc", "grep", "rg", "touch", "sleep", "date", "which"),
    *("exit", "break", "continue", "until", "false", "curl", "jq", "diff", "tee", "stat", "ps"),
}
_SETS = re.compile(r"set(?: -[eux]+| -[eux]*o (?:pipefail|errexit|nounset|xtrace))+(?: #.*)?")
"""Not `set -r`, which forbids `cd`; a remark is no option to a shell that knows none."""
_KEEP_FOLDERS = re.compile(
    rf"(?!.*clean)(?:(?:{DEVELOPS}|make|(?:python3?|node)(?! -)|cmake(?! -E)|ctest|pip3? install"
    r"|git (?:add|commit|diff|fetch|log|push|show|status|tag"
    r"|pull(?: --(?:rebase|ff-only))?(?: origin [\w/-]+)?\Z)|tsc|eslint|uv (?:pip|sync)"
    rf"|uv run (?:pytest|ruff|mypy|[\w./]+\.py)|command -v|{ACTIVATES.pattern})\b|\./)"
)
_BUILDS = re.compile(r"\b(?:build|run|sync|make|cmake|ninja|pull)\b|\A(?:\.|python\S* [^-]|node )")
_MAY_CHANGE = re.compile(
    r"\$\([^()]*\||\$\((?!(?:basename|cat|date|dirname|echo|grep|head|id|ls|nproc|pwd|realpath|uname|wc|which"
    r"|git (?:branch|describe|diff|log|rev-parse|status)|npm root|node -[pv])\b)"
)
"""A program in a word that may remove folders."""
GONE = tuple(
    re.compile(rf"(?:\A|/)(?:{names})(?:/|\Z)")
    for names in ("(?!)", "node_modules", r"node_modules|build|dist|out|target|[._][^/]*", ".*")
)
"""The folders that may be gone behind commands: those of the shell, tests, builds, any others."""
ANY = len(GONE) - 1
LOOPS = frozenset({"for", "while", "until"})
KEYWORDS = frozenset({*("if", "then", "elif", "else", "fi", "{", "}", "do", "done"), *LOOPS})
BEHIND = KEYWORDS - {"for"}


def harm_of(command: SimpleCommand) -> int:
    """Return which folders a command may remove: a number in `GONE`."""
    words = [word.raw for word in command.given]
    words = list(dropwhile(lambda word: word in BEHIND or SET_BEFORE.match(word), words))
    text = " ".join(words)
    if _MAY_CHANGE.search(" ".join(word.raw for word in command.words)):
        return ANY
    if not words or words[0] in _KEEP_ALL or _SETS.fullmatch(text):
        return 0
    return 1 + (_BUILDS.search(text) is not None) if _KEEP_FOLDERS.match(text) else ANY


_OUTPUT = re.compile(r"-\w*o|--o")
"""Perhaps an option before a file that is written: `git diff --output=x`."""


def may_hinder(command: SimpleCommand) -> bool:
    """Return whether a `mkdir` behind a command may fail: a file has the name, or none is found."""
    words = [word.raw for word in command.given]
    if words[:1] == ["rm"] and all(map(is_literal, command.words)):
        return False
    return (
        harm_of(command) == ANY
        or not {"touch", "tee", "curl", "printf"}.isdisjoint(words)
        or any("PATH" in word.text or _OUTPUT.match(word.text) for word in command.words)
        or any(word.operator and word.text not in {"/dev/null", "1", "2"} for word in command.words)
    )


def may_not_run(command: SimpleCommand) -> bool:
    """Return whether a shell that cannot open a file, or set a variable, runs no such command."""
    return any(
        word.text not in {"/dev/null", "1", "2"} if word.operator else SET_BEFORE.match(word.raw)
        for word in command.words
    )
