"""Compile a tool's input schema: which arguments are paths, and of which kind."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TypeAlias
from urllib.parse import unquote

from msgspec.structs import force_setattr, replace

from hub.guard.keys import vocabulary
from hub.guard.keys.key_words import (
    LONGEST_KEY,
    found_elsewhere,
    is_label,
    is_plural,
    is_tree,
    kind_of_key,
    named_in,
    names_shell,
    words_of,
)
from hub.guard.keys.nodes import (
    ArgumentNode,
    node_of_key,
    nodes_of,
    overridden,
    said_by_its_name,
    sent_elsewhere,
)
from hub.guard.keys.vocabulary import Kind
from hub.values import Json, JsonObject, object_or_empty

_MAX_VARIANTS = _MAX_STEPS = 64
_COMBINING = ("anyOf", "oneOf", "allOf")
_SINGLE = ("if", "then", "else", "contentSchema")
_DEPENDENT = ("dependentSchemas", "dependencies")
_SAID, _REFERRING = ("description", "title"), ("$ref", "$dynamicRef")
_LEADING_ON = frozenset({*_COMBINING, *_SINGLE, *_DEPENDENT, *_REFERRING})
"""The words by which a schema has more schemas for the same value."""
_OF_ITEMS = ("items", "prefixItems", "additionalItems", "unevaluatedItems", "contains")
_OF_MEMBERS = ("properties", "additionalProperties", "unevaluatedProperties", "patternProperties")
_INSIDE = frozenset({*_OF_ITEMS, *_OF_MEMBERS})
"""The words by which a schema has schemas for what is in the value."""
# Limits on compiling a schema, depending on its size; a unit is about ten microseconds.
_MOST, _LEAST, _PER_OBJECT = 100_000, 1000, 8
_ENTRIES, _CHARACTERS = 16, 64
_A_PATH = re.compile(r"'(?:.* )?paths?'")
_TEXT_TYPES = frozenset({"string", "array", "object"})
_TEXTS_AND_NUMBERS = ({"string", "integer"}, {"string", "number"})
_JUDGED = frozenset({Kind.PATH, Kind.GLOB, Kind.WEAK, Kind.COMMAND})
_TEXTS = frozenset({Kind.PAYLOAD, Kind.NEUTRAL})
_PERHAPS_ELSEWHERE = frozenset({Kind.PATH, Kind.WEAK, Kind.NEUTRAL})
_HERE = re.compile("local|host", re.IGNORECASE)
_READ_OF_A_DESCRIPTION, _READ_OF_ALL = 240, 960

_DATA = ArgumentNode(Kind.PAYLOAD, "data for a cluster, a container or a database", declared=True)
force_setattr(_DATA, "extra", _DATA)

Verdict: TypeAlias = "tuple[Kind, str]"


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


class _Compiler:
    """Compiles one schema and follows its references.

    A schema that refers to itself becomes a node that contains itself. A schema that expands
    endlessly in new ways is read up to a limit that depends on its size. What is in the objects and
    lists of the keys `_elsewhere` is opened by nothing on this machine.
    """

    def __init__(self, schema: Json, most: int, tool: str) -> None:
        self._schema, self._tool = schema, tool
        self._left = min(most, _effort_for(schema))
        self._around, self._arguments = self._find_arguments()
        self._elsewhere = set(sent_elsewhere(tool, self._arguments))
        self._beside = found_elsewhere(object_or_empty(self._arguments.get("properties")))
        self._nodes: dict[tuple[str, tuple[int, ...]], ArgumentNode] = {}
        self._unread: list[tuple[str, ArgumentNode, list[JsonObject]]] = []
        self._described: dict[tuple[Verdict, str], Verdict] = {}

    def shape(self) -> ArgumentNode:
        """Return the node of the arguments as a whole."""
        top = self._node("", [self._schema])
        for key, node, variants in self._unread:  # grows in the loop
            self._read_inside(key, node, variants)
        for _, node, variants in self._unread:
            judged = (part.kind in _JUDGED for part in islice(nodes_of(node), _MAX_VARIANTS))
            if node.kind is Kind.PAYLOAD and (_is_no_text(variants) or any(judged)):
                force_setattr(node, "structured", True)
        top = self._told(top, object_or_empty(self._schema))
        if inner := top.properties.get(self._around):
            told = self._told(inner, self._arguments)
            top = replace(top, properties={**top.properties, self._around: told})
        return top

    def _told(self, node: ArgumentNode, schema: JsonObject) -> ArgumentNode:
        declared = object_or_empty(schema.get("properties"))
        # One that may be true or false may be none, and a list is run without one.
        shell = _types(self._variants([declared.get("shell")]))
        is_run = names_shell(self._tool) or shell == {"string"}
        return said_by_its_name(node, self._tool, declared, self._elsewhere, is_run=is_run)

    def _find_arguments(self) -> tuple[str, JsonObject]:
        """Return the schema of the arguments, which may all be members of a single one.

        Before it the name of that one, such as `params`, or nothing.
        """
        top = object_or_empty(self._schema)
        members = _parts(self._variants([top]))[0]
        variants = self._variants(next(iter(members.values()))) if len(members) == 1 else []
        inner = next((one for one in variants if "properties" in one), None)
        return (next(iter(members)), inner) if inner and _is_no_text(variants) else ("", top)

    def _node(self, key: str, schemas: list[Json]) -> ArgumentNode:
        """Return the node of `key` under all of `schemas` at once."""
        variants = self._variants(schemas)
        if self._left < 0:  # half a schema tells less than none
            return node_of_key(key[-LONGEST_KEY:])
        # A schema with only a `$ref` says nothing itself.
        said = tuple(id(schema) for schema in variants if schema.keys() != {"$ref"})
        node = self._nodes.get((key, said)) if said else None
        if node is None:
            kind, why = self._classified(key, variants)
            if kind is Kind.PATH and self._is_in_repository(key, variants):
                kind, why = Kind.NEUTRAL, "perhaps a path of another machine"
            may_be_path = any(map(vocabulary.SAYS_ID_OR_PATH.match, _texts(variants, *_SAID)))
            node = ArgumentNode(
                kind,
                why,
                declared=bool(variants),
                values=_values(variants),
                label=is_label(key[-LONGEST_KEY:]) and not may_be_path,
                named_by_path=self._is_named_by_path(variants),
                tree=is_tree(key[-LONGEST_KEY:]),
                counts=_types(variants) in _TEXTS_AND_NUMBERS and not is_plural(key),
            )
            self._nodes[key, said] = node
            self._unread.append((key, node, variants))
        return node

    def _read_inside(self, key: str, node: ArgumentNode, variants: list[JsonObject]) -> None:
        if self._is_data(key, variants):
            force_setattr(node, "extra", _DATA)
            if key != "values" or "helm" not in words_of(self._tool):  # `helm --values x.yaml`
                force_setattr(node, "items", _DATA)
            return
        members, items, extra = _parts(variants)
        if items and not any(_texts(self._variants(items), *_SAID)):
            items.extend({word: text} for word in _SAID for text in _texts(variants, word))
        inside = {name: self._node(named_in(key, name, of), of) for name, of in members.items()}
        force_setattr(node, "properties", inside)
        force_setattr(node, "items", self._node(key, items) if items else None)
        force_setattr(node, "extra", self._node("", extra) if extra else None)

    def _is_data(self, key: str, variants: list[JsonObject]) -> bool:
        """Return whether what is in an object or a list goes to a cluster or to a database."""
        is_around = any(one is self._arguments for one in variants)
        is_elsewhere = key in self._elsewhere and not is_around
        if is_elsewhere and kind_of_key(key)[0] in _TEXTS:
            return True
        says = any(map(vocabulary.SAYS_DATA.search, _texts(variants, "description")))
        is_data = says or is_elsewhere
        return is_data and (key == "variables" or _is_no_text(variants))

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
            queue += [self._referred(schema.get(word)) for word in _REFERRING]
        return list(found.values())

    def _referred(self, reference: Json) -> Json:
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        at = self._schema
        if reference[1:2] not in {"", "/"}:
            return self._anchored(reference[1:])
        for name in unquote(reference).split("/", _MAX_STEPS)[1:]:
            name = name.replace("~1", "/").replace("~0", "~")  # noqa: PLW2901
            at = at.get(name) if isinstance(at, dict) else None
        return at

    def _anchored(self, name: str) -> Json:
        definitions = object_or_empty(self._schema)
        for word in ("$defs", "definitions"):
            for schema in object_or_empty(definitions.get(word)).values():
                if name in _texts([object_or_empty(schema)], "$anchor", "$dynamicAnchor"):
                    return schema
        return None

    def _classified(self, key: str, variants: list[JsonObject]) -> Verdict:
        types = _types(variants)
        if types and not types & _TEXT_TYPES:
            return Kind.NEUTRAL, f"the schema says {' or '.join(sorted(types))}"
        formats = set(_texts(variants, "format", "contentEncoding"))
        if formats & vocabulary.PATH_FORMATS:
            return Kind.PATH, "the schema's format says path"
        if formats & vocabulary.PAYLOAD_FORMATS:
            return Kind.PAYLOAD, "the schema's format says that it is content"
        named = kind_of_key(key[-LONGEST_KEY:])
        described = " ".join(_texts(variants, "description"))[:_READ_OF_ALL]
        titled = " ".join(_texts(variants, "title"))[:_READ_OF_ALL]
        text = f"{described}\n{titled}"
        first = named[1].split()[0][1:]
        is_named = first in vocabulary.ELSEWHERE
        if is_named and (says := vocabulary.SAYS_HERE_TOO.search(described)):
            named = Kind.PATH, f"described as '{says[0]}'"
        elif text == "\n" or (is_named and first in (described or titled).lower()):
            return named
        elsewhere = vocabulary.SAYS_ELSEWHERE.fullmatch(described)
        if elsewhere and named[0] in _PERHAPS_ELSEWHERE and not _HERE.search(key):
            return Kind.VIRTUAL, f"described as '{described}'"
        return self._says(named, text)

    def _is_named_by_path(self, variants: list[JsonObject]) -> bool:
        """Return whether the names of an object's members are paths, as its schema says."""
        names = [schema["propertyNames"] for schema in variants if "propertyNames" in schema]
        if names and self._classified("", self._variants(names))[0] in _JUDGED:
            return True
        return any(map(vocabulary.SAYS_NAMED_BY_PATH.search, _texts(variants, "description")))

    def _is_in_repository(self, key: str, variants: list[JsonObject]) -> bool:
        """Return whether a path may be one of another machine, though it is absolute."""
        said = " ".join((self._tool, key, *_texts(variants, *_SAID)))
        is_named = not self._beside.isdisjoint({"", " ".join(words_of(key[-LONGEST_KEY:]))})
        is_named = is_named or vocabulary.SAYS_IN_REPOSITORY.search(said) is not None
        is_named = is_named or not vocabulary.DRIVES.isdisjoint(words_of(self._tool))
        return is_named and not vocabulary.SAYS_ON_DISK.search(said)

    def _says(self, named: Verdict, described: str) -> Verdict:
        """Return the kind by name and description; each such pair is read only once."""
        says = self._described.get((named, described))
        if says is None:
            self._left -= len(described) // _CHARACTERS
            says = self._described[named, described] = _described(named, described)
        return says


