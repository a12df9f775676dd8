"""Read and edit JSON, which may have comments and trailing commas, but no key twice.

To edit it is to put a member into an object, or to take one out; the rest of the text stays.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NoReturn, cast

from msgspec import Struct

from hub.config.source.places import (
    COMMENT,
    JsonMember,
    Mistake,
    SyntaxMistakesError,
    after_space,
    awkward,
    blanked,
    members_at,
    twice,
    without_extras,
)
from hub.jsonrpc.exact_json import is_too_deep

_KEY_OR_BRACE: Final = re.compile(
    r'(?P<key>"(?:\\.|[^"\\])*(?:"|\Z))(?P<colon>\s*:)?|[{}]', re.DOTALL
)
_INDENT: Final = re.compile(r'^([ \t]+)"', re.MULTILINE)
_WORDS: Final = {"True": "true", "False": "false", "None": "null", "yes": "true", "no": "false"}


class WrittenFloat(float):
    """A number that knows how it was written: `1.10`."""

    def __init__(self, written: str) -> None:  # pyright: ignore[reportInconsistentConstructor] - a text alone
        self.written = written


def as_text(value: object) -> object:
    """Return a number or a boolean as it was written, for a place where a text belongs."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return getattr(value, "written", None) or str(value)
    return value


def read_json(text: str) -> object:
    """Return the value of a JSON text. Raises: SyntaxMistakesError, also if it has a key twice."""
    with suppress(ValueError, RecursionError):
        return _decoded(text)  # without comments, which take long to find
    plain = without_extras(text)
    if not plain.strip():
        return None
    start = len(plain) - len(plain.lstrip())
    if plain[start] not in "{[":
        fix = "Name a YAML file .yaml; JSON begins with { and ends with }."
        raise SyntaxMistakesError(Mistake("does not begin with {", fix, start))
    try:
        return _decoded(plain)
    except _TwiceError:
        raise SyntaxMistakesError(*_twice_in(plain)) from None
    except (ValueError, RecursionError) as error:
        raise SyntaxMistakesError(_told(plain, error)) from None


class _TwiceError(ValueError):
    """A mapping has a key twice."""


def _decoded(text: str) -> object:
    found = json.loads(
        text, object_pairs_hook=_unique, parse_float=WrittenFloat, parse_constant=_no_number
    )
    if is_too_deep(text.encode("utf-8", "surrogatepass"), found):
        raise RecursionError  # what reads and compares the value goes into it with each level
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise _TwiceError
    return made


def _twice_in(text: str) -> Iterator[Mistake]:
    """Yield the keys that an object has twice."""
    around: list[set[str]] = []
    for found in _KEY_OR_BRACE.finditer(text):
        if found[0] == "{":
            around.append(set())
        elif found[0] == "}":
            del around[-1:]
        elif found["colon"] and around:
            with suppress(ValueError):  # what comes later may be no JSON
                name: str = json.loads(found["key"])
                if name in around[-1]:
                    yield twice(name, found.start())
                around[-1].add(name)


def _told(text: str, error: ValueError | RecursionError) -> Mistake:
    if isinstance(error, json.JSONDecodeError):
        return _mistake(text, error.msg, error.pos)
    if isinstance(error, RecursionError):
        return Mistake("is nested too deeply", "Take brackets out.", 0)
    # A number with too many digits, or NaN.
    at = text.find(str(error)) if str(error) in {"NaN", "Infinity", "-Infinity"} else 0
    return Mistake("has a number that cannot be read", "Put it in quotes.", max(at, 0))


def _no_number(text: str) -> NoReturn:
    raise ValueError(text)


def _mistake(text: str, message: str, at: int) -> Mistake:
    rest = text[at:].lstrip()
    word = re.match(r"[\w.-]*", rest)
    said = word[0] if word else ""
    if message.startswith("Extra data"):
        return Mistake("there is text after the config's last bracket", "Take it out.", at)
    if not rest:
        fix = "Close every `{` and `[`."
        return Mistake("the text ends too early", fix, len(text.rstrip()))
    if rest.startswith(("'", "\u201c", "\u201d")):
        return Mistake("a text has the wrong quotes", 'Write double quotes: "...".', at)
    if "escape" in message:
        return Mistake("a `\\` begins an escape that does not exist", r"Write each \ twice.", at)
    if message.startswith(("Unterminated", "Invalid control")):
        return Mistake("a quote is not closed on its line", 'Close it with ".', _quote(text, at))
    return _expected(text, message, at, said)


