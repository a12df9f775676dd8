"""What is wrong with the values of a config: one `Problem` for each mistake that pydantic finds.

Here its errors become sentences of our own, with a remedy that can be written into the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

from msgspec import Struct
from msgspec.structs import replace
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from hub.config.fields import URL_PATH
from hub.config.models import RemoteServer
from hub.config.source.places import Path, may_be_shown
from hub.config.suggestions import (
    TOP,
    all_keys,
    example_at,
    keys_at,
    likely_key,
    likely_value,
    seconds_in,
)
from hub.launch.templates import TemplateError

Words: TypeAlias = tuple[str, str]
"""What is wrong, and the remedy."""


_NO_VERSION: Final = (
    "Write `version: 1` as the first line. Other programs' files have `mcpServers`."
)


class Problem(Struct, frozen=True):
    """One mistake in a config, at a path; `of_key`: the key is wrong, not its value.

    `is_outside`: the file is as it should be, but not what it refers to, such as a variable.
    `variable` is the environment variable that is not set; None if that is not the reason.
    """

    path: Path
    what: str
    fix: str
    of_key: bool = False
    is_outside: bool = False
    variable: str | None = None


def problems_in(error: ValidationError) -> Iterator[Problem]:
    """Yield what is wrong with a config, in its order. No text has a value that may be a secret."""
    errors = error.errors(include_url=False)
    found = [_problem(details) for details in errors]
    meant = dict(_missing_and_unknown(errors))
    for details, problem in zip(errors, found, strict=True):
        around, key = details["loc"][:-1], details["loc"][-1:]
        if around not in meant:
            yield problem
        elif details["type"] == "extra_forbidden":
            yield replace(problem, fix=f"Write `{meant[around]}`.")
        elif key != (meant[around],):
            yield problem


def _missing_and_unknown(errors: list[ErrorDetails]) -> Iterator[tuple[Path, str]]:
    """Yield each mapping that lacks one key and has one unknown key, and the key it lacks."""
    lacks: dict[Path, list[str]] = {}
    has: dict[Path, list[str]] = {}
    for details in errors:
        around, key = details["loc"][:-1], str(details["loc"][-1])
        if details["type"] == "missing":
            lacks.setdefault(around, []).append(key)
        elif details["type"] == "extra_forbidden":
            has.setdefault(around, []).append(key)
    for around, keys in lacks.items():
        unknown = has.get(around, [])
        if len(keys) == 1 == len(unknown) and (around or likely_key(unknown[0], keys)):
            yield around, keys[0]


def _problem(details: ErrorDetails) -> Problem:
    path, of_key = _path(details["loc"])
    cause = details.get("ctx", {}).get("error")
    if isinstance(cause, TemplateError):
        outside = cause.variable is not None
        return Problem(path, str(cause), cause.fix, of_key, outside, cause.variable)
    kind = details["type"]
    if kind == "extra_forbidden":
        return Problem(path, "unknown key", _for_unknown(path), of_key=True)
    if kind == "missing":
        *around, key = path
        fix = _NO_VERSION if key == "version" else f"Write `{key}: ...` here."
        return Problem(tuple(around), f"{key} is missing", fix)
    if cause is not None:
        fix = getattr(cause, "fix", None) or "Correct it."
        return Problem(path, str(cause), fix, of_key, bool(getattr(cause, "is_outside", False)))
    if kind == "one_way" and (misspelt := _misspelt_way(details["input"])) is not None:
        key, meant = misspelt
        return Problem((*path, key), "unknown key", f"Write `{meant}`.", of_key=True)
    what, fix = _words(details, path)
    return Problem(path, what, fix, of_key)


def _path(loc: tuple[str | int, ...]) -> tuple[Path, bool]:
    """Return the place of an error, without pydantic's own words, and whether it is a key's."""
    path = list(loc)
    if path[:1] == ["servers"] and path[2:3] in (["command"], ["url"]):
        del path[2]  # the tag of the union
    of_key = path[-1:] == ["[key]"]
    return tuple(part for part in path if part != "[key]"), of_key


_FOREIGN: Final[Mapping[str, str]] = {
    "type": "Leave it out: `command` or `url` tells the transport (SSE: `transport: sse`).",
    **dict.fromkeys(("disabled", "enabled"), "To disable a server, comment it out."),
    **dict.fromkeys(("envFile", "env_file"), "Write its variables into `env`."),
    "mcpServers": "Write `servers`, or take `version` out of another program's file.",
}
"""Advice for keys of other programs' configs that hub.yaml does not have."""


