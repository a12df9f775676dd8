"""The places in a tool's arguments, as its schema declares them: of which kind each is."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache

from msgspec import Struct, field
from msgspec.structs import replace

from hub.guard.keys import vocabulary
from hub.guard.keys.descriptions import is_here
from hub.guard.keys.key_words import (
    LONGEST_KEY,
    SCRIPTS,
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
from hub.values import Json, JsonObject

BY_OPERATOR = "set by the operator"
FOR_SHELL = "a command that a shell reads, as the schema says"
"""Why a command is judged as one that no program gets as its arguments, without a shell."""
IN_CONTAINER = "a command that is run in a container"
"""Why a command is judged as what is behind `docker exec x`."""
FOR_INTERPRETER = "a script for a shell or an interpreter"
IN_A_LANGUAGE = "code that is run in the language that the call names"
"""Why the kind of a script depends on what the call says beside it: see `kind_of_script`."""
_LANGUAGES = ("interpreter", "language", "languageId", "language_id", "lang", "runtime")
_OF_SHELLS = re.compile(
    r"(?:[akz]|ba|da|fi)?sh|shell[ _-]?(?:script)?|powershell|pwsh|bat|batch|cmd", re.IGNORECASE
)
_OF_OTHERS = re.compile(
    r"(?:i?python|pypy|node(?:js)?|deno|bun|ruby|perl|php|lua|rscript)[\d.]*(?: -[\w-]+)*",
    re.IGNORECASE,
)
_FILES = re.compile(r"(?:Make|Docker|Gem|Proc|Jenkins|Vagrant|Rake|Brew|Just|Pod|Pip|Fast)file")
_RUNNING = frozenset({"run", "exec", "execute", "eval", "evaluate", "interpret"})
_K8S = re.compile("k8s", re.IGNORECASE)
_MAY_LIST_FILES = frozenset({"document", "documents", "manifest", "manifests", "spec"})
_SHOWING = frozenset(
    {"get", "list", "read", "show", "view", "browse", "tree", "search", "find", "fetch", "blame"}
    | {"count", "app", "apps", "application", "wiki", "ls"}
)
_OF_HERE = frozenset(
    {"file", "multipart", "part", "attachment", "upload", "source", "import", "hook", "pre", "post"}
    | {"before", "after"}
)
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
    seeks: bool = False
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

    def looking_for(self, searched: Json) -> ArgumentNode:
        """Return the node of a text that `seeks`, or a list of texts: a pattern with options."""
        texts = searched if isinstance(searched, list) else [searched]
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


def _looking_for_its_pattern(members: Mapping[str, ArgumentNode]) -> dict[str, ArgumentNode]:
    """Return the members that are a text which a tool looks for: its `pattern` is that text.

    It is not if another argument is a text, or if the schema says that it is a glob. A text that
    looks like an option is none: `-f/etc/x`.
    """
    seeking = {
        key: replace(node, seeks=True)
        for key, node in members.items()
        if key in vocabulary.SOUGHT and node.kind is Kind.PAYLOAD
    }
    pattern = members.get("pattern")
    has_text = any(one.kind is Kind.PAYLOAD for one in members.values())
    if pattern is None or has_text or (pattern.kind, pattern.why) != kind_of_key("pattern"):
        return seeking
    why = "the tool's name says that it looks for a text"
    return {**seeking, "pattern": replace(pattern, kind=Kind.PAYLOAD, why=why, seeks=True)}


def sent_elsewhere(
    tool: str,
    members: Mapping[str, list[JsonObject]],
    required: Collection[str],
    around: Mapping[str, bool],
) -> frozenset[str]:
    """Return those of an object's `members` that go to a cluster or to what another one names.

    None with files. The other one is a member, too, or one of the tool's arguments `around`,
    which says of each whether it is required.
    """
    return frozenset(
        key
        for key in _arguments_elsewhere(tool, members, required, around)
        if not any(map(_is_of_files, members[key]))
    )


def _arguments_elsewhere(
    tool: str, names: Collection[str], required: Collection[str], around: Mapping[str, bool]
) -> Iterator[str]:
    """Yield those of the `names` that go to a cluster or to what one of them, or `around`, names.

    A container that is not `required` may be this machine; `around` says which there are.
    """
    given = words_of(_K8S.sub("kubernetes", tool))
    words = {*given, *(word.removesuffix("s") for word in given)}
    is_elsewhere = vocabulary.HOSTING_WORDS.isdisjoint(words)
    for of, *tools, keys in vocabulary.GOES_ELSEWHERE:
        sent = keys.intersection(names)
        if "args" in sent and not vocabulary.SHELL_WORDS.isdisjoint(names):
            sent = sent - {"args"}
        if sent and all(map(words.intersection, tools)):
            said = (one for one in of if one in names or one in around)
            named = any("container" not in of or one in required or around.get(one) for one in said)
            if named if of else is_elsewhere:
                yield from sent


def found_elsewhere(members: Mapping[str, list[JsonObject]]) -> set[str]:
    """Return what may be elsewhere: `folder path` beside `folderId`, `` (all) in a repository."""
    beside = {" ".join(words_of(name[-LONGEST_KEY:])): name for name in members}

    def tells(places: Collection[str]) -> bool:
        return any(one in beside and not is_here(members[beside[one]]) for one in places)

    known = [words.split() for words in beside]
    of_ids = [words[:n] for words in known if words[-1:] in (["id"], ["ids"]) for n in (1, 2)]
    found = {"mount path", *(" ".join((*words, "path")) for words in of_ids)}
    for places, there in vocabulary.BESIDE_A_PLACE:
        found |= there if tells(places) else frozenset()
    of_all = tells(vocabulary.REPOSITORY) or ("owner" in members and tells({"repo"}))
    return found | {""} if of_all else found


def _is_of_files(schema: JsonObject) -> bool:
    described = schema.get("description")
    is_said = isinstance(described, str) and vocabulary.MENTIONS_FILES.search(described)
    return "properties" in schema or bool(is_said)


def may_list_files(key: str, tool: str) -> bool:
    """Return whether a text in a list may name a file, though objects in it go elsewhere.

    So in `documents`, and in `helm --values x.yaml`.
    """
    return key in _MAY_LIST_FILES or (key == "values" and "helm" in words_of(tool))


def is_of_here(owner: str) -> bool:
    """Return whether an object may be read or run here, whatever the tool's arguments name."""
    words = {*words_of(owner[-LONGEST_KEY:])}
    words |= {word.removesuffix("s") for word in words}
    return not _OF_HERE.isdisjoint(words) or vocabulary.SAYS_ON_DISK.search(owner) is not None


