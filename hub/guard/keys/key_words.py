"""Argument names: split a name into words, and tell from these which kind of values it takes."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache

from hub.guard.keys import vocabulary
from hub.guard.keys.vocabulary import Kind
from hub.values import Json, object_or_empty

_WORD = re.compile(r"(?:[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+)\d*|[^\W\d_A-Za-z][^\W\d_]*")
LONGEST_KEY = 200
"""Characters that are read of a key, from its end: so the caches of clients' keys stay small."""
# Searched in this order: a word in two of these lists has the first kind.
_HEADS = (
    (vocabulary.GLOB_WORDS, Kind.GLOB),
    (vocabulary.PAYLOAD_WORDS, Kind.PAYLOAD),
    (vocabulary.COMMAND_WORDS, Kind.COMMAND),
    (vocabulary.WEAK_WORDS, Kind.WEAK),
    (vocabulary.VIRTUAL_WORDS, Kind.VIRTUAL),
)
_KNOWN = vocabulary.REVISION_WORDS.union(
    *(vocabulary.PATH_WORDS, vocabulary.FILLERS, vocabulary.LOCATOR_WORDS, {"name"}),
    *(known for known, _ in _HEADS),
)
_SAY_HERE = (vocabulary.SAYS_FILE, vocabulary.SAYS_ON_DISK)
_FOLDER = re.compile(r"(?:folder|dir|directory)(?:_?(?:path|name))?$", re.IGNORECASE)
_HTTP, _URLS = re.compile(r"\b(?:GET|HTTP)\b"), {"url", "uri", "endpoint"}
_DENIES = re.compile(r"\b(?:no|not|never|without|instead)\b|n't\b", re.IGNORECASE)
_FOUND = {"text", "code", "content"}
_OF_FILE = vocabulary.PAYLOAD_WORDS | vocabulary.WRITING_VERBS
TYPED = "typed into what may be a shell"
"""The reason why a text is neutral that is judged like `input` and `stdin`."""
_REACHED = {"note", "snippet", "prompt"}
_REACHING = {"read", "get", "open", "load", "view", "show", "delete", "remove", "rename", "move"}
SCRIPTS = frozenset({"script", "code"})
"""Such an argument is a command if a shell runs it, as the tool or the call says."""
_READING_SCRIPTS = vocabulary.SHELL_WORDS - {"command", "cmd", "cli"}
_OF_A_PATH = {"name", "location", "arg", "argument"}
_PLACES = {Kind.PATH, Kind.WEAK, Kind.GLOB}


@lru_cache(maxsize=4096)
def kind_of_key(key: str) -> tuple[Kind, str]:
    """Return the kind of the values under `key` by its words, and the reason as a sentence."""
    if "/" in key:
        return Kind.NEUTRAL, "its name is a path itself, or has a domain before it"
    words = words_of(key)
    if any(script in key.lower() for script in vocabulary.PATH_SCRIPTS):
        return Kind.PATH, f"'{key}' is a word for a path"
    kind, word = (_kind_of_either if "or" in words[1:-1] else _kind_of_words)(words)
    if not word:
        return kind, "nothing says that it is a path"
    what = "what may be a path" if kind is Kind.WEAK else f"a {kind.value}"
    return kind, f"'{word}' is a word for {what}"


@lru_cache(maxsize=4096)
def is_revision(key: str) -> bool:
    """Return whether `key` takes a revision: a branch, a commit or the like."""
    return any(word in vocabulary.REVISION_WORDS for word in words_of(key))


def greps(tool: str) -> bool:
    """Return whether a tool's name says that it looks for a text in files."""
    words = words_of(tool)
    finds = not vocabulary.FINDING_WORDS.isdisjoint(words[:-1]) and words[-1] in _FOUND
    return finds or not vocabulary.GREPPING_WORDS.isdisjoint(words)


def names_shell(text: str) -> bool:
    """Return whether a name, or a description, says that a shell such as bash reads a command."""
    return not vocabulary.SHELLS.isdisjoint(words_of(text)) and not _DENIES.search(text)


def named_in(owner: str, key: str, schemas: Iterable[Json] = ()) -> str:
    """Return a name for the member `key` of `owner`: `cookie path` for that of a cookie."""
    if key != "path" or any(_says_here(object_or_empty(one).get("description")) for one in schemas):
        return key
    words = words_of(owner)[-2:]
    of = (" ".join(words[at:]).removesuffix("s") for at in range(len(words)))
    return next((f"{one} {key}" for one in of if one in vocabulary.HAVE_PATHS), key)


