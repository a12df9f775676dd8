"""Which arguments are paths, and of which kind: a tool's schema and its names, compiled once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from hub.core.naming import LONGEST_KEY, kind_of_key
from hub.core.values import Json, JsonObject, object_or_empty
from hub.core.vocabulary import (
    MENTIONS_PATH,
    OR_PATH,
    PATH_FORMATS,
    PAYLOAD_FORMATS,
    SAYS_CODE,
    SAYS_CONTENT,
    SAYS_FILE,
    SAYS_GLOB,
    SAYS_OTHER,
    SAYS_PATH,
    SAYS_REGEX,
    STARTS_AS_PATH,
    Kind,
)

_MAX_DEPTH = 16
_MAX_NODES = 5000
_MAX_VARIANTS = 64
_TEXT_TYPES = frozenset({"string", "array", "object"})
_READ_OF_A_DESCRIPTION = 240

Verdict: TypeAlias = "tuple[Kind, str]"


class Node(Struct, frozen=True):
    """What is known about one place in a tool's arguments.

    `values` are those that the schema itself offers. A place that is not `declared` takes the kind
    of what it lies in, if nothing better is known about it.
    """

    kind: Kind = Kind.NEUTRAL
    why: str = "nothing says that it is a path"
    declared: bool = False
    values: frozenset[str] = frozenset()
    properties: Mapping[str, Node] = field(default_factory=dict[str, "Node"])
    items: Node | None = None
    extra: Node | None = None

    def member(self, key: str) -> Node:
        """Return the node of an object's member, declared or not."""
        return self.properties.get(key) or self.undeclared(key)

    def undeclared(self, key: str) -> Node:
        """Return the node of a member that is not among the properties."""
        extra, named = self.extra, node_of_key(key[-LONGEST_KEY:])
        if extra is None or (extra.kind is Kind.NEUTRAL and not extra.properties):
            return named
        return extra

    def element(self) -> Node:
        """Return the node of an array's elements."""
        return self.items or self


@lru_cache(maxsize=4096)
def node_of_key(key: str) -> Node:
    """Return the node of a member that no schema declares."""
    kind, why = kind_of_key(key)
    return Node(kind, why)


def compile_shape(schema: Json, overrides: Mapping[str, Kind]) -> Node:
    """Return the shape of a tool's arguments; `overrides` by JSON pointer, `*` for any member."""
    shape = _Compiler(schema).node("", [schema], 0)
    for pointer, kind in overrides.items():
        names = [name.replace("~1", "/").replace("~0", "~") for name in pointer.split("/")[1:]]
        shape = _overridden(shape, names, kind)
    return shape


def _overridden(node: Node, names: list[str], kind: Kind) -> Node:
    if not names:
        return replace(
            node, kind=kind, why="the operator says so", declared=True, values=frozenset()
        )
    name, rest = names[0], names[1:]
    if name == "*" or name.isdecimal():
        element = _overridden(node.element(), rest, kind)
        node = replace(node, items=element)
        if name == "*":
            members = {key: _overridden(old, rest, kind) for key, old in node.properties.items()}
            node = replace(
                node, extra=_overridden(node.extra or Node(), rest, kind), properties=members
            )
        return node
    member = _overridden(node.member(name), rest, kind)
    return replace(node, properties={**node.properties, name: member})


class _Compiler:
    """Follows one schema's references, so far that no schema can make it run away."""

    def __init__(self, schema: Json) -> None:
        self._schema = schema
        self._nodes = 0

    def node(self, key: str, schemas: list[Json], depth: int) -> Node:
        """Return the node of `key` under all of `schemas` at once."""
        self._nodes += 1
        variants = list(self._variants(schemas))
        kind, why = _classify(key, variants)
        node = Node(kind, why, declared=bool(variants), values=_values(variants))
        if depth >= _MAX_DEPTH or self._nodes > _MAX_NODES:
            return node
        members, items, extra = _parts(variants)
        return replace(
            node,
            properties={name: self.node(name, of, depth + 1) for name, of in members.items()},
            items=self.node(key, items, depth + 1) if items else None,
            extra=self.node("", extra, depth + 1) if extra else None,
        )

    def _variants(self, schemas: list[Json]) -> Iterator[JsonObject]:
        queue: list[Json] = list(schemas)
        for seen, schema in enumerate(queue):
            if seen >= _MAX_VARIANTS:
                return
            if not isinstance(schema, dict):
                continue
            yield schema
            for word in ("anyOf", "oneOf", "allOf"):
                branches = schema.get(word)
                queue.extend(branches if isinstance(branches, list) else ())
            queue += [schema.get("then"), schema.get("else"), self._referred(schema.get("$ref"))]

    def _referred(self, reference: Json) -> Json:
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        at = self._schema
        for name in reference.split("/")[1:]:
            name = name.replace("~1", "/").replace("~0", "~")  # noqa: PLW2901
            at = at.get(name) if isinstance(at, dict) else None
        return at


