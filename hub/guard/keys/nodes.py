"""The places in a tool's arguments, of which kind each is, and what else a call tells of them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from itertools import islice

from msgspec import Struct, field
from msgspec.structs import replace

from hub.guard.keys import vocabulary
from hub.guard.keys.key_words import (
    LONGEST_KEY,
    SCRIPTS,
    has_word,
    is_label,
    is_mount,
    is_plural,
    is_tree,
    kind_of_key,
    last_word,
    takes_arguments,
    takes_url,
)
from hub.guard.keys.vocabulary import Kind
from hub.guard.text.prose import is_prose
from hub.values import Json, JsonObject

BY_OPERATOR = "set by the operator"
FOR_SHELL = "a command that a shell reads, as the schema says"
"""Why a command is judged as one that no program gets as its arguments, without a shell."""
IN_CONTAINER = "a command that is run in a container or on another machine"
"""Why a command is judged as what is behind `docker exec x`."""
ON_ANOTHER_MACHINE = "a path on another machine"
"""Why a path is none of this machine, unless the call names this one: see `in_call`."""
IN_PATCH = "perhaps a pointer into the document that an operation changes"
"""Why a path is no file's in an operation of a JSON Patch: see `is_in_document`."""
_NAMED_HERE = "a command for a machine that the call names as this one"
FOR_INTERPRETER = "a script for a shell or an interpreter"
IN_A_LANGUAGE = "code that is run in the language that the call names"
"""Why the kind of a script depends on what the call says beside it: see `kind_of_script`."""
_TEMPLATE = re.compile(r"\{\{\s*[\w.-]+\s*\}\}/")
_THIS_MACHINE = re.compile(
    r"\s*(?:\S*[,;]\s*)?(?:\w+://)?(?:[\w.-]+@)?(?:\.|local|localhost(?:\.localdomain)?|ip6-localhost"
    r"|127(?:\.\d+){1,3}|\[?::(?:ffff:127[\d.]+|1)\]?|0(?:\.0\.0\.0)?)\.?(?::\d+)?/?\s*(?:[,;][\s\S]*)?",
    re.IGNORECASE,
)
_MOST = 64  # texts of a call that may be hosts
_FILES = re.compile(r"(?:Make|Docker|Gem|Proc|Jenkins|Vagrant|Rake|Brew|Just|Pod|Pip|Fast)file")
_LANGUAGES = ("interpreter", "language", "languageId", "language_id", "lang", "runtime")
_OF_SHELLS = re.compile(
    r"(?:[akz]|ba|da|fi)?sh|shell[ _-]?(?:script)?|powershell|pwsh|bat|batch|cmd", re.IGNORECASE
)
_OF_OTHERS = re.compile(
    r"(?:i?python|pypy|node(?:js)?|deno|bun|ruby|perl|php|lua|rscript)[\d.]*(?: -[\w-]+)*",
    re.IGNORECASE,
)
EXTENSION = re.compile(r"\.\w", re.ASCII)


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

    def in_call(self, value: Json, beside: JsonObject, arguments: JsonObject) -> ArgumentNode:
        """Return the node of a `value` that `varies`.

        What a program looks for is a pattern if it looks like an option, or a list with one. A
        command for another machine is one for this machine if a text of the call names this one:
        `beside` it, or among the `arguments`. A URL may start with a variable: `{{base}}/home`.
        """
        if self.kind is Kind.NEUTRAL:
            is_url = isinstance(value, str) and _TEMPLATE.match(value)
            return replace(self, kind=Kind.VIRTUAL) if is_url else self
        if self.why in _ELSEWHERE:
            is_here = _names_this_machine(beside) or _names_this_machine(arguments)
            return replace(self, **_ELSEWHERE[self.why]) if is_here else self
        texts = value if isinstance(value, list) else [value]
        return _OPTIONS if any(str(text).lstrip()[:1] == "-" for text in texts) else self

    def element(self) -> ArgumentNode:
        """Return the node of an array's elements."""
        inner = self.items or self
        return replace(inner, tree=False) if inner.tree else inner


_ELSEWHERE = {IN_CONTAINER: {"why": _NAMED_HERE}, ON_ANOTHER_MACHINE: {"kind": Kind.PATH}}
"""Why something is for another machine, and what changes if the call names this one."""
_OPTIONS = ArgumentNode(Kind.GLOB, "a program may take it for options")


