"""Argument names: split a name into words, and tell from these which kind of values it takes."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from hub.guard.keys import vocabulary
from hub.guard.keys.vocabulary import Kind

_WORD = re.compile(r"(?:[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+)\d*|[^\W\d_A-Za-z][^\W\d_]*")
_PLURAL = re.compile(r"(?<=x)es$|(?<![isu])s$")
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
_PATHS_OF = (
    (vocabulary.OTHER_PATHS, Kind.VIRTUAL),
    (vocabulary.QUERY_PATHS, Kind.PAYLOAD),
    (vocabulary.PERHAPS_PATHS, Kind.WEAK),
)
_KNOWN = vocabulary.REVISION_WORDS.union(
    *(vocabulary.PATH_WORDS, vocabulary.FILLERS, vocabulary.LOCATOR_WORDS, {"name"}),
    *(known for known, _ in _HEADS),
)
TYPED = "typed into what may be a shell"
"""The reason why a text is neutral that is judged like `input` and `stdin`."""
SCRIPTS = frozenset({"script", "code"})
"""Such an argument is a command if a shell runs it, as the tool or the call says."""


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
    return has_word(vocabulary.REVISION_WORDS, key)


def has_word(known: frozenset[str], name: str) -> bool:
    """Return whether a name has one of the words `known`."""
    return not known.isdisjoint(words_of(name))


def is_mount(key: str) -> bool:
    """Return whether `key` takes a mount into a container: `host:container`."""
    return last_word(key) in vocabulary.MOUNT_WORDS


def takes_arguments(key: str) -> bool:
    """Return whether `key` takes arguments of a program, not a whole command."""
    return last_word(key) in vocabulary.ARGUMENT_WORDS


def is_typed(key: str, why: str) -> bool:
    """Return whether `key`, which is neutral for the reason `why`, may take what is typed.

    It is typed into a running program, which may be a shell.
    """
    word = last_word(key)
    is_text = word == "text" and vocabulary.PATCH_WORDS.isdisjoint(words_of(key))
    return is_text or why == TYPED or word in vocabulary.TYPED_WORDS


def takes_patch(key: str) -> bool:
    """Return whether `key` takes a patch: in an object of files it is no file's name."""
    return "." not in key and not vocabulary.PATCH_WORDS.isdisjoint(words_of(key))


@lru_cache(maxsize=4096)
def is_label(key: str) -> bool:
    """Return whether `key` takes a label, not a file name: a kind, a status, a branch, an id."""
    words = words_of(key)
    if len(words) > 1 and words[-2] in vocabulary.NO_LABELS.get(words[-1], ()):
        return False
    return any({word, word.removesuffix("s")} & vocabulary.LABEL_WORDS for word in words[-1:])


def takes_url(key: str) -> bool:
    """Return whether `key` takes the name of a place: a URL, a connection."""
    return last_word(key[-LONGEST_KEY:]) in vocabulary.LOCATOR_WORDS


@lru_cache(maxsize=4096)
def is_plural(key: str) -> bool:
    """Return whether `key` is a plural: an object there has the names of things as its keys."""
    words = _WORD.findall(key)
    return bool(words) and words[-1].lower().endswith("s")


def is_tree(key: str) -> bool:
    """Return whether an object under `key` may be a tree of folders, by name, with files in it."""
    return last_word(key) in vocabulary.TREE_WORDS or ("file" in key.lower() and is_plural(key))


@lru_cache(maxsize=4096)
def last_word(key: str) -> str:
    """Return the last word of a key, which is mostly what it takes, or an empty string."""
    return next(reversed(words_of(key)), "")


def words_of(key: str) -> list[str]:
    """Return the words of a key in camel, snake, kebab or any other case, in the singular.

    Letters are without their marks: `répertoire` is `repertoire`.
    """
    return [*_words_of_key(key)] if len(key) <= LONGEST_KEY else _split(key)


def joined(key: str) -> str:
    """Return a key in snake case, its words in the singular: `tableNames` is `table_name`."""
    return "_".join(_PLURAL.sub("", word) for word in words_of(key[-LONGEST_KEY:]))


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
    # Something goes to a file or comes from one, as a text does: `content_from_file`.
    at = next((n for n, word in enumerate(words) if n and word in vocabulary.FILE_PREPOSITIONS), 0)
    of_text = vocabulary.PAYLOAD_WORDS | vocabulary.WRITING_VERBS
    if at and words[at - 1] in of_text and _is_path_word(words[-1]):
        return Kind.WEAK, " ".join(words)
    words = _noun_phrase(words)
    return _kind_of_noun(words) if words else (Kind.NEUTRAL, "")


def _kind_of_noun(words: list[str]) -> tuple[Kind, str]:
    if (
        len(words) > 1
        and words[-1] in {"name", "location", "arg", "argument"}
        and _is_path_word(words[-2])
    ):
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


def _kind_of_either(words: list[str]) -> tuple[Kind, str]:
    """Return the kind of a name with "or" in it, such as `path_or_content`."""
    word = " ".join(words)
    kinds = [_kind_of_words(part.split())[0] for part in word.split(" or ")]
    if {*kinds} <= {Kind.PATH, kinds[0]} and kinds[0] in {Kind.COMMAND, Kind.GLOB}:
        return kinds[0], word
    if len({*kinds}) > 1 and not {Kind.PATH, Kind.WEAK, Kind.GLOB}.isdisjoint(kinds):
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
    if head == "path" and vocabulary.OF_FILES.isdisjoint(words[-3:-2]):
        of = {before, " ".join(words[-3:-1])}
        for known, kind in _PATHS_OF:
            if not known.isdisjoint(of):
                return kind, f"{before} {head}"
    if not vocabulary.COUNTING_WORDS.isdisjoint(words):
        return Kind.NEUTRAL, ""
    if any(word in vocabulary.SELECTING_WORDS for word in words[:-1]):
        return Kind.GLOB, " ".join(words)
    return Kind.PATH, head