def _parts(
    variants: list[JsonObject],
) -> tuple[dict[str, list[Json]], list[Json], list[Json]]:
    members: dict[str, list[Json]] = {}
    items: list[Json] = []
    extra: list[Json] = []
    for schema in variants:
        for name, member in object_or_empty(schema.get("properties")).items():
            members.setdefault(name, []).append(member)
        for of_items in (schema.get("items"), schema.get("prefixItems")):
            items.extend(of_items if isinstance(of_items, list) else [of_items])
        extra.append(schema.get("additionalProperties"))
        extra.extend(object_or_empty(schema.get("patternProperties")).values())
    return (
        members,
        [item for item in items if isinstance(item, dict)],
        [more for more in extra if isinstance(more, dict)],
    )


def _values(variants: list[JsonObject]) -> frozenset[str]:
    offered: list[Json] = []
    for schema in variants:
        choices = schema.get("enum")
        offered.extend(choices if isinstance(choices, list) else ())
        offered.append(schema.get("const"))
    return frozenset(value for value in offered if isinstance(value, str))


def _classify(key: str, variants: list[JsonObject]) -> Verdict:
    types = {name for schema in variants for name in _types(schema)}
    if types and not types & _TEXT_TYPES:
        return Kind.NEUTRAL, f"the schema says {' or '.join(sorted(types))}"
    named = kind_of_key(key[-LONGEST_KEY:])
    formats = set(_texts(variants, "format", "contentEncoding"))
    if formats & PATH_FORMATS:
        return Kind.PATH, "the schema's format says path"
    if formats & PAYLOAD_FORMATS:
        return Kind.PAYLOAD, "the schema's format says that it is content"
    described = " ".join(_texts(variants, "title", "description"))
    return _described(named, described) if described else named


def _texts(variants: list[JsonObject], *words: str) -> Iterator[str]:
    for schema in variants:
        for word in words:
            text = schema.get(word)
            if isinstance(text, str):
                yield text[:_READ_OF_A_DESCRIPTION]


def _types(schema: JsonObject) -> list[str]:
    declared = schema.get("type")
    names = declared if isinstance(declared, list) else [declared]
    return [name for name in names if isinstance(name, str) and name != "null"]


def _described(named: Verdict, text: str) -> Verdict:
    """Return what a description makes of the kind that the key's name has."""
    kind = named[0]
    other = None if SAYS_FILE.search(text) else SAYS_OTHER.search(text)
    if kind is Kind.PAYLOAD or kind is Kind.COMMAND:
        return named if other else _described_payload(named, text)
    if other:
        return Kind.PAYLOAD, f"described as '{other[0]}'"
    if says := SAYS_GLOB.search(text):
        return Kind.GLOB, f"described as '{says[0]}'"
    if kind is Kind.PATH and (says := SAYS_CONTENT.match(text)):
        return Kind.WEAK, f"described as '{says[0]}'"
    if kind is not Kind.PATH and (says := SAYS_REGEX.search(text)):
        return Kind.PAYLOAD, f"described as '{says[0]}'"
    return named if kind in {Kind.PATH, Kind.GLOB} else _mentioned(named, text)


def _described_payload(named: Verdict, text: str) -> Verdict:
    if says := STARTS_AS_PATH.match(text):
        return Kind.PATH, f"described as '{says[0].strip()}'"
    if named[0] is Kind.PAYLOAD and (says := OR_PATH.search(text)):
        return Kind.WEAK, f"described as '{says[0]}'"
    return named


def _mentioned(named: Verdict, text: str) -> Verdict:
    if says := SAYS_PATH.search(text):
        return Kind.PATH, f"described as '{says[0]}'"
    if named[0] is Kind.NEUTRAL and (says := MENTIONS_PATH.search(text)):
        return Kind.WEAK, f"its description mentions '{says[0]}'"
    if says := SAYS_CODE.match(text):
        return Kind.PAYLOAD, f"described as '{says[0]}'"
    return named
