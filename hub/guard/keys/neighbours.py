"""What a tool's name, and the arguments around one, tell of it beyond its own name and description.

Facts that several arguments tell together (a cookie, a terminal), commands and scripts that a shell
reads, and what goes elsewhere: to a cluster, a database, a repository.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from msgspec.structs import replace

from hub.guard.keys import descriptions, vocabulary
from hub.guard.keys.descriptions import READ_OF_ALL, is_here, said_of, texts, types_of
from hub.guard.keys.key_words import (
    TYPED,
    has_word,
    is_label,
    joined,
    kind_of_key,
    last_word,
    takes_arguments,
    words_of,
)
from hub.guard.keys.nodes import (
    FOR_SHELL,
    IN_A_LANGUAGE,
    IN_CONTAINER,
    IN_PATCH,
    ON_ANOTHER_MACHINE,
    ArgumentNode,
    why_of_script,
)
from hub.guard.keys.vocabulary import Kind
from hub.values import Json, JsonObject, object_or_empty

_FOLDER = re.compile(r"(?:folder|dir|directory)(?:_?(?:path|name))?$", re.IGNORECASE)
_HTTP = re.compile(r"\b(?:GET|HTTP)\b")
_METHODS = ("method", "http_method", "httpMethod")
_DENIES = re.compile(r"\b(?:no|not|never|without|instead)\b|n't\b", re.IGNORECASE)
_SLUG = re.compile(r"\bslug\b", re.IGNORECASE)
_K8S = re.compile("k8s", re.IGNORECASE)
_UNNAMED = re.compile("container|pod|host|server|machine")
_IN_NO_SHELL = re.compile(
    r"selector|element|locator|xpath|\b(?:ref|uid|x|tab)\b|tab_?id"
    r"|chat|channel|conversation|recipient|contact|thread",
    re.IGNORECASE,
)
"""Where on a web page or a screen a text is typed, or who reads a message."""
_TEXTS = frozenset({Kind.PAYLOAD, Kind.NEUTRAL})


def told_by_its_name(
    tool: str,
    nodes: Mapping[str, ArgumentNode],
    schemas: Mapping[str, list[JsonObject]],
    sent: Collection[str],
) -> dict[str, ArgumentNode]:
    """Return those of an object's declared `nodes` of which a tool's name tells more.

    Those that are `sent` elsewhere are run there, if they are commands.
    """
    is_of_text = last_word(tool) in {"text", "code", "content"}
    seeks = is_of_text and has_word(vocabulary.FINDING_WORDS, tool)
    seeks = seeks or {"extract", "line"}.issubset(joined(tool).split("_"))
    seeks = seeks or has_word(vocabulary.GREPPING_WORDS, tool)
    seeks = seeks or not vocabulary.FILE_PATTERNS.isdisjoint(map(joined, nodes))
    known = _looking_for_its_pattern(nodes) if seeks else dict[str, ArgumentNode]()
    # A shell that may be true or false may be none, and a list is run without one.
    is_run = _names_shell(tool) or types_of(schemas.get("shell", [])) == {"string"}
    beside = _told_beside(schemas)
    for key, node in {**nodes, **known}.items():
        described = next(texts(schemas[key], "description", most=READ_OF_ALL), "")
        if node.kind in _TEXTS and (why := why_of_script(key, tool, nodes, is_run=is_run)):
            known[key] = _of_kind(node, node.kind if why is IN_A_LANGUAGE else Kind.COMMAND, why)
        elif node.kind is Kind.COMMAND:
            is_sent = key in sent or descriptions.SAYS_RUN_ELSEWHERE.match(described)
            is_read = is_run or _names_shell(f"{key} {described}")
            if is_sent and not is_run and not _may_be_here(schemas):
                known[key] = replace(node, why=IN_CONTAINER, varies=True)
            elif is_read and not takes_arguments(key):
                known[key] = replace(node, why=FOR_SHELL)
        elif node.kind is Kind.PATH and key in sent and not _may_be_here(schemas):
            known[key] = replace(node, kind=Kind.VIRTUAL, why=ON_ANOTHER_MACHINE, varies=True)
        elif node.declared:
            told = _told_by_others(node.kind, key, described, tool, beside)
            known |= {key: replace(node, kind=told[0], why=told[1])} if told else {}
    return known


def _may_be_here(schemas: Mapping[str, list[JsonObject]]) -> bool:
    """Return whether a command may be run here: by a switch, or a host's default or choice."""
    hosts = (said_of(of) for key, of in schemas.items() if _UNNAMED.search(joined(key)))
    is_switched = any(last_word(key) in {"local", "locally", "remote", "ssh"} for key in schemas)
    return is_switched or any(map(descriptions.SAYS_THIS_MACHINE.search, hosts))


