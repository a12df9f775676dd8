"""Find the servers in the configs of MCP clients, one file after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast

from msgspec import Struct
from msgspec.structs import replace

from hub.config.clients.entries import ClientServer
from hub.config.clients.locations import ClientFile
from hub.config.clients.sections import EditorInput, entries_in, inputs_in
from hub.config.fields import LoadContext
from hub.config.source.documents import Document, read
from hub.config.source.places import Path as Place
from hub.config.source.places import spelled
from hub.errors import ConfigError

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
    for name, entry in entries_in(document, context, _sections(file)):
        scope = "local" if entry.place[0] == "projects" else file.scope
        directory = _directory(file, entry.place, context)
        yield FoundServer(file.client, scope, file.path, name, entry, directory)


def _sections(file: ClientFile) -> tuple[Place, ...]:
    if file.section[:1] == ("mcp",):
        return _BELOW_MCP
    return (file.section,) if file.section else ()


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
        settings = _mapping(raw.get("mcp"))
        off |= {(client, name): "mcp.excluded" for name in _names(settings.get("excluded"))}
        if allowed := _names(settings.get("allowed")):
            others = _mapping(raw.get("mcpServers")).keys() - set(allowed)
            off |= {(client, name): "mcp.allowed" for name in others}
    if client == "claude-code":
        for directory in (context.directory, *context.directory.parents):
            project = _mapping(_mapping(raw.get("projects")).get(str(directory)))
            for key in ("disabledMcpServers", "disabledMcpjsonServers"):
                off |= {(client, name): key for name in _names(project.get(key))}
    return off


def _mapping(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _names(value: object) -> list[str]:
    return [str(one) for one in cast("list[object]", value)] if isinstance(value, list) else []
