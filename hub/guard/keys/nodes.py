"""The places in a tool's arguments, as its schema declares them: of which kind each is."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache

from msgspec import Struct, field
from msgspec.structs import replace

from hub.guard.keys import vocabulary
from hub.guard.keys.key_words import (
    LONGEST_KEY,
    SCRIPTS,
    arguments_elsewhere,
    greps,
    is_label,
    is_script,
    is_tree,
    kind_of_key,
    names_shell,
    takes_arguments,
    told_beside,
    told_by_others,
    words_of,
)
from hub.guard.keys.vocabulary import Kind
from hub.values import Json, JsonObject, object_or_empty

BY_OPERATOR = "set by the operator"
FOR_SHELL = "a command that a shell reads, as the schema says"
"""Why a command is judged as one that no program gets as its arguments, without a shell."""
IN_CONTAINER = "a command that is run in a container"
"""Why a command is judged as what is behind `docker exec x`."""
FOR_INTERPRETER = "a script for a shell or an interpreter"
IN_A_LANGUAGE = "code that is run in the language that the call names"
"""Why the kind of a script depends on what the call says beside it: see `kind_of_script`."""
_NAME_A_LANGUAGE = ("interpreter", "language", "languageId", "language_id", "lang", "runtime")
_OF_SHELLS = re.compile(
    r"(?:[akz]|ba|da|fi)?sh|shell[ _-]?(?:script)?|powershell|pwsh|bat|batch|cmd", re.IGNORECASE
)
_OF_OTHERS = re.compile(
    r"(?:i?python|pypy|node(?:js)?|deno|bun|ruby|perl|php|lua|rscript)[\d.]*(?: -[\w-]+)*",
    re.IGNORECASE,
)
_FILES = re.compile(r"(?:Make|Docker|Gem|Proc|Jenkins|Vagrant|Rake|Brew|Just|Pod|Pip|Fast)file")
_METHODS = ("method", "http_method", "httpMethod")
_RUNNING = frozenset({"run", "exec", "execute", "eval", "evaluate", "interpret"})
_TEXTS = frozenset({Kind.PAYLOAD, Kind.NEUTRAL})


class ArgumentNode(Struct, frozen=True):
    """What is known about one place in a tool's arguments.

    `values` are the choices that the schema offers (`enum`, `const`). A place that is not
    `declared` takes the kind of the object or array around it, if its own kind is neutral. A bare
    word at a `label` is no file name. A `structured` text may also be given as an object or array,
    with paths in it, or only so. With `named_by_path` the names of undeclared members are paths.
    In a `tree` they are files and folders, and so they are in the objects inside.
    A text that `seeks` is what a program looks for, unless it looks like an option.
    A number that `counts` is one of the keys, in a list of these, that lead into a document.
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
    seeks: bool = False
    counts: bool = False
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

    def looking_for(self, searched: Json) -> ArgumentNode:
        """Return the node of a text that `seeks`, or a list of texts: a pattern with options."""
        texts = searched if isinstance(searched, list) else [searched]
        return _OPTIONS if any(str(text).lstrip()[:1] == "-" for text in texts) else self

    def element(self) -> ArgumentNode:
        """Return the node of an array's elements."""
        inner = self.items or self
        return replace(inner, tree=False) if inner.tree else inner


_OPTIONS = ArgumentNode(Kind.GLOB, "a program may take it for options")


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
            node, kind=kind, why=BY_OPERATOR, declared=True, values=frozenset(), seeks=False
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


def _looking_for_its_pattern(shape: ArgumentNode) -> ArgumentNode:
    """Return the shape of a tool that looks for a text: its `pattern` is that text.

    It is not if another argument is a text, or if the schema says that it is a glob. A text that
    looks like an option is none: `-f/etc/x`.
    """
    seeking = {
        key: replace(node, seeks=True)
        for key, node in shape.properties.items()
        if key in vocabulary.SOUGHT and node.kind is Kind.PAYLOAD
    }
    shape = replace(shape, properties={**shape.properties, **seeking}) if seeking else shape
    pattern = shape.properties.get("pattern")
    has_text = any(one.kind is Kind.PAYLOAD for one in shape.properties.values())
    if pattern is None or has_text or (pattern.kind, pattern.why) != kind_of_key("pattern"):
        return shape
    why = "the tool's name says that it looks for a text"
    text = replace(pattern, kind=Kind.PAYLOAD, why=why, seeks=True)
    return replace(shape, properties={**shape.properties, "pattern": text})


def sent_elsewhere(tool: str, schema: JsonObject) -> Iterator[str]:
    """Yield the arguments that go to a cluster or to what another one names; none with files."""
    members, required = object_or_empty(schema.get("properties")), schema.get("required")
    always = required if isinstance(required, list) else []
    for key in arguments_elsewhere(tool, members, always):
        member = object_or_empty(members.get(key))
        described = str(member.get("description"))
        if "properties" not in member and not vocabulary.MENTIONS_FILES.search(described):
            yield key


def said_by_its_name(
    shape: ArgumentNode,
    tool: str,
    declared: JsonObject,
    elsewhere: Collection[str],
    *,
    is_run: bool,
) -> ArgumentNode:
    """Return the shape with what the tool's name tells of its arguments, `declared` in its schema.

    A command that goes `elsewhere` is run in a container. `is_run`: a shell runs it.
    """
    if greps(tool) or not vocabulary.FILE_PATTERNS.isdisjoint(shape.properties):
        shape = _looking_for_its_pattern(shape)
    methods = " ".join(str(declared.get(name)) for name in _METHODS)
    session = " ".join(str(declared[name]) for name in declared if "session" in name.lower())
    known, beside = dict[str, ArgumentNode](), told_beside(shape.properties, methods, session)
    runs = not _RUNNING.isdisjoint(words_of(tool))
    for key, node in shape.properties.items():
        described = str(object_or_empty(declared.get(key)).get("description"))
        if node.kind in _TEXTS and is_script(key, tool, declared):
            why = FOR_SHELL if is_run else FOR_INTERPRETER
            known[key] = replace(node, kind=Kind.COMMAND, why=why)
        elif node.kind in _TEXTS and key in SCRIPTS and runs:
            known[key] = replace(node, why=IN_A_LANGUAGE)
        elif node.kind is Kind.COMMAND and key in elsewhere and not is_run:
            known[key] = replace(node, why=IN_CONTAINER)
        elif node.kind is Kind.COMMAND and not takes_arguments(key):
            is_read = is_run or names_shell(f"{key} {described}")
            known |= {key: replace(node, why=FOR_SHELL)} if is_read else {}
        elif node.declared:
            told = told_by_others(node.kind, key, described, tool, beside)
            known |= {key: replace(node, kind=told[0], why=told[1])} if told else {}
    return replace(shape, properties={**shape.properties, **known}) if known else shape


def kind_of_script(node: ArgumentNode, call: JsonObject) -> Kind | None:
    """Return the kind of a script by the language that a call names; None if that tells nothing."""
    if node.why not in {FOR_INTERPRETER, IN_A_LANGUAGE}:
        return None
    named = [said for name in _NAME_A_LANGUAGE if isinstance(said := call.get(name), str)]
    if any(map(_OF_SHELLS.fullmatch, named)):
        return Kind.COMMAND
    return Kind.PAYLOAD if any(map(_OF_OTHERS.fullmatch, named)) else None