def _for_unknown(path: Path) -> str:
    key, around = str(path[-1]), path[:-1]
    here = keys_at(around)
    if key.partition(":")[0] in here:
        return _for_known(key)
    meant = likely_key(key, here)
    is_elsewhere = key in all_keys()
    if meant is not None and (not is_elsewhere or (around and meant == f"{key}s")):
        return f"Write `{meant}`."
    if key in _FOREIGN and not is_elsewhere:
        return _FOREIGN[key]
    elsewhere = likely_key(key, all_keys(), cutoff=0.85)
    homes = "" if elsewhere is None else " or ".join(_homes(elsewhere, around))
    if homes and is_elsewhere:
        return f"It belongs in {homes}."
    if homes:
        return f"Did you mean `{elsewhere}` of {homes}?"
    return f"Take it out. Keys here are: {', '.join(here)}." if here else "Take it out."


def _homes(key: str, around: Path) -> Sequence[str]:
    """Return where a key of other places belongs that was found in a wrong one.

    Of several places these are the likely ones: those in the same section, and the top level.
    """
    places = all_keys()[key]
    if len(places) == 1 or not around:
        return places
    section = str(around[0])
    return [one for one in places if one == TOP or one.partition(".")[0] == section]


def _for_known(key: str) -> str:
    """Return the remedy for a key that is glued to its value, or of the other kind of server."""
    if ":" in key:
        return f"Write `{key.partition(':')[0]}: ...`, with a space after the colon."
    kind = "url" if key in RemoteServer.model_fields else "command"
    return f"Take it out: it is a key of servers with a `{kind}`."


def _for_nothing(key: str, path: Path) -> str:
    if path == ("servers",):
        return "Write the servers below it, indented: `servers: {files: {command: ...}}`."
    if len(path) == len(("servers", "NAME")) and path[0] == "servers":
        return "Write its `command` or `url` below it, indented further."
    if ":" in key:
        return f"Write `{key.partition(':')[0]}: ...`, with a space after the colon."
    if path[-2:-1] == ("env",):
        return f'Write "" for an empty text, or "${{{key}}}" for the hub\'s own value.'
    if isinstance(path[-1], int):
        return "Write a text, or take it out."
    return f"Write a value for `{key}`, or take the key out."


def _words(details: ErrorDetails, path: Path) -> Words:
    kind = details["type"]
    key = next((part for part in reversed(path) if isinstance(part, str)), "it")
    if details["input"] is None and not kind.startswith("literal"):
        return "has no value", _for_nothing(key, path)
    explain = _EXPLAINED.get(kind)
    if explain is None:
        return "has a value that does not fit", "`roots-hub schema` prints what fits."
    return explain(details, key, path)


def _number(details: ErrorDetails, key: str, path: Path) -> Words:
    value, is_time = details["input"], details["type"].startswith(("float", "finite"))
    what = "must be a number of seconds" if is_time else "must be a whole number"
    if key.endswith("_per_second"):
        what, is_time = "must be a number", False
    if isinstance(value, str) and is_time and (seconds := seconds_in(value)) is not None:
        return what, f"Write `{key}: {seconds:g}`."
    if key == "port" and isinstance(value, str) and (port := value.rpartition(":")[2]).isdigit():
        rest = "; the address goes into `host`" if ":" in value else ", without quotes"
        return what, f"Write `port: {port}`{rest}."
    if isinstance(value, str) and value.strip().removeprefix("-").isdigit():
        return what, f"Write `{key}: {value.strip()}`, without quotes."
    if isinstance(value, float) and value.is_integer():
        return what, f"Write `{key}: {value:.0f}`."
    return what, f"Write a number, such as `{key}: {example_at(path)}`."


