"""Compile a tool's input schema: which arguments are paths, and of which kind."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice
from typing import NamedTuple, TypeAlias
from urllib.parse import unquote

from msgspec.structs import force_setattr, replace

from hub.guard.keys import descriptions, vocabulary
from hub.guard.keys.descriptions import (
    READ_OF_ALL,
    Verdict,
    kind_by_description,
    listed,
    texts,
    types_of,
)
from hub.guard.keys.key_words import (
    LONGEST_KEY,
    has_word,
    is_label,
    is_plural,
    is_tree,
    joined,
    kind_of_key,
    last_word,
    words_of,
)
from hub.guard.keys.neighbours import (
    found_elsewhere,
    named_in,
    sent_elsewhere,
    take_commands,
    told_by_its_name,
)
from hub.guard.keys.nodes import SERVICE, ArgumentNode, node_of_key, nodes_of, overridden
from hub.guard.keys.vocabulary import Kind
from hub.values import Json, JsonObject, object_or_empty

_MAX_VARIANTS = _MAX_STEPS = 64
_COMBINING = ("anyOf", "oneOf", "allOf")
_SINGLE = ("if", "then", "else", "contentSchema")
_DEPENDENT = ("dependentSchemas", "dependencies")
_SAID, _REFERRING = ("description", "title"), ("$ref", "$dynamicRef", "$recursiveRef")
_NAMING = {"$id": "", "id": "", "$anchor": "#", "$dynamicAnchor": "#"}
"""The words by which a schema has a name to refer to, and the sign before it in a reference."""
_LEADING_ON = frozenset({*_COMBINING, *_SINGLE, *_DEPENDENT, *_REFERRING})
"""The words by which a schema has more schemas for the same value."""
_OF_ITEMS = ("items", "prefixItems", "additionalItems", "unevaluatedItems", "contains")
_OF_MEMBERS = ("properties", "additionalProperties", "unevaluatedProperties", "patternProperties")
_INSIDE = frozenset({*_OF_ITEMS, *_OF_MEMBERS})
"""The words by which a schema has schemas for what is in the value."""
# Limits on compiling a schema, depending on its size; a unit is about ten microseconds.
_MOST, _LEAST, _PER_OBJECT = 100_000, 1000, 8
_ENTRIES, _CHARACTERS = 16, 64
_TEXT_TYPES = frozenset({"string", "array", "object"})
_TEXTS_AND_NUMBERS = ({"string", "integer"}, {"string", "number"})
_JUDGED = frozenset({Kind.PATH, Kind.GLOB, Kind.WEAK, Kind.COMMAND})
_TEXTS = frozenset({Kind.PAYLOAD, Kind.NEUTRAL})
_PERHAPS_ELSEWHERE = frozenset({Kind.PATH, Kind.WEAK, Kind.NEUTRAL})
_DRIVE = re.compile("onedrive|dropbox|sharepoint", re.IGNORECASE)
"""A drive elsewhere: `drive` alone may be a disk of this machine."""
_HERE = re.compile("local|host", re.IGNORECASE)

_IN_REPOSITORY = "perhaps a path of another machine"
"""Why a path may be `/`: the top of a repository, a drive or a bucket."""
_TOP = frozenset({"/"})
_DATA = ArgumentNode(Kind.PAYLOAD, "data for a cluster, a container or a database", declared=True)
force_setattr(_DATA, "extra", _DATA)


def compile_schema(
    schema: Json, overrides: Mapping[str, Kind], most: int = _MOST, *, tool: str = ""
) -> ArgumentNode:
    """Return the shape of a tool's arguments; it may contain itself.

    `overrides` maps JSON pointers (`*` for any member) to the operator's kinds. `most` limits the
    effort of reading the schema. `tool` is the tool's own name.
    """
    shape = _Compiler(schema, most, tool).shape()
    for pointer, kind in overrides.items():
        names = [name.replace("~1", "/").replace("~0", "~") for name in pointer.split("/")[1:]]
        shape = overridden(shape, names, kind)
    return shape


class _Around(NamedTuple):
    """What the members around an argument tell: whether it goes elsewhere, or may be there.

    Nothing is there in an object that is named as one of this machine: `local`, `output`.
    """

    is_sent: bool = False
    in_repository: bool = False
    is_here: bool = False


_NOTHING = _Around()
_Schemas: TypeAlias = "dict[str, list[JsonObject]]"


class _Compiler:
    """Compiles one schema and follows its references.

    A schema that refers to itself becomes a node that contains itself. A schema that expands
    endlessly in new ways is read up to a limit that depends on its size.
    """

    def __init__(self, schema: Json, most: int, tool: str) -> None:
        self._schema, self._tool = schema, tool
        effort, self._named = _surveyed(schema)
        self._left = min(most, effort)
        self._arguments = self._find_arguments()
        names = object_or_empty(self._arguments.get("properties"))
        required = frozenset(listed(self._arguments, "required"))
        self._names = {name: name in required for name in names}
        self._beside = set[str]()
        words = words_of(tool)
        # `push` may send what is below `/` here, and git works on a clone, which is here.
        is_shown = "git" not in words and not vocabulary.SHOWING_WORDS.isdisjoint(words)
        self._shows = is_shown or not tool
        is_compose = "compose" in words and "process" not in words
        self._services = SERVICE if is_compose else None
        self._nodes: dict[tuple[str, _Around, tuple[int, ...]], ArgumentNode] = {}
        self._unread: list[tuple[str, _Around, ArgumentNode, list[JsonObject]]] = []
        self._objects = list[tuple[dict[str, ArgumentNode], _Schemas, frozenset[str]]]()
        self._described: dict[tuple[Verdict, str], Verdict] = {}

    def shape(self) -> ArgumentNode:
        """Return the node of the arguments as a whole."""
        top = self._node("", self._variants([self._schema]))
        for key, around, node, variants in self._unread:  # grows in the loop
            self._read_inside(key, around, node, variants)
        for _, _, node, variants in self._unread:
            judged = (part.kind in _JUDGED for part in islice(nodes_of(node), _MAX_VARIANTS))
            if node.kind is Kind.PAYLOAD and (_is_no_text(variants) or any(judged)):
                force_setattr(node, "structured", True)
        for nodes, schemas, sent in self._objects:
            nodes.update(told_by_its_name(self._tool, nodes, schemas, sent))
        take_commands(self._tool, [nodes for nodes, _, _ in self._objects])
        return replace(top, tool=self._tool)

    def _find_arguments(self) -> JsonObject:
        """Return the schema of the arguments, which may all be in one object such as `params`."""
        top = object_or_empty(self._schema)
        members = _parts(self._variants([top]))[0]
        variants = self._variants(next(iter(members.values()))) if len(members) == 1 else []
        inner = next((one for one in variants if "properties" in one), None)
        return inner if inner and _is_no_text(variants) else top

    def _node(
        self, key: str, variants: list[JsonObject], around: _Around = _NOTHING
    ) -> ArgumentNode:
        """Return the node of `key` under all of the schemas `variants` at once."""
        if self._left < 0:  # half a schema tells less than none
            return node_of_key(key[-LONGEST_KEY:])
        # A schema with only a `$ref` says nothing itself.
        said = tuple(id(schema) for schema in variants if schema.keys() != {"$ref"})
        node = self._nodes.get((key, around, said)) if said else None
        if node is None:
            kind, why = self._classified(key, variants, is_sent=around.is_sent)
            is_prefix = kind is Kind.NEUTRAL and key.startswith("prefix") and around.in_repository
            if (kind is Kind.PATH or is_prefix) and self._is_in_repository(key, variants, around):
                kind, why = Kind.NEUTRAL, _IN_REPOSITORY
            is_top = why is _IN_REPOSITORY and self._may_be_top(key, variants, around)
            may_be_path = any(map(descriptions.SAYS_ID_OR_PATH.match, texts(variants, *_SAID)))
            node = ArgumentNode(
                kind,
                why,
                declared=bool(variants),
                values=_values(variants) | (_TOP if is_top else frozenset[str]()),
                label=is_label(key[-LONGEST_KEY:]) and not may_be_path,
                named_by_path=self._is_named_by_path(variants),
                tree=is_tree(key[-LONGEST_KEY:]),
                varies=kind is Kind.NEUTRAL and last_word(key[-LONGEST_KEY:]) in {"url", "uri"},
                counts=types_of(variants) in _TEXTS_AND_NUMBERS and not is_plural(key),
            )
            self._nodes[key, around, said] = node
            self._unread.append((key, around, node, variants))
        return node

    def _read_inside(
        self, key: str, around: _Around, node: ArgumentNode, variants: list[JsonObject]
    ) -> None:
        if _is_data(key, variants, is_sent=around.is_sent):
            force_setattr(node, "extra", _DATA)
            # A text in a list may name a file: `helm --values x.yaml`.
            in_files = joined(key) in vocabulary.MAY_LIST_FILES
            if not in_files and (joined(key) != "value" or "helm" not in words_of(self._tool)):
                force_setattr(node, "items", _DATA)
            return
        members, items, extra = _parts(variants)
        if items and not any(texts(self._variants(items), *_SAID)):
            items.extend({word: text} for word in _SAID for text in texts(variants, word))
        inside = self._members(key, members, variants, around) if members else {}
        force_setattr(node, "properties", inside)
        of_items = self._node(key, self._variants(items), around) if items else None
        force_setattr(node, "items", of_items)
        of_extra = self._node("", self._variants(extra)) if extra else None
        if key == "services" and not members:
            of_extra = self._services or of_extra
        force_setattr(node, "extra", of_extra)

    def _members(
        self, owner: str, members: dict[str, list[Json]], schemas: list[JsonObject], outer: _Around
    ) -> dict[str, ArgumentNode]:
        """Return the nodes of an object's `members`.

        They count like the tool's arguments: `{"steps": [{"script": "ls"}]}`.
        """
        known = {name: self._variants(of) for name, of in members.items()}
        required = {name for one in schemas for name in listed(one, "required")}
        of_here = outer.is_here or descriptions.SAYS_ON_DISK.search(owner) is not None
        is_run_here = of_here or not vocabulary.OF_HERE.isdisjoint(joined(owner).split("_"))
        around = {} if is_run_here else self._names
        sent = sent_elsewhere(self._tool, known, required, around, is_here=of_here)
        beside = found_elsewhere(known)
        if any(one is self._arguments for one in schemas):
            self._beside = beside
        nodes = dict[str, ArgumentNode]()
        for name, of in known.items():
            key = named_in(owner, name, of)
            any_of = {"", joined(key)}
            in_repository = not (beside.isdisjoint(any_of) and self._beside.isdisjoint(any_of))
            told = _Around(name in sent, in_repository and not of_here, of_here)
            nodes[name] = self._node(key, of, told)
        self._objects.append((nodes, known, sent))
        return nodes

    def _variants(self, schemas: list[Json]) -> list[JsonObject]:
        queue = schemas[:_MAX_VARIANTS]
        found: dict[int, JsonObject] = {}
        for schema in queue:  # grows in the loop
            if not isinstance(schema, dict) or id(schema) in found:
                continue
            self._left -= _cost_of(schema)
            if self._left < 0 or len(found) >= _MAX_VARIANTS:
                break
            found[id(schema)] = schema
            if _LEADING_ON.isdisjoint(schema):
                continue
            for word in _COMBINING:
                branches = schema.get(word)
                queue += branches[:_MAX_VARIANTS] if isinstance(branches, list) else ()
            queue += [schema.get(word) for word in _SINGLE]
            for word in _DEPENDENT:
                queue += islice(object_or_empty(schema.get(word)).values(), _MAX_VARIANTS)
            for word in _REFERRING:
                queue += self._referred(schema.get(word))
        return list(found.values())

    def _referred(self, reference: Json) -> list[Json]:
        """Return all of what has the name in a reference, so that no part hides another."""
        if not isinstance(reference, str):
            return []
        base, _, fragment = reference.partition("#")
        if fragment[:1] not in {"", "/"}:
            return self._named.get(f"#{fragment}", [])[:_MAX_VARIANTS]
        found = self._named.get(base.rpartition("/")[2], []) if base else [self._schema]
        found = found[:_MAX_VARIANTS]
        self._left -= len(found)
        for name in unquote(fragment).split("/", _MAX_STEPS)[1:]:
            found = [_member(one, name.replace("~1", "/").replace("~0", "~")) for one in found]
        return found

    def _classified(
        self, key: str, variants: list[JsonObject], *, is_sent: bool = False
    ) -> Verdict:
        types = types_of(variants)
        if types and not types & _TEXT_TYPES:
            return Kind.NEUTRAL, f"the schema says {' or '.join(sorted(types))}"
        formats = set(texts(variants, "format", "contentEncoding"))
        if formats & vocabulary.PATH_FORMATS:
            return Kind.PATH, "the schema's format says path"
        if formats & vocabulary.PAYLOAD_FORMATS:
            return Kind.PAYLOAD, "the schema's format says that it is content"
        named = kind_of_key(key[-LONGEST_KEY:])
        described = " ".join(texts(variants, "description"))[:READ_OF_ALL]
        titled = " ".join(texts(variants, "title"))[:READ_OF_ALL]
        text = f"{described}\n{titled}"
        may_be_file = key == "payload" and not is_sent and types == {"string", "object"}
        if text == "\n" and may_be_file:
            named = Kind.NEUTRAL, "if it is a text, perhaps the file with it"
        first = named[1].split()[0][1:]
        is_named = first in vocabulary.ELSEWHERE
        if is_named and (says := descriptions.SAYS_HERE_TOO.search(described)):
            named = Kind.PATH, f"described as '{says[0]}'"
        elif text == "\n" or (is_named and first in (described or titled).lower()):
            return named
        elsewhere = descriptions.SAYS_ELSEWHERE.fullmatch(described)
        if elsewhere and named[0] in _PERHAPS_ELSEWHERE and not _HERE.search(key):
            return Kind.VIRTUAL, f"described as '{described}'"
        return self._says(named, text)

    def _is_named_by_path(self, variants: list[JsonObject]) -> bool:
        """Return whether the names of an object's members are paths, as its schema says."""
        names = [schema["propertyNames"] for schema in variants if "propertyNames" in schema]
        if names and self._classified("", self._variants(names))[0] in _JUDGED:
            return True
        return any(map(descriptions.SAYS_NAMED_BY_PATH.search, texts(variants, "description")))

    def _is_in_repository(self, key: str, variants: list[JsonObject], around: _Around) -> bool:
        """Return whether a path may be one of another machine, though it is absolute."""
        said = " ".join((self._tool, key, *texts(variants, *_SAID)))
        is_named = around.in_repository or descriptions.SAYS_IN_REPOSITORY.search(said) is not None
        is_named = is_named or has_word(vocabulary.DRIVES, self._tool)
        return is_named and not descriptions.SAYS_ON_DISK.search(said)

    def _may_be_top(self, key: str, variants: list[JsonObject], around: _Around) -> bool:
        """Return whether `/` may be the top of a repository, a drive or a bucket."""
        said = " ".join((self._tool, *texts(variants, *_SAID)))
        is_there = around.in_repository and joined(key) != "mount_path"
        return self._shows and (is_there or _DRIVE.search(said) is not None)

    def _says(self, named: Verdict, described: str) -> Verdict:
        """Return the kind by name and description; each such pair is read only once."""
        says = self._described.get((named, described))
        if says is None:
            self._left -= len(described) // _CHARACTERS
            says = self._described[named, described] = kind_by_description(named, described)
        return says


