"""Find the path candidates in a call's arguments: the values and keys to judge as paths."""

from __future__ import annotations

import re
from decimal import Decimal

from msgspec import Struct
from msgspec.structs import replace

from hub.guard.budget import FULL_BUDGET, TooMuchError
from hub.guard.embedded_json import (
    MAX_STRINGS,
    TOO_MUCH,
    has_remarks,
    json_in,
    parsed_json,
    strings_in,
)
from hub.guard.keys.key_words import LONGEST_KEY, SCRIPTS, is_mount, is_plural, last_word
from hub.guard.keys.neighbours import named_in
from hub.guard.keys.nodes import (
    BY_OPERATOR,
    EXTENSION,
    IN_PATCH,
    ArgumentNode,
    inherited,
    is_in_container,
    is_in_document,
    kind_of_script,
    node_of_key,
)
from hub.guard.keys.vocabulary import IN_CONTAINER, MEASURES, Kind
from hub.guard.text.names import is_sign
from hub.guard.text.prose import is_prose
from hub.guard.text.uris import FILE_URI, is_file_uri
from hub.paths.resolve import PathError
from hub.values import Json, JsonObject


def escaped(key: str) -> str:
    """Return `key` as one step of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")


# Looked up once: looking up an enum's member takes longer than the comparison with it.
_IGNORE, _NEUTRAL, _PATH, _PAYLOAD = Kind.IGNORE, Kind.NEUTRAL, Kind.PATH, Kind.PAYLOAD
_COMMAND, _VIRTUAL, _WEAK = Kind.COMMAND, Kind.VIRTUAL, Kind.WEAK
_OF_PATHS = frozenset({_PATH, _WEAK})
"""Under keys of these kinds a text is read word by word; so are the keys of an object there."""

_SHAPED = re.compile(
    r"[/\\~$]|^\s*-|\.\.|%(?:2[ef5]|5c|u)|file:|unix:|sqlite|duckdb"
    r"|[\u2024\u2025\u2044\u2215\u2216\u29f8\ufe52\ufe68\uff0e\uff0f\uff3c\uff5e\u200b-\u200f]",
    re.IGNORECASE,
)
_PATH_KEY = re.compile(r"[/\\~]|\.\.|%[0-9a-f%]{2}|^file:|\$\{?[a-z_]{2}", re.IGNORECASE)
_NETWORK = re.compile(
    r"\s*(?:[\da-f]*:[\da-f]*:[\da-f:]*/\d{1,3}|\d+(?:\.\d+){3}/\d{1,2})\s*", re.IGNORECASE
)
_UNREAD = ArgumentNode(why="it is a string in what looks like JSON and cannot be read")
_NESTED = (dict, list)
_BESIDE = IN_CONTAINER | {"path", *SCRIPTS}
"""Members that mean something else beside certain others."""
MAX_DEPTH = 64
MAX_CANDIDATES = 10_000
_LONGEST_POINTER = 4096
_LONG_TEXT = 1024
# Units of effort, about a microsecond each.
_PER_ITEM = 5
_FEW = 256
_CHARACTERS = 8
"""So many characters of a judged text, beyond the first `_FEW`, take one more unit of effort."""


class PathCandidate(Struct, frozen=True):
    """One value (or object key) to judge as a path, and why.

    `pointer` is its JSON pointer, `key` the key that it stands under. `whole`: read the value as a
    whole only, not as a list of paths, since it may be the content of a file. `is_element`: it is
    one of several in a list, and not a member of an object, which may be named `1` as well.
    `scope`: the pointer of the innermost object in a list that it is somewhere in, or nothing.
    `is_repeated`: its text is a candidate in another scope, too, so only a folder that is named in
    this one makes a difference.
    """

    pointer: str
    key: str
    kind: Kind
    value: Json
    why: str
    whole: bool = False
    is_element: bool = False
    scope: str = ""
    is_repeated: bool = False


def find_candidates(
    shape: ArgumentNode, arguments: JsonObject, most: int = FULL_BUDGET.search
) -> list[PathCandidate]:
    """Return the path candidates in `arguments`, in order; the search may take the effort `most`.

    Raises:
        TooMuchError: the search takes more.
        PathError: the arguments are nested too deeply, too many, or cannot be read for certain.
    """
    found = _Found()
    found.left, found.bare, found.tool, found.arguments = most, {}, shape.tool, arguments
    _walk_members(arguments, shape, _TOP, found)
    return found


class _Found(list[PathCandidate]):
    """The candidates of one call, and what may still be spent on the search.

    `left` is the effort, `strings` the number of strings still allowed in text that only looks like
    JSON, where a long one counts as several. `bare` are the texts without path signs that may be a
    file name, each with the scopes that have it: in one scope it is judged only once, even if many
    cells of a table have it. `free` are the candidates of these, which do not count as too many.
    `tool` is the tool's name, and `arguments` has all of its arguments: one may name the language
    of all scripts in the call.
    """

    left: int
    bare: dict[str, set[str]]
    tool: str
    arguments: JsonObject
    strings = MAX_STRINGS
    free = 0

    def spend(self, effort: int, text: str = "") -> None:
        """Subtract an effort, and that of judging `text`. Raises TooMuchError."""
        if len(text) > _FEW:
            effort += (len(text) - _FEW) // _CHARACTERS
        self.left -= effort
        if self.left < 0:
            raise TooMuchError(TOO_MUCH)


class _Place(Struct, frozen=True, gc=False):
    pointer: str
    key: str
    inherited: Kind
    depth: int
    whole: bool = False
    in_list: bool = False
    scope: str = ""

    def member(self, key: str, kind: Kind, depth: int, *, whole: bool = False) -> _Place:
        """Return the place of the member `key` of the object here."""
        at = f"{self.pointer}/{key if key.isidentifier() else escaped(key)}"
        return _Place(at, key, kind, depth, whole=whole, scope=self.scope)

    def element(self, index: int, kind: Kind) -> _Place:
        """Return the place of an element of the list here."""
        at = f"{self.pointer}/{index}"
        return replace(self, pointer=at, inherited=kind, whole=False, in_list=True)


_TOP = _Place("", "", _NEUTRAL, 0)


def _check_size(at: _Place, found: _Found) -> None:
    # Each candidate has its own copy of the pointer.
    if (
        at.depth > MAX_DEPTH
        or len(found) - found.free > MAX_CANDIDATES
        or found.strings < 0
        or len(at.pointer) > _LONGEST_POINTER
    ):
        raise PathError(TOO_MUCH)


def _walk_members(value: JsonObject, node: ArgumentNode, at: _Place, found: _Found) -> None:
    found.spend(_PER_ITEM * len(value))
    declared = node.properties
    apart = _BESIDE if len(value) > 1 or at.pointer else SCRIPTS  # an only argument has no others
    for key, member in value.items():
        inner = declared.get(key)
        if inner is None:
            inner = _undeclared(key, node, at, found)
        elif inner.varies:
            inner = inner.in_call(member, value, found.arguments)
        kind, whole = inner.kind, False
        if (at.inherited is not _NEUTRAL and not inner.declared) or key in apart:
            kind, whole = _kind_in(value, key, inner, at, found)
        if member.__class__ is str:
            if _is_judged(kind, member, inner):  # pyright: ignore[reportArgumentType]
                place = at.member(key, kind, at.depth, whole=whole)
                _add(member, inner, place, found)  # pyright: ignore[reportArgumentType]
        elif kind is _PATH or (kind is not _IGNORE and isinstance(member, _NESTED)):
            _walk_other(member, inner, at.member(key, kind, at.depth + 1), found)


def _undeclared(key: str, node: ArgumentNode, at: _Place, found: _Found) -> ArgumentNode:
    """Return the node of a member that is not declared, and add its key if that can be a path."""
    if node.named_by_path or _can_be_path(key, at) or node.has_entry(key):
        found.spend(0, key)
        of_files = node.named_by_path or (at.inherited is _PATH and "file" in at.key.lower())
        pointer, why = f"{at.pointer}/{escaped(key)}", "an object's key can be a path"
        kind = _WEAK if key[:1] == "/" and of_files else _NEUTRAL
        words = filter(is_shaped, key.split()) if at.inherited in _OF_PATHS else ()
        texts = dict.fromkeys((key, *words) if not is_prose(key) else (key,))
        found += (PathCandidate(pointer, key, kind, text, why, scope=at.scope) for text in texts)
    # A name that the client chose tells nothing: `{"files": {"route": {"path": "/etc/x"}}}`.
    return node.undeclared(named_in(at.key, key) if node.declared else key)


def _can_be_path(key: str, at: _Place) -> bool:
    """Return whether the key of an undeclared member can be a path itself, or JSON with one."""
    if _PATH_KEY.search(key) or EXTENSION.search(key) or key.startswith(("{", "[")):
        return True
    if not key.isascii() and is_shaped(key):
        return True
    if at.inherited is _WEAK and is_mount(at.key[-LONGEST_KEY:]):
        return not at.in_list  # the name of a volume, or a folder
    return at.inherited is _PATH and not at.in_list and is_plural(at.key)


def _kind_in(
    value: JsonObject, key: str, inner: ArgumentNode, at: _Place, found: _Found
) -> tuple[Kind, bool]:
    """Return the kind of a member of the object `value`, and whether it is read as a whole."""
    if (not inner.declared or inner.why is IN_PATCH) and is_in_document(key, value):
        return _NEUTRAL, False
    if inner.why is not BY_OPERATOR and is_in_container(key, value, at.pointer):
        return _VIRTUAL, False
    if key in SCRIPTS and (said := kind_of_script(inner, key, value, found.arguments, found.tool)):
        return said, False
    if at.inherited is _NEUTRAL or inner.declared:
        return inner.kind, False
    return inherited(inner.kind, key, value[key], at.inherited, at.key)


def _walk_other(value: Json, node: ArgumentNode, at: _Place, found: _Found) -> None:
    if isinstance(value, _NESTED):
        _check_size(at, found)
    if isinstance(value, dict):
        inherited = at.inherited if at.inherited is not _PAYLOAD else _NEUTRAL
        scope = at.pointer if at.in_list else at.scope
        _walk_members(value, node, replace(at, inherited=inherited, scope=scope), found)
    elif isinstance(value, list):
        _walk_list(value, node.element(), at, found)
    elif at.inherited is _PATH and _is_number(value):
        word = last_word(at.key[-LONGEST_KEY:])
        known = node.declared or not MEASURES.isdisjoint({word, word.removesuffix("s")})
        if node.kind is _PATH or not known:
            found.append(PathCandidate(at.pointer, at.key, _PATH, value, node.why))


def _walk_list(values: list[Json], node: ArgumentNode, at: _Place, found: _Found) -> None:
    found.spend(len(values))
    kind = at.inherited if node.kind is _NEUTRAL and not node.declared else node.kind
    for index, value in enumerate(values):
        place = at.element(index, kind)
        if isinstance(value, str):
            if _is_judged(kind, value, node):
                _add(value, node, place, found)
        elif kind is _PATH and _is_number(value) and not node.counts:
            found.append(PathCandidate(place.pointer, at.key, kind, value, node.why))
            return  # a list of bytes is one path
        elif isinstance(value, dict | list):
            _walk_other(value, node, replace(place, depth=at.depth + 1), found)


def _is_judged(kind: Kind, value: str, node: ArgumentNode) -> bool:
    if not value or (node.values and value in node.values):
        return False
    if kind is _NEUTRAL:
        return not is_sign(value, is_label=node.label) and (
            is_shaped(value) or _can_be_name(value, node)
        )
    if kind is _PAYLOAD:
        is_json = node.structured and json_in(value) is not None
        return is_json or (":" in value and is_file_uri(value))
    if kind is _WEAK:
        return not (value.startswith("/dev/") and is_sign(value, is_label=node.label))
    return is_shaped(value) if kind is _VIRTUAL else kind is not _IGNORE


def _can_be_name(value: str, node: ArgumentNode) -> bool:
    """Return whether a text without path signs can be a file's name, or JSON."""
    if not value[0].isalnum() and json_in(value) is not None:
        return True
    if node.label and EXTENSION.search(value) is None:
        return False
    return len(value) < _LONG_TEXT or not is_prose(value) or "*** " in value or "+++ " in value