def told_beside(names: Collection[str], methods: str, session: str) -> set[str]:
    """Return facts that the `names` tell, and the schemas of a `method` and of a `session`."""
    facts = {
        "cookie": {"name", "value", "domain"}.issubset(names),
        "request": _URLS.isdisjoint(names) and _HTTP.search(methods) is not None,
        "folder": any(map(_FOLDER.search, names)),
        "cell": any(words_of(name)[:-1] == ["cell"] and is_label(name) for name in names),
        "terminal": any(_has(vocabulary.TERMINAL_WORDS, one) for one in (*names, session)),
        "id": any(_last_word(name) == "id" for name in names),
        "content": "content" in names,
    }
    return {fact for fact, is_told in facts.items() if is_told}


def told_by_others(
    kind: Kind, key: str, described: str, tool: str, beside: set[str]
) -> tuple[Kind, str] | None:
    """Return what a tool's name, and what is told `beside`, tell of the argument under `key`.

    `kind` is what its own name and the text `described` say. None if the others tell nothing.
    """
    last = _last_word(key)
    if kind is Kind.PATH and key == "path" and not beside.isdisjoint({"cookie", "request"}):
        is_here = any(map(_says_here, (described, " ".join(words_of(tool)))))
        return None if is_here else (Kind.VIRTUAL, "the path of a cookie or a request")
    is_of_cell = words_of(key)[-2:-1] == ["cell"] or "cell" in beside
    is_code = kind is Kind.WEAK and last == "source" and is_of_cell
    if is_code and not vocabulary.MENTIONS_FILES.search(described):
        return Kind.PAYLOAD, "the code in a cell of a notebook"
    if kind not in {Kind.PAYLOAD, Kind.NEUTRAL}:
        return None
    if (last in {"title", "heading"} and "folder" in beside) or _is_reached(key, tool, beside):
        return Kind.NEUTRAL, "perhaps the name of a file"
    said, is_of_file = f"{tool} {described}", vocabulary.MENTIONS_FILES.search(described)
    if any(key in keys and _has(of, said) for of, keys in vocabulary.KEPT_ELSEWHERE):
        return None if is_of_file else (Kind.PAYLOAD, "what a server keeps")
    sent = {"text", "string", "content", "data", "message"}
    is_sent = last in sent and _has(vocabulary.TYPING_WORDS, said)
    is_typed = _has(vocabulary.TERMINAL_WORDS, said) or (last == "text" and "terminal" in beside)
    is_typed = is_typed or {"send", "input"}.issubset(words_of(tool))
    return (Kind.NEUTRAL, TYPED) if is_sent and is_typed else None


def _says_here(text: Json) -> bool:
    return isinstance(text, str) and any(says.search(text) for says in _SAY_HERE)


def _has(known: frozenset[str], name: str) -> bool:
    return not known.isdisjoint(words_of(name))


def _is_reached(key: str, tool: str, beside: set[str]) -> bool:
    """Return whether `key` has the name of a text that may be a file: `note` of `read_note`."""
    words = words_of(tool)
    if "note" in words and key in {"title", "subject"}:
        return "id" not in beside
    is_name = not _REACHING.isdisjoint(words) or "content" in beside
    return key in _REACHED.intersection(words) and is_name


def is_mount(key: str) -> bool:
    """Return whether `key` takes a mount into a container: `host:container`."""
    return _last_word(key) in vocabulary.MOUNT_WORDS


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


def takes_arguments(key: str) -> bool:
    """Return whether `key` takes arguments of a program, not a whole command."""
    return _last_word(key) in vocabulary.ARGUMENT_WORDS


def is_script(key: str, tool: str, beside: Collection[str]) -> bool:
    """Return whether `key` takes a script for a shell, as the tool or another argument says."""
    is_read = "interpreter" in beside or "shell" in beside or _has(_READING_SCRIPTS, tool)
    return is_read and _last_word(key) in {*SCRIPTS, "scripts"}


def is_typed(key: str, why: str) -> bool:
    """Return whether `key`, which is neutral for the reason `why`, may take what is typed.

    It is typed into a running program, which may be a shell.
    """
    word = _last_word(key)
    is_text = word == "text" and vocabulary.PATCH_WORDS.isdisjoint(words_of(key))
    return is_text or why == TYPED or word in vocabulary.TYPED_WORDS


