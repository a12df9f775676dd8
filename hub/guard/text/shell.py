"""Take a shell command apart: its simple commands, their words and the files of redirections.

As POSIX says it (Shell Command Language 2.2, 2.3, 2.7, 2.9, 2.10), with the arrays and `<(...)` of
bash. Nothing is expanded. With an open quote a text is split at all signs, as some children do.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple, cast

from hub.guard.budget import TooManyWaysError

QUOTED = re.compile(r"""'([^']*+)'|"([^"\\]*+(?:\\.[^"\\]*+)*)"|\\(.)""", re.DOTALL)
"""A part in single quotes (group 1) or double quotes (2), or an escaped character (3)."""
_ESCAPED_IN_QUOTES = re.compile(r"\\([\"\\$`]|\n)")
_NO_CODE = r"\$(?![({])"
_IN_DOUBLE = rf"(?:[^\"\\$`]++|\\.|{_NO_CODE})*"
_SIMPLE = rf"(?:[^\s;&|<>()`'\"\\$]++|\\(?:.|\Z)|'[^']*+'|\"{_IN_DOUBLE}\"|{_NO_CODE}|\$\{{\w+\}})+"
_FLAT = r"(?:'[^']*+'|\"[^\"\\]*+(?:\\.[^\"\\]*+)*\"|\\.|[^\s;&|<>()`'\"\\]++)+"
_REDIRECTION = r"\d*(?:<<<|<<-?|[<>]&|<>|>>|>\||[<>]%s)|&>>?"


def _tokens(word: str, redirection: str, signs: str, remark: str) -> re.Pattern[str]:
    return re.compile(
        rf"(?:[^\S\n]|\\\n)*(?:{remark}(?P<redirection>{redirection})"
        rf"|(?P<word>{word})|(?P<operator>&&|\|\||;;&?|;&|\|&|[;&|()\n{signs}]))?",
        re.DOTALL,
    )


_REMARKS = ((True, r"(?P<remark>\#[^\n]*+)|"), (False, ""))
_TOKENS = {of: _tokens(_SIMPLE, _REDIRECTION % r"(?!\()", "", remark) for of, remark in _REMARKS}
_FLAT_TOKENS = {of: _tokens(_FLAT, _REDIRECTION % "", r"`'\"\\", one) for of, one in _REMARKS}
"""With remarks, and without."""
_REST = re.compile(_SIMPLE, re.DOTALL)
_QUOTED_TEXT = re.compile(_IN_DOUBLE, re.DOTALL)
_LINES = re.compile(rf"(?:[^\\$`]++|\\.|{_NO_CODE})*", re.DOTALL)
_BRACED = re.compile(rf"(?:[^}}\"'\\$`]++|\\.|'[^']*+'|{_NO_CODE})*", re.DOTALL)
_BRACED_IN_QUOTES = re.compile(rf"(?:[^}}\"\\$`]++|\\.|{_NO_CODE})*", re.DOTALL)
_BACKTICKS = re.compile(r"`((?:[^`\\]++|\\.)*)`", re.DOTALL)
_ESCAPED_IN_BACKTICKS = re.compile(r"\\([\\$`])")
_SUM = re.compile(r"\$\(\((?:[^()'\"`$]|\$(?!\()|\((?:[^()'\"`$]|\$(?!\())*\))*\)\)")
_NAME_OF_ARRAY = re.compile(r"[A-Za-z_]\w*\+?=", re.ASCII)
_GO_ON = frozenset({"&&", "||", "|", "|&"})
"""Behind these a new line ends nothing."""
_BRACKETS, _DOCUMENT = {"(": 1, ")": -1}, {"<<", "<<-"}
_MORE = frozenset("$`\"'<>(")
"""Signs that a word may go on with behind a plain part."""
_SUBSTITUTES = re.compile(r"[$<>=]\(|`")
QUOTE_SIGNS = re.compile(r"['\"\\`]")
_DEEPEST = 24