def _expected(text: str, message: str, at: int, said: str) -> Mistake:
    before = len(text[:at].rstrip())
    if "','" in message:
        if text[at : at + 1] == ":":
            return Mistake("a `:` is not expected here", "Write lists as [...].", at)
        return Mistake("a comma is missing", "Put a comma here.", before)
    if "':'" in message:
        return Mistake("a `:` is missing after the key", 'Write "key": value.', before)
    if "property name" in message:
        fix = f'Write "{said}".' if said else "Take what is here out."
        return Mistake("a key in double quotes is expected", fix, at)
    if said in _WORDS:
        return Mistake(f"JSON has no word `{said}`", f"Write {_WORDS[said]}.", at)
    fix = "Put the text in double quotes." if said else "Write a value, or take the key out."
    return Mistake("a value is expected", fix, at)


def _quote(text: str, at: int) -> int:
    """Return where the text begins whose closing quote is missing at or after `at`."""
    if text[at : at + 1] == '"':
        return at
    start = text.rfind('"', 0, at)
    return at if start < 0 else start


def with_member(text: str, section: Sequence[str], name: str, value: object) -> str:
    """Return the text with one more member at the end of the object at `section`.

    Objects on the way that are not there are made.

    Raises: ConfigError if something else than an object is there.
    """
    document = _JsonText(text)
    if not document.plain.strip():
        return document.filled(_nested([*section, name], value))
    found, missing = document.nearest(section)
    key, *inner = [*missing, name]
    made = _nested(inner, value)
    return document.with_value(found, made, key)


def without_member(text: str, section: Sequence[str], name: str) -> Iterator[str]:
    """Yield texts without a member of the object at `section`, the best first.

    Each has to be parsed: a comment before the member may swallow what follows in the first.
    """
    document = _JsonText(text)
    found, missing = document.nearest(section)
    if missing or name not in found.members:
        awkward(".".join([*section, name]))
    for with_space in (True, False):
        yield document.without(found, name, with_space=with_space)


class _JsonObject(Struct, frozen=True):
    """The positions of an object's braces, and its members."""

    open: int
    close: int
    members: dict[str | int, JsonMember]


