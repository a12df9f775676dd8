"""Read YAML as a config: duplicate keys are mistakes, keys are texts, and so are `env` and `args`.

YAML reads a bare `off` as false and `1.10` as a number. Keys, and the values of `env` and `args`,
are taken as they are written.
"""

from __future__ import annotations

import re
from typing import Any, Final, cast

import yaml
from yaml.reader import ReaderError

from hub.config.source.places import Mistake, SyntaxMistakesError, twice

MOST_VALUES: Final = 100_000
"""So many values a config may have: a few aliases of aliases stand for billions."""
_TEXTS: Final = frozenset({"env", "envs", "args", "headers"})
"""Keys whose values are mappings or lists of texts."""
_PLAIN: Final = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("int", "float", "bool"))
_DATE: Final = "tag:yaml.org,2002:timestamp"
_NUMBERS: Final = frozenset({"tag:yaml.org,2002:int", "tag:yaml.org,2002:float"})
MISREAD: Final = (ValueError, ArithmeticError, LookupError, AttributeError)
"""What PyYAML raises for a value that is not what its tag says, or what it looks like."""
_MERGE: Final = "tag:yaml.org,2002:merge"
_TEXT: Final = "tag:yaml.org,2002:str"


class _Loader(yaml.SafeLoader):
    """A YAML loader that notes duplicate keys."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.twice: list[Mistake] = []
        self._servers: list[yaml.Node] = []  # a server may have the name of such a key

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.tag != _MERGE:
                key.tag = _TEXT
                self._note(key, seen)
            if key.value == "servers":
                self._servers.append(value)
            if key.value in _TEXTS and node not in self._servers:
                _as_written(value)
        return super().construct_mapping(node, deep)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - untyped in the stubs
        except (yaml.YAMLError, SyntaxMistakesError):
            raise
        except MISREAD:
            raise SyntaxMistakesError(_misread(node)) from None

    def _note(self, key: yaml.ScalarNode, seen: set[str]) -> None:
        if key.value in seen:
            self.twice.append(twice(key.value, key.start_mark.index))
        seen.add(key.value)


def _misread(node: yaml.Node) -> Mistake:
    """Return the mistake of a value that is not what it looks like, or what its tag says."""
    what, fix = "is not what its tag (`!!`) says", "Take the tag out, or correct the value."
    has_digits = any(map(str.isdigit, str(node.value)))
    if node.tag == _DATE and has_digits:
        what, fix = "has a date that does not exist", "Correct it; a text needs quotes."
    elif node.tag in _NUMBERS and has_digits:
        what, fix = "has a number that cannot be read", "Put it in quotes, or correct it."
    return Mistake(what, fix, node.start_mark.index)


def _as_written(node: yaml.Node) -> None:
    """Make the numbers, dates and booleans in a mapping or list texts, as they are written."""
    values: list[yaml.Node] = []
    if isinstance(node, yaml.MappingNode):
        values = [value for _, value in node.value]
    elif isinstance(node, yaml.SequenceNode):
        values = node.value
    for value in values:
        if isinstance(value, yaml.ScalarNode) and value.tag in {*_PLAIN, _DATE}:
            value.tag = _TEXT


def read_yaml(text: str) -> object:
    """Return the value of a YAML text. Raises: SyntaxMistakesError, also if it has a key twice."""
    try:
        loader = _Loader(text)
        top = loader.get_single_node()  # pyright: ignore[reportUnknownMemberType] - untyped in the stubs
        found: object = None
        if top is not None:
            _count(top, {})
            found = cast("object", loader.construct_document(top))  # pyright: ignore[reportUnknownMemberType] - as above
    except SyntaxMistakesError:
        raise
    except yaml.MarkedYAMLError as error:
        raise SyntaxMistakesError(_mistake(error, text)) from None
    except ReaderError as error:
        what = f"has a character that YAML does not allow (U+{error.character:04X})"
        raise SyntaxMistakesError(Mistake(what, "Take it out.", error.position)) from None
    except MISREAD:  # it is told of a mapping later, without its place
        what = "has a value that is not what its tag (`!!`) says"
        raise SyntaxMistakesError(Mistake(what, "Take the tag out.", 0)) from None
    except (yaml.YAMLError, RecursionError):
        what = "is nested too deeply"
        raise SyntaxMistakesError(Mistake(what, "Take brackets out.", 0)) from None
    if loader.twice:
        raise SyntaxMistakesError(*loader.twice)
    return found


def _count(node: yaml.Node, known: dict[yaml.Node, int]) -> int:
    """Return how many values a node has, each alias counted as all that it stands for.

    `known` has the counts of the nodes that are counted, and 0 for those around the node.

    Raises: SyntaxMistakesError if there are more than `MOST_VALUES`, or without end.
    """
    if node in known:
        if not known[node]:
            what = "stands for a value that contains it"
            raise SyntaxMistakesError(Mistake(what, "Write the value out.", node.start_mark.index))
        return known[node]
    if isinstance(node, yaml.MappingNode):
        parts = [part for pair in node.value for part in pair]
    elif isinstance(node, yaml.SequenceNode):
        parts = node.value
    else:
        return 1
    known[node] = 0
    count = 1 + sum(_count(part, known) for part in parts)
    if count > MOST_VALUES:
        what = f"has more than {MOST_VALUES} values, with its aliases written out"
        raise SyntaxMistakesError(Mistake(what, "Use fewer aliases.", node.start_mark.index))
    known[node] = count
    return count


_QUOTE: Final = "Put the text in quotes."
_KNOWN: Final = (
    (r"character '\\t'", False, "a tab is used to indent", "Indent with spaces."),
    (
        r"mapping values are not allowed",
        False,
        "a `:` is not expected here",
        "Indent the line as the lines of its mapping; put a text that contains `: ` in quotes.",
    ),
    (r"could not find expected ':'", True, "a `:` is missing after the key", "Write `key: value`."),
    (
        r"sequence entries are not allowed",
        False,
        "a list cannot begin here",
        "Write each `- ` on a line of its own, below the key.",
    ),
    (
        r"expected <block end>|expected the node content|expected '?<document start>",
        False,
        "the indentation does not fit the lines above",
        "Indent all keys of a mapping alike, and write `key: value`.",
    ),
    (r"but got '\?'", False, "a text with a `?` between brackets needs quotes", _QUOTE),
    (
        r"but got '\{'",
        False,
        "a text with a `{` between brackets needs quotes",
        'Put it in quotes, as in "${roots}".',
    ),
    (r"expected ',' or '\]'", True, "a `[` is not closed", "Close it with `]`."),
    (r"expected ',' or '\}'", True, "a `{` is not closed", "Close it with `}`."),
    (r"unexpected (?:end of stream|document sep)", True, "a quote is not closed", "Close it."),
    (
        r"unknown escape|hexdecimal|expected escape",
        False,
        "a `\\` in double quotes begins an escape that does not exist",
        "Write each \\ twice, or use single quotes.",
    ),
    (
        r"undefined alias|expected alphabetic or numeric",
        False,
        "a text that begins with `*` or `&` needs quotes",
        'Put it in quotes, as in "*".',
    ),
    (r"cannot start any token", False, "a text cannot begin with this character", _QUOTE),
    (
        r"could not determine a constructor",
        False,
        "a text that begins with `!` needs quotes",
        _QUOTE,
    ),
    (r"unhashable key", False, "braces within braces are no text", _QUOTE),
    (
        r"but found another document",
        False,
        "the file has a second document",
        "Take the line `---` out.",
    ),
    (r"expected a mapping or list of mappings for merging", False, "`<<` needs a mapping", _QUOTE),
)
"""Pattern of the parser's message, whether its context is the place, and what to say of it."""


