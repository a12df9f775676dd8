"""Put a member into an object of a JSON text with comments, or take one out; the rest stays."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, cast

from msgspec import Struct

from hub.config.source.syntax import awkward, without_extras

_COMMENT: Final = re.compile(r'"(?:\\.|[^"\\])*"|(?P<comment>//[^\n]*|/\*.*?\*/)', re.DOTALL)
_SPACE: Final = re.compile(r"\s*")
_INDENT: Final = re.compile(r'^([ \t]+)"', re.MULTILINE)
_DECODER: Final = json.JSONDecoder()


def with_member(text: str, section: Sequence[str], name: str, value: object) -> str:
    """Return the text with one more member at the end of the object at `section`.

    Objects on the way that are not there are made.

    Raises: ConfigError if something else than an object is there.
    """
    document = _Document(text)
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
    document = _Document(text)
    found, missing = document.nearest(section)
    index = next((at for at, one in enumerate(found.members) if one.name == name), None)
    if missing or index is None:
        awkward(".".join([*section, name]))
    for with_space in (True, False):
        yield document.without(found, index, with_space=with_space)


class _JsonMember(Struct, frozen=True):
    """The positions of a member: of its key, and of its value."""

    name: str
    start: int
    key_end: int
    value: int
    end: int


class _JsonObject(Struct, frozen=True):
    """The positions of an object's braces, and its members."""

    open: int
    close: int
    members: Sequence[_JsonMember]


class _Document:
    """A JSON text. `bare`: spaces in place of comments; `plain`: of trailing commas as well."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.bare = self.plain = text
        self.comments: list[tuple[int, int]] = []
        self._newline = "\r\n" if "\r\n" in text else "\n"
        with suppress(ValueError, RecursionError):
            json.loads(text)
            return
        self.bare = _COMMENT.sub(self._blanked, text)
        self.plain = without_extras(text)

    def _blanked(self, found: re.Match[str]) -> str:
        if found["comment"] is None:
            return found[0]
        self.comments.append(found.span())
        return re.sub(r"[^\n]", " ", found[0])

    def filled(self, value: object) -> str:
        """Return the text, in which there is no value, with one."""
        before = self.text
        if before.strip() and not before.endswith("\n"):
            before += self._newline
        return before + self._lines(value, "") + self._newline

    def nearest(self, path: Sequence[str]) -> tuple[_JsonObject, list[str]]:
        """Return the object that is nearest to a path, and what of the path is missing in it."""
        at = self._after_space(0)
        for depth, key in enumerate(path):
            found = self._object(at, path[:depth])
            member = next((one for one in found.members if one.name == key), None)
            if member is None:
                return found, list(path[depth:])
            if self.plain[member.value : member.end] == "null":
                return found, list(path[depth:])
            at = member.value
        return self._object(at, path), []

    def _object(self, at: int, path: Sequence[str]) -> _JsonObject:
        if self.plain[at : at + 1] != "{":
            awkward(".".join(path) or "the whole file")
        members: list[_JsonMember] = []
        start, at = at, self._after_space(at + 1)
        while self.plain[at : at + 1] == '"':
            name, key_end = cast("tuple[str, int]", _DECODER.raw_decode(self.plain, at))
            value = self._after_space(self._after_space(key_end) + 1)
            end = _DECODER.raw_decode(self.plain, value)[1]
            members.append(_JsonMember(name, at, key_end, value, end))
            at = self._after_space(end)
            if self.plain[at : at + 1] == ",":
                at = self._after_space(at + 1)
        return _JsonObject(start, at, members)

    def with_value(self, found: _JsonObject, value: object, key: str) -> str:
        """Return the text with a member of an object, in the place of its `null` if it has one."""
        null = next((one for one in found.members if one.name == key), None)
        if null is not None:
            indent = self._indent_of_line(null.start)
            return self._replaced(null.value, null.end, self._lines(value, indent))
        if not found.members:
            return self._with_first(found, key, value)
        last = found.members[-1]
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
        is_inline = "\n" not in self.text.strip() and found.open != self._after_space(0)
        lines = self._newline + indent + self._member(key, value, indent)
        if not inner.strip():
            if is_inline:
                member = self._inline(key, value, is_dense=" " not in self.text)
            else:
                member = lines + self._newline + outer
            return self._replaced(found.open + 1, found.close, member)
        end = max(end for start, end in self.comments if found.open < start < found.close)
        if "\n" not in inner:
            inline = f" {self._inline(key, value, is_dense=False)}"
            return self._replaced(end, end, inline)
        after = "" if "\n" in self.text[end : found.close] else self._newline + outer
        return self._replaced(end, end, lines + after)

    def without(self, found: _JsonObject, index: int, *, with_space: bool) -> str:
        """Return the text without a member, and without the space before it."""
        member = found.members[index]
        start = len(self.text[: member.start].rstrip()) if with_space else member.start
        comma = self._after_space(member.end, self.bare)
        if self.bare[comma : comma + 1] == ",":
            cuts = [(start, member.end), (comma, comma + 1)]
        elif index:
            before = self.bare.index(",", found.members[index - 1].end)
            cuts = [(before, before + 1), (max(start, before + 1), member.end)]
        else:
            cuts = [(start, member.end)]
        text = self.text
        for first, end in reversed(cuts):
            text = text[:first] + text[end:]
        close = found.close - sum(end - first for first, end in cuts)
        if len(found.members) == 1 and not text[found.open + 1 : close].strip():
            return text[: found.open + 1] + text[close:]
        return text

    def _replaced(self, start: int, end: int, by: str) -> str:
        return self.text[:start] + by + self.text[end:]

    def _after_space(self, at: int, text: str | None = None) -> int:
        found = _SPACE.match(self.plain if text is None else text, at)
        return at if found is None else found.end()

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
        for member in reversed(found.members):
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
