"""Commands and words that each shell reads in the same way, and the folders that `cd` enters."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import dropwhile, islice
from typing import Protocol

from hub.guard.text.emptiness import SET_BY_SHELL
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
_EXPANDED = r"\$(?:\w|\{\w+[^\s{}'\"`$\\;&|<>()]*\}|\([\w \t.,:/@%+=-]*\))"
"""A variable, or what a command of plain words prints: `${x%.*}`, `$(id -u)`."""
_SURE = re.compile(
    # What a shell takes apart in the same way whatever its settings are.
    rf"(?:[^\s;&|<>()`'\"\\$]|{_EXPANDED}|\\[^\n]|'[^']*'|\"(?:[^\"\\`$]|\\[^\n]|{_EXPANDED})*\")+"
)
_SURE_SIGNS = frozenset({"", "&&", "||", "|", ";", "\n", "(", ")"})
_PLAIN_NAME = re.compile(r"[\w./-]+")
_RUNS = re.compile(r"\$\(|`|\\\n")
"""Signs that a shell runs something in lines, or joins two of them, which may end there."""
_OF_DOCUMENT = frozenset({"<<", "<<-"})
_END = re.compile(r"\w+|'\w+'|\"\w+\"", re.ASCII)
_STREAM = re.compile(r"\d")
_ENDS_REMARK = re.compile(r"[;&|<>$'\"\\`]")
"""Signs in a remark that a shell that knows none may run."""
_RENAMES = re.compile(r"\b(?:alias|function|hash)\b|\(\s*\)")
"""Signs that a command gives the name of a program to something else."""
_USES_LINES = re.compile(rf"{_RENAMES.pattern}|\$\(|`|--files")
"""The same, or that it takes what is in files for words or for names: `wc --files0-from`."""
_RUN_NOTHING = frozenset(
    {"cd", "cat", "mkdir", "chmod", "touch", "ls", "wc", "echo", "true", "tee"}
)
_TAKES_TEXT = re.compile(
    r"(?:git (?:commit|tag|notes|merge)|gh \w+ \w+|kubectl (?:apply|create|delete|diff|replace))"
    r"(?: .+)? -(?:[fF]|-body-file|-input)[ =]-(?: .+)?"
)
"""A command that reads a text from a here-document, and opens nothing that it names."""
_OPENS_NO_LINE = re.compile(
    r"(?:cd|gh|kubectl|tail|head|grep|rm|ruff|mypy|(?:python3? -m )?pytest"
    r"|git (?:add|branch|checkout|commit|diff|fetch|log|pull|push|rm|show|status|switch|tag)"
    r"|cargo (?:build|check|test)|go (?:build|test|vet)"
    r"|(?:npm|pnpm|yarn) (?:build|ci|install|lint|run|test)"
    r"|npx (?:eslint|jest|mocha|playwright|prettier|tsc|vitest))\b"
)
"""Not `git -c core.editor=sh`, or `git bisect run`. Tests are code, which is not followed."""
_SOURCE = re.compile(
    r"(?!(?:.*/)?package\.json)[\w./@+-]+\.(?:[cm]?[jt]sx?|vue|svelte|py|rs|go|java|kt|cs|rb|php|c|h"
    r"|cc|cpp|hpp|s?css|html|md|txt|json|ya?ml|toml|xml|svg|sql)"
)
"""A file that is no script of a shell, and has none in it."""
_READS_ONE = (["", "<<"], ["", "<<-"])
"""The operators before the words of `cat <<E`."""


def surely_parsed(text: str) -> list[SimpleCommand]:
    """Return the commands with words that a shell runs; none if shells may read them otherwise."""
    script = parsed(text, remarks=True)
    remarks = (text[start:end] for start, end in script.remarks)
    rest = QUOTED.sub("", without_documents(text, script))
    if not (script.is_closed and has_only_texts(text, script)) or _ODD.search(rest):
        return []
    if any(map(QUOTE_SIGNS.search, remarks)):
        return []
    found = [one for one in script.commands if not one.depth and one.lines_of is None]
    return [one for one in found if one.given] if all(map(_is_sure, found)) else []


def has_only_texts(text: str, script: Script) -> bool:
    """Return whether a shell runs nothing in the lines of the here-documents in `text`."""
    documents = ((one, text[one.start : one.end]) for one in script.documents)
    return all(one.is_literal or not _RUNS.search(lines) for one, lines in documents)


def _is_sure(command: SimpleCommand) -> bool:
    return {command.before, command.after} <= _SURE_SIGNS and all(
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
    if word.raw[:6] != '"$(cat' or word.raw[-2:] != ')"':
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
    is_written = all(map(runs_nothing, commands)) or all(map(_opens_no_line, commands))
    return kept if commands and is_written and not _USES_LINES.search(kept) else command


def without_plain_remarks(command: str) -> str:
    """Return a command without remarks that a shell that knows none takes for lone commands."""
    script = parsed(command, remarks=True)
    for start, end in reversed(script.remarks if script.is_closed else []):
        is_line = command[:start].rstrip(" \t")[-1:] in {"", "\n"}
        if is_line and not _ENDS_REMARK.search(command, start, end):
            command = command[:start] + command[end:]
    return command


def runs_nothing(command: SimpleCommand) -> bool:
    """Return whether a command starts no other, not even by what it prints; lines go to a file."""
    signs = {word.operator for word in command.words}
    first, *names = [word.raw for word in command.given]
    writes = not (names or signs.isdisjoint({">", ">>"})) or first == "tee"
    runs_nothing = first in _RUN_NOTHING and command.after != "|"
    return runs_nothing and (writes or signs.isdisjoint(_OF_DOCUMENT))


def _opens_no_line(command: SimpleCommand) -> bool:
    """Return whether a command takes lines for a text or for source code, and runs no others."""
    given = " ".join(word.raw for word in command.given)
    if not any(word.operator in _OF_DOCUMENT for word in command.words):
        return runs_nothing(command) or _OPENS_NO_LINE.match(given) is not None
    written = (word.raw for word in command.words if word.operator in {">", ">>"})
    is_source = runs_nothing(command) and any(map(_SOURCE.fullmatch, written))
    return is_source or (command.after != "|" and _TAKES_TEXT.fullmatch(given) is not None)


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
    r"|_process|shell|glob|mapfile|readarray|`|\\!|\\\w+\s+\||(?<![.\w-])read(?=\s)"
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


_HELD = re.compile(
    rf"\s*(?!(?:HOME|IFS|PATH|(?:OLD)?PWD|{SET_BY_SHELL})=)([A-Za-z]\w*)=([\w./-]+)"
    r" *(?:;|&&|\n)[ \n]*",
    re.ASCII,
)
"""A command that starts with a variable that is set to the name of a folder."""
_COMPUTES_NAMES = re.compile(r"\\|\b(?:eval|source)\b|(?<!\S)\. ")
_LOOP = re.compile(
    r"\s*for ([A-Za-z]\w*) in ((?:[\w.-]+ )*[\w.-]+) *[;\n]\s*do\s+cd (\"?)\$\1\3 *(?:;|&&|\n)"
    r"(?:(?!\b(?:[cr]d|chdir|pushd|popd|rm|mv|for|while|until|do|done|eval|source|read|unset)\b"
    r"|(?<!\$)\b\1\b)[\w\s./:=@%+,&;|>\"$-])*?(?:;|&&|\n)\s*cd (?=\.\.\s*[;\n]\s*done\b)",
    re.ASCII,
)
"""A loop that enters folders one by one, up to the `..` that leaves each."""
_MOST_CLIMBS = 64
_FOLDER = re.compile(r"[\w./@][\w./@+-]*")
_PROGRAM = re.compile(r"[\w./-]*\w|\[\[?")
_MOVES = frozenset(
    {*("cd", "chdir", "pushd", "popd", "eval", "source", ".", "trap", "shopt", "setopt")}
)
"""What else may change the folder that a command runs in, or how `cd` does so."""
_CHANGES_FOLDERS = frozenset({"mkdir", "rm"})
"""These make or remove folders, but not what a `..` alone names."""
_IS_OF_SHELL = _CHANGES_FOLDERS | {"cd", "set", "export", "echo", "true"}
"""These open nothing, even if no shell reads the command."""
_MOVES_PROGRAM = re.compile(r"-C(?! ?\d)|--(?:chdir|directory|cwd|wd|prefix)\b|-(?:exec|ok)dir")
_BLOCKS = {"for": 1, "while": 1, "until": 1, "if": 1, "done": -1, "fi": -1}
_KEYWORD = re.compile(r"(?:do|then|else|elif)\Z")
_CLIMB = re.compile(
    # At the start of a word, or of one in `$(...)`.
    r"""\A(?:(-[A-Za-z])|['"]?(?:-{0,2}[\w-]+=)?)(?=\.\.(?:/|['"]?\Z))|(?<=[\s=])(?=\.\.[/\s)])"""
)
_WILD = re.compile(r"[*?\[{$]")
_LINKS = re.compile(
    r"ln(?: -[fnvT]+)* -[fnvT]*s[fnvT]*(?: -[fnvT]+)* \.\./[\w./@+-]+ [\w./][\w./@+-]*/[\w.@+-]+"
)
_ABOVE = re.compile(r"(?:\.\./?)+")


class RelativeStarts(Protocol):
    """What there is where a relative path can start."""

    def enters(self, folder: str) -> bool:
        """Return whether `folder` is a directory, wherever it starts."""
        ...

    def is_new(self, path: str) -> bool:
        """Return whether nothing is at `path`, wherever it starts."""
        ...


def from_entered_folders(command: str, env: Mapping[str, str], places: RelativeStarts) -> str:
    """Return a command with the folder that its `..` surely start in before them.

    For `cd a && ls ..` it is `cd a && ls a/..`, and so for `cd a; ls ..` if `a` is there, even
    behind `mkdir -p a;`. The `cd ..` of `for d in a b; do cd $d; ls; cd ..; done` is `cd $d/..`.
    For `ln -s ../b a/c` it is `ln -s a/../b a/c`.
    """
    if command[:3] == "ln ":
        return _from_its_link(command, places)
    if not ("cd " in command and ".." in command) or "CDPATH" in command or "CDPATH" in env:
        return command
    command = _with_first_variable(command, env)
    loop = _LOOP.match(command)
    if loop is not None and all(map(places.enters, loop[2].split())):
        return f"{command[: loop.end()]}${loop[1]}/{command[loop.end() :]}"
    commands = surely_parsed(command) if not renames_programs(command) else []
    first = commands[0].given[0].raw if commands else ""
    climbs, at, blocks = list[tuple[int, str]](), "", 0
    # Behind `mkdir a && cd a;` nobody knows whether `cd` was done.
    begins = commands[first == "mkdir" and commands[0].after in {";", "\n"} :]
    is_sure = _begins_in_folder(begins, places, command.count(".."))
    for one in commands if first in _IS_OF_SHELL else ():
        climbs += _climbs_of(one, at, is_new=first in _CHANGES_FOLDERS) if at else ()
        words, entered = one.given, _entered(one)
        if entered and not blocks:
            at = entered if entered[0] == "/" or not at else f"{at}/{entered}"
            is_sure = is_sure and (one is begins[0] or _ABOVE.fullmatch(entered) is not None)
        elif not _PROGRAM.fullmatch(words[0].raw) or _may_move([one.text for one in words], at):
            break
        starts = dropwhile(lambda word: _KEYWORD.match(word.raw), words)
        blocks += sum(_BLOCKS.get(word.raw, 0) for word in islice(starts, 1))
        at = at if is_sure or blocks or one.after in {"&&", "|"} else ""
    for start, folder in reversed(climbs if len(climbs) <= _MOST_CLIMBS else []):
        command = f"{command[:start]}{folder}{command[start:]}"
    return command


def _may_move(texts: list[str], at: str) -> bool:
    """Return whether a command may leave the folder `at`, or move it: `mv ../a ../../b`."""
    if any(text in _MOVES and (text != "." or n < len(texts) - 1) for n, text in enumerate(texts)):
        return True
    around = {"$PWD", *at.split("/")} - {"", ".", ".."}
    return "mv" in texts and any(
        text.rstrip("/").rpartition("/")[2] in around or (".." in text and _WILD.search(text))
        for text in texts
    )


def _with_first_variable(command: str, env: Mapping[str, str]) -> str:
    """Return `D=a; cd $D` as `cd a`, if nothing else in it has that name; others as they are."""
    held = _HELD.match(command)
    if held is None or held[1] in env or "'" in command or _COMPUTES_NAMES.search(command):
        return command
    name, rest = held[1], command[held.end() :]
    given, uses = re.subn(rf"\$(?:{name}\b|\{{{name}\}})", lambda _: held[2], rest, flags=re.ASCII)
    return given if uses == len(re.findall(rf"\b{name}\b", rest)) > 0 else command


def _begins_in_folder(commands: list[SimpleCommand], places: RelativeStarts, climbs: int) -> bool:
    """Return whether the first command surely enters a folder for all others.

    `climbs`: how often they climb. From a folder that another argument names it may fail, but there
    a climb as high leads nowhere.
    """
    entered = _entered(commands[0]) if commands else ""
    name = entered.removeprefix("./").rstrip("/")
    is_low = "/" not in name or climbs == 1
    is_name = entered[:1] == "/" or (is_low and name not in {"", ".", ".."})
    signs = {sign for one in commands for sign in (one.before, one.after)}
    return is_name and signs.isdisjoint({"(", ")"}) and places.enters(entered)


def _from_its_link(command: str, places: RelativeStarts) -> str:
    """Return `ln -s ../b a/c` with the folder of the link before its target; others as they are.

    Where there is something at `a/c`, the link may go below that.
    """
    commands = surely_parsed(command)
    words = commands[0].words if len(commands) == 1 else []
    if not all(map(is_literal, words)) or not _LINKS.fullmatch(" ".join(one.text for one in words)):
        return command
    target, link = words[-2:]
    at = target.start + (target.raw[0] in "'\"")
    folder = link.text.rpartition("/")[0]
    return f"{command[:at]}{folder}/{command[at:]}" if places.is_new(link.text) else command


def _climbs_of(command: SimpleCommand, at: str, *, is_new: bool) -> Iterator[tuple[int, str]]:
    words = command.words
    # What such a program runs starts in the folder that stands behind its option.
    texts = [word.text for word in words]
    pairs = (" ".join(texts[n : n + 2]) for n in range(len(texts)))
    moved = next((n for n, pair in enumerate(pairs) if _MOVES_PROGRAM.match(pair)), None)
    for word in words if moved is None else words[moved : moved + 2]:
        for climb in _CLIMB.finditer(word.raw):
            if (climb.end() == 0 or climb[0] or "$(" in word.raw) and (
                not is_new or _ABOVE.fullmatch(word.text)
            ):
                # `-Ia/../b` has the path `/../b` in it.
                yield word.start + climb.end(), f" {at}/" if climb[1] else f"{at}/"


def _entered(command: SimpleCommand) -> str:
    """Return the folder that a shell is in behind a command, from where it was, or nothing."""
    words = command.given
    if [word.raw for word in words[:-1]] != ["cd"] or not is_literal(words[1]):
        return ""
    is_alone = command.before not in {"|", "||"} and command.after != "|"
    return words[1].text if is_alone and _FOLDER.fullmatch(words[1].text) else ""


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
