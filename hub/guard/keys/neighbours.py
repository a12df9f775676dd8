"""What a tool's name, and the arguments around one, tell of it beyond its own name and description.

Facts that several arguments tell together (a cookie, a terminal), commands and scripts that a shell
reads, and what goes elsewhere: to a cluster, a database, a repository.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from hub.guard.keys import phrases, vocabulary
from hub.guard.keys.descriptions import is_here, said_of
from hub.guard.keys.key_words import (
    LONGEST_KEY,
    SCRIPTS,
    TYPED,
    has_word,
    is_label,
    joined,
    kind_of_key,
    last_word,
    singular_words_of,
    takes_arguments,
    words_of,
)
from hub.guard.keys.nodes import (
    FOR_INTERPRETER,
    FOR_SHELL,
    IN_A_LANGUAGE,
    IN_CONTAINER,
    ArgumentNode,
)
from hub.guard.keys.vocabulary import Kind
from hub.values import Json, JsonObject, object_or_empty

_SAY_HERE = (phrases.SAYS_FILE, phrases.SAYS_ON_DISK)
_FOLDER = re.compile(r"(?:folder|dir|directory)(?:_?(?:path|name))?$", re.IGNORECASE)
_HTTP = re.compile(r"\b(?:GET|HTTP)\b")
_METHODS = ("method", "http_method", "httpMethod")
_DENIES = re.compile(r"\b(?:no|not|never|without|instead)\b|n't\b", re.IGNORECASE)
_K8S = re.compile("k8s", re.IGNORECASE)
_CONTAINER = re.compile("container|pod")
_TEXTS = frozenset({Kind.PAYLOAD, Kind.NEUTRAL})


class Members(Struct, frozen=True):
    """The declared members of one object in a tool's arguments, and what is said of them.

    `session` is what the schemas of a session say. `is_http`: there is an HTTP method. Those that
    go `elsewhere` are run there, if they are commands. `is_run`: a shell runs commands.
    """

    nodes: Mapping[str, ArgumentNode]
    described: Mapping[str, str]
    session: str
    is_http: bool
    elsewhere: Collection[str]
    is_run: bool

    def is_elsewhere(self, key: str) -> bool:
        """Return whether the command under `key` is run in a container or on another machine."""
        return key in self.elsewhere or bool(phrases.SAYS_RUN_ELSEWHERE.match(self.described[key]))


def told_by_its_name(tool: str, members: Members) -> dict[str, ArgumentNode]:
    """Return the nodes of those members of which a tool's name tells more."""
    nodes, is_run = members.nodes, members.is_run
    known = dict[str, ArgumentNode]()
    if _greps(tool) or not vocabulary.FILE_PATTERNS.isdisjoint(nodes):
        known = _looking_for_its_pattern(nodes)
    beside = _told_beside(members)
    for key, node in {**nodes, **known}.items():
        described = members.described[key]
        if node.kind in _TEXTS and (why := why_of_script(key, tool, nodes, is_run=is_run)):
            known[key] = _of_kind(node, node.kind if why is IN_A_LANGUAGE else Kind.COMMAND, why)
        elif node.kind is Kind.COMMAND and not is_run and members.is_elsewhere(key):
            known[key] = replace(node, why=IN_CONTAINER, varies=True)
        elif node.kind is Kind.COMMAND and not takes_arguments(key):
            is_read = is_run or names_shell(f"{key} {described}")
            known |= {key: replace(node, why=FOR_SHELL)} if is_read else {}
        elif node.declared:
            told = _told_by_others(node.kind, key, described, tool, beside)
            known |= {key: replace(node, kind=told[0], why=told[1])} if told else {}
    return known


def _of_kind(node: ArgumentNode, kind: Kind, why: str) -> ArgumentNode:
    """Return `node` with a kind, which the texts in a list there have as well."""
    items = node.items
    if items is not None and items.kind in _TEXTS and not items.properties:
        items = replace(items, kind=kind, why=why)
    return replace(node, kind=kind, why=why, items=items)


def may_be_commands(
    tool: str, objects: Collection[Mapping[str, ArgumentNode]]
) -> list[dict[str, ArgumentNode]]:
    """Return those members of each of the `objects` that may be commands of a tool that runs some.

    If none is known to be one, all are of which nothing else is known: `{"lines": ["ls /"]}`.
    """
    words = {*words_of(tool)}
    shells = words & vocabulary.SHELL_WORDS
    runs = shells and (words == shells or not vocabulary.RUNNING_WORDS.isdisjoint(words))
    known = (key for nodes in objects for key, one in nodes.items() if one.kind is Kind.COMMAND)
    if not runs or any(key != "shell" for key in known):
        return [{} for _ in objects]
    return [
        {
            key: _of_kind(node, Kind.COMMAND, FOR_SHELL)
            for key, node in nodes.items()
            if node.kind is Kind.NEUTRAL or last_word(key) in vocabulary.SCRIPT_WORDS
            if node.kind in _TEXTS and node.why is not IN_A_LANGUAGE and not node.label
        }
        for nodes in objects
    ]


