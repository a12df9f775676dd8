"""Find the servers in the configs of MCP clients; respell their placeholders as the hub does.

Each client has its servers in a place of its own.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

from msgspec import Struct, field

from hub.config.clients.entries import ClientServer, read_entry
from hub.config.fields import LoadContext
from hub.config.source.documents import Document, ParsedConfig
from hub.config.source.places import Path, spelled, value_at
from hub.errors import ConfigError
from hub.launch.templates import input_variable, literal

_THEIRS: Final = re.compile(
    r"\$\{env[:.](?P<editor>\w+)(?P<default>:-[^{}]*)?\}"  # Cursor, VS Code, Windsurf
    r"|\{env:(?P<opencode>\w+)\}"
    r"|\$\{\{\s*(?:secrets|inputs)\.(?P<continue>\w+)\s*\}\}"
    r"|\$\{input:(?P<input>[^{}]+)\}"
    r"|\$\{(?P<place>workspaceFolder(?::[^{}]*)?|workspaceRoot|userHome|pathSeparator|/)\}"
)
_FILE: Final = re.compile(r"(?<!\$)\{(file:[^{}]+)\}")  # OpenCode
_BARE: Final = re.compile(r"(?<![\w$\\])\$([A-Za-z_]\w*)")
_WHOLE: Final = re.compile(r"((?:Bearer |Basic |Token )?)\$([A-Z_][A-Z0-9_]*)")
_PLAIN: Final = re.compile(r"(?<!\$)\$\{(\w+)\}")
_SHELLS: Final = frozenset(
    {"sh", "bash", "zsh", "dash", "fish", "ksh", "cmd", "powershell", "pwsh"}
)


class Respelling(Struct, frozen=True):
    """Respells the placeholders of one file; `defaults` are those of its inputs."""

    home: str | None
    environment: Mapping[str, str]
    defaults: Mapping[str, str] = field(default_factory=dict[str, str])

    def entry(self, server: dict[str, Any]) -> dict[str, Any]:
        """Return a server, in the hub's shape, with the placeholders as the hub spells them.

        An argument's `${NAME}` that the entry's own `env` has a value for is left to the server: no
        client fills it in by that, and a secret in it is not to be seen among the arguments.
        """
        server = _with_own_left(server)
        shell = re.split(r"[\\/]", str(server.get("command", "")))[-1].removesuffix(".exe")
        made = {
            key: self._value(
                value, bare=key != "command" and (key != "args" or shell not in _SHELLS)
            )
            for key, value in server.items()
        }
        for key in {"env", "headers"} & made.keys():  # elsewhere no secret can be
            if isinstance(texts := made[key], dict):
                inner = cast("dict[str, Any]", texts).items()
                made[key] = {
                    name: _FILE.sub(r"${\1}", one) if isinstance(one, str) else one
                    for name, one in inner
                }
        return made

    def _value(self, value: Any, *, bare: bool) -> Any:
        if isinstance(value, str):
            return self._text(value, bare=bare)
        if isinstance(value, list):
            return [self._value(one, bare=bare) for one in cast("list[Any]", value)]
        if isinstance(value, dict):
            inner = cast("dict[str, Any]", value)
            return {key: self._value(one, bare=bare) for key, one in inner.items()}
        return value

    def _text(self, text: str, *, bare: bool) -> str:
        text = _THEIRS.sub(self._ours, text)
        if whole := _WHOLE.fullmatch(text):
            return f"{whole[1]}${{{whole[2]}}}"
        return _BARE.sub(self._set, text) if bare else text

    def _set(self, found: re.Match[str]) -> str:
        """Return `$NAME` as the hub spells it, if there is such a variable."""
        return f"${{{found[1]}}}" if found[1] in self.environment else found[0]

    def _ours(self, found: re.Match[str]) -> str:
        name = found["editor"] or found["opencode"] or found["continue"]
        if name:
            return f"${{{name}{found['default'] or ''}}}"
        if found["input"]:
            default = self.defaults.get(found["input"])
            return found[0] if default is None else f"${{input:{found['input']}:-{default}}}"
        place = found["place"]
        if place.startswith("workspace"):
            return "${root}"
        return literal(self.home or "~") if place == "userHome" else os.sep


def _with_own_left(server: dict[str, Any]) -> dict[str, Any]:
    """Return a server whose arguments have `$${NAME}` for the variables that it gets of its own."""
    args, env = server.get("args"), server.get("env")
    if not isinstance(args, list) or not isinstance(env, dict):
        return server
    values = cast("dict[str, Any]", env).items()
    # A value with a placeholder is no own one: the hub has what is in it, and fills both in.
    own = {name for name, value in values if isinstance(value, str) and "{" not in value}

    def left(found: re.Match[str]) -> str:
        return f"${found[0]}" if found[1] in own else found[0]

    listed = cast("list[Any]", args)
    return server | {"args": [_PLAIN.sub(left, x) if isinstance(x, str) else x for x in listed]}


_SECTIONS: Final[tuple[Path, ...]] = (
    # Claude Desktop, Claude Code, Cursor, Windsurf, Cline, Gemini CLI, Continue, ...
    ("mcpServers",),
    ("context_servers",),  # Zed
    ("mcp_servers",),  # Codex
    ("mcp", "servers"),  # VS Code's settings, OpenCode 2
    ("mcp.servers",),
    ("amp.mcpServers",),
    ("mcp",),  # OpenCode
    ("extensions",),  # Goose
    ("servers",),  # VS Code
)
_OWN_KEYS: Final = ("roots", "guard", "listen", "audit", "expose", "names", "max_children")
"""Keys that only hub.yaml has: beside other programs' sections they have no effect."""
_INPUT: Final = re.compile(r"(?<!\$)\$\{input:([^:{}]+)\}")
_NAMED: Final = 5
"""How many of the ignored keys at the top a warning names."""


