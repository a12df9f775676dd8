"""What is known about each place in a tool's arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

from msgspec import Struct, field
from msgspec.structs import replace

from hub.guard.keys.key_words import LONGEST_KEY, is_label, kind_of_key
from hub.guard.keys.vocabulary import Kind


class Node(Struct, frozen=True):
    """What is known about one place in a tool's arguments.

    `values` are those that the schema itself offers. A place that is not `declared` takes the kind
    of what it lies in, if nothing better is known about it. A bare word at a `label` names no
    file. A text that is `structured` may also be given as an object or array, with paths in it.
    """

    kind: Kind = Kind.NEUTRAL
    why: str = "nothing says that it is a path"
    declared: bool = False
    values: frozenset[str] = frozenset()
    label: bool = False
    structured: bool = False
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
    return Node(kind, why, label=is_label(key))


def overridden(node: Node, names: list[str], kind: Kind) -> Node:
    """Return `node` with a kind that the operator gives to what `names` lead to in it."""
    if not names:
        return replace(
            node, kind=kind, why="the operator says so", declared=True, values=frozenset()
        )
    name, rest = names[0], names[1:]
    if name == "*" or name.isdecimal():
        element = overridden(node.element(), rest, kind)
        node = replace(node, items=element)
        if name == "*":
            members = {key: overridden(old, rest, kind) for key, old in node.properties.items()}
            node = replace(
                node, extra=overridden(node.extra or Node(), rest, kind), properties=members
            )
        return node
    member = overridden(node.member(name), rest, kind)
    return replace(node, properties={**node.properties, name: member})


def nodes_of(shape: Node) -> Iterator[Node]:
    """Yield every node of a shape once, however it contains itself."""
    seen, queue = {id(shape)}, [shape]
    for node in queue:  # which grows
        yield node
        for inner in (*node.properties.values(), node.items, node.extra):
            if inner is not None and id(inner) not in seen:
                seen.add(id(inner))
                queue.append(inner)
