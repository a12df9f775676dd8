"""One server of an MCP client's config, in the spellings of all clients, in hub.yaml's shape.

One of them is the hub's own entry: what starts the hub, and how to recognise it.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path as FilePath
from typing import Any, Final, cast

from msgspec import Struct, field

from hub.config.problems import Problem
from hub.config.source.documents import ParsedConfig
from hub.config.source.places import Path, may_be_shown
from hub.config.suggestions import likely_key
from hub.values import Json

_SPELLINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "command": ("command", "cmd"),
    "args": ("args",),
    "env": ("env", "environment", "envs"),
    "cwd": ("cwd", "workingDirectory"),
    "url": ("httpUrl", "serverUrl", "url", "uri", "baseUrl"),
    "headers": ("headers", "http_headers"),
    "start_timeout": ("startup_timeout_sec",),
    "timeout": ("tool_timeout_sec",),
}
"""Keys of the hub, and the keys of clients that mean the same; the first that is there counts."""

_TOOLS: Final[Mapping[str, str]] = {
    "tools": "allow",
    "includeTools": "allow",
    "enabledTools": "allow",
    "enabled_tools": "allow",
    "available_tools": "allow",
    "excludeTools": "deny",
    "disabledTools": "deny",
    "disabled_tools": "deny",
}
"""Keys of clients for lists of tools, and the matching key of the hub's `tools`."""

_VARIABLES: Final = ("env_vars", "env_keys")
"""Keys with names of variables that the server gets as they are."""
NAMING: Final = frozenset({*_VARIABLES, "bearer_token_env_var", "env_http_headers"})
"""Keys whose values are names of variables, and cannot be the values themselves."""
_SWITCHES: Final = {"disabled": True, "enabled": False, "isActive": False}
"""Keys that can turn a server off, and the value that does."""

_OTHERS: Final = frozenset(
    {"type", "transport", "source", "envFile", "config", "name", "bearer_token_env_var"}
    | {"startup_timeout_ms", "env_http_headers", "requestOptions", "description", "bundled"}
    | {"settings"}
)
_READ: Final = frozenset(
    {*_TOOLS, *_VARIABLES, *_SWITCHES, *_OTHERS}
    | {spelling for spellings in _SPELLINGS.values() for spelling in spellings}
)
_OURS: Final = frozenset({"confine", "guard"})
"""What protects in `hub.yaml`, and no client has: left out, the server would not be held."""
_STDIO: Final = ("command", "args", "env", "cwd", "tools", "start_timeout", "timeout")
_REMOTE: Final = ("url", "headers", "transport", "tools", "start_timeout", "timeout")
_TRANSPORTS: Final = {
    "stdio": "stdio",
    "local": "stdio",
    "http": "http",
    "streamablehttp": "http",
    "sse": "sse",
    "remote": "auto",
}
_BUILT_IN: Final = frozenset({"builtin", "platform", "frontend", "inlinepython", "inmemory"})
_ITS_OWN: Final = "Write the server's own `command` and `args`, or its `url`."


class ClientServer(Struct):
    """One server at `place` in its file: `server` in hub.yaml's shape, or `problems` below that.

    `spelled` says where a path of `server` comes from, if it has another name in the file.
    """

    server: ParsedConfig = field(default_factory=dict[str, Any])
    problems: list[Problem] = field(default_factory=list[Problem])
    spelled: dict[Path, Path] = field(default_factory=dict[Path, Path])
    warnings: list[str] = field(default_factory=list[str])
    is_off: bool = False
    place: Path = ()

    def theirs(self, path: Path) -> Path:
        """Return the path in the file of a path in `server`."""
        for length in range(len(path), 0, -1):
            if (found := self.spelled.get(path[:length])) is not None:
                return (*found, *path[length:])
        return path