def is_shaped(value: str) -> bool:
    """Return whether a value has path signs, such as a slash or `..`."""
    if len(value) < _LONG_TEXT:
        return _SHAPED.search(value) is not None
    if any(mark in value for mark in ("/", "\\", "~", "$")) or ("." in value and ".." in value):
        return True
    if "%" in value or ":" in value or not value.isascii() or value.lstrip()[:1] == "-":
        return _SHAPED.search(value) is not None
    lowered = value.lower()  # single signs and letters are found many times faster than words
    return ("q" in lowered and "sqlite" in lowered) or ("k" in lowered and "duckdb" in lowered)


def _add(text: str, node: ArgumentNode, at: _Place, found: _Found) -> None:
    found.spend(_PER_ITEM, text)
    if at.inherited is _WEAK and "::" in text and all(map(_NETWORK.fullmatch, text.split(","))):
        at = replace(at, inherited=_NEUTRAL)  # a file only if there is one of that name
    candidate = PathCandidate(
        at.pointer, at.key, at.inherited, text, node.why, at.whole, at.in_list, at.scope
    )
    is_read = (at.inherited is not _PAYLOAD or node.structured) and not at.whole
    inside = json_in(text) if is_read and ("[" in text or "{" in text) else None
    if inside is not None:
        parsed = parsed_json(inside)
        if parsed is not None:
            _walk_other(parsed, node, replace(at, depth=at.depth + 1, in_list=False), found)
            if at.inherited is _COMMAND:  # a shell does not read it as JSON
                found.append(candidate)
            return
        _add_strings(inside, replace(at, depth=at.depth + 1), found)
    if at.inherited is _NEUTRAL and not is_shaped(text):
        _add_bare(candidate, found)
    elif at.inherited is not _PAYLOAD or not node.structured or FILE_URI.match(text) is not None:
        found.append(candidate)


