"""Lines of here-documents that no program opens: those that are written to files, and texts."""

from __future__ import annotations

import re

from hub.guard.text.shell import SimpleCommand, cut_out
from hub.guard.text.sure_commands import (
    BETWEEN_COMMANDS,
    DEVELOPS,
    OF_DOCUMENT,
    PLAIN_NAME,
    RENAMES,
    CommandLine,
    Replacement,
)

_PLAIN_WORD = re.compile(rf"{PLAIN_NAME.pattern}|\"\$\w+\"")
_USES_LINES = re.compile(
    rf"{RENAMES.pattern}|\$\(|`|--files|(?<!\w)@(?![\w-]+/[\w-]+(?:@[\d.]+)?(?:\s|\Z))"
)
"""The same, or that it takes what is in files for words or for names: `--files0-from`, `ruff @x`.

Not `npm install @types/node`.
"""
_RUN_NOTHING = re.compile(r"cd|cat|mkdir|chmod|touch|ls|wc|echo|true|tee")
_TAKES_TEXT = re.compile(
    r"(?:git (?:commit|tag|notes|merge)|gh \w+ \w+|kubectl (?:apply|create|delete|diff|replace))"
    r"(?: .+)? -(?:[fF]|-body-file|-input)[ =]-(?: .+)?"
)
"""A command that reads a text from a here-document, and opens nothing that it names."""
_OPENS_NO_LINE = re.compile(
    r"(?!.* -\S*(?:exec|output|pack\b|tool|shell))"
    rf"(?:cd|set|gh|kubectl|tail|head|grep|diff|stat|rm|docker build|{DEVELOPS}"
    r"|git (?:add|branch|checkout|commit|diff|fetch|log|pull|push|rm|show|status|switch|tag))\b"
)
"""Not `git -c core.editor=sh`, `git bisect run` or `go test -exec sh`.

Tests are code, which is not followed.
"""
SOURCE = re.compile(
    r"(?!.*(?:package|\*[^/]*)\.json)[\w./@+*-]+\.(?:[cm]?[jt]sx?|vue|svelte|py|rs|go|java|kt|cs|rb"
    r"|php|c|h|cc|cpp|hpp|s?css|html|md|txt|json|ya?ml|toml|xml|svg|sql|conf|cfg|ini|properties|csv|tf"
    r"|proto|graphql|tmpl|j2)|(?:[\w./-]+/)?(?:Dockerfile|\.(?:(?:docker|git)ignore|editorconfig|env(?:\.\w+)?))"
)
"""A file that is no script of a shell, and has none in it; or several: `src/*.py`."""
_NO_SCRIPT = re.compile(rf"{SOURCE.pattern}|/dev/null|[\w./-]+\.log")
_READS_LINES = re.compile(r"cat|tee|python3?|node|psql|sqlite3")
"""Programs for which `/` in the lines that they read gives only an error."""
_OF_SQL = re.compile(r"psql|sqlite3")
_COMMAND_IN_SQL = re.compile(r"\\|^\s*\.", re.MULTILINE)
_RUNS_LINES = re.compile(rf"(?:{DEVELOPS}|cat|rm|python3?|node|psql|sqlite3|uv run)(?: [\w./-]+)*")
"""A command that runs no line that was written as one of a shell, nor hands on words of it."""
_TAKES_NO_LINE = re.compile(
    r"\s*+(?:cd |(?:git|gh|kubectl) "
    r"(?![^\n]*\n(?:.*\s)?-(?:[A-Za-z]*[FTfkt]|[a-z-]*(?:file|input))))",
    re.DOTALL,
)
"""Without a shell `git` takes the words in the lines, too: not `-F../x`."""
_DIVISION = re.compile(r"""(["'][^"'\n]*(?:["']|$))|(?<=[\w)\]] )//?(?= [\w({])""", re.MULTILINE)
"""A slash between two operands; what is in quotes is passed over."""


def lines_that_nothing_opens(line: CommandLine) -> list[Replacement]:
    """Return all here-documents, if no program opens the words in their lines.

    Such as those that `cat > a <<'E'` writes to a file that nothing runs, unless tests do; or a
    text for a program: `git commit -F - <<'E'`.
    """
    documents = [Replacement(one.start, one.end) for one in line.script.documents]
    is_written = all(map(runs_nothing, line.commands)) or all(map(opens_no_line, line.commands))
    kept = cut_out(line.text, [(one.start, one.end) for one in documents])
    is_used = not is_written or _USES_LINES.search(kept) is not None
    return documents if line.commands and not is_used else []


def lines_without_a_shell(line: CommandLine) -> list[Replacement]:
    """Return the same where the first program opens none either, if it gets all the words."""
    return lines_that_nothing_opens(line) if _TAKES_NO_LINE.match(line.text) else []


def divisions_in_lines(line: CommandLine) -> list[Replacement]:
    """Return here-documents with `0` for `/` between operands, if they are only read or written."""
    run = line.sure
    is_read = run != [] and all(only_reads_lines(one, is_alone=len(run) == 1) for one in run)
    is_sql = _OF_SQL.search(line.text) is not None
    found = list[Replacement]()
    for one in line.script.documents if is_read else []:
        lines = line.text[one.start : one.end]
        if not (is_sql and _COMMAND_IN_SQL.search(lines)):
            put = _DIVISION.sub(lambda of: of[1] or "0", lines)
            found.append(Replacement(one.start, one.end, put))
    return found


def runs_nothing(command: SimpleCommand) -> bool:
    """Return whether a command starts no other, not even by what it prints; lines go to a file."""
    signs = {word.operator for word in command.words}
    first, *names = [word.raw for word in command.given]
    writes = not (names or signs.isdisjoint({">", ">>"})) or first == "tee"
    runs_nothing = _RUN_NOTHING.fullmatch(first) is not None and command.after != "|"
    return runs_nothing and (writes or signs.isdisjoint(OF_DOCUMENT))


def opens_no_line(command: SimpleCommand) -> bool:
    """Return whether a command takes lines for a text or for source code, and runs no others."""
    given = " ".join(word.raw for word in command.given)
    written = [one.raw for one in command.words if one.operator[-1:] == ">"]
    written += [word.raw for word in command.given[1:] if given[:4] == "tee "]
    is_code = all(map(_NO_SCRIPT.fullmatch, written))
    if not any(word.operator in OF_DOCUMENT for word in command.words):
        return is_code and (runs_nothing(command) or _OPENS_NO_LINE.match(given) is not None)
    is_code = is_code and runs_nothing(command) and any(map(SOURCE.fullmatch, written))
    return is_code or (command.after != "|" and _TAKES_TEXT.fullmatch(given) is not None)


def only_reads_lines(command: SimpleCommand, *, is_alone: bool) -> bool:
    """Return whether a command may read lines, or files with them, and takes `/` there for no path.

    `is_alone`: no other command opens what it writes.
    """
    given = " ".join(word.raw for word in command.given)
    files = [word.raw for word in command.words[1:] if word.operator[:2] != "<<"]
    if not {*command.signs, command.after} <= BETWEEN_COMMANDS or not all(
        map(_PLAIN_WORD.fullmatch, files)
    ):
        return False
    if not any(word.operator[:2] == "<<" for word in command.words):
        return runs_nothing(command) or _RUNS_LINES.fullmatch(given) is not None
    writes = command.words[0].raw in {"cat", "tee"} and not is_alone
    return _READS_LINES.fullmatch(command.words[0].raw) is not None and (
        not writes or all(map(SOURCE.fullmatch, files))
    )
