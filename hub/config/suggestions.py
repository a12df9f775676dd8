"""What the operator probably meant: a key, a value or a number of seconds."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Final, cast

from hub.config.models import json_schema
from hub.config.source.documents import ParsedConfig
from hub.config.source.places import Path

_SYNONYMS: Final[Mapping[str, str]] = {
    word: key
    for key, words in {
        "command": ("cmd", "exec", "program"),
        "args": ("arguments", "argv"),
        "env": ("envs", "environ", "environmentvariables"),
        "url": ("uri", "endpoint", "serverurl", "httpurl"),
        "cwd": ("workdir", "workingdir", "workingdirectory", "directory"),
        "servers": ("mcpservers", "contextservers"),
        "host": ("bind", "address"),
        "start_timeout": ("startuptimeout",),
    }.items()
    for word in words
}
"""Words that other programs have for keys of the hub, without `_` and in lower case."""

TOP: Final = "the top level"

_UNITS: Final = (
    (re.compile(r"ms|millis\w*"), 0.001),
    (re.compile(r"s|secs?|seconds?"), 1),
    (re.compile(r"m|mins?|minutes?"), 60),
    (re.compile(r"h|hrs?|hours?"), 3600),
    (re.compile(r"d|days?"), 86400),
)
_AMOUNT: Final = re.compile(r"\s*(\d+(?:[.,]\d+)?)\s*([A-Za-z]*)\.?\s*(?:,|and)?")


def seconds_in(text: str) -> float | None:
    """Return the seconds in a text such as `5 minutes` or `1h30m`; None if it is no time."""
    seconds, at = 0.0, 0
    while at < len(text.rstrip()):
        found = _AMOUNT.match(text, at)
        if found is None:
            return None
        unit = found[2].lower()
        factor = next((size for name, size in _UNITS if name.fullmatch(unit)), None)
        if factor is None and unit:
            return None
        seconds += float(found[1].replace(",", ".")) * (1 if factor is None else factor)
        at = found.end()
    return seconds if at else None


def likely_key(key: str, known: Iterable[str], *, cutoff: float = 0.7) -> str | None:
    """Return the known key that `key` probably stands for."""
    plain = {_plain(name): name for name in known}
    wanted = _plain(key)
    if wanted in plain:
        return plain[wanted]
    if (meant := _SYNONYMS.get(wanted)) in plain.values():
        return meant
    swapped = next((word for word in plain if sorted(word) == sorted(wanted)), None)
    near = [swapped] if swapped else difflib.get_close_matches(wanted, plain, n=1, cutoff=cutoff)
    return plain[near[0]] if near else None


def likely_value(value: object, choices: Iterable[str]) -> str | None:
    """Return the choice that a wrong value probably stands for."""
    plain = {_plain(choice): choice for choice in choices}
    if not isinstance(value, str):
        return "off" if value is False and "off" in plain else None
    inside = [plain[word] for word in plain if word in _plain(value)]
    if len(inside) == 1:  # `streamable-http` means `http`
        return inside[0]
    near = difflib.get_close_matches(_plain(value), plain, n=1, cutoff=0.6)
    return plain[near[0]] if near else None


def _plain(word: str) -> str:
    return re.sub(r"[-_\s]", "", word).lower()


def keys_at(path: Path) -> list[str]:
    """Return the keys of hub.yaml at a path."""
    schema = json_schema()
    parts = _parts_at(schema, schema["$defs"], path)
    return list(dict.fromkeys(key for part in parts for key in part.get("properties", {})))


def example_at(path: Path) -> object:
    """Return the default of a number in hub.yaml, else one that fits."""
    schema = json_schema()
    for part in _parts_at(schema, schema["$defs"], path[:-1]):
        if (found := part.get("properties", {}).get(path[-1])) is not None:
            shapes = cast("list[ParsedConfig]", [found, *found.get("anyOf", ())])
            least = next((one["minimum"] for one in shapes if one.get("minimum")), 1)
            return cast("object", found.get("default") or least)
    return 1


@cache
def all_keys() -> Mapping[str, Sequence[str]]:
    """Return all keys of hub.yaml, each with its places."""
    schema = json_schema()
    places: dict[str, set[str]] = {}
    for name, where in _keys(schema, schema["$defs"], ""):
        if where.startswith("profiles.NAME."):
            continue  # they are also elsewhere, for all clients
        places.setdefault(name, set()).add(where or TOP)
    return {name: sorted(where) for name, where in places.items()}


def _parts_at(part: ParsedConfig, parts: ParsedConfig, path: Path) -> Iterator[ParsedConfig]:
    """Yield the parts of the JSON Schema that a value at a path may have."""
    part = parts[part["$ref"].rpartition("/")[2]] if "$ref" in part else part
    for other in (*part.get("anyOf", ()), *part.get("oneOf", ())):
        yield from _parts_at(other, parts, path)
    if not path:
        yield part
        return
    step, rest = path[0], path[1:]
    properties = part.get("properties", {})
    below = part.get("items") if isinstance(step, int) else properties.get(step)
    if below is None and isinstance(step, str) and not properties:
        below = part.get("additionalProperties")
    if isinstance(below, dict):
        yield from _parts_at(cast("ParsedConfig", below), parts, rest)


def _keys(part: ParsedConfig, parts: ParsedConfig, where: str) -> Iterator[tuple[str, str]]:
    """Yield each key in a part of the config's JSON Schema, nested ones too, with its place."""
    part = parts[part["$ref"].rpartition("/")[2]] if "$ref" in part else part
    for name, inner in part.get("properties", {}).items():
        yield name, where
        yield from _keys(inner, parts, f"{where}.{name}".lstrip("."))
    for word, below in (("additionalProperties", ".NAME"), ("items", "[]")):
        if isinstance(inner := part.get(word), dict):
            yield from _keys(cast("ParsedConfig", inner), parts, f"{where}{below}")
    for other in (*part.get("anyOf", ()), *part.get("oneOf", ())):
        yield from _keys(other, parts, where)
