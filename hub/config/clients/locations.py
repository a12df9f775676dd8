"""Where MCP clients keep their configs, and the servers in these files, one after the other."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, Literal, TypeAlias, cast

from msgspec import Struct
from msgspec.structs import replace

from hub.config.clients.entries import ClientServer
from hub.config.clients.sections import EditorInput, entries_in, inputs_in
from hub.config.fields import LoadContext
from hub.config.source.documents import Document, Form, read
from hub.config.source.json_text import read_json
from hub.config.source.places import Path as Place
from hub.config.source.places import spelled
from hub.errors import ConfigError
from hub.values import Json, object_or_empty

Scope: TypeAlias = Literal["user", "project", "file"]
"""Whose servers a file has: the user's everywhere, those of a project; or just a named file."""


class UserPlace(Struct, frozen=True):
    """What the places of configs depend on. `platform` as in `sys.platform`."""

    home: Path
    environment: Mapping[str, str]
    platform: str
    directory: Path


class ClientFile(Struct, frozen=True):
    """A file in which a client has servers, at `section`; there need not be one yet.

    Without a `section` the servers may be at any place that a client has them.
    """

    client: str
    scope: Scope
    path: Path
    section: tuple[str, ...]
    form: Form


class _Client(Struct, frozen=True):
    """A client; its files as paths that begin with the name of a base directory."""

    section: tuple[str, ...]
    user: str
    project: str | None = None
    form: Form = "json"
    also: tuple[str, ...] = ()


_CLIENTS: Final[Mapping[str, _Client]] = {
    "claude-desktop": _Client(("mcpServers",), "programs:Claude/claude_desktop_config.json"),
    "claude-code": _Client(("mcpServers",), "claude:.claude.json", ".mcp.json"),
    "cursor": _Client(("mcpServers",), "home:.cursor/mcp.json", ".cursor/mcp.json"),
    "vscode": _Client(
        ("servers",),
        "programs:Code/User/mcp.json",
        ".vscode/mcp.json",
        # Where it had them before mcp.json.
        also=("programs:Code/User/settings.json", "project:.vscode/settings.json"),
    ),
    "windsurf": _Client(("mcpServers",), "home:.codeium/windsurf/mcp_config.json"),
    "zed": _Client(("context_servers",), "zed:settings.json", ".zed/settings.json"),
    "codex": _Client(("mcp_servers",), "codex:config.toml", ".codex/config.toml", "toml"),
    "gemini": _Client(("mcpServers",), "home:.gemini/settings.json", ".gemini/settings.json"),
    "goose": _Client(("extensions",), "goose:config.yaml", None, "yaml"),
    "opencode": _Client(
        ("mcp",),
        "opencode:opencode.json",
        "opencode.json",
        also=("opencode:opencode.jsonc", "project:opencode.jsonc"),
    ),
}
CLIENTS: Final = tuple(_CLIENTS)
"""The clients that the hub knows the places of."""


def client_file(client: str, scope: Scope, place: UserPlace) -> ClientFile | None:
    """Return the file that a client is told of servers in; None if it has none of this scope."""
    known = _CLIENTS[client]
    if scope == "user":
        path = _path(known.user, place)
    elif known.project is not None:
        path = place.directory / known.project
    else:
        return None
    section = known.section
    if client == "opencode":
        both = (path, path.with_suffix(".jsonc"))
        path = next((one for one in both if os.path.exists(one)), path)  # noqa: PTH110 - never an error
        section = _opencode_section(path)
    return ClientFile(client, scope, path, section, known.form)


def _opencode_section(path: Path) -> tuple[str, ...]:
    """Return where OpenCode has its servers: version 2 writes `mcp.servers`, and reads both."""
    try:
        found = cast("Json", read_json(path.read_text(encoding="utf-8-sig")))
    except (OSError, ValueError):
        found = None
    inner = object_or_empty(object_or_empty(found).get("mcp"))
    return ("mcp", "servers") if "servers" in inner else ("mcp",)


def client_files(client: str, place: UserPlace) -> Iterator[ClientFile]:
    """Yield all files that a client may have servers in, whether they are there or not."""
    known = _CLIENTS[client]
    found = [client_file(client, scope, place) for scope in ("user", "project")]
    for also in known.also:
        scope = "project" if also.startswith("project:") else "user"
        path = _path(also, place)
        found.append(ClientFile(client, scope, path, ("mcp", "servers"), known.form))
    told: set[Path] = set()
    for file in found:
        if file is not None and file.path not in told:
            told.add(file.path)
            yield file


def is_installed(client: str, place: UserPlace) -> bool:
    """Return whether a client seems to be used by this user."""
    return any(sign.exists() for sign in signs_of(client, place))


def signs_of(client: str, place: UserPlace) -> tuple[Path, ...]:
    """Return what a client makes when it is started first; one of these is there afterwards."""
    path = _path(_CLIENTS[client].user, place)
    if client == "claude-code":
        return path, place.home / ".claude"
    return (path.parent.parent if client == "vscode" else path.parent,)


def _path(written: str, place: UserPlace) -> Path:
    base, _, rest = written.partition(":")
    return _base(base, place) / rest