def _is_data(key: str, variants: list[JsonObject], *, is_sent: bool) -> bool:
    """Return whether what is in an object or a list goes to a cluster or to a database."""
    if is_sent and kind_of_key(key)[0] in _TEXTS:
        return True
    says = any(map(descriptions.SAYS_DATA.search, texts(variants, "description")))
    return (says or is_sent) and (key == "variables" or _is_no_text(variants))


def _is_no_text(variants: list[JsonObject]) -> bool:
    """Return whether only objects or arrays are declared: some children parse a text for these."""
    types = types_of(variants)
    return bool(types & _TEXT_TYPES) and "string" not in types


def _surveyed(schema: Json) -> tuple[int, dict[str, list[Json]]]:
    """Return the effort that a schema is worth, and its parts by the names to refer to them."""
    objects, queue, named = 0, [schema], dict[str, list[Json]]()
    for one in queue:  # grows in the loop
        if isinstance(one, dict):
            objects += 1
            if not _NAMING.keys().isdisjoint(one):
                for name in _names_of(one):
                    named.setdefault(name, []).append(one)
        if isinstance(one, dict | list):
            queue += one.values() if isinstance(one, dict) else one
    return _LEAST + objects * _PER_OBJECT + len(queue) // _ENTRIES, named


def _names_of(schema: JsonObject) -> set[str]:
    names = ((sign, schema.get(word)) for word, sign in _NAMING.items())
    given = [f"{sign}{name}" for sign, name in names if isinstance(name, str)]
    # Of an address only the end counts: a reference may be relative.
    return {one if one[:1] == "#" else one.rstrip("#").rpartition("/")[2] for one in given}