class _JsonText:
    """A JSON text. `bare`: spaces in place of comments; `plain`: of trailing commas as well."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.bare = self.plain = text
        self.comments: list[tuple[int, int]] = []
        self._newline = "\r\n" if "\r\n" in text else "\n"
        with suppress(ValueError, RecursionError):
            json.loads(text)
            return
        self.bare, self.plain = blanked(COMMENT, text), without_extras(text)
        self.comments += [one.span() for one in COMMENT.finditer(text) if one["extra"]]

    def filled(self, value: object) -> str:
        """Return the text, in which there is no value, with one."""
        before = self.text
        if before.strip() and not before.endswith("\n"):
            before += self._newline
        return before + self._lines(value, "") + self._newline

    def nearest(self, path: Sequence[str]) -> tuple[_JsonObject, list[str]]:
        """Return the object that is nearest to a path, and what of the path is missing in it."""
        at = after_space(self.plain, 0)
        for depth, key in enumerate(path):
            found = self._object(at, path[:depth])
            member = found.members.get(key)
            if member is None or self.plain[member.value : member.end] == "null":
                return found, list(path[depth:])
            at = member.value
        return self._object(at, path), []

    def _object(self, at: int, path: Sequence[str]) -> _JsonObject:
        if self.plain[at : at + 1] != "{":
            awkward(".".join(path) or "the whole file")
        members, close = members_at(self.plain, at)
        return _JsonObject(at, close, members)

    def with_value(self, found: _JsonObject, value: object, key: str) -> str:
        """Return the text with a member of an object, in the place of its `null` if it has one."""
        if (null := found.members.get(key)) is not None:
            indent = self._indent_of_line(null.start)
            return self._replaced(null.value, null.end, self._lines(value, indent))
        if not found.members:
            return self._with_first(found, key, value)
        *_, last = found.members.values()
        is_inline = "\n" not in self.text[found.open : found.close]
        comma = self.bare.find(",", last.end, found.close)
        after = last.end if comma < 0 else comma + 1
        at = after if is_inline else self._end_of_line(after, found.close)
        more = "," if comma >= 0 else ""
        if is_inline:
            is_dense = self.text[last.key_end : last.value] == ":"
            member = ("" if is_dense else " ") + self._inline(key, value, is_dense=is_dense)
        else:
            indent = self._indent_of(found)
            member = self._newline + indent + self._member(key, value, indent)
        comma_before = "" if comma >= 0 else ","
        before = self.text[: last.end] + comma_before + self.text[last.end : at]
        return before + member + more + self.text[at:]

    def _with_first(self, found: _JsonObject, key: str, value: object) -> str:
        inner = self.text[found.open + 1 : found.close]
        outer = self._indent_of_line(found.open)
        indent = outer + self._unit()
        is_inline = "\n" not in self.text.strip() and found.open != after_space(self.plain, 0)
        lines = self._newline + indent + self._member(key, value, indent)
        if not inner.strip():
            if is_inline:
                member = self._inline(key, value, is_dense=" " not in self.text)
            else:
                member = lines + self._newline + outer
            return self._replaced(found.open + 1, found.close, member)
        inside = (end for start, end in self.comments if found.open < start < found.close)
        end = max(inside, default=found.open + 1)
        if "\n" not in inner:
            inline = f" {self._inline(key, value, is_dense=False)}"
            return self._replaced(end, end, inline)
        after = "" if "\n" in self.text[end : found.close] else self._newline + outer
        return self._replaced(end, end, lines + after)

    def without(self, found: _JsonObject, name: str, *, with_space: bool) -> str:
        """Return the text without a member, and without the space before it."""
        members, member = [*found.members.values()], found.members[name]
        index = members.index(member)
        start = len(self.text[: member.start].rstrip()) if with_space else member.start
        comma = after_space(self.bare, member.end)
        if self.bare[comma : comma + 1] == ",":
            cuts = [(start, member.end), (comma, comma + 1)]
        elif index:
            before = self.bare.index(",", members[index - 1].end)
            cuts = [(before, before + 1), (max(start, before + 1), member.end)]
        else:
            cuts = [(start, member.end)]
        text = self.text
        for first, end in reversed(cuts):
            text = text[:first] + text[end:]
        close = found.close - sum(end - first for first, end in cuts)
        if len(members) == 1 and not text[found.open + 1 : close].strip():
            return text[: found.open + 1] + text[close:]
        return text

    def _replaced(self, start: int, end: int, by: str) -> str:
        return self.text[:start] + by + self.text[end:]

    def _end_of_line(self, at: int, limit: int) -> int:
        """Return the end of the line if only space and comments follow `at` on it; else `at`."""
        end = self.text.find("\n", at, limit)
        if end < 0 or self.bare[at:end].strip():
            return at
        inside = next((stop for start, stop in self.comments if start < end < stop), None)
        return len(self.text[:end].rstrip()) if inside is None else inside

    def _indent_of_line(self, at: int) -> str:
        line = self.text[self.text.rfind("\n", 0, at) + 1 : at]
        return line[: len(line) - len(line.lstrip(" \t"))]

    def _indent_of(self, found: _JsonObject) -> str:
        """Return the indent of an object's members."""
        for member in reversed(found.members.values()):
            indent = self.text[self.text.rfind("\n", 0, member.start) + 1 : member.start]
            if not indent.strip():
                return indent
        return self._indent_of_line(found.close) + self._unit()

    def _unit(self) -> str:
        """Return what a level is indented by in this text."""
        return min(_INDENT.findall(self.text), key=len, default="  ")

    def _member(self, key: str, value: object, indent: str) -> str:
        return f"{json.dumps(key, ensure_ascii=False)}: {self._lines(value, indent)}"

    def _lines(self, value: object, indent: str) -> str:
        lines = json.dumps(value, indent=self._unit(), ensure_ascii=False).split("\n")
        return f"{self._newline}{indent}".join(lines)

    @staticmethod
    def _inline(key: str, value: object, *, is_dense: bool) -> str:
        separators = (",", ":") if is_dense else (", ", ": ")
        return json.dumps({key: value}, separators=separators, ensure_ascii=False)[1:-1]


def _nested(path: Sequence[str], value: object) -> Any:
    for key in reversed(path):
        value = cast("Mapping[str, object]", {key: value})
    return value
