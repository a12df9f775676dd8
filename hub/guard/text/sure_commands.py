"""Commands and words that each shell reads in the same way, whatever its settings are."""

from __future__ import annotations

import re

from hub.guard.text.shell import QUOTE_SIGNS, QUOTED, CommandWord, SimpleCommand, parsed

_ODD_SPACE = re.compile(r"[^\S \t\n]")
_LITERAL = re.compile(r"(?:[\w.,:/@%+=-]|'[^']*'|\"[^\"\\`$]*\")+")
_EXPANDED = r"\$(?:\w|\{\w+[^\s{}'\"`$\\;&|<>()]*\}|\([\w \t.,:/@%+=-]*\))"
"""A variable, or what a command of plain words prints: `${x%.*}`, `$(id -u)`."""
_SURE = re.compile(
    # What a shell takes apart in the same way whatever its settings are.
    rf"(?:[^\s;&|<>()`'\"\\$]|{_EXPANDED}|\\[^\n]|'[^']*'|\"(?:[^\"\\`$]|{_EXPANDED})*\")+"
)
_SURE_SIGNS = frozenset({"", "&&", "||", "|", ";", "\n", "(", ")"})
_PLAIN_NAME = re.compile(r"[\w./-]+")
_STREAM = re.compile(r"\d")
_READS_ONE = (["", "<<"], ["", "<<-"])
"""The operators before the words of `cat <<E`."""


def surely_parsed(text: str) -> list[SimpleCommand]:
    """Return the commands with words that a shell runs; none if shells may read them otherwise."""
    script = parsed(text, remarks=True)
    remarks = (text[start:end] for start, end in script.remarks)
    if not script.is_closed or _ODD_SPACE.search(QUOTED.sub("", text)):
        return []
    if any(map(QUOTE_SIGNS.search, remarks)):
        return []
    found = [one for one in script.commands if not one.depth and one.lines_of is None]
    return [one for one in found if one.given] if all(map(_is_sure, found)) else []


def _is_sure(command: SimpleCommand) -> bool:
    return {command.before, command.after} <= _SURE_SIGNS and all(
        is_plain_redirection(word)
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
