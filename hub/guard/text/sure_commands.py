"""Commands and words that each shell reads in the same way, and the folders that `cd` enters."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import dropwhile

from hub.guard.text.shell import (
    QUOTE_SIGNS,
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
_EXPANDED = r"\$(?:[\w?#]|\{\w+[^\s{}'\"`$\\;&|<>()]*\}|\([\w \t.,:/@%+=-]*\))"
"""A variable, or what a command of plain words prints: `${x%.*}`, `$(id -u)`."""
_SURE = re.compile(
    # What a shell takes apart in the same way whatever its settings are.
    rf"(?:[^\s;&|<>()`'\"\\$]|{_EXPANDED}|\\[^\n]|'[^']*'|\"(?:[^\"\\`$]|\\[^\n]|{_EXPANDED})*\")+"
)
_BETWEEN_COMMANDS = frozenset({"", "&&", "||", "|", ";", "\n"})
_SURE_SIGNS = _BETWEEN_COMMANDS | {"&", "(", ")"}
_PLAIN_NAME = re.compile(r"[\w./-]+")
_PLAIN_WORD = re.compile(rf"{_PLAIN_NAME.pattern}|\"\$\w+\"")
_RUNS = re.compile(r"\$\(|`|\\\n")
"""Signs that a shell runs something in lines, or joins two of them, which may end there."""
_OF_LINES = re.compile(r"\"\$\(cat *<<")
_OF_DOCUMENT = frozenset({"<<", "<<-"})
_END = re.compile(r"\w+|'\w+'|\"\w+\"", re.ASCII)
_STREAM = re.compile(r"\d")
_ENDS_REMARK = re.compile(r"[;&|<>$'\"\\`]")
"""Signs in a remark that a shell that knows none may run."""
_RENAMES = re.compile(r"\b(?:alias|function|hash)\b|\(\s*\)")
"""Signs that a command gives the name of a program to something else."""
_USES_LINES = re.compile(rf"{_RENAMES.pattern}|\$\(|`|--files")
"""The same, or that it takes what is in files for words or for names: `wc --files0-from`."""
_LINKS = re.compile(
    r"ln(?: -[fnvT]+)* -[fnvT]*s[fnvT]*(?: -[fnvT]+)* \.\./[\w./@+-]+ [\w./][\w./@+-]*/[\w.@+-]+"
)
_RUN_NOTHING = re.compile(r"cd|cat|mkdir|chmod|touch|ls|wc|echo|true|tee")
_TAKES_TEXT = re.compile(
    r"(?:git (?:commit|tag|notes|merge)|gh \w+ \w+|kubectl (?:apply|create|delete|diff|replace))"
    r"(?: .+)? -(?:[fF]|-body-file|-input)[ =]-(?: .+)?"
)
"""A command that reads a text from a here-document, and opens nothing that it names."""
DEVELOPS = (
    r"ruff|mypy|(?:python3? -m )?pytest|cargo (?:build|check|test)|go (?:build|test|vet)"
    r"|(?:npm|pnpm|yarn) (?:build|ci|install|lint|run|test)"
    r"|npx (?:eslint|jest|mocha|playwright|prettier|tsc|vitest)|node --test"
)
_OPENS_NO_LINE = re.compile(
    r"(?!.* -\S*(?:exec|output|pack\b|tool|shell))"
    rf"(?:cd|gh|kubectl|tail|head|grep|rm|docker build|{DEVELOPS}"
    r"|git (?:add|branch|checkout|commit|diff|fetch|log|pull|push|rm|show|status|switch|tag))\b"
)
"""Not `git -c core.editor=sh`, `git bisect run` or `go test -exec sh`.