class CommandWord(NamedTuple):
    """A word of a command: `raw` as it stands in the text that it is part of, from `start` on.

    `text`: without quotes; what a shell computes or expands in it is as it stands. `operator`: the
    sign of the redirection whose file it names, or nothing.
    """

    raw: str
    text: str
    start: int
    operator: str


class SimpleCommand(NamedTuple):
    """The words of one command, behind all operators since the one before it, and before `after`.

    `depth`: in so many substitutions it stands. `lines_of`: the command whose here-document has it
    as a line. `is_list`: its words are elements of an array.
    """

    words: list[CommandWord]
    signs: list[str]
    after: str
    depth: int
    lines_of: SimpleCommand | None
    is_list: bool

    @property
    def before(self) -> str:
        """The operator before the command, or nothing."""
        return self.signs[-1] if self.signs else ""

    @property
    def given(self) -> list[CommandWord]:
        """The words without the files of redirections."""
        return [word for word in self.words if not word.operator]


class HereDocument(NamedTuple):
    """The lines from `start` to `end`, which `owner` reads; `is_literal`: nothing is expanded."""

    owner: SimpleCommand
    start: int
    end: int
    is_literal: bool


class Script(NamedTuple):
    """What a text for a shell consists of; what is substituted comes before what it stands in.

    `remarks`: where they start and end. `is_closed`: each quote and bracket is.
    """

    commands: list[SimpleCommand]
    documents: list[HereDocument]
    remarks: list[tuple[int, int]]
    is_closed: bool


def parsed(text: str, *, remarks: bool = False) -> Script:
    """Return what a text for a shell consists of. `remarks`: `#` starts one, as in scripts.

    Raises:
        TooManyWaysError: substitutions are too deep in one another.
    """
    try:
        return _Scanner(text, remarks=remarks).scanned()
    except _UnclosedError:
        return _Scanner(text, remarks=remarks, is_flat=True).scanned()


def ways_to_parse(text: str) -> list[Script]:
    """Return what a text consists of; and, split at each sign, if something is substituted in it.

    Then a word of the first script is one that has nothing substituted in it, such as `'$(x)'`.
    """
    script = parsed(text)
    if not (script.is_closed and _SUBSTITUTES.search(text)):
        return [script]
    flat = _Scanner(without_documents(text, script), is_flat=True).scanned()
    for command in script.commands:
        command.words[:] = (
            word
            for word in command.words
            if not _SUBSTITUTES.search(word.raw if '"' in word.raw else QUOTED.sub("", word.raw))
        )
    return [script, flat]


def without_documents(text: str, script: Script) -> str:
    """Return `text` without the lines of its here-documents, `script` being what it consists of."""
    return cut_out(text, [(one.start, one.end) for one in script.documents])


def words_at_each_sign(text: str) -> list[str]:
    """Return all words that programs may get, split at each sign: no files of redirections."""
    words, before = list[str](), ""
    for token in _FLAT_TOKENS[False].finditer(text):
        if token["word"] and before != "redirection":
            words.append(without_quotes(token["word"]))
        before = token.lastgroup
    return words


def without_remarks(command: str) -> str:
    """Return a command without what a shell takes for remarks, as in `ls  # all's well`."""
    return cut_out(command, parsed(command, remarks=True).remarks) if "#" in command else command


def cut_out(text: str, parts: list[tuple[int, int]]) -> str:
    """Return a text without some parts of it, which are in order. There may be very many."""
    starts, ends = [0, *(end for _, end in parts)], [*(start for start, _ in parts), len(text)]
    return "".join(text[start:end] for start, end in zip(starts, ends, strict=True))


def without_quotes(text: str) -> str:
    r"""Return a text without quotes and backslashes, as a shell reads `.''./x` and `.\./x`."""
    return QUOTED.sub(_inside, text) if QUOTE_SIGNS.search(text) else text


def _inside(part: re.Match[str]) -> str:
    return part[1] or _unescaped(part[2] or "") or (part[3] or "").strip("\n")


def _unescaped(quoted: str) -> str:
    return _ESCAPED_IN_QUOTES.sub(lambda of: of[1].strip("\n"), quoted)