def _greps(tool: str) -> bool:
    """Return whether a tool's name says that it looks for a text in files."""
    words = words_of(tool)
    finds = not vocabulary.FINDING_WORDS.isdisjoint(words[:-1])
    is_text = words[-1:] in (["text"], ["code"], ["content"], ["line"])
    return (finds and is_text) or not vocabulary.GREPPING_WORDS.isdisjoint(words)


def _looking_for_its_pattern(members: Mapping[str, ArgumentNode]) -> dict[str, ArgumentNode]:
    """Return the members that are a text which a tool looks for: its `pattern` is that text.

    It is not if another argument is a text, or if the schema says that it is a glob. A text that
    looks like an option is none: `-f/etc/x`.
    """
    seeking = {
        key: replace(node, varies=True)
        for key, node in members.items()
        if key in vocabulary.SOUGHT and node.kind is Kind.PAYLOAD
    }
    pattern = members.get("pattern")
    has_text = any(one.kind is Kind.PAYLOAD for one in members.values())
    if pattern is None or has_text or (pattern.kind, pattern.why) != kind_of_key("pattern"):
        return seeking
    why = "the tool's name says that it looks for a text"
    return {**seeking, "pattern": replace(pattern, kind=Kind.PAYLOAD, why=why, varies=True)}


def names_shell(text: str) -> bool:
    """Return whether a name, or a description, says that a shell such as bash reads a command."""
    return has_word(vocabulary.SHELLS, text) and not _DENIES.search(text)


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


def named_in(owner: str, key: str, schemas: Iterable[Json] = ()) -> str:
    """Return a name for the member `key` of `owner`: `cookie path` for that of a cookie."""
    if key != "path" or any(_says_here(object_or_empty(one).get("description")) for one in schemas):
        return key
    words = words_of(owner)[-2:]
    of = (" ".join(words[at:]).removesuffix("s") for at in range(len(words)))
    return next((f"{one} {key}" for one in of if one in vocabulary.HAVE_PATHS), key)


def _says_here(text: Json) -> bool:
    return isinstance(text, str) and any(says.search(text) for says in _SAY_HERE)


def _told_beside(members: Members) -> set[str]:
    """Return facts that the names of the members, and their schemas, tell together."""
    names = members.nodes.keys()
    facts = {
        "cookie": {"name", "value", "domain"} <= names,
        "request": members.is_http and names.isdisjoint({"url", "uri", "endpoint"}),
        "folder": any(map(_FOLDER.search, names)),
        "cell": any(words_of(name)[:-1] == ["cell"] and is_label(name) for name in names),
        "terminal": any(has_word(vocabulary.TERMINAL_WORDS, x) for x in (*names, members.session)),
        "id": any(last_word(name) == "id" for name in names),
        "content": "content" in names,
    }
    return {fact for fact, is_told in facts.items() if is_told}


def _told_by_others(
    kind: Kind, key: str, described: str, tool: str, beside: set[str]
) -> tuple[Kind, str] | None:
    """Return what a tool's name, and what is told `beside`, tell of the argument under `key`.

    `kind` is what its own name and the text `described` say. None if the others tell nothing.
    """
    last = last_word(key)
    if kind is Kind.PATH and key == "path" and not beside.isdisjoint({"cookie", "request"}):
        is_here = any(map(_says_here, (described, " ".join(words_of(tool)))))
        return None if is_here else (Kind.VIRTUAL, "the path of a cookie or a request")
    is_of_cell = words_of(key)[-2:-1] == ["cell"] or "cell" in beside
    is_of_file = phrases.MENTIONS_FILES.search(described)
    if kind is Kind.WEAK and last == "source" and is_of_cell and not is_of_file:
        return Kind.PAYLOAD, "the code in a cell of a notebook"
    if kind not in _TEXTS:
        return None
    if (last in {"title", "heading"} and "folder" in beside) or _is_reached(key, tool, beside):
        return Kind.NEUTRAL, "perhaps the name of a file"
    said = f"{tool} {described}"
    if any(key in keys and has_word(of, said) for of, keys in vocabulary.KEPT_ELSEWHERE):
        return None if is_of_file else (Kind.PAYLOAD, "what a server keeps")
    sent = {"text", "string", "content", "data", "message"}
    is_sent = last in sent and has_word(vocabulary.TYPING_WORDS, said)
    is_typed = has_word(vocabulary.TERMINAL_WORDS, said)
    is_typed = is_typed or (last == "text" and "terminal" in beside)
    is_typed = is_typed or {"send", "input"}.issubset(words_of(tool))
    return (Kind.NEUTRAL, TYPED) if is_sent and is_typed else None