_BOUNDS: Final = {"gt": "more than", "ge": "at least", "le": "at most", "lt": "less than"}


def _bound(details: ErrorDetails, key: str, path: Path) -> Words:
    bounds = details.get("ctx", {})
    for word, said in _BOUNDS.items():
        if word in bounds:
            limit = f"{bounds[word]:g}"
            what = f"must be {said} {limit}"
            return what, f"Write a number that is {said} {limit}, such as {example_at(path)}."
    return "is outside of its bounds", "Write another number."


def _flag(details: ErrorDetails, key: str, path: Path) -> Words:
    said = {"yes": "true", "on": "true", "1": "true", "no": "false", "off": "false", "0": "false"}
    text = str(details["input"]).lower().strip()
    meant = said.get(text, text if text in {"true", "false"} else None)
    fix = f"Write `{key}: {meant}`, without quotes." if meant else "Write true or false."
    return "must be true or false", fix


def _text(details: ErrorDetails, key: str, path: Path) -> Words:
    value = details["input"]
    if isinstance(value, list):
        fix = f"Write `{key}: ...` with one text."
        if key == "command":
            fix = "Write the first word here, and the others into `args`."
        elif isinstance(path[-1], int):
            fix = "Write one text."
        return "must be one text, not a list", fix
    if isinstance(value, dict):
        return "must be a text, not a mapping", "Write one text. A `: ` or a brace needs quotes."
    return "must be a text", "Put it in quotes."


def _list(details: ErrorDetails, key: str, path: Path) -> Words:
    value = details["input"]
    if isinstance(value, str | int | float) and may_be_shown(str(value), path):
        words = value.split() if isinstance(value, str) and key == "args" else [value]
        if len(words) > 1:
            shown = ", ".join(f'"{word}"' for word in words)
        else:
            shown = f'"{value}"' if isinstance(value, str) else str(value)
        return "must be a list", f"Write `{key}: [{shown}]`."
    if isinstance(value, dict):
        return "must be a list, not a mapping", f"Write `{key}: [...]`."
    return "must be a list", f"Put it in brackets: `{key}: [...]`."


def _mapping(details: ErrorDetails, key: str, path: Path) -> Words:
    value = details["input"]
    is_list = isinstance(value, list)
    what = "must be a mapping, not a list" if is_list else "must be a mapping"
    if path == ("servers",):
        return what, "Write each server's name as a key: `servers: {files: {command: ...}}`."
    if key in {"env", "headers"}:
        return what, f'Write `{key}: {{"NAME": "value"}}`.'
    keys = keys_at(path)
    if len(keys) == 1 and isinstance(value, str) and may_be_shown(value, path):
        return what, f"Write `{key}: {{{keys[0]}: {value}}}`."
    known = ", ".join(keys[:6])
    if keys and isinstance(path[-1], int):
        return what, f"Write `- {keys[0]}: ...` and its keys below it: {known}."
    return what, f"Write `{key}:` and its keys below it: {known}." if known else (
        f"Write `{key}: {{KEY: VALUE}}`."
    )


def _choice(details: ErrorDetails, key: str, path: Path) -> Words:
    expected = str(details.get("ctx", {}).get("expected", "")).replace(" or ", ", ")
    choices = [choice.strip().strip("'") for choice in expected.split(",")]
    if key == "version":
        return "must be the number 1", "Write `version: 1`."
    what = f"must be {_either(choices)}"
    meant = likely_value(details["input"], choices)
    if meant is not None:
        is_in_list = isinstance(path[-1], int)
        return what, f"Write `{meant}`." if is_in_list else f"Write `{key}: {meant}`."
    return what, f"Write {_either([f'`{choice}`' for choice in choices])}."