def _of_kind(node: ArgumentNode, kind: Kind, why: str) -> ArgumentNode:
    """Return `node` with a kind, which the texts in a list there have as well."""
    items = node.items
    if items is not None and items.kind in _TEXTS and not items.properties:
        items = replace(items, kind=kind, why=why)
    return replace(node, kind=kind, why=why, items=items, varies=False)


def take_commands(tool: str, objects: Collection[dict[str, ArgumentNode]]) -> None:
    """Take the members of which nothing else is known for the commands of a tool that runs some.

    So `{"lines": ["ls /"]}` of `run_shell`, if no member of any object is known to be a command.
    """
    words = {*words_of(tool)}
    shells = words & vocabulary.SHELL_WORDS
    runs = shells and (words == shells or words & vocabulary.RUNNING_WORDS)
    known = (key for nodes in objects for key, one in nodes.items() if one.kind is Kind.COMMAND)
    for nodes in objects if runs and all(key == "shell" for key in known) else ():
        for key, node in nodes.items():
            is_text = node.kind is Kind.NEUTRAL or last_word(key) in vocabulary.SCRIPT_WORDS
            if is_text and node.kind in _TEXTS and node.why is not IN_A_LANGUAGE and not node.label:
                nodes[key] = _of_kind(node, Kind.COMMAND, FOR_SHELL)


