"""The hub's meta tools (`expose: search`) to find and call other tools; parse their arguments."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, cast

from msgspec import Struct

from hub.catalog.search import MAX_PATTERN, SYNTAX, Pattern, SearchError, SearchIn
from hub.values import Json, JsonObject, ServerName

LIST_SERVERS: Final = "list-servers"
LIST_ALL: Final = "list-all-tools"
LIST: Final = "list-all-tools-in-server"
FIND_ALL: Final = "find-tools"
FIND: Final = "find-tools-in-server"
GET: Final = "get-tool"
CALL: Final = "call-tool"

_TEXT: JsonObject = {"type": "string"}
_SERVER_NAME: JsonObject = {**_TEXT, "description": "A server, as list-servers names it."}
_TOOL_NAME: JsonObject = {**_TEXT, "description": "One of its tools, by the server's own name."}
_WHERE: tuple[SearchIn, ...] = ("name", "description", "both")
_PATTERN: JsonObject = {
    "pattern": {**_TEXT, "maxLength": MAX_PATTERN, "description": SYNTAX},
    "searchIn": {**_TEXT, "enum": list[Json](_WHERE), "default": "both"},
    "caseSensitive": {"type": "boolean", "default": False},
}


def _object(properties: JsonObject, *required: str) -> JsonObject:
    schema: JsonObject = {"type": "object", "properties": properties}
    if required:
        schema["required"] = list[Json](required)
    return {**schema, "additionalProperties": False}


def _servers_of(properties: JsonObject, *required: str) -> JsonObject:
    entry = _object({"serverName": _TEXT, **properties, "trouble": _TEXT}, "serverName", *required)
    return _object({"servers": {"type": "array", "items": entry}, "hint": _TEXT}, "servers")


_TOOLS: JsonObject = {
    "type": "array",
    "items": _object({"toolName": _TEXT, "description": _TEXT}, "toolName"),
}
_FOUND = _servers_of({"tools": _TOOLS}, "tools")


def _reading(
    name: str, title: str, description: str, asks: JsonObject, answers: JsonObject
) -> JsonObject:
    return {
        "name": name,
        "title": title,
        "description": description,
        "inputSchema": asks,
        "outputSchema": answers,
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    }


META_TOOLS: tuple[JsonObject, ...] = (
    _reading(
        LIST_SERVERS,
        "Servers",
        "Lists the servers behind this hub, and how many tools each has as far as known.",
        _object({}),
        _servers_of({"state": _TEXT, "tools": {"type": "integer"}}, "state"),
    ),
    _reading(
        LIST_ALL,
        "All tools",
        "Lists the tools of all servers. Prefer find-tools, whose answer is shorter.",
        _object({}),
        _FOUND,
    ),
    _reading(
        LIST,
        "Tools of a server",
        "Lists the tools of one server.",
        _object({"serverName": _SERVER_NAME}, "serverName"),
        _FOUND,
    ),
    _reading(
        FIND_ALL,
        "Find tools",
        "Finds tools of all servers by words in their names and descriptions.",
        _object(_PATTERN, "pattern"),
        _FOUND,
    ),
    _reading(
        FIND,
        "Find tools of a server",
        "Finds tools of one server by words in their names and descriptions.",
        _object({"serverName": _SERVER_NAME, **_PATTERN}, "serverName", "pattern"),
        _FOUND,
    ),
    _reading(
        GET,
        "Describe a tool",
        "Shows a tool in full: what it does and the schema of its arguments. Use it before the "
        "first call of a tool.",
        _object({"serverName": _SERVER_NAME, "toolName": _TOOL_NAME}, "serverName", "toolName"),
        _object({"serverName": _TEXT, "tool": {"type": "object"}}, "serverName", "tool"),
    ),
    {
        "name": CALL,
        "title": "Call a tool",
        "description": "Calls a tool of a server and returns its result. Paths in toolArgs must "
        "be inside the roots that get-roots shows.",
        "inputSchema": _object(
            {
                "serverName": _SERVER_NAME,
                "toolName": _TOOL_NAME,
                "toolArgs": {
                    "type": "object",
                    "description": "The tool's arguments, by the inputSchema that get-tool shows.",
                },
            },
            "serverName",
            "toolName",
        ),
        "annotations": {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": True},
    },
)
_TAKES: Mapping[str, JsonObject] = {
    str(tool["name"]): cast("JsonObject", cast("JsonObject", tool["inputSchema"])["properties"])
    for tool in META_TOOLS
}


class SearchQuery(Struct, frozen=True):
    """A call of a meta tool that only reads (lists, finds, shows), with parsed arguments."""

    name: str
    server: ServerName | None = None
    tool: str | None = None
    pattern: Pattern | None = None

    def servers(self) -> Collection[ServerName] | None:
        """Return the servers whose tools the result depends on; None for all servers."""
        if self.name == LIST_SERVERS:
            return ()
        return None if self.server is None else (self.server,)


class Inner(Struct, frozen=True):
    """The call inside a `call-tool`. `arguments` is None if it has none."""

    server: ServerName
    tool: str
    arguments: JsonObject | None


def read(name: str, arguments: JsonObject) -> SearchQuery | Inner | None:
    """Return the parsed call of a meta tool, None for another's. Raises: SearchError."""
    takes = _TAKES.get(name)
    if takes is None:
        return None
    unknown = [key for key in arguments if key not in takes]
    if unknown:
        listed = ", ".join(takes) or "no arguments"
        raise SearchError(f"{name} does not take {unknown[0][:MAX_PATTERN]!r}: it takes {listed}")
    server = ServerName(_text(arguments, "serverName")) if "serverName" in takes else None
    tool = _text(arguments, "toolName") if "toolName" in takes else None
    if name == CALL and server is not None and tool is not None:
        return Inner(server, tool, _tool_args(arguments))
    return SearchQuery(name, server, tool, _pattern(arguments) if "pattern" in takes else None)


def _text(arguments: JsonObject, key: str) -> str:
    value = arguments.get(key)
    if not isinstance(value, str):
        raise SearchError(f'"{key}" must be given, as a string')
    return value


def _tool_args(arguments: JsonObject) -> JsonObject | None:
    value = arguments.get("toolArgs")
    if not isinstance(value, dict | None):
        raise SearchError('"toolArgs" must be an object')
    return value


def _pattern(arguments: JsonObject) -> Pattern:
    where, exact = arguments.get("searchIn"), arguments.get("caseSensitive")
    if where is not None and where not in _WHERE:
        raise SearchError(f'"searchIn" must be one of {", ".join(_WHERE)}')
    if not isinstance(exact, bool | None):
        raise SearchError('"caseSensitive" must be true or false')
    return Pattern.parse(
        _text(arguments, "pattern"),
        search_in=cast("SearchIn", where or "both"),
        case_sensitive=exact is True,
    )
