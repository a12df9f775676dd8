"""The kind of a member of an object in a call, by what else the call has: no schema tells this."""

from __future__ import annotations

import re
from collections.abc import Mapping

from hub.guard.keys import vocabulary
from hub.guard.keys.key_words import LONGEST_KEY, is_mount, is_named_argument, is_plural, last_word
from hub.guard.keys.neighbours import why_of_script
from hub.guard.keys.nodes import FOR_INTERPRETER, IN_A_LANGUAGE, ArgumentNode
from hub.guard.keys.vocabulary import Kind
from hub.guard.text.prose import is_prose
from hub.values import Json, JsonObject

_LANGUAGES = ("interpreter", "language", "languageId", "language_id", "lang", "runtime")
_OF_SHELLS = re.compile(
    r"(?:[akz]|ba|da|fi)?sh|shell[ _-]?(?:script)?|powershell|pwsh|bat|batch|cmd", re.IGNORECASE
)
_OF_OTHERS = re.compile(
    r"(?:i?python|pypy|node(?:js)?|deno|bun|ruby|perl|php|lua|rscript)[\d.]*(?: -[\w-]+)*",
    re.IGNORECASE,
)
EXTENSION = re.compile(r"\.\w", re.ASCII)


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
    if kind is not Kind.NEUTRAL or (context is not Kind.PATH and is_named_argument(key, owner)):
        return kind, False
    may_be_content = is_plural(owner) or word in vocabulary.DATA_WORDS
    if is_text and may_be_content and _is_content(str(member)):
        return kind, True
    return context, False


def _is_content(text: str) -> bool:
    return "\n" in text.strip() or is_prose(text)