Tests are code, which is not followed.
"""
SOURCE = re.compile(
    r"(?!.*(?:package|\*[^/]*)\.json)[\w./@+*-]+\.(?:[cm]?[jt]sx?|vue|svelte|py|rs|go|java|kt|cs|rb"
    r"|php|c|h|cc|cpp|hpp|s?css|html|md|txt|json|ya?ml|toml|xml|svg|sql)|(?:[\w./-]+/)?Dockerfile"
)
"""A file that is no script of a shell, and has none in it; or several: `src/*.py`."""
_NO_SCRIPT = re.compile(rf"{SOURCE.pattern}|/dev/null|[\w./-]+\.log")
_READS_ONE = (["", "<<"], ["", "<<-"])
"""The operators before the words of `cat <<E`."""
_OF_SHELL = re.compile(
    r"(?:[akz]|ba|da)?sh +-[elux]*c +(?:'([^']*)'|\"([^\"\\`$!]*)\")\s*", re.ASCII
)
_READS_LINES = re.compile(r"cat|tee|python3?|node|psql|sqlite3")
"""Programs for which `/` in the lines that they read gives only an error."""
OF_SQL = re.compile(r"psql|sqlite3")
COMMAND_IN_SQL = re.compile(r"\\|^\s*\.", re.MULTILINE)
_RUNS_LINES = re.compile(rf"(?:{DEVELOPS}|cat|rm|python3?|node|psql|sqlite3|uv run)(?: [\w./-]+)*")
"""A command that runs no line that was written as one of a shell, nor hands on words of it."""


def script_of(command: str) -> str:
    """Return the script of `bash -c '...'`, if that is all of a command; others as they are."""
    inner = _OF_SHELL.fullmatch(command)
    return command if inner is None else inner[1] or inner[2] or command


def surely_parsed(text: str) -> list[SimpleCommand]:
    """Return the commands with words that a shell runs; none if shells may read them otherwise."""
    return [one for one in sure_script(text) if one.given]


def sure_script(text: str) -> list[SimpleCommand]:
    """Return the same with those that only have redirections."""
    script = parsed(text, remarks=True)
    remarks = (text[start:end] for start, end in script.remarks)
    rest = QUOTED.sub("", without_documents(text, script))
    if not (script.is_closed and has_only_texts(text, script)) or _ODD.search(rest):
        return []
    if any(map(QUOTE_SIGNS.search, remarks)):
        return []
    found = [one for one in script.commands if not one.depth and one.lines_of is None]
    return found if all(map(_is_sure, found)) else []


def has_only_texts(text: str, script: Script) -> bool:
    """Return whether a shell runs nothing in the lines of the here-documents in `text`."""
    documents = ((one, text[one.start : one.end]) for one in script.documents)
    return all(one.is_literal or not _RUNS.search(lines) for one, lines in documents)


def _is_sure(command: SimpleCommand) -> bool:
    return {*command.signs, command.after} <= _SURE_SIGNS and all(
        is_plain_redirection(word)
        or (word.operator in _OF_DOCUMENT and _END.fullmatch(word.raw) is not None)
        if word.operator
        else is_literal(word) or _SURE.fullmatch(word.raw) is not None
        for word in command.words
    )


def is_plain_redirection(word: CommandWord) -> bool:
    """Return whether a word is the file of `<`, `>` or `>>` and a plain name, or `1` of `>&1`."""
    plain = _STREAM if word.operator[-1] == "&" else _PLAIN_NAME
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
    return _RENAMES.search(command) is not None


def without_lines(command: str) -> str:
    """Return a command without the lines that `cat` writes to files: `cd src && cat > a <<'E'`.

    Nothing opens the words in them without a shell, and the command does not run the files, unless
    tests do. So it is with a text for a program: `git commit -F - <<'E'`.
    """
    script = parsed(command, remarks=True)
    kept = without_documents(command, script)
    commands = surely_parsed(kept) if has_only_texts(command, script) else []
    is_written = all(map(runs_nothing, commands)) or all(map(opens_no_line, commands))
    return kept if commands and is_written and not _USES_LINES.search(kept) else command


def without_plain_remarks(command: str) -> str:
    """Return a command without remarks that a shell that knows none takes for lone commands."""
    script = parsed(command, remarks=True)
    for start, end in reversed(script.remarks if script.is_closed else []):
        is_line = command[:start].rstrip(" \t")[-1:] in {"", "\n"}
        if is_line and not _ENDS_REMARK.search(command, start, end):
            command = command[:start] + command[end:]
    return command


def from_its_link(command: str, is_new: Callable[[str], bool]) -> str:
    """Return `ln -s ../b a/c` as `ln -s a/../b a/c`, from where its target starts; others as given.

    Where there is something at `a/c`, the link may go below that.
    """
    commands = surely_parsed(command) if command[:3] == "ln " else []
    words = commands[0].words if len(commands) == 1 else []
    if not all(map(is_literal, words)) or not _LINKS.fullmatch(" ".join(one.text for one in words)):
        return command
    target, link = words[-2:]
    at = target.start + (target.raw[0] in "'\"")
    folder = link.text.rpartition("/")[0]
    return f"{command[:at]}{folder}/{command[at:]}" if is_new(link.text) else command


def runs_nothing(command: SimpleCommand) -> bool:
    """Return whether a command starts no other, not even by what it prints; lines go to a file."""
    signs = {word.operator for word in command.words}
    first, *names = [word.raw for word in command.given]
    writes = not (names or signs.isdisjoint({">", ">>"})) or first == "tee"
    runs_nothing = _RUN_NOTHING.fullmatch(first) is not None and command.after != "|"
    return runs_nothing and (writes or signs.isdisjoint(_OF_DOCUMENT))


def opens_no_line(command: SimpleCommand) -> bool:
    """Return whether a command takes lines for a text or for source code, and runs no others."""
    given = " ".join(word.raw for word in command.given)
    written = [one.raw for one in command.words if one.operator[-1:] == ">"]
    written += [word.raw for word in command.given[1:] if given[:4] == "tee "]
    is_code = all(map(_NO_SCRIPT.fullmatch, written))
    if not any(word.operator in _OF_DOCUMENT for word in command.words):
        return is_code and (runs_nothing(command) or _OPENS_NO_LINE.match(given) is not None)
    is_code = is_code and runs_nothing(command) and any(map(SOURCE.fullmatch, written))
    return is_code or (command.after != "|" and _TAKES_TEXT.fullmatch(given) is not None)


def only_reads_lines(command: SimpleCommand, *, is_alone: bool) -> bool:
    """Return whether a command may read lines, or files with them, and takes `/` there for no path.

    `is_alone`: no other command opens what it writes.
    """
    given = " ".join(word.raw for word in command.given)
    files = [word.raw for word in command.words[1:] if word.operator[:2] != "<<"]
    if not {*command.signs, command.after} <= _BETWEEN_COMMANDS or not all(
        map(_PLAIN_WORD.fullmatch, files)
    ):
        return False
    if not any(word.operator[:2] == "<<" for word in command.words):
        return runs_nothing(command) or _RUNS_LINES.fullmatch(given) is not None
    writes = command.words[0].raw in {"cat", "tee"} and not is_alone
    return _READS_LINES.fullmatch(command.words[0].raw) is not None and (
        not writes or all(map(SOURCE.fullmatch, files))
    )


_SCRIPTS = (
    (
        re.compile(r"sed"),
        re.compile(r"(?<=['\"; ]s)([/|#,@!:])(?:(?!\1)[^\\\n$]|\\.|\$(?![\w{(]))*"),
    ),
    (re.compile(r"[gm]?awk|psql|python[\d.]*|node|jq"), re.compile(r"(?s)\A(?!.*\|\s*\\?\").+")),
)
"""Programs that are no shells, and the parts of scripts for them that nothing expands."""
_SIGN_IN_SCRIPT = re.compile(r"(?<=[.\])}\w])[*?]+|(?<![^\s!'\"])~(?!\S)")
_HAS_SCRIPTS = re.compile(r"sed|awk|psql|python|node|jq")
RUNS_SCRIPTS = re.compile(
    r"\b(?:(?:[akz]|ba|da|fi)?sh|eval|source|system|popen|subprocess|exec|spawn|getline|program)\b"
    r"|_process|shell|glob|mapfile|readarray|`|\\!|\\\w+\s+\||(?<![.\w-])read(?=\s)|<\w*\*[^<>\s]*>|\bchr\(\d"
    r"|(?:^|[;&|\n])[^\S\n]*(?:\.|make\b)",
    re.IGNORECASE,
)
"""Signs that another shell may get a script, or what it prints, or that it looks for files."""


def with_plain_scripts(command: str) -> str:
    """Return a command without signs in its scripts that only a shell would expand.

    Such as `~` and `.*` in `awk '$1 ~ /a.*/'`, and `.*` in what `sed 's/.*/b/'` looks for.
    """
    if not _HAS_SCRIPTS.search(command) or RUNS_SCRIPTS.search(command):
        return command
    is_sure = not renames_programs(QUOTED.sub("", command))
    # What a script prints, a shell may read again; `sed` does not print what it looks for.
    scripts = _SCRIPTS[:1] if "$(" in command else _SCRIPTS
    for one in reversed(surely_parsed(command) if is_sure else []):
        signs = next((of[1] for of in scripts if of[0].fullmatch(one.given[0].raw)), None)
        for word in reversed(one.given if signs else []):
            if signs and QUOTED.fullmatch(word.raw):
                end = word.start + len(word.raw)
                script = signs.sub(lambda part: _SIGN_IN_SCRIPT.sub("x", part[0]), word.raw)
                command = f"{command[: word.start]}{script}{command[end:]}"
    return command


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


_NUMBER = r"(?:\$?\w+|\$\{\w+\})"
SUM = rf"\$\(\(\s*{_NUMBER}(?:\s*[-+*/%]\s*{_NUMBER})*\s*\)\)"
_SIGN = r"""'(?:[^\s'"$`\\*?\[]|\\[nrt0])'"""
_CALCULATED = rf"(?:[\w.,:+%=-]|\$(?:\{{\w+\}}|(?=\w))|{SUM})+"
_TEXT = rf"\"(?:[\w\s.,:/+%={{}}-]|\\[nrt]|\$(?!\()|{SUM})*\"|'(?:[\w\s.,:/+%=-]|\\[nrt])*'"
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
    rf"(?!PATH=)\w+=(?:\"?{SUM}\"?|[\w.]*|\$\({_OPENS}(?: ?< ?[\w./-]+)?\))"
    # These open no files, so what is computed may stand behind them; but no wildcards.
    r"|(?:echo(?! -\w*e)|expr|let|printf(?! -)|seq|sleep|test)"
    rf"(?: (?!-\w*T|--)(?:{_CALCULATED}|[\w.,:+%=-]*/[\w.,:/+%=-]*|{_SIGN}|{_TEXT}))*"
    r"|(?:IFS=[^\s'\"]* )?read(?: -[rasn]+)*(?: \w+)+"
    r"|done|fi|for \w+ in \"?\$(?:\w+|\{\w+\[@\]\})\"?"
    # These do.
    rf"|{_OPENS}|{_GIT}|{_SPLITS})",
    re.ASCII,
)
"""A simple command that gives only an error for `/`, even if no shell reads it."""