def _is_reached(key: str, tool: str, beside: set[str]) -> bool:
    """Return whether `key` has the name of a text that may be a file: `note` of `read_note`."""
    words = words_of(tool)
    if "note" in words and key in {"title", "subject"}:
        return "id" not in beside
    is_name = not vocabulary.REACHING_WORDS.isdisjoint(words) or "content" in beside
    return key in {"note", "snippet", "prompt"}.intersection(words) and is_name


def sent_elsewhere(
    tool: str,
    members: Mapping[str, list[JsonObject]],
    required: Collection[str],
    around: Mapping[str, bool],
    *,
    is_here: bool,
) -> frozenset[str]:
    """Return those of an object's `members` that go to a cluster or to what another one names.

    None with files. The other one is a member, too, or one of the tool's arguments `around`,
    which says of each whether it is required. In an object that `is_here` a tool's name alone says
    nothing: `{"on_host": {"command": "ls /"}}`.
    """
    words = singular_words_of(_K8S.sub("kubernetes", tool))
    by_name = not is_here and vocabulary.HOSTING_WORDS.isdisjoint(words)
    named = {joined(key): key in required for key in members}
    outer = {joined(key): must for key, must in around.items()}
    speaking = {
        **{key: must for key, must in outer.items() if key not in vocabulary.SPEAK_BESIDE},
        **{key: must or outer.get(key, False) for key, must in named.items()},
    }
    # A container that need not be named may be this machine.
    spoken = {key for key, must in speaking.items() if must or not _CONTAINER.match(key)}
    spoken |= {"http_method"} if is_http(members) else set()
    sent = set[str]()
    for of, *tools, keys in vocabulary.GOES_ELSEWHERE:
        if all(map(words.intersection, tools)) and (spoken & of if of else by_name):
            sent |= keys
    if not vocabulary.SHELL_WORDS.isdisjoint(named):
        sent.discard("arg")
    return frozenset(
        key for key, of in members.items() if joined(key) in sent and not _is_of_files(of)
    )


def is_http(members: Mapping[str, list[JsonObject]]) -> bool:
    """Return whether one of an object's members is the method of an HTTP request."""
    return any(_HTTP.search(said_of(members.get(name, ()))) for name in _METHODS)


def _is_of_files(variants: list[JsonObject]) -> bool:
    described = (schema.get("description") for schema in variants)
    says = any(isinstance(one, str) and phrases.MENTIONS_FILES.search(one) for one in described)
    return says or any("properties" in schema for schema in variants)


def found_elsewhere(members: Mapping[str, list[JsonObject]]) -> set[str]:
    """Return what may be elsewhere: `folder_path` beside `folderId`, `` (all) in a repository."""
    beside = {joined(name): name for name in members}

    def tells(places: Collection[str]) -> bool:
        return any(one in beside and not is_here(members[beside[one]]) for one in places)

    known = [words.split("_") for words in beside]
    of_ids = [words[:n] for words in known if words[-1:] in (["id"], ["ids"]) for n in (1, 2)]
    found = {"mount_path", *("_".join((*words, "path")) for words in of_ids)}
    for places, there in vocabulary.BESIDE_A_PLACE:
        found |= there if tells(places) else frozenset()
    of_all = tells(vocabulary.REPOSITORY) or ("owner" in members and tells({"repo"}))
    return found | {""} if of_all else found


def may_list_files(key: str, tool: str) -> bool:
    """Return whether a text in a list may name a file, though objects in it go elsewhere.

    So in `documents`, and in `helm --values x.yaml`.
    """
    named = joined(key)
    return named in vocabulary.MAY_LIST_FILES or (named == "value" and "helm" in words_of(tool))


def is_of_here(owner: str) -> bool:
    """Return whether an object may be read or run here, whatever the tool's arguments name."""
    words = singular_words_of(owner[-LONGEST_KEY:])
    return (
        not vocabulary.OF_HERE.isdisjoint(words) or phrases.SAYS_ON_DISK.search(owner) is not None
    )


def shows_places(tool: str) -> bool:
    """Return whether a tool may take `/` for the top of a place: `push` may send this machine's.

    One without a name may, too. One of git works on a clone, which is on this machine.
    """
    words = words_of(tool)
    return not tool or ("git" not in words and not vocabulary.SHOWING_WORDS.isdisjoint(words))
