"""Load and validate a config: hub.yaml, an MCP client's JSON, inline JSON or a command line."""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

from msgspec import Struct
from msgspec.structs import replace
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from hub.config.fields import LoadContext
from hub.config.mcp_servers import ParsedConfig, translated
from hub.config.models import HubConfig, check, check_access, json_schema
from hub.errors import ConfigError
from hub.launch.environments import Inherits
from hub.launch.filesystem_servers import program_index, short_name
from hub.launch.templates import TemplateError

_JSON_EXTRAS: Final = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/|,(?=\s*[}\]])', re.DOTALL)
_TARGETS: Final = ("command", "url")
_SENTENCES: Final[Mapping[str, str]] = {
    "extra_forbidden": "unknown key",
    "missing": "is missing",
    "tuple_type": "must be a list",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "model_attributes_type": "must be a mapping",
    "string_type": "must be a string; put it in quotes",
}

_FOREIGN: Final[Mapping[str, str]] = {
    "type": "Leave it out: `command` or `url` tells the transport (SSE: `transport: sse`). ",
    "disabled": "To disable a server, comment it out. ",
}
"""Advice for keys of other programs' configs that hub.yaml does not have."""


class Loaded(Struct, frozen=True):
    """A config, and warnings for the operator."""

    config: HubConfig
    warnings: tuple[str, ...] = ()


def config_source(option: str | None, environment: Mapping[str, str]) -> str | None:
    """Return the config's source: `--config`, else `HUB_CONFIG`, else None. No search path."""
    return option or environment.get("HUB_CONFIG") or None


def load_config(source: str, context: LoadContext) -> Loaded:
    """Return the config in the file `source`, or in `source` itself if it is JSON text.

    Relative paths in a file start at its directory. Environment variables are read once, here,
    except those in launch commands; these must be set here as well.

    Raises:
        ConfigError: the file cannot be read or is wrong. Names the place, never shows a value.
    """
    inline = source.lstrip().startswith("{")
    origin = "the config" if inline else source
    section = "servers"
    warnings: tuple[str, ...] = ()
    try:
        text = source if inline else _text(context.directory / source, context.digest)
        is_json = inline or (source.endswith((".json", ".jsonc")))
        raw = _json(text) if is_json else _yaml(text)
        client = translated(raw, home=context.home, plain_servers=is_json)
        if client is not None:
            raw, section, warnings = client.raw, client.section, client.warnings
        if not inline:
            context = replace(context, directory=(context.directory / source).parent.absolute())
        config = _validated(raw, context)
    except ConfigError as error:
        where = re.sub(r"^servers\b", section, error.where)
        raise ConfigError(f"{origin}: {where}", error.fix) from None
    return Loaded(config, tuple(f"{origin}: {warning}" for warning in warnings))


def is_own_config(source: str, context: LoadContext) -> bool:
    """Return whether `source`, a config that loads, is a hub.yaml and not a client's config."""
    if source.lstrip().startswith("{") or source.endswith((".json", ".jsonc")):
        return False
    raw = _yaml(_text(context.directory / source))
    return translated(raw, home=context.home, plain_servers=False) is None


def config_from_command(
    argv: Sequence[str], context: LoadContext, *, environment: Inherits = "default"
) -> HubConfig:
    """Return a config with one server, which `argv` starts; its name comes from the program.

    Raises:
        ConfigError: a placeholder in `argv` is wrong or not set.
    """
    program = short_name(argv[program_index(argv)])
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", program).strip("-.")[:64] or "server"
    server = {"command": argv[0], "args": list(argv[1:]), "environment": environment}
    return _validated({"version": 1, "servers": {name: server}}, context)


def _validated(raw: ParsedConfig, context: LoadContext) -> HubConfig:
    try:
        config = HubConfig.model_validate(raw, context=context)
    except ValidationError as error:
        raise _as_config_error(error.errors(include_url=False)[0]) from None
    check(config)
    check_access(config.listen, context.environment)
    return config