def read_entry(raw: object) -> ClientServer:
    """Return a server of a client's config in hub.yaml's shape."""
    entry = ClientServer()
    if not isinstance(raw, dict):
        what = "must be a mapping, with a `command` or a `url`"
        entry.problems.append(Problem((), what, 'Write {"command": "...", "args": []}.'))
        return entry
    fields = _flat(cast("ParsedConfig", raw), entry)
    entry.is_off = _is_off(fields, entry)
    if entry.is_off:
        return entry
    _warn(fields, entry)
    for key, spellings in _SPELLINGS.items():
        said = next((one for one in spellings if fields.get(one) is not None), None)
        if said is not None:
            entry.server[key] = fields[said]
            if said != key:
                entry.spelled.setdefault((key,), entry.spelled.get((said,), (said,)))
    in_ms = fields.get("startup_timeout_ms")  # Codex has both
    if isinstance(in_ms, int | float):
        entry.server.setdefault("start_timeout", in_ms / 1000)
    _split_command(entry)
    _read_variables(fields, entry)
    _read_headers(fields, entry)
    _read_tools(fields, entry)
    _choose_transport(fields, entry)
    return entry


def _flat(raw: ParsedConfig, entry: ClientServer) -> ParsedConfig:
    """Return an entry with the mappings in it flattened that some programs nest."""
    fields = dict(raw)
    for key in ("config", "transport", "command"):
        inner = fields.get(key)
        if isinstance(inner, dict):
            del fields[key]
            for name, value in cast("ParsedConfig", inner).items():
                own = "command" if key == "command" and name == "path" else name
                if own not in fields:
                    fields[own], entry.spelled[own,] = value, (key, name)
    return fields


def _is_off(fields: ParsedConfig, entry: ClientServer) -> bool:
    if _word(fields.get("type")) in _BUILT_IN:
        entry.warnings.append("left out: it is built into its program, which alone can start it")
        return True
    for switch in _SWITCHES:
        if not isinstance(fields.get(switch), bool | None):
            fix = "Write true or false, without quotes."
            entry.problems.append(Problem((switch,), "must be true or false", fix))
    return any(fields.get(switch) is off for switch, off in _SWITCHES.items())


def _warn(fields: ParsedConfig, entry: ClientServer) -> None:
    names: list[str] = []
    for key, value in fields.items():
        if key == "tools" and isinstance(value, dict):
            names.append(key)
        elif key in _OURS:
            what = "is a key of the hub's own config, which says its version"
            fix = 'Write `"version": 1` at the top of the file.'
            entry.problems.append(Problem((key,), what, fix))
        elif key not in _READ:
            meant = likely_key(key, sorted(_READ))
            names.append(f"{key} (did you mean {meant}?)" if meant else key)
    if names:
        entry.warnings.append(f"ignored: {', '.join(names)}")
    if "envFile" in fields:
        entry.warnings.append("envFile is not read: write its variables into env")


def _split_command(entry: ClientServer) -> None:
    """Take a command that is a list apart."""
    argv, server = entry.server.get("command"), entry.server
    if not isinstance(argv, list):
        return
    words = cast("list[Any]", argv)
    del server["command"]
    if not words:
        return
    at = entry.spelled.get(("command",), ("command",))
    more = server.get("args")
    server["command"], server["args"] = words[0], words[1:]
    entry.spelled["command",] = (*at, 0)
    for index in range(1, len(words)):
        entry.spelled["args", index - 1] = (*at, index)
    if isinstance(more, list):
        server["args"] += cast("list[Any]", more)


def _read_variables(fields: ParsedConfig, entry: ClientServer) -> None:
    """Add the variables to `env` that are only named."""
    for key in _VARIABLES:
        for index, one in enumerate(_listed(fields, key, "variables", entry)):
            name = cast("ParsedConfig", one).get("name") if isinstance(one, dict) else one
            env = entry.server.setdefault("env", {})
            is_read = _is_variable(name, (key, index), entry) and isinstance(env, dict)
            if is_read and name not in env:
                env[name] = f"${{{name}}}"
                entry.spelled["env", str(name)] = (key, index)


def _listed(fields: ParsedConfig, key: str, what: str, entry: ClientServer) -> list[Any]:
    """Return the names in a list; if it is none, that is a problem."""
    names = fields.get(key)
    if isinstance(names, list):
        return cast("list[Any]", names)
    if names is not None:
        fix = f'Name the {what} in brackets: ["..."].'
        entry.problems.append(Problem((key,), "must be a list", fix))
    return []