def shows_places(tool: str) -> bool:
    """Return whether a tool may take `/` for the top of a place: `push` may send this machine's.

    One without a name may, too.
    """
    return not (tool and _SHOWING.isdisjoint(words_of(tool)))


class Members(Struct, frozen=True):
    """The declared members of one object in a tool's arguments, and what is said of them.

    `methods` and `session` are what the schemas of a method and of a session say. Those that go
    `elsewhere` are run in a container, if they are commands. `is_run`: a shell runs commands.
    """

    nodes: Mapping[str, ArgumentNode]
    described: Mapping[str, str]
    methods: str
    session: str
    elsewhere: Collection[str]
    is_run: bool


def told_by_its_name(tool: str, members: Members) -> dict[str, ArgumentNode]:
    """Return the nodes of those members of which a tool's name tells more."""
    nodes, is_run = members.nodes, members.is_run
    known = dict[str, ArgumentNode]()
    if greps(tool) or not vocabulary.FILE_PATTERNS.isdisjoint(nodes):
        known = _looking_for_its_pattern(nodes)
    beside = told_beside(nodes, members.methods, members.session)
    for key, node in {**nodes, **known}.items():
        described = members.described[key]
        if node.kind in _TEXTS and (why := why_of_script(key, tool, nodes, is_run=is_run)):
            kind = node.kind if why is IN_A_LANGUAGE else Kind.COMMAND
            items = node.items
            if items is not None and items.kind in _TEXTS and not items.properties:
                items = replace(items, kind=kind, why=why)
            known[key] = replace(node, kind=kind, why=why, items=items)
        elif node.kind is Kind.COMMAND and key in members.elsewhere and not is_run:
            known[key] = replace(node, why=IN_CONTAINER)
        elif node.kind is Kind.COMMAND and not takes_arguments(key):
            is_read = is_run or names_shell(f"{key} {described}")
            known |= {key: replace(node, why=FOR_SHELL)} if is_read else {}
        elif node.declared:
            told = told_by_others(node.kind, key, described, tool, beside)
            known |= {key: replace(node, kind=told[0], why=told[1])} if told else {}
    return known


def why_of_script(key: str, tool: str, beside: Collection[str], *, is_run: bool = False) -> str:
    """Return why the text under `key` is, or may be, a command; nothing if it is none."""
    if is_script(key, tool, beside):
        return FOR_SHELL if is_run else FOR_INTERPRETER
    runs = key in SCRIPTS and not _RUNNING.isdisjoint(words_of(tool))
    return IN_A_LANGUAGE if runs else ""


def kind_of_script(
    node: ArgumentNode, key: str, beside: JsonObject, arguments: JsonObject, tool: str
) -> Kind | None:
    """Return the kind of a script by the language that a call names; None if that tells nothing.

    The language is named `beside` the script, or by one of the tool's `arguments` for all scripts.
    """
    call = {name: arguments[name] for name in _LANGUAGES if name in arguments} | beside
    why = node.why if node.declared else why_of_script(key, tool, call)
    if why not in {FOR_INTERPRETER, IN_A_LANGUAGE}:
        return None
    named = [said for name in _LANGUAGES if isinstance(said := call.get(name), str)]
    if any(map(_OF_SHELLS.fullmatch, named)):
        return Kind.COMMAND
    if any(map(_OF_OTHERS.fullmatch, named)):
        return Kind.PAYLOAD
    return None if node.declared or why is IN_A_LANGUAGE else Kind.COMMAND