def _add_bare(candidate: PathCandidate, found: _Found) -> None:
    """Add a text without path signs, if it is not a candidate of its scope yet."""
    scopes = found.bare.setdefault(str(candidate.value), set())
    if candidate.scope in scopes:
        return
    if scopes:
        candidate = replace(candidate, is_repeated=True)
    scopes.add(candidate.scope)
    found.free += 1
    found.append(candidate)


def _add_strings(text: str, at: _Place, found: _Found) -> None:
    """Add the strings inside a text that looks like JSON but cannot be parsed."""
    remarks, kind = has_remarks(text), at.inherited
    for index, (key, string) in enumerate(strings_in(text)):
        _check_size(at, found)
        found.strings -= 1 + len(string) // _LONG_TEXT
        found.spend(_PER_ITEM, string)
        kind = _kind_of_string(key, at.inherited, kind if remarks else None)
        if _is_judged(kind, string, _UNREAD):
            place = at.member(str(index), kind, at.depth)
            place = replace(place, key=key, in_list=not key)
            _add(string, _UNREAD, place, found)


def _kind_of_string(key: str, context: Kind, before: Kind | None) -> Kind:
    """Return the kind of a string that seems to stand under `key`.

    In a text with comments `key` may be wrong. `before` is then the kind of the string before (None
    in a text without comments): if that is a path, so is this string.
    """
    named = node_of_key(key[-LONGEST_KEY:]).kind
    if _PATH in {named, context, before}:
        return _PATH
    return context if before is not None or named in {_NEUTRAL, _PAYLOAD} else named


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)