def lists_nothing(command: SimpleCommand) -> bool:
    """Return whether a command gives only an error for `/`, even if no shell reads it."""
    return (
        {command.before, command.after} <= _BETWEEN_COMMANDS
        and all(
            is_plain_redirection(word) or (word.operator == "<<<" and not _RUNS.search(word.raw))
            for word in command.words
            if word.operator
        )
        and _LISTS_NOTHING.fullmatch(" ".join(word.raw for word in command.given)) is not None
    )


SET_BEFORE = re.compile(r"[A-Za-z_]\w*\+?=", re.ASCII)
ACTIVATES = re.compile(r"(?:\.|source) [\w./-]+/activate")
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
_SETS = re.compile(r"set(?: -[eux]+| -[eux]*o (?:pipefail|errexit|nounset|xtrace))+")
"""Not `set -r`, which forbids `cd`."""
_KEEP_FOLDERS = re.compile(
    rf"(?!.*clean)(?:(?:{DEVELOPS}|make|(?:python3?|node)(?! -)|cmake(?! -E)|ctest|pip3? install"
    r"|git (?:add|commit|diff|fetch|log|push|show|status|tag"
    r"|pull(?: --(?:rebase|ff-only))?(?: origin [\w/-]+)?\Z)|tsc|eslint|uv (?:pip|sync)"
    rf"|uv run (?:pytest|ruff|mypy|[\w./]+\.py)|command -v|{ACTIVATES.pattern})\b|\./)"
)
_BUILDS = re.compile(r"\b(?:build|run|sync|make|cmake|ninja|pull)\b|\A(?:\.|python\S* [^-]|node )")
_MAY_CHANGE = re.compile(
    r"\$\((?!(?:basename|cat|date|dirname|echo|grep|head|id|ls|nproc|pwd|realpath|uname|wc|which"
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
