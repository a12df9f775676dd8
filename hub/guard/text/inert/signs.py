"""Signs in words that no program opens: slashes, remarks, and what only a shell would expand."""

from __future__ import annotations

import re
from itertools import dropwhile

from hub.guard.text.shell import QUOTED, SimpleCommand
from hub.guard.text.sure_commands import (
    BEHIND,
    BETWEEN_COMMANDS,
    RUNS,
    SET_BEFORE,
    CommandLine,
    Replacement,
    is_plain_redirection,
    renames_programs,
    run_in,
    stands_behind,
)

_ENDS_REMARK = re.compile(r"[;&|<>$'\"\\`]")
"""Signs in a remark that a shell that knows none may run."""
_SCRIPTS = (
    (
        re.compile(r"sed"),
        re.compile(r"(?<=['\"; ]s)([/|#,@!:])(?:(?!\1)[^\\\n$]|\\.|\$(?![\w{(]))*"),
    ),
    (re.compile(r"[gm]?awk|psql|python[\d.]*|node|jq"), re.compile(r"(?s)\A(?!.*\|\s*\\?\").+")),
)
"""Programs that are no shells, and the parts of scripts for them that nothing expands."""
_SIGN_IN_SCRIPT = re.compile(r"(?<=[.\])}\w])[*?]+|(?<![^\s!'\"])~(?!\S)")
HAS_SCRIPTS = re.compile(r"sed|awk|psql|python|node|jq")
RUNS_SCRIPTS = re.compile(
    r"\b(?:(?:[akz]|ba|da|fi)?sh|eval|source|system|popen|subprocess|exec|spawn|getline|program)\b"
    r"|_process|shell|glob|mapfile|readarray|`|\\!|\\\w+\s+\||(?<![.\w-])read(?=\s)|<\w*\*[^<>\s]*>|\bchr\(\d"
    r"|(?:^|[;&|\n])[^\S\n]*(?:\.|make\b)",
    re.IGNORECASE,
)
"""Signs that another shell may get a script, or what it prints, or that it looks for files."""
_CALCULATED = re.compile(r"\$\(\((?:[^()'\"`]|\([^()'\"`]*\))*\)\)")
"""A sum, with commands and brackets that have no others in them."""
_DIVIDED = re.compile(r"(\$\((?!\()[^()]*\))|(?<=[\w)}])\s*(?:[/%]|\*\*?)\s*(?=[\w($])")
"""A slash or a star between operands of a sum; what its commands have (group 1) is kept."""
_CALCULATES = re.compile(
    rf"(?:\w+=(?:{_CALCULATED.pattern}|\$\([^()]*\)|[^\s;&()]*)(?:[;\n]| &&)|"
    r"(?:cd|echo|export|for|if|printf|set|true)\s)"
    r"(?!.*(?:['\\]|<<|\$\{\w+:?=))",
    re.DOTALL,
)
"""A command that only a shell runs, or that opens nothing, and that quotes no `$((`."""
_TAKES_FOLDER = re.compile(r"-\w*T|--", re.ASCII)
"""Options such as `sort -T /`, which writes there, and `--compress-program=sh`, which runs it."""
HAS_SLASHES = re.compile(
    r"\s*+(?:\w+=|[gm]?awk\s|(?:for|while|if|echo|expr|let|printf|read|seq|sleep|test|cut|head|sort"
    r"|tail|tr|uniq|wc|git(?! commit| add)|cat|tee|cd|mkdir|python3?|node"
    r"|psql|sqlite3)\b)"
)
"""The start of each command in which a slash may be inert."""
_LONE_SLASH = re.compile(r"(?:(?<=[ \t])|(?<=IFS=))(['\"]?)/\1(?=[ \t\n]|$)")
_PRINTED = re.compile(r"\$(?:\w+|\{\w+\})", re.ASCII)
RUNS_PRINTED = re.compile(
    r"\b(?:xargs(?! (?:-[r0]+ )*sed -i )|parallel|read)\b|\|\s*(?:[akz]|ba|da)?sh\b"
)
"""What may run what is printed, or open the words of it."""
_SLASH, _VALUE = r"['\"\\]?/['\"]?", r"\"?\$(?:\w+|\{\w+\})\"?"
_SLASH_FOR = (
    (rf"expr (?:\d+ {_SLASH} (?:\d+|{_VALUE})|{_VALUE} {_SLASH} \d+)", "%"),
    (rf"tr (?:-d )?{_SLASH}(?: (?:['\"]?-['\"]?|(?:[^/\\$`-]|\\[nt])+))?", "/-/"),
)
"""Commands that print no slash that they have as an operand, and what stands for that there."""
HAS_OPERATORS = re.compile(r"\b(?:expr|tr) ")


def plain_remarks(line: CommandLine) -> list[Replacement]:
    """Return the remarks that a shell that knows none takes for lone commands."""
    found = list[Replacement]()
    for start, end in line.script.remarks if line.script.is_closed else []:
        is_behind = stands_behind(line.text, start)
        if not (is_behind or _ENDS_REMARK.search(line.text, start, end)):
            found.append(Replacement(start, end))
    return found


def divided_sums(line: CommandLine) -> list[Replacement]:
    """Return the sums in `$((...))` without slashes, if no program gets them as they are."""
    sums = _CALCULATED.finditer(line.text) if _CALCULATES.match(line.text) else ()
    return [
        Replacement(*of.span(), _DIVIDED.sub(lambda part: part[1] or "-", of[0])) for of in sums
    ]


