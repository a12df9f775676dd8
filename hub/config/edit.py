"""Edit the list `roots.fallback` in the text of a hub.yaml; comments and layout are kept.

Positions come from the marks of PyYAML's nodes. The new text must load to the same values as the
old text except for that list. If not (anchors, merge keys, rare spellings), the change is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn, TypeAlias, cast

import yaml
from msgspec import Struct

from hub.config.source.mistakes import awkward
from hub.config.source.yaml_flow import PLAIN, composed, scalar

ParsedYaml: TypeAlias = dict[str, Any]

_NULL = "tag:yaml.org,2002:null"


def entries(text: str) -> list[str]:
    """Return the paths in `roots.fallback` as written in the file."""
    return [one["path"] if isinstance(one, dict) else one for one in _listed(_loaded(text))]


def added(text: str, path: str, name: str | None) -> str:
    """Return the text with one more entry at the end of the list.

    Raises: ConfigError if the text cannot be changed safely (`removed` and `renamed`, too).
    """
    raw = _loaded(text)
    entry = path if name is None else {"path": path, "name": name}
    flow = scalar(path) if name is None else f"{{path: {scalar(path)}, name: {scalar(name)}}}"
    return _exactly(_Document(text).with_entry(flow), raw, [*_listed(raw), entry])


def removed(text: str, index: int) -> str:
    """Return the text without entry `index`. If that is the only entry, an empty list stays."""
    raw = _loaded(text)
    rest = [one for at, one in enumerate(_listed(raw)) if at != index]
    return _exactly(_Document(text).without_entry(index), raw, rest)


def renamed(text: str, index: int, name: str) -> str:
    """Return the text with `name` as the name of entry `index`."""
    raw = _loaded(text)
    names = list(_listed(raw))
    old = names[index]
    names[index] = {**(old if isinstance(old, dict) else {"path": old}), "name": name}
    return _exactly(_Document(text).with_name(index, scalar(name)), raw, names)


def _loaded(text: str) -> ParsedYaml:
    raw = yaml.safe_load(text)
    return cast("ParsedYaml", raw) if isinstance(raw, dict) else {}


def _listed(raw: ParsedYaml) -> list[Any]:
    return _section(raw).get("fallback") or []


def _section(raw: ParsedYaml) -> ParsedYaml:
    roots = raw.get("roots")
    return cast("ParsedYaml", roots) if isinstance(roots, dict) else {}


def _exactly(text: str, before: ParsedYaml, fallback: list[Any]) -> str:
    expected = {**before, "roots": {**_section(before), "fallback": fallback}}
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError:
        _awkward()
    if not _same(found, expected):
        _awkward()
    return text


def _same(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        left, right = cast("ParsedYaml", one), cast("ParsedYaml", other)
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    if isinstance(one, list):
        ones, others = cast("list[Any]", one), cast("list[Any]", other)
        return len(ones) == len(others) and all(map(_same, ones, others))
    return repr(one) == repr(other)


def _awkward() -> NoReturn:
    awkward("roots.fallback", "list")


class _Member(Struct, frozen=True):
    key: yaml.Node
    value: yaml.Node


class _Document:
    """A YAML text and the positions of its nodes. New lines are inserted after existing lines."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._newline = "\r\n" if "\r\n" in text else "\n"
        self._top = composed(text)
        self._roots = _member(self._top, "roots")
        self._fallback = None if self._roots is None else _member(self._roots.value, "fallback")

    def with_entry(self, entry: str) -> str:
        if self._roots is None:
            return self._with_section(entry)
        if _is_void(self._roots.value):
            return self._filled(self._roots.value, f"{{fallback: [{entry}]}}")
        if self._fallback is None:
            return self._with_list(self._roots, entry)
        items = self._fallback.value
        if _is_void(items):
            return self._filled(items, f"[{entry}]")
        if _is_flow(items):
            return self._inserted(self._end(_children(items)[-1]), f", {entry}")
        dash = self._dashes()[0]
        return self._line_after(self._end(_children(items)[-1]), dash, f"- {entry}")

    def _with_section(self, entry: str) -> str:
        version = _member(self._top, "version")
        if version is None or self._top is None:
            _awkward()
        if _is_flow(self._top):
            start = self._top.start_mark.index + 1
            return self._inserted(start, f"roots: {{fallback: [{entry}]}}, ")
        margin = " " * version.key.start_mark.column
        lines = (f"{margin}roots:", f"{margin}  fallback:", f"{margin}    - {entry}")
        return self._lines_after(self._end(version.value), lines)

    def _with_list(self, roots: _Member, entry: str) -> str:
        keys = _keys(roots.value)
        first = keys[0].start_mark if keys else _awkward()
        if _is_flow(roots.value):
            return self._inserted(first.index, f"fallback: [{entry}], ")
        margin = " " * first.column
        lines = (f"{margin}fallback:", f"{margin}  - {entry}")
        return self._lines_after(roots.key.end_mark.index, lines)

    def without_entry(self, index: int) -> str:
        if self._fallback is None:
            _awkward()
        items = _children(self._fallback.value)
        if _is_flow(self._fallback.value):
            return self._without_in_flow(items, index)
        end = self._end(items[index])
        start = self._text.rfind("\n", 0, self._dashes()[index].index) + 1
        rest = self._text[:start] + self._text[self._line_end(end) :].removeprefix(self._newline)
        if len(items) > 1:
            return rest
        colon = self._colon_after(self._fallback.key)
        return f"{rest[:colon]} []{rest[colon:]}"

    def _without_in_flow(self, items: Sequence[yaml.Node], index: int) -> str:
        """Return the text without an entry of `[...]`; comments on other lines stay."""
        start, end = items[index].start_mark.index, self._end(items[index])
        after = items[index + 1].start_mark.index if index + 1 < len(items) else end
        before = self._end(items[index - 1]) if index else start
        if after > end and "\n" not in self._text[end:after]:
            return self._text[:start] + self._text[after:]
        if index and after == end and "\n" not in self._text[before:start]:
            return self._text[:before] + self._text[end:]
        end = self._comma_after(end)
        first, last = self._text.rfind("\n", 0, start) + 1, self._line_end(end)
        is_alone = not self._text[first:start].strip()
        if is_alone and self._text[end:last].strip()[:1] in {"", "#"}:
            return self._text[:first] + self._text[last:].removeprefix(self._newline)
        return self._text[:start] + self._text[end:]

    def _comma_after(self, at: int) -> int:
        """Return the end of the comma that is the next thing after `at`; `at` if there is none."""
        after = next(token for token in _tokens(self._text) if token.start_mark.index >= at)
        return after.end_mark.index if isinstance(after, yaml.FlowEntryToken) else at

    def with_name(self, index: int, name: str) -> str:
        if self._fallback is None:
            _awkward()
        item = _children(self._fallback.value)[index]
        if isinstance(item, yaml.ScalarNode):
            start, end = item.start_mark.index, self._end(item)
            written = self._text[start:end]
            if written[:1] not in "\"'" and not PLAIN.fullmatch(written):
                written = scalar(item.value)
            return f"{self._text[:start]}{{path: {written}, name: {name}}}{self._text[end:]}"
        old = _member(item, "name")
        if old is not None:
            start, end = old.value.start_mark.index, self._end(old.value)
            gap = " " if start == end else ""
            return f"{self._text[:start]}{gap}{name}{self._text[end:]}"
        last = self._end(_children(item)[-1])
        if _is_flow(item):
            return self._inserted(last, f", name: {name}")
        return self._line_after(last, _keys(item)[0].start_mark, f"name: {name}")

    def _end(self, node: yaml.Node) -> int:
        """Return the index where the text of a node ends, before comments and blank lines."""
        if not isinstance(node, yaml.ScalarNode) and not _is_flow(node):
            return self._end(_children(node)[-1])
        return len(self._text[: node.end_mark.index].rstrip())

    def _dashes(self) -> list[yaml.Mark]:
        """Return the marks of the dashes of the block list, one per entry."""
        if self._fallback is None:
            _awkward()
        items = self._fallback.value
        found = [
            token.start_mark
            for token in _tokens(self._text)
            if isinstance(token, yaml.BlockEntryToken)
            and items.start_mark.index <= token.start_mark.index < items.end_mark.index
        ]
        dashes = [mark for mark in found if mark.column == found[0].column]
        return dashes if len(dashes) == len(_children(items)) else _awkward()

    def _colon_after(self, key: yaml.Node) -> int:
        return next(
            token.end_mark.index
            for token in _tokens(self._text)
            if isinstance(token, yaml.ValueToken) and token.start_mark.index >= key.end_mark.index
        )

    def _filled(self, void: yaml.Node, value: str) -> str:
        start, end = void.start_mark.index, void.end_mark.index
        gap = " " if start == end else ""
        return f"{self._text[:start]}{gap}{value}{self._text[end:]}"

    def _inserted(self, at: int, what: str) -> str:
        return self._text[:at] + what + self._text[at:]

    def _line_after(self, at: int, margin: yaml.Mark, line: str) -> str:
        return self._lines_after(at, [" " * margin.column + line])

    def _lines_after(self, at: int, lines: Sequence[str]) -> str:
        end = self._line_end(at)
        return self._inserted(end, "".join(self._newline + line for line in lines))

    def _line_end(self, at: int) -> int:
        end = self._text.find(self._newline, at)
        return len(self._text) if end < 0 else end


def _tokens(text: str) -> list[yaml.Token]:
    return list(cast("Iterator[yaml.Token]", yaml.scan(text, yaml.SafeLoader)))  # pyright: ignore[reportUnknownMemberType] - untyped in the stubs


def _member(node: yaml.Node | None, name: str) -> _Member | None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == name:
                return _Member(key, value)
    return None


def _keys(node: yaml.Node) -> list[yaml.Node]:
    return [key for key, _ in node.value] if isinstance(node, yaml.MappingNode) else []


def _children(node: yaml.Node) -> list[yaml.Node]:
    """Return the value nodes of a list or mapping."""
    if isinstance(node, yaml.MappingNode):
        return [value for _, value in node.value]
    return node.value if isinstance(node, yaml.SequenceNode) else _awkward()


def _is_flow(node: yaml.Node) -> bool:
    return isinstance(node, yaml.CollectionNode) and bool(node.flow_style)


def _is_void(node: yaml.Node) -> bool:
    return node.tag == _NULL or (isinstance(node, yaml.CollectionNode) and not node.value)