def _looking_for_its_pattern(members: Mapping[str, ArgumentNode]) -> dict[str, ArgumentNode]:
    """Return the members that are a text which a tool looks for: its `pattern` is that text.

    It is not if another argument is a text, or if the schema says that it is a glob.
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


def _names_shell(text: str) -> bool:
    """Return whether a name, or a description, says that a shell such as bash reads a command."""
    return has_word(vocabulary.SHELLS, text) and not _DENIES.search(text)


def named_in(owner: str, key: str, schemas: Iterable[Json] = ()) -> str:
    """Return a name for the member `key` of `owner`: `cookie path` for that of a cookie."""
    if key != "path" or any(_says_here(object_or_empty(one).get("description")) for one in schemas):
        return key
    words = words_of(owner)[-2:]
    of = (" ".join(words[at:]).removesuffix("s") for at in range(len(words)))
    return next((f"{one} {key}" for one in of if one in vocabulary.HAVE_PATHS), key)


def _says_here(text: Json) -> bool:
    here = (descriptions.SAYS_FILE, descriptions.SAYS_ON_DISK)
    return isinstance(text, str) and any(says.search(text) for says in here)


def _told_beside(members: Mapping[str, list[JsonObject]]) -> set[str]:
    """Return facts that the names of the members, and their schemas, tell together."""
    names = members.keys()
    sessions = (said_of(of) for name, of in members.items() if "session" in name.lower())
    of_terminal = (*names, *sessions)
    facts = {
        "cookie": {"name", "value", "domain"} <= names,
        "request": _is_http(members) and names.isdisjoint({"url", "uri", "endpoint"}),
        "folder": any(map(_FOLDER.search, names)),
        "cell": any(words_of(name)[:-1] == ["cell"] and _tells_which(name) for name in names),
        "terminal": any(has_word(vocabulary.TERMINAL_WORDS, one) for one in of_terminal),
        # In the session of a terminal; a field of a web page is named, too.
        "enter": any(map(_is_enter, names))
        and any("session" in name.lower() for name in names)
        and not any(map(_IN_NO_SHELL.search, names)),
        "id": any(last_word(name) == "id" for name in names),
        "content": "content" in names,
        "patch": {"op", "path", "value"} <= names,
        "scene": not names.isdisjoint({"scene_path", "scenePath"}),
        "node": not names.isdisjoint(
            {"node_type", "nodeType", "node_path", "nodePath", "prim_type"}
        ),
        "edge": {"source", "target"} <= names and _weighs(members),
    }
    return {fact for fact, is_told in facts.items() if is_told}


def _tells_which(name: str) -> bool:
    return is_label(name) or last_word(name) in {"index", "number"}


def _is_enter(name: str) -> bool:
    """Return whether a member says that the Enter key is pressed behind a text."""
    return last_word(name) in {"enter", "newline"}


def _weighs(members: Mapping[str, list[JsonObject]]) -> bool:
    """Return whether one of the members is the weight of an edge: a number."""
    of_weight = (types_of(members[name]) for name in ("value", "weight") if name in members)
    return any(types and types <= {"number", "integer"} for types in of_weight)


def _told_by_others(
    kind: Kind, key: str, described: str, tool: str, beside: set[str]
) -> tuple[Kind, str] | None:
    """Return what a tool's name, and what is told `beside`, tell of the argument under `key`.

    `kind` is what its own name and the text `described` say. None if the others tell nothing.
    """
    if kind is Kind.PATH:
        return _told_of_path(key, described, tool, beside)
    last = last_word(key)
    is_of_file = descriptions.MENTIONS_FILES.search(described)
    if kind is Kind.WEAK and not is_of_file:
        return _told_of_source(key, beside)
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
    is_typed = is_typed or (last == "text" and "terminal" in beside) or "enter" in beside
    is_typed = is_typed or {"send", "input"}.issubset(words_of(tool))
    return (Kind.NEUTRAL, TYPED) if is_sent and is_typed else None


def _told_of_path(key: str, described: str, tool: str, beside: set[str]) -> tuple[Kind, str] | None:
    """Return what a path is that leads to no file: of a cookie, a request, a patch or a node."""
    words, of_tool = words_of(key)[-2:], words_of(tool)
    if any(map(_says_here, (described, " ".join(of_tool)))):
        return None
    if key == "path" and "patch" in beside:
        return Kind.PATH, IN_PATCH
    is_node = words == ["node", "path"]
    is_node = is_node or (key == "root_path" and "scene root" in described)
    of_scene = is_node and ("godot" in of_tool or "scene" in beside)
    if of_scene or (key == "path" and not beside.isdisjoint({"cookie", "request"})):
        return Kind.VIRTUAL, "the path of a cookie, a request or a node"
    is_node = (
        is_node or words == ["prim", "path"] or (words == ["parent", "path"] and "node" in beside)
    )
    told = (Kind.NEUTRAL, "perhaps the path of a node in a scene")
    return told if is_node and not described else None


def _told_of_source(key: str, beside: set[str]) -> tuple[Kind, str] | None:
    """Return what a `source` or `target` is, if it is no file: code in a cell, or a node."""
    is_of_cell = words_of(key)[-2:-1] == ["cell"] or "cell" in beside
    if last_word(key) == "source" and is_of_cell:
        return Kind.PAYLOAD, "the code in a cell of a notebook"
    is_end = key in {"source", "target"} and "edge" in beside
    return (Kind.NEUTRAL, "the name of a node, beside the weight of an edge") if is_end else None


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
    tool = _K8S.sub("kubernetes", tool)
    words = {*words_of(tool), *joined(tool).split("_")}
    is_hosting = not vocabulary.HOSTING_WORDS.isdisjoint(words)
    by_name = not is_here and not is_hosting
    named = [(joined(key), key in required) for key in members]
    outer = [(joined(key), must) for key, must in around.items()]
    outer = [(key, must) for key, must in outer if key not in vocabulary.SPEAK_BESIDE]
    # Where no container or host need be named, it may be this machine.
    spoken = {key for key, must in (*named, *outer) if must or not _UNNAMED.match(key)}
    spoken |= {"http_method"} if _is_http(members) else set()
    sent = set[str]()
    for of, *tools, keys in vocabulary.GOES_ELSEWHERE:
        if all(map(words.intersection, tools)) and (spoken & of if of else by_name):
            sent |= keys
    if not vocabulary.SHELL_WORDS.isdisjoint(members):
        sent.discard("arg")
    return frozenset(
        key
        for key, of in members.items()
        if joined(key) in sent and not any("properties" in schema for schema in of)
        if not _says_it_stays(key, of, is_hosting=is_hosting)
    )


def _says_it_stays(key: str, schemas: list[JsonObject], *, is_hosting: bool) -> bool:
    """Return whether an argument is of this machine, as its description says.

    A path is, too, if the tool `is_hosting`, and so is a list of paths: these would be taken for
    data, even if the call names this machine.
    """
    is_path = kind_of_key(key)[0] is Kind.PATH
    if is_path and (is_hosting or "string" not in types_of(schemas)):
        return True
    says = descriptions.SAYS_LOCAL if is_path else descriptions.MENTIONS_FILES
    return any(map(says.search, texts(schemas, "description", most=READ_OF_ALL)))


def _is_http(members: Mapping[str, list[JsonObject]]) -> bool:
    """Return whether one of an object's members is the method of an HTTP request."""
    return any(_HTTP.search(said_of(members.get(name, ()))) for name in _METHODS)


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
    # A hosted repository has a slug, a folder of this machine has a path.
    named = {one for one in ("repo", "repository") if one in beside}
    slugs = {one for one in named if _SLUG.search(said_of(members[beside[one]]))}
    of_all = of_all or tells(slugs | {"repo_slug", "repository_slug"})
    return found | {""} if of_all else found