def lone_slashes(line: CommandLine) -> list[Replacement]:
    """Return commands without lone slashes and variables, if nothing in them can list a folder.

    Such as `expr 4 / 2`, `cut -d / -f 1 | tr / _`, `echo $HOME`.
    """
    run = run_in(line.text, line.script)
    if not run or not all(map(_lists_nothing, run)):
        return []
    is_git = run[0].words[0].raw == "git"  # without a shell it gets all words
    if _TAKES_FOLDER.search(line.text) and not is_git:
        return []
    return [Replacement(0, len(line.text), _PRINTED.sub("x", _LONE_SLASH.sub("0", line.text)))]


def slashes_of_operators(line: CommandLine) -> list[Replacement]:
    """Return the slashes of `expr 4 / 2` and `tr / -` behind a program that opens no words.

    What `tr` prints stays known: the range `/-/` is that sign.
    """
    is_unsure = RUNS_PRINTED.search(line.text) or renames_programs(line.text)
    if line.opens_words or is_unsure:
        return []
    found = list[Replacement]()
    for one in line.script.commands:
        words = one.given if one.lines_of is None else []
        words = list(
            dropwhile(lambda word: word.raw in BEHIND or SET_BEFORE.match(word.raw), words)
        )
        text = " ".join(word.raw for word in words)
        put = next((of for command, of in _SLASH_FOR if re.fullmatch(command, text)), None)
        found += [Replacement.of(word, put) for word in words if put and word.text == "/"]
    return found


def signs_in_scripts(line: CommandLine) -> list[Replacement]:
    """Return scripts without the signs in them that only a shell would expand.

    Such as `~` and `.*` in `awk '$1 ~ /a.*/'`, and `.*` in what `sed 's/.*/b/'` looks for.
    """
    if RUNS_SCRIPTS.search(line.text) or renames_programs(QUOTED.sub("", line.text)):
        return []
    # What a script prints, a shell may read again; `sed` does not print what it looks for.
    scripts, found = _SCRIPTS[:1] if "$(" in line.text else _SCRIPTS, list[Replacement]()
    for one in line.commands:
        signs = next((of[1] for of in scripts if of[0].fullmatch(one.given[0].raw)), None)
        for word in one.given if signs else []:
            if signs and QUOTED.fullmatch(word.raw):
                put = signs.sub(lambda part: _SIGN_IN_SCRIPT.sub("x", part[0]), word.raw)
                found.append(Replacement.of(word, put))
    return found


_NUMBER = r"(?:\$?\w+|\$\{\w+\})"
_SUM = rf"\$\(\(\s*{_NUMBER}(?:\s*[-+*/%]\s*{_NUMBER})*\s*\)\)"
_SIGN = r"""'(?:[^\s'"$`\\*?\[]|\\[nrt0])'"""
_WORD_OF_SUM = rf"(?:[\w.,:+%=-]|\$(?:\{{\w+\}}|(?=\w))|{_SUM})+"
_TEXT = rf"\"(?:[\w\s.,:/+%={{}}\[\]@-]|\\[nrt]|\$(?!\()|{_SUM})*\"|'(?:[\w\s.,:/+%=-]|\\[nrt])*'"
_OPENS = (
    r"(?:cut|head|sort|tail|tr|uniq|wc)"
    rf"(?: (?:(?!-\w*T|--)[\w.,:/+%=*-]+|{_SIGN}|\"[^\s'\"$`\\]\"))*"
)
_GIT = (
    r"git (?:branch|tag|log|remote|describe|rev-parse|status|shortlog|ls-files|ls-tree|for-each-ref"
    r"|rev-list|symbolic-ref|diff --name-only)(?: (?:[\w.,:=+%@/^-]+|'[\w\s.,:()%/=]*'))*"
)
_SPLITS = (
    r"[gm]?awk -F ?(?:/|'/'|\"/\") '(?![^']*(?:system|getline|ARGV|ENVIRON))[^'|<>`]*'"
    r"(?: [\w./-]+)*"
)
_LISTS_NOTHING = re.compile(
    r"(?:(?:do|then|else|if|while|until) )*(?:"
    rf"(?!PATH=)\w+=(?:\"?{_SUM}\"?|[\w.]*|\$\({_OPENS}(?: ?< ?[\w./-]+)?\))"
    # These open no files, so what is computed may stand behind them; but no wildcards.
    r"|(?:echo(?! -\w*e)|expr|let|printf(?! -)|seq|sleep|test)"
    rf"(?: (?!-\w*T|--)(?:{_WORD_OF_SUM}|[\w.,:+%=-]*/[\w.,:/+%=-]*|{_SIGN}|{_TEXT}))*"
    r"|(?:IFS=[^\s'\"]* )?read(?: -[rasn]+)*(?: \w+)+"
    r"|done|fi|for \w+ in \"?\$(?:\w+|\{\w+\[@\]\})\"?"
    # These do.
    rf"|{_OPENS}|{_GIT}|{_SPLITS})",
    re.ASCII,
)
"""A simple command that gives only an error for `/`, even if no shell reads it."""


_VARIES = re.compile(rf"{RUNS.pattern}|[*?\[]")
"""Signs that a shell runs something in a text, or looks for files if a variable holds it."""


def _lists_nothing(command: SimpleCommand) -> bool:
    """Return whether a command gives only an error for `/`, even if no shell reads it."""
    return (
        {command.before, command.after} <= BETWEEN_COMMANDS
        and all(
            is_plain_redirection(word) or (word.operator == "<<<" and not _VARIES.search(word.raw))
            for word in command.words
            if word.operator
        )
        and _LISTS_NOTHING.fullmatch(" ".join(word.raw for word in command.given)) is not None
    )
