"""Put a member into a mapping at the top of a YAML text, or take one out; the rest stays."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, cast

import yaml

from hub.config.source.mistakes import awkward
from hub.config.source.yaml_flow import composed, flow, scalar

_COMMA_AFTER: Final = re.compile(r"\s*,[ \t]*")
_COMMA_BEFORE: Final = re.compile(r"\s*,\s*\Z")
_NULL: Final = "tag:yaml.org,2002:null"


def with_member(text: str, section: Sequence[str], name: str, value: Mapping[str, object]) -> str:
    """Return the text with one more member at the end of the mapping with the key `section`.

    The text may not load, or to something else: it has to be parsed.
    """
    (key,) = section
    newline = "\r\n" if "\r\n" in text else "\n"
    found = _member(composed(text), key)
    if found is None:
        gap = "" if text.endswith("\n") or not text else newline
        lines = [f"{key}:", *(f"  {line}" for line in block(name, value))]
        return text + gap + newline.join(lines) + newline
    named, mapping = found
    margin = " " * named.start_mark.column + "  "
    if mapping.tag == _NULL or (isinstance(mapping, yaml.MappingNode) and not mapping.value):
        start, end = mapping.start_mark.index, mapping.end_mark.index
        before = text[:start].rstrip(" ") if mapping.tag != _NULL or start != end else text[:start]
        line_end = _line_end(text, end)
        remark = text[end:line_end] if text[end:line_end].lstrip().startswith("#") else ""
        lines = remark + _lines(newline, margin, block(name, value))
        return before + lines + text[end + len(remark) :]
    if not isinstance(mapping, yaml.MappingNode):
        awkward(key)
    end = _end(text, mapping.value[-1][1])
    if mapping.flow_style:
        return f"{text[:end]}, {flow({name: value})[1:-1]}{text[end:]}"
    margin = " " * mapping.value[0][0].start_mark.column
    at = _line_end(text, end)
    return text[:at] + _lines(newline, margin, block(name, value)) + text[at:]


def without_member(text: str, section: Sequence[str], name: str) -> Iterator[str]:
    """Yield texts without a member; `name` alone is at the top. Each has to be parsed."""
    top = composed(text)
    around = _member(top, section[0]) if section else None
    mapping = top if around is None else around[1]
    found = _member(mapping, name)
    if found is None or not isinstance(mapping, yaml.MappingNode):
        awkward(".".join([*section, name]))
    if mapping.flow_style:
        yield _without_in_flow(text, found[0].start_mark.index, _end(text, found[1]))
        return
    start = text.rfind("\n", 0, found[0].start_mark.index) + 1
    end = _line_end(text, _end(text, found[1]))
    end = end if text[end : end + 1] == "" else text.index("\n", end) + 1
    rest = text[:start] + text[end:]
    if len(mapping.value) == 1 and around is not None:
        colon = text.index(":", around[0].end_mark.index) + 1
        rest = f"{rest[:colon]} {{}}{rest[colon:]}"
    yield rest


def _without_in_flow(text: str, start: int, end: int) -> str:
    """Return the text without a member of a `{...}`, and without the comma that it had."""
    if after := _COMMA_AFTER.match(text, end):
        return text[:start] + text[after.end() :]
    before = _COMMA_BEFORE.search(text[:start])
    return text[: start if before is None else before.start()] + text[end:]


def block(name: str, value: Mapping[str, object]) -> list[str]:
    """Return a member as lines: its keys in lines of their own, their values in flow style."""
    lines = [f"{scalar(name)}:"]
    for key, one in value.items():
        lines.append(f"  {scalar(key)}: {flow(one)}")
    return lines


def _lines(newline: str, margin: str, lines: Sequence[str]) -> str:
    return "".join(f"{newline}{margin}{line}" for line in lines)


def _member(node: yaml.Node | None, name: str) -> tuple[yaml.Node, yaml.Node] | None:
    if not isinstance(node, yaml.MappingNode):
        return None
    pairs = cast("list[tuple[yaml.Node, yaml.Node]]", node.value)
    return next(((key, value) for key, value in pairs if key.value == name), None)


def _end(text: str, node: yaml.Node) -> int:
    """Return where the text of a node ends, before comments and blank lines."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(text, last[1] if isinstance(node, yaml.MappingNode) else last)
    return len(text[: node.end_mark.index].rstrip())


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else len(text[:end].rstrip("\r"))