def _as_config_error(error: ErrorDetails) -> ConfigError:
    kind, location = error["type"], list(error["loc"])
    if location[:1] == ["servers"] and location[2:3] in (["command"], ["url"]):
        del location[2]  # pydantic's tag of the union
    where = "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" for part in location if part != "[key]"
    ).removeprefix(".")
    message = error["msg"].removeprefix("Value error, ").removeprefix("Input ")
    return ConfigError(f"{where}: {_SENTENCES.get(kind, message)}", _fix(error))


def _fix(error: ErrorDetails) -> str:
    """Return the remedy for a validation error. Never shows a value."""
    see = "`roots-hub schema` describes every key."
    cause = error.get("ctx", {}).get("error")
    if isinstance(cause, TemplateError):
        return cause.fix
    match error["type"], error["loc"]:
        case "missing", ("version",):
            return (
                "Start with `version: 1` and `servers:`; other programs' files have `mcpServers`."
            )
        case "extra_forbidden", (*_, key):
            return _suggestion(str(key)) + see
        case "one_way", _:
            return _target_fix(error["input"])
        case _:
            return see


def _target_fix(server: object) -> str:
    """Return the remedy for a server without exactly one of `command` and `url`."""
    keys = map(str, cast("ParsedConfig", server)) if isinstance(server, dict) else ()
    near = [one for key in keys for one in difflib.get_close_matches(key, _TARGETS) if one != key]
    return f"Did you mean {near[0]}?" if near else "Give it either a command or a url."


def _suggestion(key: str) -> str:
    """Return where an unknown key belongs, or the key that was probably meant."""
    if key in _FOREIGN:
        return _FOREIGN[key]
    schema = json_schema()
    known = set(_keys(schema, schema["$defs"], ""))
    homes = sorted({where or "the top level" for name, where in known if name == key})
    if homes:
        return f"It belongs in {' or '.join(homes)}. "
    near = difflib.get_close_matches(key, sorted({name for name, _ in known}), n=1)
    return f"Did you mean {near[0]}? " if near else ""


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


def _text(path: Path, digest: str | None = None) -> str:
    try:
        content = path.read_bytes()
        if digest is not None and hashlib.sha256(content).hexdigest() != digest:
            raise ConfigError("changed since it was trusted", "Start again to be asked about it.")
        return content.decode("utf-8-sig")
    except FileNotFoundError:
        raise ConfigError("no such file", "Name one by --config or HUB_CONFIG.") from None
    except IsADirectoryError as error:
        raise ConfigError(f"{error.strerror}", "Name a file in it.") from None
    except OSError as error:
        raise ConfigError(f"{error.strerror}", "Make the file readable.") from None
    except UnicodeDecodeError:
        raise ConfigError("is not UTF-8", "Save the file in that encoding.") from None


def _json(text: str) -> ParsedConfig:
    """Return the mapping in a JSON text. Comments and trailing commas are allowed."""
    for _ in ("comments", "the commas that came before them"):
        text = _JSON_EXTRAS.sub(_blanked, text)
    try:
        raw = json.loads(text, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}: {error.msg}"
        fix = r"Write each \ twice." if "escape" in error.msg else "Correct the JSON."
        raise ConfigError(where, fix) from None
    return _mapping(raw)


def _blanked(found: re.Match[str]) -> str:
    text = found[0]
    return text if text.startswith('"') else re.sub(r"[^\n]", " ", text)


def _unique(pairs: list[tuple[str, Any]]) -> ParsedConfig:
    seen: ParsedConfig = {}
    for key, value in pairs:
        if key in seen:
            raise ConfigError(f"duplicate key {key!r}", "Keep one of them.")
        seen[key] = value
    return seen


def _yaml(text: str) -> ParsedConfig:
    from hub.config.strict_yaml import read_yaml  # noqa: PLC0415 - PyYAML is slow to load; JSON and `wrap` need none

    return _mapping(read_yaml(text))


def _mapping(raw: object) -> ParsedConfig:
    if raw is None:
        return {}
    if not isinstance(raw, dict):
        raise ConfigError("must be a mapping", "Start with `version: 1` and `servers:`.")
    return cast("ParsedConfig", raw)