def _is_no_text(variants: list[JsonObject]) -> bool:
    """Return whether only objects or arrays are declared: some children parse a text for these."""
    types = _types(variants)
    return bool(types & _TEXT_TYPES) and "string" not in types


def _effort_for(schema: Json) -> int:
    objects, queue = 0, [schema]
    for one in queue:  # grows in the loop
        objects += isinstance(one, dict)
        if isinstance(one, dict | list):
            queue += one.values() if isinstance(one, dict) else one
    return _LEAST + objects * _PER_OBJECT + len(queue) // _ENTRIES


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
    offered: list[Json] = []
    for schema in variants:
        choices = schema.get("enum")
        offered += [schema.get("const"), *(choices if isinstance(choices, list) else ())]
    return frozenset(value for value in offered if isinstance(value, str))


def _texts(variants: list[JsonObject], *words: str) -> Iterator[str]:
    for schema in variants:
        for word in words:
            text = schema.get(word)
            if isinstance(text, str):
                yield text[:_READ_OF_A_DESCRIPTION]


def _types(variants: list[JsonObject]) -> set[str]:
    declared = (schema.get("type") for schema in variants)
    names = (name for one in declared for name in (one if isinstance(one, list) else [one]))
    return {name for name in names if isinstance(name, str) and name != "null"}