class ClientConfig(Struct, frozen=True):
    """The servers of an MCP client's config, by name."""

    entries: dict[str, ClientServer]
    section: Path
    warnings: tuple[str, ...]


class EditorInput(Struct, frozen=True):
    """What an editor would ask its user for: `${input:id}`."""

    id: str
    description: str = ""
    default: str | None = None
    is_secret: bool = True

    @property
    def variable(self) -> str:
        """The environment variable with the value."""
        return input_variable(self.id)


def client_config(document: Document, context: LoadContext) -> ClientConfig | None:
    """Return the servers in a client's config; None if the document has none of its sections.

    Raises: ConfigError if the section is no mapping, or every server in it is turned off.
    """
    found = list(_found(document, context, _SECTIONS))
    if not found:
        return None
    entries = dict(_placed(document, context, found))
    on = {name: entry for name, entry in entries.items() if not entry.is_off}
    if entries and not on:
        fault = document.fault(found[0][0], "every server is disabled", "Enable one.")
        raise ConfigError.of([fault])
    warnings = _ignored(document.raw, {str(path[0]) for path, _ in found})
    for entry in entries.values():
        warnings += [f"{spelled(entry.place)}: {one}" for one in entry.warnings]
    return ClientConfig(on, found[0][0], tuple(warnings))


def entries_in(
    document: Document, context: LoadContext, sections: Sequence[Path] = ()
) -> list[tuple[str, ClientServer]]:
    """Return all servers in a client's config with their names, those that are turned off as well.

    `sections`: where to look; everywhere if there are none.

    Raises: ConfigError if a section is neither a mapping nor a list.
    """
    return list(_placed(document, context, _found(document, context, sections or _SECTIONS)))


def _placed(
    document: Document, context: LoadContext, found: Iterable[tuple[Path, object]]
) -> Iterator[tuple[str, ClientServer]]:
    defaults = {one.id: one.default for one in inputs_in(document) if one.default is not None}
    respelling = Respelling(context.home, context.environment, defaults)
    for section, value in found:
        for name, key, raw in _named(document, section, value):
            entry = read_entry(raw)
            entry.place = (*section, key)
            entry.server = respelling.entry(entry.server)
            if section == ("mcp",) and (hidden := _hidden_in_opencode(document.raw, name)):
                entry.server["tools"] = {"deny": hidden}
                entry.spelled["tools", "deny"] = ("tools",)
            if section == ("mcp",) and _FILE.search(str(entry.server.get("args"))):
                entry.warnings.append("{file:...} is read in environment and headers alone")
            yield name, entry


def _hidden_in_opencode(raw: ParsedConfig, server: str) -> list[str]:
    """Return the tools that OpenCode hides: those of all servers are in one mapping."""
    tools = raw.get("tools")
    said = cast("ParsedConfig", tools).items() if isinstance(tools, dict) else ()
    off = [name for name, is_on in said if is_on is False]
    if {server, f"{server}*"} & set(off):
        return ["*"]
    prefix = f"{server}_"
    return [name.removeprefix(prefix) for name in off if name.startswith(prefix)]


