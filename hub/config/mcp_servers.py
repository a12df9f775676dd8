"""Translate configs of MCP clients (`mcpServers`, VS Code's `servers`, Zed's) to hub.yaml's shape.

Keys that the hub does not know are left out with a warning, as other programs write these files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from msgspec import Struct

from hub.errors import ConfigError
from hub.launch.templates import literal

ParsedConfig: TypeAlias = dict[str, Any]
"""A mapping as parsed from a file."""

_KEPT: Final = ("command", "args", "env", "cwd", "url", "headers")
_REMOTE: Final = ("url", "headers", "transport", "tools")
_URL_SPELLINGS: Final = ("serverUrl", "httpUrl")
_TOOLS: Final = {
    "tools": "allow",
    "includeTools": "allow",
    "excludeTools": "deny",
    "disabledTools": "deny",
}
"""Keys of clients for lists of tools, and the matching key of the hub's `tools`."""

_SWITCHES: Final = {"disabled": True, "enabled": False}
"""Keys that can turn a server off, and the value that does."""

_READ: Final = frozenset(
    {*_KEPT, *_URL_SPELLINGS, *_TOOLS, *_SWITCHES, "type", "transport", "source", "envFile"}
)
_SECTIONS: Final = ("mcpServers", "context_servers")
_TRANSPORTS: Final[Mapping[str, str | None]] = {
    "stdio": None,
    "local": None,
    "http": "http",
    "streamable-http": "http",
    "streamableHttp": "http",
    "streamable_http": "http",
    "sse": "sse",
}
_THEIR_PLACEHOLDER: Final = re.compile(
    r"\$\{(env:(?P<name>\w+)|workspaceFolder|userHome|pathSeparator|/)\}"
)


class Translated(Struct, frozen=True):
    """A client's config in the hub's shape; `section` is the key that held its servers."""

    raw: ParsedConfig
    section: str
    warnings: tuple[str, ...]


def translated(raw: ParsedConfig, *, home: str | None, plain_servers: bool) -> Translated | None:
    """Return `raw` in the hub's shape, or None if `raw` is not a client's config.

    With `plain_servers`, a bare `servers` without `version` (VS Code) counts as a client's config.

    Raises:
        ConfigError: an entry is not a mapping, has an unknown transport or an on/off switch that
            is not a boolean; or all entries are turned off.
    """
    section = next((key for key in _SECTIONS if key in raw), "servers")
    if section == "servers" and not (plain_servers and "servers" in raw and "version" not in raw):
        return None
    entries = raw[section]
    if not isinstance(entries, dict):
        raise ConfigError(f"{section}: must be a mapping", "Name each server in it.")
    warnings = _left_out("", (key for key in raw if key != section))
    servers: ParsedConfig = {}
    for name, entry in _items(entries):
        where = f"{section}.{name}"
        if not isinstance(entry, dict):
            raise ConfigError(f"{where}: must be a mapping", "Give it a command or a url.")
        fields = dict(_items(entry))
        warnings += _left_out(where, (key for key in fields if key not in _READ))
        if _is_off(where, fields):
            continue
        if "envFile" in fields:
            warnings.append(f"{where}: envFile is not read: write its variables into env")
        servers[name] = _server(where, _flat(fields), home)
    if entries and not servers:
        raise ConfigError(f"{section}: every server is disabled", "Enable one.")
    return Translated({"version": 1, "servers": servers}, section, tuple(warnings))


def _is_off(where: str, fields: ParsedConfig) -> bool:
    for switch in _SWITCHES:
        if not isinstance(fields.get(switch), bool | None):
            raise ConfigError(
                f"{where}.{switch}: must be true or false", "Write it without quotes."
            )
    return any(fields.get(switch) is off for switch, off in _SWITCHES.items())


def _flat(fields: ParsedConfig) -> ParsedConfig:
    """Return an entry with a nested `command` mapping flattened: older Zeds write that."""
    command = fields.get("command")
    if not isinstance(command, dict):
        return fields
    inner = dict(_items(command))
    inner["command"] = inner.pop("path", None)
    return {**fields, **inner}


def _tools(where: str, fields: ParsedConfig) -> ParsedConfig:
    tools: ParsedConfig = {}
    for key, ours in _TOOLS.items():
        names = fields.get(key)
        if isinstance(names, list):
            tools.setdefault(ours, []).extend(_elements(names))
        elif names is not None:
            raise ConfigError(f"{where}.{key}: must be a list", "Name the tools in it.")
    return tools


def _server(where: str, fields: ParsedConfig, home: str | None) -> ParsedConfig:
    kept = {key: fields[key] for key in _KEPT if fields.get(key) is not None}
    if tools := _tools(where, fields):
        kept["tools"] = tools
    for spelling in _URL_SPELLINGS:
        if fields.get(spelling) is not None:
            kept.setdefault("url", fields[spelling])
    kind = fields.get("type") or fields.get("transport")
    if kind is not None:
        _choose(kept, _transport(where, kind))
    if "command" not in kept:
        kept = {key: kept[key] for key in _REMOTE if key in kept}
    elif "url" not in kept:
        kept.pop("headers", None)
    return _respelled(kept, lambda text: _THEIR_PLACEHOLDER.sub(lambda m: _ours(m, home), text))


def _transport(where: str, kind: object) -> str | None:
    """Return the hub's name of a transport; None for stdio."""
    if not isinstance(kind, str) or kind not in _TRANSPORTS:
        raise ConfigError(
            f"{where}.type: unknown transport",
            "Use stdio, http or sse, or leave the server out by `disabled: true`.",
        )
    return _TRANSPORTS[kind]


def _choose(kept: ParsedConfig, transport: str | None) -> None:
    if transport is None:
        kept.pop("url", None)
    else:
        kept.pop("command", None)
        kept["transport"] = transport


def _ours(found: re.Match[str], home: str | None) -> str:
    if found["name"]:
        return f"${{{found['name']}}}"
    if found[1] == "workspaceFolder":
        return "${root}"
    return literal(home or "~") if found[1] == "userHome" else os.sep


def _respelled(value: Any, respell: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return respell(value)
    if isinstance(value, list):
        return [_respelled(one, respell) for one in _elements(value)]
    if isinstance(value, dict):
        return {key: _respelled(one, respell) for key, one in _items(value)}
    return value


def _left_out(where: str, keys: Iterable[str]) -> list[str]:
    names = ", ".join(keys)
    return [f"{where}: ignored: {names}".removeprefix(": ")] if names else []


def _items(value: Any) -> list[tuple[str, Any]]:
    return [(str(key), one) for key, one in value.items()]


def _elements(value: Any) -> list[Any]:
    return list(value)
