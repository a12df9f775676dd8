"""Edit the text of a client's config: the hub's entry in it; and the record of what is installed.

Only the text of the entry changes: comments, layout and the order of keys stay. Every new text is
parsed, and must have the values of the old one and the change, nothing else; if not (anchors, merge
keys, rare spellings), the change is refused. The record of what is installed is in the state
directory; nothing here reads or writes a client's file.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

import msgspec
import yaml
from msgspec import Struct, field

from hub.config.own_files import record_path
from hub.config.source import json_text, toml, yaml_text
from hub.config.source.documents import Form, real_form
from hub.config.source.json_text import read_json
from hub.config.source.places import SyntaxMistakesError, awkward, value_at
from hub.config.source.strict_yaml import MISREAD
from hub.errors import StartError
from hub.system.machine import Machine
from hub.system.private_file import StateFile
from hub.values import Json

ClientEntry: TypeAlias = Mapping[str, Any]
"""A server of a client's config, as parsed."""


class Installation(Struct, frozen=True):
    """What was done to one client's file, so that it can be undone.

    `start`, `old` and `new` are the one place that changed; `after` is the hash of the whole text
    afterwards. `moved` has the client's own servers that went behind the hub. `is_new`: there was
    no such file; `backup` is the file with the text from before.
    """

    section: tuple[str, ...]
    name: str
    entry: dict[str, Any]
    start: int
    old: str
    new: str
    after: str
    has_made_section: bool
    moved: dict[str, Any] = field(default_factory=dict[str, Any])
    is_new: bool = False
    backup: str | None = None


class EntryEditedError(Exception):
    """The hub's entry is not as it was installed: `found` is what is there now."""

    def __init__(self, found: object) -> None:
        super().__init__("the entry was edited")
        self.found = found


_EDITORS: Final = {"json": json_text, "toml": toml, "yaml": yaml_text}
"""Modules with the functions `with_member` and `without_member` for a text of each form."""


def parsed(text: str, form: Form) -> dict[str, Any]:
    """Return the value of a text; an empty one is an empty mapping.

    Raises: ValueError if it cannot be parsed, or is no mapping.
    """
    form = real_form(text, form)
    if form == "json":
        found = read_json(text)
    elif form == "toml":
        found = toml.read_toml(text)
    else:
        try:
            found = yaml.safe_load(text)
        except (yaml.YAMLError, RecursionError, *MISREAD) as error:
            raise ValueError(str(error)) from None
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise ValueError("is no mapping")  # noqa: TRY004 - one error for all that cannot be read
    return cast("dict[str, Any]", found)


def alike(one: object, other: object) -> bool:
    """Return whether two parsed values are alike, whatever the order of their keys."""
    if type(one) is not type(other) and not (isinstance(one, float) and isinstance(other, float)):
        return False
    if isinstance(one, dict):
        left, right = cast("dict[str, Any]", one), cast("dict[str, Any]", other)
        return left.keys() == right.keys() and all(alike(left[key], right[key]) for key in left)
    if isinstance(one, list):
        ones, others = cast("list[Any]", one), cast("list[Any]", other)
        return len(ones) == len(others) and all(map(alike, ones, others))
    return repr(one) == repr(other)


def section_of(raw: Mapping[str, Any], section: Sequence[str]) -> dict[str, Any]:
    """Return the servers at a section of a parsed file; empty if there is no such section."""
    found = value_at(raw, tuple(section))
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def installed(  # noqa: PLR0913, PLR0917 - a text, a place in it, and what comes there
    text: str,
    form: Form,
    section: Sequence[str],
    name: str,
    entry: ClientEntry,
    moved: Iterable[str],
) -> tuple[str, Installation]:
    """Return the text with the hub's entry and without the servers in `moved`, and the record.

    Raises: ConfigError if the text cannot be changed safely.
    """
    raw = parsed(text, form)
    servers = section_of(raw, section)
    taken = {one: servers[one] for one in moved}
    new = text
    for one in taken:
        new = without_entry(new, form, section, one)
    new = with_entry(new, form, section, name, entry)
    start, old, added = _difference(text, new)
    record = Installation(
        section=tuple(section),
        name=name,
        entry=dict(entry),
        start=start,
        old=old,
        new=added,
        after=digest(new),
        has_made_section=not _is_there(raw, section),
        moved=taken,
    )
    return new, record


