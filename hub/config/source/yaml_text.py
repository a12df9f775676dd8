"""Write values as YAML, and edit a YAML text: what is not changed stays as it is.

PyYAML's nodes tell the positions. A new text may not load, or to something else, where the old one
has anchors, merge keys or rare spellings: it has to be parsed and compared.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, TypeAlias, cast

import yaml

from hub.config.source.places import Path, awkward, spelled

_PLAIN: Final = re.compile(r"[A-Za-z0-9_./~](?:[A-Za-z0-9_./~@+= -]*[A-Za-z0-9_./~@+=-])?")
"""Texts that may be plain scalars, unless YAML reads them as a number or the like."""
_COMMA: Final = re.compile(r"(?:\s|#[^\n]*\n)*,")
_Member: TypeAlias = tuple[yaml.Node, yaml.Node]
_NULL: Final = "tag:yaml.org,2002:null"


def scalar(text: str) -> str:
    """Return a text as a YAML scalar."""
    if _PLAIN.fullmatch(text) and yaml.safe_load(text) == text:
        return text
    return quoted(text)


def quoted(text: str) -> str:
    """Return a text as a YAML scalar in double quotes."""
    return yaml.safe_dump(text, default_style='"', allow_unicode=True, width=math.inf).strip()


def flow(value: object) -> str:
    """Return a parsed value in YAML's flow style; its texts are in double quotes."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(flow, cast('list[object]', value)))}]"
    if isinstance(value, dict):
        inner = cast("dict[str, object]", value).items()
        return f"{{{', '.join(f'{scalar(key)}: {flow(one)}' for key, one in inner)}}}"
    if isinstance(value, float):
        return yaml.safe_dump(float(value)).split("\n")[0]
    return "null" if value is None else str(value)


def with_member(text: str, section: Sequence[str], name: str, value: Mapping[str, object]) -> str:
    """Return the text with one more member at the end of the mapping at `section`.

    Its keys are in lines of their own, their values in flow style.
    """
    lines = [f"{scalar(name)}:", *(f"  {scalar(key)}: {flow(one)}" for key, one in value.items())]
    return YamlText(text).appended(tuple(section), lines, flow({name: value})[1:-1])


def without_member(text: str, section: Sequence[str], name: str) -> Iterator[str]:
    """Yield the text without a member of the mapping at `section`."""
    yield YamlText(text).without((*section, name))