def _member(schema: Json, name: str) -> Json:
    """Return the part of a schema that one step of a JSON pointer leads to (RFC 6901), or None."""
    if isinstance(schema, list):
        return dict(zip(map(str, range(_MAX_VARIANTS)), schema, strict=False)).get(name)
    return schema.get(name) if isinstance(schema, dict) else None


def _cost_of(schema: JsonObject) -> int:
    entries = sum(len(inner) for inner in schema.values() if isinstance(inner, dict | list))
    return 1 + len(object_or_empty(schema.get("properties"))) + entries // _ENTRIES


def _parts(
    variants: list[JsonObject],
) -> tuple[dict[str, list[Json]], list[Json], list[Json]]:
    members, items, extra = dict[str, list[Json]](), list[Json](), list[Json]()
    for schema in variants:
        if _INSIDE.isdisjoint(schema):
            continue
        for name, member in object_or_empty(schema.get("properties")).items():
            members.setdefault(name, []).append(member)
        for word in _OF_ITEMS:
            of_items = schema.get(word)
            items.extend(of_items if isinstance(of_items, list) else [of_items])
        extra += [schema.get("additionalProperties"), schema.get("unevaluatedProperties")]
        extra.extend(object_or_empty(schema.get("patternProperties")).values())
    return (
        members,
        [item for item in items if isinstance(item, dict)],
        [more for more in extra if isinstance(more, dict)],
    )


def _values(variants: list[JsonObject]) -> frozenset[str]:
    fixed = (schema.get("const") for schema in variants)
    choices = (choice for schema in variants for choice in listed(schema, "enum"))
    return frozenset((*choices, *(value for value in fixed if isinstance(value, str))))