def takes_patch(key: str) -> bool:
    """Return whether `key` takes a patch: in an object of files it is no file's name."""
    return "." not in key and not vocabulary.PATCH_WORDS.isdisjoint(words_of(key))


def is_measure(key: str) -> bool:
    """Return whether `key` takes a number that is no file name: a size, a line, a count."""
    return not vocabulary.MEASURES.isdisjoint({_last_word(key), _last_word(key).removesuffix("s")})


@lru_cache(maxsize=4096)
def is_label(key: str) -> bool:
    """Return whether `key` takes a label, not a file name: a kind, a status, a branch, an id."""
    words = words_of(key)
    if len(words) > 1 and words[-2] in vocabulary.NO_LABELS.get(words[-1], ()):
        return False
    return any({word, word.removesuffix("s")} & vocabulary.LABEL_WORDS for word in words[-1:])


def is_content(key: str) -> bool:
    """Return whether `key` takes a file's content, where another key takes the file's path."""
    return _last_word(key) in vocabulary.CONTENT_WORDS


def is_named_argument(key: str, owner: str) -> bool:
    """Return whether the member `key` of `owner` is a URL, or a named argument of a tool.

    So `{"config": {"url": "/users"}}`, and `{"args": {"topic": "/etc hosts"}}`; not `{"0": "x"}`.
    """
    is_url = _last_word(key[-LONGEST_KEY:]) in vocabulary.LOCATOR_WORDS
    return is_url or (key.isidentifier() and takes_arguments(owner[-LONGEST_KEY:]))


def is_data(key: str) -> bool:
    """Return whether `key` may take a file's content, without a word that says so clearly."""
    return _last_word(key) in vocabulary.DATA_WORDS


@lru_cache(maxsize=4096)
def is_plural(key: str) -> bool:
    """Return whether `key` is a plural: an object there has the names of things as its keys."""
    words = _WORD.findall(key)
    return bool(words) and words[-1].lower().endswith("s")


@lru_cache(maxsize=4096)
def is_tree(key: str) -> bool:
    """Return whether an object under `key` may be a tree of folders, by name, with files in it."""
    return _last_word(key) in vocabulary.TREE_WORDS or ("file" in key.lower() and is_plural(key))


@lru_cache(maxsize=4096)
def _last_word(key: str) -> str:
    return next(reversed(words_of(key)), "")


def words_of(key: str) -> list[str]:
    """Return the words of a key in camel, snake, kebab or any other case, in the singular.

    Letters are without their marks: `répertoire` is `repertoire`.
    """
    return [*_words_of_key(key)] if len(key) <= LONGEST_KEY else _split(key)


@lru_cache(maxsize=4096)
def _words_of_key(key: str) -> tuple[str, ...]:
    return tuple(_split(key))


def _split(key: str) -> list[str]:
    if not key.isascii():
        key = "".join(c for c in unicodedata.normalize("NFKD", key) if not unicodedata.combining(c))
    return [_singular(word.lower()) for word in _WORD.findall(key)]


def _singular(word: str) -> str:
    if word in _KNOWN:
        return word
    word = word.rstrip("0123456789")
    if word.endswith("ies") and word[:-3] + "y" in _KNOWN:
        return word[:-3] + "y"
    return word[:-1] if word.endswith("s") and word[:-1] in _KNOWN else word


def _kind_of_words(words: list[str]) -> tuple[Kind, str]:
    if len(words) > 1 and words[-1] in {"to", "as", "from", "in", "into"}:
        # A preposition at the end, as in `saveTo`.
        if words[-2] in vocabulary.WRITING_VERBS:
            return Kind.PATH, " ".join(words)
        kind, word = _kind_of_words(words[:-1])
        return (Kind.WEAK if kind is Kind.PAYLOAD and words[-1] == "from" else kind), word
    if _is_text_of_file(words):
        return Kind.WEAK, " ".join(words)
    words = _noun_phrase(words)
    return _kind_of_noun(words) if words else (Kind.NEUTRAL, "")