def _either(choices: list[str]) -> str:
    *most, last = choices
    return f"{', '.join(most)} or {last}" if most else last


def _length(details: ErrorDetails, key: str, path: Path) -> Words:
    if details["type"] == "string_too_short":
        return "is empty", "Write a text." if path[:1] != ("servers",) else "Write a name."
    limit = details.get("ctx", {}).get("max_length", 64)
    return f"is longer than {limit} characters", "Write a shorter one."


def _pattern(details: ErrorDetails, key: str, path: Path) -> Words:
    if details.get("ctx", {}).get("pattern") == URL_PATH:
        meant = re.split("[?#]", str(details["input"]).lstrip("/"))[0]
        return "must begin with /, and have no ? or #", f"Write `{key}: /{meant}`."
    return "is no name of a variable: it is empty or has `=`", "Write `NAME: value`."


def _misspelt_way(server: object) -> tuple[str, str] | None:
    """Return a key of a server that probably stands for `command` or `url`, and that word."""
    keys = list(map(str, cast("Mapping[Any, Any]", server))) if isinstance(server, dict) else []
    if "command" in keys or "url" in keys:
        return None
    pairs = ((name, likely_key(name, ("command", "url"))) for name in keys)
    return next(((name, meant) for name, meant in pairs if meant is not None), None)


def with_one_way(server: object) -> tuple[dict[Any, Any], str] | None:
    """Return a server as it is probably meant, where it does not have just one of command and url.

    So its other mistakes can be found. The text is the key that is not as it is written. None if it
    needs no such change, or is no mapping.
    """
    if not isinstance(server, dict):
        return None
    entry = dict(cast("Mapping[Any, Any]", server))
    misspelt = _misspelt_way(entry)
    if misspelt is not None:
        key, meant = misspelt
        return {meant if name == key else name: value for name, value in entry.items()}, meant
    if "command" in entry and "url" in entry:
        del entry["url"]
        return entry, "url"
    if "command" not in entry and "url" not in entry:
        is_remote = not {"headers", "transport", "paths"}.isdisjoint(entry)
        key, value = ("url", "https://localhost/") if is_remote else ("command", "x")
        return {key: value, **entry}, key
    return None


def _one_way(details: ErrorDetails, key: str, path: Path) -> Words:
    server: Any = details["input"]
    if isinstance(server, str):
        words = server.split()
        args = f", args: [{', '.join(words[1:])}]" if len(words) > 1 else ""
        if may_be_shown(server, path) and words:
            return "must be a mapping", f"Write `{{command: {words[0]}{args}}}`."
    if not isinstance(server, dict):
        return "must be a mapping", "Give it a `command` and `args`, or a `url`."
    if {"command", "url"} <= cast("Mapping[Any, Any]", server).keys():
        return "has both a command and a url", "Take one of them out."
    return "has no command and no url", "Give it either a `command` or a `url`."


_EXPLAINED: Final[Mapping[str, Callable[[ErrorDetails, str, Path], Words]]] = {
    **dict.fromkeys(("int_type", "int_from_float", "int_parsing"), _number),
    **dict.fromkeys(("float_type", "finite_number"), _number),
    **dict.fromkeys(("greater_than", "greater_than_equal", "less_than", "less_than_equal"), _bound),
    "bool_type": _flag,
    "string_type": _text,
    "tuple_type": _list,
    **dict.fromkeys(("dict_type", "mapping_type", "model_type", "model_attributes_type"), _mapping),
    **dict.fromkeys(("literal_error", "enum"), _choice),
    **dict.fromkeys(("string_too_short", "string_too_long"), _length),
    "string_pattern_mismatch": _pattern,
    "one_way": _one_way,
}
"""The errors that pydantic has for the config's models, by its name for them."""