def _described(named: Verdict, text: str) -> Verdict:
    """Return the kind by the description `text`, where the key's name says `named`.

    The last line of `text` is the title: many schemas have the key itself there.
    """
    kind = named[0]
    other = None if vocabulary.SAYS_FILE.search(text) else _other(kind, named[1], text)
    if kind is Kind.PAYLOAD or kind is Kind.COMMAND:
        return named if other else _described_payload(named, text)
    if other:
        return Kind.PAYLOAD, f"described as '{other[0]}'"
    if says := vocabulary.SAYS_GLOB.search(text):
        return Kind.GLOB, f"described as '{says[0]}'"
    if kind is Kind.PATH and (says := _starts(vocabulary.SAYS_CONTENT, text)):
        return Kind.WEAK, f"described as '{says[0]}'"
    if kind is not Kind.PATH and (says := vocabulary.SAYS_REGEX.search(text)):
        is_file = any(_starts(one, text) for one in vocabulary.OF_FILE)
        return Kind.WEAK if is_file else Kind.PAYLOAD, f"described as '{says[0]}'"
    return named if kind in {Kind.PATH, Kind.GLOB} else _mentioned(named, text)


def _other(kind: Kind, why: str, text: str) -> re.Match[str] | None:
    """Return the words of a description that say that a path is no file path (a URL's, an XPath).

    None if the key's name says "file", whatever is looked for in the file; or if the description
    first says that it is a path: "path of the file that the XPath runs on".
    """
    says = vocabulary.SAYS_OTHER.search(text)
    if says is None or kind not in {Kind.PATH, Kind.WEAK}:
        return says
    if kind is Kind.PATH and not _A_PATH.match(why):
        return None
    first = _starts(vocabulary.STARTS_AS_PATH, text)
    return None if first is not None and first.end() <= says.start() else says