def _is_variable(name: object, at: Path, entry: ClientServer) -> bool:
    """Return whether `name` is the name of a variable; if not, that is a problem at a path."""
    text = name if isinstance(name, str) else ""
    if re.fullmatch(r"[A-Za-z_]\w*", text, re.ASCII) and may_be_shown(text, ()):
        return True
    # It may be the secret itself: no text shows it.
    what, fix = "must be the name of a variable", "Write the variable's name, not its value."
    entry.problems.append(Problem(at, what, fix))
    return False


def _read_headers(fields: ParsedConfig, entry: ClientServer) -> None:
    """Add the headers that have their values from variables, or that are nested."""
    options, named = fields.get("requestOptions"), fields.get("env_http_headers")
    headers: ParsedConfig = {}
    if isinstance(options, dict) and isinstance(options.get("headers"), dict):  # pyright: ignore[reportUnknownMemberType] - parsed JSON
        headers |= cast("ParsedConfig", options)["headers"]
        entry.spelled |= {("headers", one): ("requestOptions", "headers", one) for one in headers}
    if isinstance(named, dict):
        for header, variable in cast("ParsedConfig", named).items():
            if _is_variable(variable, ("env_http_headers", header), entry):
                headers[header] = f"${{{variable}}}"
                entry.spelled["headers", header] = ("env_http_headers", header)
    token = fields.get("bearer_token_env_var")
    if token is not None and _is_variable(token, ("bearer_token_env_var",), entry):
        headers["Authorization"] = f"Bearer ${{{token}}}"
        entry.spelled["headers", "Authorization"] = ("bearer_token_env_var",)
    if headers and isinstance(own := entry.server.setdefault("headers", {}), dict):
        entry.server["headers"] = headers | cast("ParsedConfig", own)
        for name in cast("ParsedConfig", own):
            entry.spelled.pop(("headers", name), None)


def _read_tools(fields: ParsedConfig, entry: ClientServer) -> None:
    tools: ParsedConfig = {}
    for key, ours in _TOOLS.items():
        if key == "tools" and isinstance(fields.get(key), dict):
            continue  # what a client says of single tools
        names = _listed(fields, key, "tools", entry)
        # An empty list of Goose's `available_tools` means all tools.
        if names or (fields.get(key) == [] and key != "available_tools"):
            tools.setdefault(ours, []).extend(names)
            entry.spelled["tools", ours] = (key,)
    if tools:
        entry.server["tools"] = tools


def _choose_transport(fields: ParsedConfig, entry: ClientServer) -> None:
    """Keep what belongs to the transport that the entry says, or shows."""
    server = entry.server
    kind = fields.get("type") or fields.get("transport")
    word = None if kind is None else _word(kind)
    at = ("type",) if fields.get("type") else ("transport",)
    if fields.get("source") == "extension" or ("settings" in fields and "command" not in server):
        what = "only the editor knows how to start its extension"
        entry.problems.append(Problem(("source",), what, _ITS_OWN))
        return
    transport = None if word is None else _TRANSPORTS.get(word)
    if word is not None and transport is None:
        fix = f"Write {' or '.join(('stdio', 'http', 'sse'))}, or turn the server off."
        entry.problems.append(Problem(at, "unknown transport", fix))
        return
    if "httpUrl" in fields and transport is None:
        transport = "http"
    _keep(entry, transport)


def _word(kind: object) -> str:
    return re.sub(r"[-_ ]", "", str(kind)).lower()


def _keep(entry: ClientServer, transport: str | None) -> None:
    server = entry.server
    has_command, has_url = "command" in server, "url" in server
    if transport is None and has_command and has_url:
        what, fix = "has both a command and a url", "Take one of them out, or add a `type`."
        entry.problems.append(Problem((), what, fix))
        return
    is_remote = has_url and not has_command if transport is None else transport != "stdio"
    wanted = "url" if is_remote else "command"
    if wanted not in server:
        entry.problems.append(_missing(entry, wanted, transport))
        return
    if is_remote and transport is not None and transport != "auto":
        server["transport"] = transport
    entry.server = {key: server[key] for key in (_REMOTE if is_remote else _STDIO) if key in server}