def _base(base: str, place: UserPlace) -> Path:
    """Return the directory of that name, which depends on the system for three of them."""
    home = place.home
    xdg = _given(place, "XDG_CONFIG_HOME") or home / ".config"
    own = {
        "project": place.directory,
        "claude": _given(place, "CLAUDE_CONFIG_DIR") or home,
        "codex": _given(place, "CODEX_HOME") or home / ".codex",
        "home": home,
        "opencode": xdg / "opencode",
    }
    if base in own:
        return own[base]
    if place.platform == "win32":
        below = {"goose": "Block/goose/config", "zed": "Zed", "programs": "."}
        return (_given(place, "APPDATA") or home / "AppData" / "Roaming") / below[base]
    if place.platform == "darwin":
        below_home = {"zed": home / ".config" / "zed", "goose": xdg / "goose"}
        return below_home.get(base, home / "Library" / "Application Support")
    return xdg if base == "programs" else xdg / base


def _given(place: UserPlace, variable: str) -> Path | None:
    found = Path(place.environment.get(variable, ""))
    return found if found.is_absolute() else None


_FOLDERS: Final = frozenset({".vscode", ".cursor", ".gemini", ".codex", ".zed"})
"""Folders of clients in a project."""
_BELOW_MCP: Final[tuple[Place, ...]] = (("mcp", "servers"), ("mcp.servers",), ("mcp",))
"""Where VS Code's settings and OpenCode have servers."""


class FoundServer(Struct, frozen=True):
    """A server as a client has it. `off`: why it is not used there; empty if it is."""

    client: str
    scope: str
    path: Path
    name: str
    entry: ClientServer
    directory: Path
    off: str = ""

    @property
    def where(self) -> str:
        """Its place: `~/.cursor/mcp.json: mcpServers.files`, with the path in full."""
        return f"{self.path}: {spelled(self.entry.place)}"


class BrokenFile(Struct, frozen=True):
    """A file that cannot be read."""

    client: str
    path: Path
    error: ConfigError


class Discovery(Struct, frozen=True):
    """What was found: servers, files that are broken, and what editors would ask their users."""

    servers: tuple[FoundServer, ...]
    broken: tuple[BrokenFile, ...]
    inputs: Mapping[str, EditorInput]


def discover(files: Iterable[ClientFile], context: LoadContext) -> Discovery:
    """Return the servers in these files. Those that are not there, or empty, have none."""
    servers: list[FoundServer] = []
    broken: list[BrokenFile] = []
    inputs: dict[str, EditorInput] = {}
    off: dict[tuple[str, str], str] = {}
    for file in files:
        try:
            document = _document(file, context)
            if document is None:
                continue
            off |= _turned_off(file.client, document, context)
            found = list(_found(file, document, context))
        except ConfigError as error:
            broken.append(BrokenFile(file.client, file.path, error))
            continue
        servers += found
        inputs |= {one.variable: one for one in inputs_in(document)}
    servers = [replace(one, off=off.get((one.client, one.name), "")) for one in servers]
    return Discovery(tuple(servers), tuple(broken), inputs)


def _document(file: ClientFile, context: LoadContext) -> Document | None:
    try:
        with file.path.open("rb") as opened:
            is_empty = not opened.read(64).strip(b"\xef\xbb\xbf \t\r\n")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        is_empty = False  # it is read again, for the error
    return None if is_empty else read(str(file.path), context.directory)


def _found(file: ClientFile, document: Document, context: LoadContext) -> Iterator[FoundServer]:
    own = (file.section,) if file.section else ()
    sections = _BELOW_MCP if file.section[:1] == ("mcp",) else own
    for name, entry in entries_in(document, context, sections):
        scope = "local" if entry.place[0] == "projects" else file.scope
        directory = _directory(file, entry.place, context)
        yield FoundServer(file.client, scope, file.path, name, entry, directory)


def _directory(file: ClientFile, place: Place, context: LoadContext) -> Path:
    """Return where relative paths of an entry start: its project, else the home directory."""
    if place[0] == "projects":
        return Path(str(place[1]))
    if file.scope == "file":
        parent = (context.directory / file.path).parent
        return parent.parent if parent.name in _FOLDERS else parent
    if file.scope == "project":
        return context.directory
    return Path(context.home or "/")


def _turned_off(
    client: str, document: Document, context: LoadContext
) -> dict[tuple[str, str], str]:
    """Return the servers that a client's settings turn off by name, with the key that does."""
    raw = document.raw
    off: dict[tuple[str, str], str] = {}
    if client == "gemini":
        settings = object_or_empty(raw.get("mcp"))
        off |= {(client, name): "mcp.excluded" for name in _names(settings.get("excluded"))}
        if allowed := _names(settings.get("allowed")):
            others = object_or_empty(raw.get("mcpServers")).keys() - set(allowed)
            off |= {(client, name): "mcp.allowed" for name in others}
    if client == "claude-code":
        for directory in (context.directory, *context.directory.parents):
            project = object_or_empty(object_or_empty(raw.get("projects")).get(str(directory)))
            for key in ("disabledMcpServers", "disabledMcpjsonServers"):
                off |= {(client, name): key for name in _names(project.get(key))}
    return off


def _names(value: object) -> list[str]:
    return [str(one) for one in cast("list[object]", value)] if isinstance(value, list) else []