def _mistake(error: yaml.MarkedYAMLError, text: str) -> Mistake:
    problem = str(error.problem)
    found = _by_what_is_around(error, problem, text)
    if found is not None:
        return found
    for pattern, at_context, what, fix in _KNOWN:
        if re.search(pattern, problem):
            mark = error.context_mark if at_context else error.problem_mark
            at = _index(mark or error.problem_mark)
            if "escape" in what:  # the parser points behind the `\\`
                at = max(0, text.rfind("\\", 0, at))
            return Mistake(what, fix, at)
    return Mistake(problem, "Correct the YAML here.", _index(error.problem_mark))


def _by_what_is_around(error: yaml.MarkedYAMLError, problem: str, text: str) -> Mistake | None:
    """Return the mistake if the text around it tells more than the parser's message."""
    at, began = _index(error.problem_mark), _index(error.context_mark)
    is_one_line = error.context_mark is not None and "\n" not in text[began:at]
    if "mapping values are not" in problem:
        return _wrong_line_before(text, at)
    if "could not find expected ':'" in problem:
        return _without_colon(text, began)
    if "but got ':'" in problem and is_one_line:
        fix = "Put a text that contains `: ` in quotes."
        return Mistake("a `:` is not expected here", fix, at)
    if "but got '<scalar>'" in problem and is_one_line:
        return Mistake("a comma is missing", "Put a comma here.", at)
    if "but found '<scalar>'" in problem:
        fix = "Put the whole text in quotes; '' is a quote within single quotes."
        return Mistake("there is text after the value", fix, at)
    return None


_WORD: Final = re.compile(r"[\w.-]+")


def _without_colon(text: str, at: int) -> Mistake | None:
    """Return the mistake of a line that is only a word: its colon is missing, or a space."""
    found = _WORD.match(text, at)
    if found is None:
        return None
    if found[0].startswith("-"):
        fix = f"Write `- {found[0][1:]}`, with a space after the dash."
        return Mistake("a space is missing after the `-`", fix, at)
    return Mistake("a `:` is missing after the key", f"Write `{found[0]}:`.", at)


_NO_COLON: Final = re.compile(r"[ -]*(?P<key>\w[\w.-]*)")
_NO_SPACE: Final = re.compile(r"[ -]*(?P<key>[\w.-]+):(?P<value>[^\s:].*)")


def _wrong_line_before(text: str, at: int) -> Mistake | None:
    """Return the mistake in the line before a position, if its key lacks a colon or a space."""
    before = text[: text.rfind("\n", 0, at) + 1].rstrip()
    start = before.rfind("\n") + 1
    if found := _NO_COLON.fullmatch(before, start):
        what, fix = "a `:` is missing after the key", f"Write `{found['key']}:`."
        return Mistake(what, fix, found.start("key"))
    if found := _NO_SPACE.fullmatch(before, start):
        what, fix = "a space is missing after the `:`", f"Write `{found['key']}: ...`."
        return Mistake(what, fix, found.start("key"))
    return None


def _index(mark: yaml.Mark | None) -> int:
    return 0 if mark is None else mark.index