def uninstalled(text: str, form: Form, record: Installation) -> str:
    """Return the text without what install put in: as it was, if nothing else has changed since.

    Raises:
        EntryEditedError: the hub's entry is not as it was installed.
        ConfigError: the text cannot be changed safely.
    """
    if digest(text) == record.after:
        return _undone(text, record.start, record)
    servers = section_of(parsed(text, form), record.section)
    if record.name in servers and not alike(servers[record.name], record.entry):
        raise EntryEditedError(servers[record.name])
    expected = _expected(text, form, record)
    if record.new and text.count(record.new) == 1:
        literal = _undone(text, text.index(record.new), record)
        if _is(literal, form, expected):
            return literal
    return _taken_out(text, form, record)


def digest(text: str) -> str:
    """Return the SHA-256 hash of a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _undone(text: str, start: int, record: Installation) -> str:
    return text[:start] + record.old + text[start + len(record.new) :]


def _taken_out(text: str, form: Form, record: Installation) -> str:
    servers = section_of(parsed(text, form), record.section)
    new = text
    if record.name in servers:
        new = without_entry(new, form, record.section, record.name)
    for name, value in record.moved.items():
        if name not in servers:
            new = with_entry(new, form, record.section, name, cast("ClientEntry", value))
    if record.has_made_section and form != "toml":
        raw = parsed(new, form)
        if _is_there(raw, record.section) and not section_of(raw, record.section):
            new = without_entry(new, form, record.section[:-1], record.section[-1])
    return new


def _expected(text: str, form: Form, record: Installation) -> dict[str, Any]:
    raw = copy.deepcopy(parsed(text, form))
    servers = section_of(raw, record.section)
    servers.pop(record.name, None)
    for name, value in record.moved.items():
        servers.setdefault(name, value)
    if record.has_made_section and not servers:
        around = section_of(raw, record.section[:-1]) if record.section[:-1] else raw
        around.pop(record.section[-1], None)
    return raw


def with_entry(text: str, form: Form, section: Sequence[str], name: str, value: ClientEntry) -> str:
    """Return the text with one more entry. Raises: ConfigError if that cannot be done safely."""
    expected = copy.deepcopy(parsed(text, form))
    around: dict[str, Any] = expected
    for key in section:
        around[key] = around[key] if isinstance(around.get(key), dict) else {}
        around = around[key]
    around[name] = value
    found = _EDITORS[real_form(text, form)].with_member(text, section, name, value)
    return found if _is(found, form, expected) else awkward(".".join(section))


def without_entry(text: str, form: Form, section: Sequence[str], name: str) -> str:
    """Return the text without an entry; raises as `with_entry` does."""
    expected = copy.deepcopy(parsed(text, form))
    around = section_of(expected, section) if section else expected
    del around[name]
    for found in _EDITORS[real_form(text, form)].without_member(text, section, name):
        if _is(found, form, expected):
            return found
        if form == "toml" and not around:
            # The section was there only as a part of its last table's name.
            del expected[section[0]]
            if _is(found, form, expected):
                return found
    return awkward(".".join([*section, name]))


def _is(text: str, form: Form, expected: Mapping[str, Any]) -> bool:
    try:
        return alike(parsed(text, form), expected)
    except (ValueError, SyntaxMistakesError):
        return False


def _is_there(raw: Mapping[str, Any], section: Sequence[str]) -> bool:
    return section[-1] in section_of(raw, section[:-1])


def _difference(old: str, new: str) -> tuple[int, str, str]:
    """Return the one place where two texts differ: its start, and what each has there."""
    start = in_common(old, new)
    end = in_common(old[start:][::-1], new[start:][::-1])
    return start, old[start : len(old) - end], new[start : len(new) - end]


def in_common(one: Sequence[str], other: Sequence[str]) -> int:
    """Return how many characters, or lines, two texts have in common at their start."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def install_record(machine: Machine) -> InstallRecord:
    """Return the user's record."""
    return InstallRecord(record_path(machine, "installed.json"))


class InstallRecord:
    """The installations of this user, by the file that each is in."""

    def __init__(self, file: Path | None) -> None:
        self._state = StateFile(file)

    def of(self, path: Path) -> Installation | None:
        """Return what was installed into a file; None if nothing is known."""
        try:
            return msgspec.convert(self._state.read().get(_key(path)), Installation)
        except msgspec.ValidationError:
            return None

    def set(self, path: Path, made: Installation | None) -> None:
        """Remember what was installed into a file; None forgets it.

        Raises: StartError if the record cannot be written.
        """
        value = None if made is None else cast("Json", msgspec.to_builtins(made))
        try:
            self._state.write(_key(path), value)
        except OSError as exc:
            fix = (
                "Make it writable, on a disk with room: without it nothing can be taken out again."
            )
            raise StartError(f"{self._state.path}: {exc.strerror}", fix) from exc


def _key(path: Path) -> str:
    return str(path.resolve())