def _missing(entry: ClientServer, wanted: str, transport: str | None) -> Problem:
    said = " ".join(entry.warnings)
    near = re.search(r"(\S+) \(did you mean (command|url|serverUrl|httpUrl|uri|cmd)\?\)", said)
    what = "has neither a command nor a url" if transport is None else f"has no {wanted}"
    if near:
        return Problem((near[1],), "unknown key", f"Write `{near[2]}`.", of_key=True)
    return Problem((), what, _ITS_OWN if transport is None else f"Add its `{wanted}`.")


NAME: Final = "roots-hub"
"""What the entry is called, unless the user says another name."""
_PROGRAMS: Final = frozenset({"roots-hub", "roots-hub.exe"})
_SERVING: Final = (["run"], ["attach"], ["wrap"])


def own_entry(client: str, name: str, command: Sequence[str], config: FilePath) -> dict[str, Json]:
    """Return the entry that starts the hub, as a client writes such an entry itself."""
    program, *before = command
    given: list[Json] = [*before, "attach", "--config", str(config)]
    match client:
        case "claude-code":
            return {"type": "stdio", "command": program, "args": given, "env": {}}
        case "vscode":
            return {"type": "stdio", "command": program, "args": given}
        case "zed":
            return {"source": "custom", "command": program, "args": given, "env": {}}
        case "opencode":
            return {"type": "local", "command": [program, *given], "enabled": True}
        case "goose":
            return {
                "enabled": True,
                "type": "stdio",
                "name": name,
                "cmd": program,
                "args": given,
                "envs": {},
                "timeout": 300,
            }
        case _:
            return {"command": program, "args": given}


def argv_of(server: dict[str, Any]) -> list[str]:
    """Return the command line of a server in the hub's shape; empty if it has none."""
    args = server.get("args")
    more = cast("list[object]", args) if isinstance(args, list) else []
    return [str(one) for one in (server.get("command"), *more) if one is not None]


def hub_arguments(argv: Sequence[str]) -> list[str] | None:
    """Return what follows the hub's program in a command line; None if it does not start the hub.

    Recognised are `roots-hub`, `python -m hub`, and both behind a runner such as uvx.
    """
    for at, word in enumerate(argv):
        *folders, last = re.split(r"[\\/]", word)
        if at and folders and (argv[at - 1][:1] == "-" or argv[at + 1 : at + 2] not in _SERVING):
            continue  # a folder of that name
        program = last.removesuffix(".exe")
        if re.split(r"[@=<>~!\[]", program)[0] == NAME and argv[at + 1 : at + 2] != [NAME]:
            return list(argv[at + 1 :])
        if word == "-m" and list(argv[at + 1 : at + 2]) == ["hub"]:
            return list(argv[at + 2 :])
        if word == "--":
            return None
    return None


def is_hub(raw: object) -> bool:
    """Return whether an entry of a client's config starts the hub with a config of its own."""
    found = hub_arguments(argv_of(read_entry(raw).server))
    return found is not None and found[:1] in (["run"], ["attach"], [])


def hub_command(
    argv0: str | None = None, prefix: str | None = None, python: str = sys.executable
) -> list[str]:
    """Return the command of the hub that runs now, for a client that has another PATH.

    That is the absolute path of `roots-hub`; for one that uvx has made for this run alone, uvx;
    else this Python with `-m hub`.
    """
    program = sys.argv[0] if argv0 is None else argv0
    place = FilePath(sys.prefix if prefix is None else prefix)
    if {"uv", "archive-v0"} <= set(place.parts) or "environments-v2" in place.parts:
        return [shutil.which("uvx") or "uvx", "roots-hub"]
    beside = FilePath(python).parent / "roots-hub"
    for found in (program, str(beside), shutil.which("roots-hub")):
        if found and FilePath(found).name in _PROGRAMS and FilePath(found).is_file():
            return [str(FilePath(found).absolute())]
    return [python, "-m", "hub"]