class YamlText:
    """A YAML text and the positions of its nodes."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._newline = "\r\n" if "\r\n" in text else "\n"
        self._top = cast("yaml.Node | None", yaml.compose(text, yaml.SafeLoader))  # pyright: ignore[reportUnknownMemberType] - untyped in the stubs

    def appended(
        self, path: Path, lines: Sequence[str], inline: str, kind: Literal["{}", "[]"] = "{}"
    ) -> str:
        """Return the text with one more thing at the end of the mapping or list at `path`.

        It is written as `lines`, or as `inline` between brackets. Mappings on the way that are not
        there are made, and so is the list.

        Raises: ConfigError if something else is there.
        """
        depth = next(at for at in range(len(path), -1, -1) if at == 0 or self.node(path[:at]))
        for key in reversed(path[depth:]):
            lines = [f"{key}:", *(f"  {line}" for line in lines)]
            inline, kind = f"{key}: {kind[0]}{inline}{kind[1]}", "{}"
        node = self.node(path[:depth])
        if node is None:
            gap = "" if self._text.endswith("\n") or not self._text else self._newline
            return self._text + gap + self._newline.join([*lines, ""])
        if node.tag == _NULL or (isinstance(node, yaml.CollectionNode) and not node.value):
            return self._filled(path[:depth], lines, f"{kind[0]}{inline}{kind[1]}")
        wanted = yaml.MappingNode if kind == "{}" else yaml.SequenceNode
        if not isinstance(node, wanted):
            awkward(spelled(path))
        end = self._end(node)
        if node.flow_style:
            end = self._end(_members(node)[-1][1])
            return f"{self._text[:end]}, {inline}{self._text[end:]}"
        margin = node.start_mark.column
        # A comment that is further to the right belongs to what is before it.
        comments = re.compile(rf"(?:\s*\n[ ]{{{margin + 1},}}#[^\n]*)*").match(self._text, end)
        return self._with_lines(end if comments is None else comments.end(), margin, lines)

    def _filled(self, path: Path, lines: Sequence[str], inline: str) -> str:
        """Return the text with something in place of nothing; a comment behind it stays there."""
        void = self._found(path)
        around = self.node(path[:-1]) if path else None
        if around is None or _is_flow(around):
            return self.replaced(path, inline)
        key = next(key for key, value in _members(around) if value is void)
        text = self._with_lines(void.end_mark.index, key.start_mark.column + 2, lines)
        start, end = void.start_mark.index, void.end_mark.index
        return text if start == end else text[:start].rstrip(" ") + text[end:]

    def without(self, path: Path) -> str:
        """Return the text without the member or the item at `path`; comments of others stay.

        Raises: ConfigError if it cannot be found as it is usually written.
        """
        around, gone = self._found(path[:-1]), self._found(path)
        members = _members(around)
        index = next(at for at, (_, value) in enumerate(members) if value is gone)
        if _is_flow(around):
            return self._without_in_flow(members, index)
        start = members[index][0].start_mark.index
        if isinstance(around, yaml.SequenceNode):
            dash = f"\n{' ' * around.start_mark.column}-"
            start = self._text.rindex(dash, 0, start + len(dash)) + 1
        start = self._text.rfind("\n", 0, start) + 1
        rest = self._text[:start] + self._text[self._line_end(self._end(gone)) :].removeprefix(
            self._newline
        )
        if len(members) > 1 or len(path) == 1:
            return rest
        key = next(key for key, value in _members(self._found(path[:-2])) if value is around)
        colon = self._text.index(":", key.end_mark.index) + 1
        nothing = "[]" if isinstance(around, yaml.SequenceNode) else "{}"
        return f"{rest[:colon]} {nothing}{rest[colon:]}"

    def _without_in_flow(self, members: Sequence[_Member], index: int) -> str:
        start, end = members[index][0].start_mark.index, self._end(members[index][1])
        after = members[index + 1][0].start_mark.index if index + 1 < len(members) else end
        before = self._end(members[index - 1][1]) if index else start
        if after > end and "\n" not in self._text[end:after]:
            return self._text[:start] + self._text[after:]
        if index and after == end and "\n" not in self._text[before:start]:
            return self._text[:before] + self._text[end:]
        if comma := _COMMA.match(self._text, end):
            end = comma.end()
        first, last = self._text.rfind("\n", 0, start) + 1, self._line_end(end)
        is_alone = not self._text[first:start].strip()
        if is_alone and self._text[end:last].strip()[:1] in {"", "#"}:
            return self._text[:first] + self._text[last:].removeprefix(self._newline)
        return self._text[:start] + self._text[end:]

    def replaced(self, path: Path, inline: str) -> str:
        """Return the text with another value at `path`."""
        node = self._found(path)
        start, end = node.start_mark.index, max(node.start_mark.index, self._end(node))
        gap = " " if self._text[start - 1 : start] == ":" else ""
        return f"{self._text[:start]}{gap}{inline}{self._text[end:]}"

    def written(self, path: Path) -> str:
        """Return what is written at `path`."""
        node = self._found(path)
        return self._text[node.start_mark.index : self._end(node)]

    def node(self, path: Path) -> yaml.Node | None:
        """Return the node at `path`; None if there is none."""
        found = self._top
        for part in path:
            members = _members(found)
            if isinstance(part, int):
                found = members[part][1] if part < len(members) else None
            else:
                found = next((value for key, value in members if key.value == part), None)
        return found

    def _found(self, path: Path) -> yaml.Node:
        return self.node(path) or awkward(spelled(path))

    def _end(self, node: yaml.Node) -> int:
        """Return the index where the text of a node ends, before comments and blank lines."""
        if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
            return self._end(_members(node)[-1][1])
        return len(self._text[: node.end_mark.index].rstrip())

    def _line_end(self, at: int) -> int:
        end = self._text.find(self._newline, at)
        return len(self._text) if end < 0 else end

    def _with_lines(self, at: int, margin: int, lines: Sequence[str]) -> str:
        """Return the text with more lines after the line with `at`."""
        end = self._line_end(at)
        more = "".join(f"{self._newline}{' ' * margin}{line}" for line in lines)
        return self._text[:end] + more + self._text[end:]


def _members(node: yaml.Node | None) -> list[_Member]:
    """Return keys and values of a mapping; of a list, each item as both."""
    if isinstance(node, yaml.MappingNode):
        return node.value
    return [(one, one) for one in node.value] if isinstance(node, yaml.SequenceNode) else []


def _is_flow(node: yaml.Node) -> bool:
    return isinstance(node, yaml.CollectionNode) and bool(node.flow_style)