def _described_payload(named: Verdict, text: str) -> Verdict:
    if says := _starts(vocabulary.STARTS_AS_PATH, text):
        return Kind.PATH, f"described as '{says[0].strip()}'"
    if named[0] is Kind.COMMAND:
        return named
    told = (
        (Kind.COMMAND, _starts(vocabulary.SAYS_SHELL, text)),
        (Kind.WEAK, vocabulary.OR_PATH.search(text) or _starts(vocabulary.SAYS_NAMED_FILE, text)),
    )
    for kind, says in told:
        if says is not None:
            return kind, f"described as '{says[0].strip()}'"
    return named


def _starts(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """Return the match at the start of the description, or of the title below it."""
    return pattern.match(text) or pattern.match(text, text.rfind("\n") + 1)


def _mentioned(named: Verdict, text: str) -> Verdict:
    if says := _starts(vocabulary.SAYS_SHELL, text) or _starts(vocabulary.SAYS_COMMAND, text):
        return Kind.COMMAND, f"described as '{says[0].strip()}'"
    if named[0] is Kind.NEUTRAL and vocabulary.SAYS_ID_OR_PATH.match(text):
        return named
    if says := vocabulary.SAYS_PATH.search(text):
        return Kind.PATH, f"described as '{says[0]}'"
    if named[0] is Kind.NEUTRAL and (says := vocabulary.MENTIONS_PATH.search(text)):
        return Kind.WEAK, f"its description mentions '{says[0]}'"
    if says := _starts(vocabulary.SAYS_CODE, text):
        return Kind.PAYLOAD, f"described as '{says[0]}'"
    return named