class _UnclosedError(Exception):
    """A quote or a bracket is not closed."""


class _Scanner:
    """Goes through a text once. `is_flat`: split it at each sign, with nothing in another."""

    def __init__(
        self,
        text: str,
        *,
        remarks: bool = False,
        is_flat: bool = False,
        depth: int = 0,
        lines_of: SimpleCommand | None = None,
    ) -> None:
        self.script = Script([], [], [], not is_flat)
        self._text = text
        self._at = 0
        self._remarks = remarks
        self._is_flat = is_flat
        tokens = (_FLAT_TOKENS if is_flat else _TOKENS)[remarks]
        # It can be empty, so there always is one.
        self._next = cast("Callable[[str, int], re.Match[str]]", tokens.match)
        self._depth = depth
        self._lines_of = lines_of
        self._is_in_lines = False
        self._awaited: list[tuple[CommandWord, SimpleCommand]] = []

    def scanned(self) -> Script:
        self._read(until="")
        return self.script

    def _read(self, *, until: str, is_list: bool = False) -> None:
        """Read commands up to the sign `until`, or to the end.

        Raises:
            _UnclosedError: the sign is not there, or what a quote or bracket inside needs.
        """
        words, signs, operator, opened = list[CommandWord](), list[str](), "", 0
        while True:
            token = self._next(self._text, self._at)
            kind, self._at = token.lastgroup, token.end()
            if kind == "redirection":
                operator = token["redirection"]
            elif kind == "operator":
                sign = token["operator"]
                signs = self._end(words, signs, sign, is_list=is_list)
                if sign == until and not opened:
                    return
                opened = max(0, opened + _BRACKETS.get(sign, 0))
                words, operator = [], ""
            elif kind == "remark":
                self.script.remarks.append(token.span("remark"))
            elif word := self._word(token, operator):
                words.append(word)
                operator = ""
            else:
                self._end(words, signs, "", is_list=is_list)
                if until:
                    raise _UnclosedError
                return

    def _end(
        self, words: list[CommandWord], signs: list[str], after: str, *, is_list: bool
    ) -> list[str]:
        """Note a command, if there are words, and return the operators since the last one."""
        if words:
            command = SimpleCommand(words, signs, after, self._depth, self._lines_of, is_list)
            self.script.commands.append(command)
            documents = (word for word in words if word.operator.lstrip("0123456789") in _DOCUMENT)
            self._awaited += ((word, command) for word in documents if not self._is_flat)
        if after == "\n" and self._awaited:
            self._read_documents()
        signs = [] if words else signs
        if after != "\n" or _GO_ON.isdisjoint(signs[-1:]):
            signs.append(after)
        return signs

    def _word(self, token: re.Match[str], operator: str) -> CommandWord | None:
        """Return the word whose plain beginning was read, or None if there is no more."""
        at, text = self._at, self._text
        start = token.start("word") if token.lastgroup else at
        if at == start == len(text):
            return None
        raw = text[start:at]
        if self._is_flat or text[at : at + 1] not in _MORE:
            return CommandWord(raw, without_quotes(raw), start, operator)
        texts = [without_quotes(raw)]
        while (piece := self._piece(at, start))[0] != at:
            at = piece[0]
            texts.append(piece[1])
        self._at = at
        raw = text[start:at]
        return CommandWord(raw, "".join(texts), start, operator)

    def _piece(self, at: int, start: int) -> tuple[int, str]:
        """Return where the next piece of a word ends, and its text."""
        text = self._text
        signs = text[at : at + 2]
        if signs in {"$(", "<(", ">("}:
            end = self._substitution(at + 2)
        elif signs[:1] == "(" and _NAME_OF_ARRAY.fullmatch(text, start, at):
            end = self._substitution(at + 1, is_list=True)
        elif signs[:1] == '"':
            return self._in_quotes(at + 1)
        elif signs == "${" or signs[:1] == "`":
            end = self._computed(at, _BRACED)
        else:
            simple = _REST.match(text, at)
            if simple is None and signs[:1] == "'":
                raise _UnclosedError
            return (at, "") if simple is None else (simple.end(), without_quotes(simple[0]))
        return end, text[at:end]

    def _computed(self, at: int, braced: re.Pattern[str]) -> int:
        """Return where `$(...)`, `${...}` or what is in backticks ends."""
        signs = self._text[at : at + 2]
        if signs == "$(":
            return self._substitution(at + 2)
        if signs == "${":
            return self._in_braces(at + 2, braced)
        quoted = _BACKTICKS.match(self._text, at)
        if quoted is None:
            raise _UnclosedError
        self._nest(_ESCAPED_IN_BACKTICKS.sub(r"\1", quoted[1]))
        return quoted.end()

    def _substitution(self, at: int, *, is_list: bool = False) -> int:
        if self._depth == _DEEPEST:
            raise TooManyWaysError
        if calculated := _SUM.match(self._text, at - 2):
            return calculated.end()
        self._at, self._depth = at, self._depth + 1
        self._read(until=")", is_list=is_list)
        self._depth -= 1
        return self._at

    def _in_quotes(self, at: int) -> tuple[int, str]:
        """Return where what is in double quotes ends, and its text."""
        texts = list[str]()
        while True:
            end = _end(_QUOTED_TEXT, self._text, at)
            texts.append(_unescaped(self._text[at:end]))
            sign = self._text[end : end + 1]
            if sign == '"':
                return end + 1, "".join(texts)
            if sign not in {"$", "`"}:
                raise _UnclosedError
            at = self._computed(end, _BRACED_IN_QUOTES)
            texts.append(self._text[end:at])

    def _in_braces(self, at: int, braced: re.Pattern[str]) -> int:
        if self._depth == _DEEPEST:
            raise TooManyWaysError
        self._depth += 1
        while True:
            at = _end(braced, self._text, at)
            sign = self._text[at : at + 1]
            if sign == "}":
                self._depth -= 1
                return at + 1
            if sign == '"':
                at, _ = self._in_quotes(at + 1)
            elif sign in {"$", "`"}:
                at = self._computed(at, braced)
            else:
                raise _UnclosedError

    def _nest(self, text: str) -> None:
        """Read commands that stand in the text in another spelling."""
        if self._depth == _DEEPEST:
            raise TooManyWaysError
        inner = _Scanner(text, remarks=self._remarks, depth=self._depth + 1)
        self.script.commands.extend(inner.scanned().commands)

    def _read_documents(self) -> None:
        awaited, self._awaited = self._awaited, []
        for word, owner in awaited:
            start = self._at
            end, self._at = _end_of_lines(self._text, start, word)
            is_literal = word.raw != word.text
            self.script.documents.append(HereDocument(owner, start, end, is_literal))
            lines = self._text[start:end]
            if not self._is_in_lines:  # else they are read already
                flat = _Scanner(lines, is_flat=True, lines_of=owner)
                self.script.commands.extend(flat.scanned().commands)
            if not is_literal:
                self._expand(lines)

    def _expand(self, lines: str) -> None:
        """Read what is substituted in the lines of a here-document."""
        inner, at = _Scanner(lines, remarks=self._remarks, depth=self._depth), 0
        inner._is_in_lines = True
        try:
            while (end := _end(_LINES, lines, at)) < len(lines):
                at = inner._computed(end, _BRACED_IN_QUOTES)
        except _UnclosedError:
            pass  # a shell takes none of it; as lines it is read anyway
        self.script.commands.extend(inner.script.commands)


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    return match.end() if (match := pattern.match(text, at)) else at


def _end_of_lines(text: str, at: int, name: CommandWord) -> tuple[int, int]:
    """Return where a here-document ends, and where the line behind its last one starts."""
    strips = name.operator[-1] == "-"
    while at < len(text):
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        line = text[at:end]
        if (line.lstrip("\t") if strips else line) == name.text:
            return at, min(end + 1, len(text))
        at = end + 1
    return len(text), len(text)