def _names_this_machine(arguments: JsonObject) -> bool:
    """Return whether a text, also in a list or an object, is `localhost`, or one of too many."""
    # Variables for a program are no hosts.
    given = [one for key, one in islice(arguments.items(), _MOST) if key[:3].lower() != "env"]
    inner = [one for one in given if isinstance(one, list | dict)]
    parts = [given, *(one.values() if isinstance(one, dict) else one for one in inner)]
    texts = (one for part in parts for one in part if isinstance(one, str))
    is_long = len(arguments) + sum(map(len, inner)) > _MOST
    return is_long or any(map(_THIS_MACHINE.fullmatch, texts))


_RUN_IN_CONTAINER = ArgumentNode(Kind.COMMAND, IN_CONTAINER, declared=True)
SERVICE = ArgumentNode(
    declared=True, properties=dict.fromkeys(("command", "entrypoint"), _RUN_IN_CONTAINER)
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


def why_of_script(key: str, tool: str, beside: Collection[str], *, is_run: bool = False) -> str:
    """Return why the text under `key` is, or may be, a command; nothing if it is none.

    It is one if a shell runs it, as the tool or another argument says.
    """
    is_read = "interpreter" in beside or "shell" in beside
    is_read = is_read or has_word(vocabulary.SCRIPT_READERS, tool)
    if is_read and last_word(key) in {*SCRIPTS, "scripts"}:
        return FOR_SHELL if is_run else FOR_INTERPRETER
    runs = key in SCRIPTS and has_word(vocabulary.RUNNING_WORDS, tool)
    return IN_A_LANGUAGE if runs else ""


def is_in_container(key: str, mount: Mapping[str, object], place: str) -> bool:
    """Return whether `key` of an object `mount` has an absolute path in a container.

    `place` is the JSON pointer of the object: it stands under a mount's key, or under a name there,
    or has another member that tells the container.
    """
    is_mounted = str(mount.get("type") or mount.get("Type")) in vocabulary.MOUNT_TYPES
    keys = vocabulary.IN_CONTAINER if is_mounted else vocabulary.PLACES_IN_CONTAINER
    if key not in keys or not str(mount[key]).startswith("/"):
        return False
    if key in vocabulary.CONTAINER_PATHS and not vocabulary.OF_CONTAINER.isdisjoint(mount):
        return True
    return any(is_mount(name[-LONGEST_KEY:]) for name in place.split("/")[-2:])


def is_in_document(key: str, change: Mapping[str, object]) -> bool:
    """Return whether `key` of an object has a pointer into a document: `path` in a JSON Patch.

    Operations that copy count as a file's.
    """
    parts = vocabulary.PATCHES.get(str(change.get("op")))
    return key == "path" and set(change) == parts and str(change[key]).startswith("/")


def kind_of_script(
    node: ArgumentNode, key: str, beside: JsonObject, arguments: JsonObject, tool: str
) -> Kind | None:
    """Return the kind of a script by the language that a call names; None if that tells nothing.

    The language is named `beside` the script, or by one of the tool's `arguments` for all scripts.
    A `script` that is a list has the commands of a job, if none is named.
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
    is_known = not node.declared and why is FOR_INTERPRETER
    is_job = key == "script" and isinstance(beside[key], list)
    return Kind.COMMAND if is_known or is_job else None


def inherited(kind: Kind, key: str, member: Json, context: Kind, owner: str) -> tuple[Kind, bool]:
    """Return the kind of an undeclared member of `owner`, and whether it is read as a whole.

    `kind` is that of its own `key`, `context` that of the object. In an object of files a member is
    a path, too, unless its own key says otherwise. A text under a file's name, or with several
    lines or sentences, may be the file's content.
    """
    is_text = context is Kind.PATH and isinstance(member, str)
    if is_text and ("/" in key or EXTENSION.search(key)):
        return Kind.NEUTRAL, True
    word = last_word(key[-LONGEST_KEY:])
    if kind is Kind.PAYLOAD and context is Kind.PATH and word not in vocabulary.CONTENT_WORDS:
        return Kind.WEAK, False
    # `{"config": {"url": "/users"}}`, `{"args": {"topic": "/etc hosts"}}`; not `{"0": "x"}`.
    is_named = takes_url(key) or (key.isidentifier() and takes_arguments(owner[-LONGEST_KEY:]))
    if kind is not Kind.NEUTRAL or (is_named and context is not Kind.PATH):
        return kind, False
    may_be_content = is_text and (is_plural(owner) or word in vocabulary.DATA_WORDS)
    if may_be_content and ("\n" in str(member).strip() or is_prose(str(member))):
        return kind, True
    return context, False