def _found(
    document: Document, context: LoadContext, sections: Sequence[Path]
) -> Iterator[tuple[Path, object]]:
    """Yield the sections with servers, the general one before that of a project."""
    raw = document.raw
    for section in sections:
        value = value_at(raw, section)
        is_there = value is not None or (section[0] in raw and len(section) == 1)
        if is_there and _is_theirs(section, value, document):
            yield section, value
            break
    projects = raw.get("projects")
    if not isinstance(projects, dict):
        return
    # Claude Code keeps the servers of a project by its directory.
    here = context.directory
    for directory in (here, *here.parents):
        section = ("projects", str(directory), "mcpServers")
        if isinstance(value := value_at(raw, section), dict) and value:
            yield section, cast("object", value)
            return


def _is_theirs(section: Path, value: object, document: Document) -> bool:
    if section == ("servers",):
        return document.form == "json" and "version" not in document.raw
    if section in {("mcp",), ("extensions",)}:
        entries = list(cast("ParsedConfig", value).values()) if isinstance(value, dict) else []
        return bool(entries) and all(isinstance(entry, dict) for entry in entries)
    return True


def _named(
    document: Document, section: Path, value: object
) -> Iterator[tuple[str, str | int, Any]]:
    """Yield the name, key and value of each entry of a section.

    Raises: ConfigError if it is no mapping, no list of entries with names, and not null.
    """
    if isinstance(value, dict):
        for name, raw in cast("ParsedConfig", value).items():
            yield str(name), str(name), raw
    elif isinstance(value, list | None):
        for index, raw in enumerate(cast("list[Any]", value or [])):
            name = cast("ParsedConfig", raw).get("name") if isinstance(raw, dict) else None
            yield (str(name) if name else f"server-{index + 1}"), index, raw
    else:
        fix = 'Write {"NAME": {"command": "..."}}: each server by its name.'
        raise ConfigError.of([document.fault(section, "must be a mapping", fix)])


def _ignored(raw: ParsedConfig, sections: Iterable[str]) -> list[str]:
    known = {*sections, "inputs", "$schema", "projects", "tools"}
    keys = [key for key in raw if key not in known]
    warnings = [
        f"{key}: has no effect here, only in a hub.yaml" for key in keys if key in _OWN_KEYS
    ]
    others = [key for key in keys if key not in _OWN_KEYS]
    if others:
        more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
        warnings.append(f"ignored: {', '.join(others[:_NAMED])}{more}")
    return warnings


def likely_section(raw: ParsedConfig) -> tuple[str, str] | None:
    """Return a key that is probably a misspelt section of a client's config, and that section."""
    known = {str(path[0]).lower(): str(path[0]) for path in _SECTIONS[:3]}
    for key in raw:
        near = difflib.get_close_matches(key.lower().replace("-", ""), known, n=1, cutoff=0.85)
        if near and known[near[0]] != key:
            return key, known[near[0]]
    return None


def inputs_in(document: Document) -> list[EditorInput]:
    """Return what a config's editor would ask its user for: its `inputs`."""
    nested = value_at(document.raw, ("mcp", "inputs"))
    listed = document.raw.get("inputs") or nested
    if not isinstance(listed, list):
        return []
    entries = [
        cast("ParsedConfig", one) for one in cast("list[Any]", listed) if isinstance(one, dict)
    ]
    return [
        EditorInput(
            str(one["id"]),
            str(one.get("description") or ""),
            _default(one.get("default")),
            one.get("password") is True,
        )
        for one in entries
        if one.get("id")
    ]


def _default(value: object) -> str | None:
    return value if isinstance(value, str) and value and not {"{", "}"} & set(value) else None


def inputs_missing(document: Document, environment: Mapping[str, str]) -> list[EditorInput]:
    """Return what the config's `${input:ID}` need that has neither a value nor a default."""
    described = {one.id: one for one in inputs_in(document)}
    ids = dict.fromkeys(_INPUT.findall(document.text))
    needed = [described.get(id_, EditorInput(id_)) for id_ in ids]
    return [one for one in needed if one.default is None and one.variable not in environment]
