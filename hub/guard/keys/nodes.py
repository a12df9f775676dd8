"""The places in a tool's arguments, as its schema declares them: of which kind each is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from msgspec import Struct, field
from msgspec.structs import replace

from hub.guard.keys.key_words import LONGEST_KEY, is_label, is_tree, kind_of_key
from hub.guard.keys.vocabulary import Kind
from hub.values import Json, JsonObject

BY_OPERATOR = "set by the operator"
FOR_SHELL = "a command that a shell reads, as the schema says"
"""Why a command is judged as one that no program gets as its arguments, without a shell."""
IN_CONTAINER = "a command that is run in a container or on another machine"
"""Why a command is judged as what is behind `docker exec x`."""
HERE_AFTER_ALL = "a command for another machine, but the call names this one"
_TEMPLATE = re.compile(r"\{\{\s*[\w.-]+\s*\}\}/")
_THIS_MACHINE = re.compile(
    r"(?:[\w.-]+@)?(?:localhost|127(?:\.\d+){1,3}|\[?::1\]?|0(?:\.0\.0\.0)?)(?::\d+)?",
    re.IGNORECASE,
)
FOR_INTERPRETER = "a script for a shell or an interpreter"
IN_A_LANGUAGE = "code that is run in the language that the call names"
"""Why the kind of a script depends on what the call says beside it: see `kind_of_script`."""
_FILES = re.compile(r"(?:Make|Docker|Gem|Proc|Jenkins|Vagrant|Rake|Brew|Just|Pod|Pip|Fast)file")


class ArgumentNode(Struct, frozen=True):
    """What is known about one place in a tool's arguments.

    `values` are the choices that the schema offers (`enum`, `const`). A place that is not
    `declared` takes the kind of the object or array around it, if its own kind is neutral. A bare
    word at a `label` is no file name. A `structured` text may also be given as an object or array,
    with paths in it, or only so. With `named_by_path` the names of undeclared members are paths.
    In a `tree` they are files and folders, and so they are in the objects inside.
    What a text that `varies` is depends on the call: see `in_call`.
    A number that `counts` is one of the keys, in a list of these, that lead into a document.
    `tool` is the name of the tool, if this is the place of all its arguments.
    `items` and `extra` are the nodes of array elements and of undeclared members.
    """

    kind: Kind = Kind.NEUTRAL
    why: str = "nothing says that it is a path"
    declared: bool = False
    values: frozenset[str] = frozenset()
    label: bool = False
    structured: bool = False
    named_by_path: bool = False
    tree: bool = False
    varies: bool = False
    counts: bool = False
    tool: str = ""
    properties: Mapping[str, ArgumentNode] = field(default_factory=dict[str, "ArgumentNode"])
    items: ArgumentNode | None = None
    extra: ArgumentNode | None = None

    def member(self, key: str) -> ArgumentNode:
        """Return the node of the member `key`, declared or not."""
        return self.properties.get(key) or self.undeclared(key)

    def undeclared(self, key: str) -> ArgumentNode:
        """Return the node of a member `key` that is not in `properties`."""
        extra, named = self.extra, node_of_key(key[-LONGEST_KEY:])
        if extra is not None and (extra.kind is not Kind.NEUTRAL or extra.properties):
            return extra
        if not self.has_entry(key):
            return named
        # `src` is a folder of the tree, with texts of files in it.
        kind = Kind.NEUTRAL if named.kind is Kind.WEAK else named.kind
        return replace(named, kind=kind, tree=True)

    def has_entry(self, key: str) -> bool:
        """Return whether a member of a tree is a file or a folder, not a field such as `type`."""
        named = node_of_key(key[-LONGEST_KEY:])
        return self.tree and not named.label and named.kind is not Kind.PAYLOAD

    def in_call(self, value: Json, beside: JsonObject) -> ArgumentNode:
        """Return the node of a `value` that `varies`.

        What a program looks for is a pattern if it looks like an option, or a list with one. A
        command for another machine is one for this machine if a text `beside` it names this one. A
        URL may start with a variable for its host: `{{base}}/home`.
        """
        if self.kind is Kind.NEUTRAL:
            is_url = isinstance(value, str) and _TEMPLATE.match(value)
            return replace(self, kind=Kind.VIRTUAL) if is_url else self
        if self.why is IN_CONTAINER:
            texts = (text for text in beside.values() if isinstance(text, str))
            is_here = any(map(_THIS_MACHINE.fullmatch, texts))
            return replace(self, why=HERE_AFTER_ALL) if is_here else self
        texts = value if isinstance(value, list) else [value]
        return _OPTIONS if any(str(text).lstrip()[:1] == "-" for text in texts) else self

    def element(self) -> ArgumentNode:
        """Return the node of an array's elements."""
        inner = self.items or self
        return replace(inner, tree=False) if inner.tree else inner


_OPTIONS = ArgumentNode(Kind.GLOB, "a program may take it for options")


SERVICE = ArgumentNode(
    declared=True,
    properties={
        key: ArgumentNode(Kind.COMMAND, IN_CONTAINER, declared=True)
        for key in ("command", "entrypoint")
    },
)
"""A service as in the file of `docker compose`: what it runs is in its container."""


@lru_cache(maxsize=4096)
def node_of_key(key: str) -> ArgumentNode:
    """Return the node of a member that no schema declares."""
    kind, why = kind_of_key(key)
    kind = Kind.NEUTRAL if _FILES.fullmatch(key) else kind  # a file's name, with the file's content
    return ArgumentNode(kind, why, label=is_label(key), tree=is_tree(key))


def overridden(node: ArgumentNode, names: list[str], kind: Kind) -> ArgumentNode:
    """Return `node` with the operator's `kind` at the place that the path `names` leads to."""
    if not names:
        return replace(
            node, kind=kind, why=BY_OPERATOR, declared=True, values=frozenset(), varies=False
        )
    name, rest = names[0], names[1:]
    if name == "*" or name.isdecimal():
        node = replace(node, items=overridden(node.element(), rest, kind))
        if name == "*":
            members = {key: overridden(old, rest, kind) for key, old in node.properties.items()}
            extra = overridden(node.extra or ArgumentNode(), rest, kind)
            node = replace(node, extra=extra, properties=members)
        return node
    member = overridden(node.member(name), rest, kind)
    return replace(node, properties={**node.properties, name: member})


def nodes_of(shape: ArgumentNode) -> Iterator[ArgumentNode]:
    """Yield every node of a shape once, even if the shape contains itself."""
    seen, queue = {id(shape)}, [shape]
    for node in queue:  # grows in the loop
        yield node
        for inner in (*node.properties.values(), node.items, node.extra):
            if inner is not None and id(inner) not in seen:
                seen.add(id(inner))
                queue.append(inner)