def _kind_of_noun(words: list[str]) -> tuple[Kind, str]:
    if len(words) > 1 and words[-1] in _OF_A_PATH and _is_path_word(words[-2]):
        words = words[:-1]
    head, before = words[-1], words[-2] if len(words) > 1 else ""
    if _is_path_word(head):
        return _kind_of_path(head, before, words)
    if head == "root" and before in vocabulary.PLACES:
        return Kind.PATH, f"{before} {head}"
    if head == "filter" and any(map(_is_path_word, words)):
        return Kind.GLOB, " ".join(words)
    named = next(((kind, head) for known, kind in _HEADS if head in known), (Kind.NEUTRAL, ""))
    if not named[1] and head not in vocabulary.LABEL_WORDS | vocabulary.MEASURES:
        first = next((word for word in words if word in vocabulary.FIRST_PATH_WORDS), "")
        named = (Kind.PATH, first) if first else named
    if before in vocabulary.OUTPUT_WORDS and head in vocabulary.FORMATS:
        return Kind.WEAK, f"{before} {head}"
    is_typed = before == "send" and head == "text"
    if named[0] is Kind.PAYLOAD and (is_typed or not vocabulary.PATCH_WORDS.isdisjoint(words)):
        return Kind.NEUTRAL, ""
    is_command = before in vocabulary.SHELL_WORDS and head in vocabulary.SCRIPT_WORDS
    is_command = is_command or (before, head) == ("raw", "param")  # `_raw_params` of Ansible
    return (Kind.COMMAND, f"{before} {head}") if is_command else named


def _is_text_of_file(words: list[str]) -> bool:
    """Return whether words say that something goes to a file or comes from one, as a text does.

    So `content_from_file`, and `save_to_file`.
    """
    at = next((n for n, word in enumerate(words) if n and word in vocabulary.FILE_PREPOSITIONS), 0)
    return bool(at) and words[at - 1] in _OF_FILE and _is_path_word(words[-1])


def _kind_of_either(words: list[str]) -> tuple[Kind, str]:
    """Return the kind of a name with "or" in it, such as `path_or_content`."""
    word = " ".join(words)
    kinds = [_kind_of_words(part.split())[0] for part in word.split(" or ")]
    if {*kinds} <= {Kind.PATH, kinds[0]} and kinds[0] in {Kind.COMMAND, Kind.GLOB}:
        return kinds[0], word
    if len({*kinds}) > 1 and not _PLACES.isdisjoint(kinds):
        return Kind.WEAK, word
    return kinds[0], word if kinds[0] is not Kind.NEUTRAL else ""


def _noun_phrase(words: list[str]) -> list[str]:
    """Drop a leading preposition, all words from the next preposition on, and trailing fillers."""
    if len(words) > 1 and words[0] in vocabulary.PREPOSITIONS:
        words = words[1:]
    cut = next(
        (n for n, word in enumerate(words) if n and word in vocabulary.PREPOSITIONS), len(words)
    )
    words = words[:cut]
    if len(words) > 1 and words[-1] in {"edit", "block"} and words[-2] in vocabulary.PAYLOAD_WORDS:
        return words[:-1]
    while len(words) > 1 and words[-1] in vocabulary.FILLERS:
        if words[-2] not in _KNOWN and not _is_path_word(words[-2]):
            break
        words = words[:-1]
    return words


def _is_path_word(word: str) -> bool:
    if word in vocabulary.PATH_WORDS:
        return True
    if word in vocabulary.PAYLOAD_WORDS or word in vocabulary.NOT_PATHS:
        return False
    return word.endswith(vocabulary.PATH_ENDINGS) and not word.endswith(("profile", "profiles"))


def _kind_of_path(head: str, before: str, words: list[str]) -> tuple[Kind, str]:
    other = before in vocabulary.OTHER_PATHS or " ".join(words[-3:-1]) in vocabulary.OTHER_PATHS
    if other and head == "path" and vocabulary.OF_FILES.isdisjoint(words[-3:-2]):
        return Kind.VIRTUAL, f"{before} {head}"
    if before in vocabulary.QUERY_PATHS and head == "path":
        return Kind.PAYLOAD, f"{before} {head}"
    if before in vocabulary.PERHAPS_PATHS and head == "path":
        return Kind.WEAK, f"{before} {head}"
    if not vocabulary.COUNTING_WORDS.isdisjoint(words):
        return Kind.NEUTRAL, ""
    if any(word in vocabulary.SELECTING_WORDS for word in words[:-1]):
        return Kind.GLOB, " ".join(words)
    return Kind.PATH, head
