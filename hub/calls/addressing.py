"""Parses a call request: its public name, its route in the catalog, and the call for the child."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from msgspec import Struct

from hub.calls.builtin_tools import GET_ROOTS
from hub.catalog.merge import Catalog
from hub.catalog.names import Names
from hub.catalog.search import Expose, SearchError, tool_of
from hub.catalog.search_tools import CALL, Inner, SearchQuery, read
from hub.errors import RouteError
from hub.guard.text.uris import uri_parts
from hub.jsonrpc.errors import RpcError
from hub.jsonrpc.messages import Request
from hub.protocol.constants import (
    CLIENT_CAPABILITIES_META,
    CLIENT_INFO_META,
    HEADER_MISMATCH,
    LOG_LEVEL_META,
    PROTOCOL_VERSION_META,
)
from hub.protocol.http_headers import AnnotationError, declared, mismatch
from hub.sessions.session import Session
from hub.values import (
    Call,
    CallMethod,
    ChildRoute,
    Json,
    JsonObject,
    Route,
    ServerName,
    object_or_empty,
)


class OwnParam(NamedTuple):
    """The key and value of the param by which a child knows what is called.

    `parts` are judged beside it: what the child may take out of a resource's URI.
    """

    key: str
    value: Json
    parts: tuple[str, ...] = ()


class Addressed(Struct, frozen=True):
    """A call as a client made it: method, public name, and params without the client's envelope.

    With `expose: search`, `question` is the search query of a meta tool. A `call-tool` becomes the
    tool call inside of it: `server` is its server, and `name` is that server's own tool name.
    """

    method: CallMethod
    name: str
    params: JsonObject
    question: SearchQuery | None = None
    server: ServerName | None = None

    @property
    def is_get_roots(self) -> bool:
        """Whether it is a call of the hub's own `get-roots`."""
        return self.method == "tools/call" and self.server is None and self.name == GET_ROOTS

    @property
    def base(self) -> str:
        """The JSON pointer to the call's arguments within the client's arguments."""
        return "" if self.server is None else "/toolArgs"

    def servers(self, names: Names) -> Collection[ServerName] | None:
        """Return the servers that may own the name; None if any server may."""
        if self.question is not None:
            return self.question.servers()
        if self.server is not None:
            return (self.server,)
        if self.name == GET_ROOTS:
            return ()
        named_by_uri = self.method.startswith("resources/") or (
            self.method == "completion/complete"
            and "name" not in object_or_empty(self.params.get("ref"))
        )
        if named_by_uri or names.mode == "never":
            return None
        if names.bare:
            return names.servers
        server = names.server_of(self.name) or names.owner_of_alias(self.name)
        return () if server is None else (server,)

    def is_listed(self, catalog: Catalog) -> bool:
        """Return whether the catalog has this exact name: then no other listing can change it."""
        if self.method.startswith("resources/"):
            return self.name in catalog.resource_routes
        if self.method == "completion/complete":
            return self.name in catalog.template_routes
        routes = catalog.tool_routes if self.method == "tools/call" else catalog.prompt_routes
        return self.name in routes

    def route(self, catalog: Catalog) -> Route:
        """Return the route of the name.

        Raises: RouteError if there is none.
        """
        found: Route | None
        match self.method:
            case "tools/call" if self.server is not None:
                found = tool_of(catalog, self.server, self.name)
            case "tools/call":
                found = catalog.tool(self.name)
            case "prompts/get":
                found = catalog.prompt(self.name)
            case "resources/read" | "resources/subscribe":
                found = catalog.resource(self.name)
            case "completion/complete":
                completed = catalog.completion(object_or_empty(self.params.get("ref")))
                found = completed[0] if completed is not None else None
        if found is None:
            noun = _NOUN[self.method]
            clash = catalog.left_out.get(f"{noun} {self.name}")
            raise RouteError(
                f"Unknown {noun}: {self.name}" if clash is None else f"{clash.what}\n{clash.fix}"
            )
        return found

    def own(self, catalog: Catalog, route: ChildRoute) -> OwnParam:
        """Return the param that replaces the client's: the child's own name, URI or reference."""
        match self.method:
            case "tools/call" | "prompts/get":
                return OwnParam("name", route.name)
            case "resources/read" | "resources/subscribe":
                values = catalog.template_values(route)
                parts = dict.fromkeys((*uri_parts(route.name), *values))
                return OwnParam("uri", route.name, tuple(parts))
            case "completion/complete":
                completed = catalog.completion(object_or_empty(self.params.get("ref")))
                return OwnParam("ref", completed[1] if completed is not None else {})


_ENVELOPE = frozenset(
    {
        "progressToken",
        PROTOCOL_VERSION_META,
        CLIENT_INFO_META,
        CLIENT_CAPABILITIES_META,
        LOG_LEVEL_META,
    }
)
_FOR_HUB = frozenset({"inputResponses", "requestState", "task"})
"""Params for the hub: those of a modern request's retry, and a wish for a task, ignored."""
_BETWEEN = _FOR_HUB | {"_meta"}
_LONGEST_LABEL = 512
_NOUN = {
    "tools/call": "tool",
    "prompts/get": "prompt",
    "resources/read": "resource",
    "resources/subscribe": "resource",
    "completion/complete": "reference",
}


def address(method: CallMethod, params: JsonObject, *, expose: Expose = "tools") -> Addressed:
    """Return the call in a request.

    Raises: RouteError if the request names no target, or its arguments are not an object.
    """
    if method == "completion/complete":
        ref = object_or_empty(params.get("ref"))
        name: Json = ref.get("name") or ref.get("uri")
    else:
        name = params.get("uri" if method.startswith("resources/") else "name")
    if not isinstance(name, str):
        raise RouteError(f"{method}: the request names no {_NOUN[method]}")
    if not isinstance(params.get("arguments", {}), dict | None):
        raise RouteError(f'{method}: "arguments" must be an object')
    kept = _without_envelope(params)
    if expose == "search" and method == "tools/call":
        return _searched(name, kept)
    return Addressed(method, name, kept)


def _searched(name: str, params: JsonObject) -> Addressed:
    asked = read(name, object_or_empty(params.get("arguments")))
    if isinstance(asked, Inner):
        inner = _inner(params, asked, asked.tool)
        return Addressed("tools/call", asked.tool, inner, server=asked.server)
    if asked is None and name != GET_ROOTS:
        raise RouteError(f"Unknown tool: {name} (find-tools and call-tool lead to the servers')")
    return Addressed("tools/call", name, params, question=asked)


def called(params: JsonObject) -> JsonObject | None:
    """Return the params of the tool call inside a `call-tool`, with the tool's label as `name`.

    None if `params` are not those of a valid `call-tool`.
    """
    arguments = params.get("arguments")
    if params.get("name") != CALL or not isinstance(arguments, dict):
        return None
    try:
        asked = read(CALL, arguments)
    except SearchError:
        return None
    if not isinstance(asked, Inner) or "\0" in asked.server:
        return None
    return _inner(params, asked, _label(asked.server, asked.tool))


def _label(server: ServerName, tool: str) -> str:
    return f"{server}\0{tool}"


def _inner(params: JsonObject, asked: Inner, name: str) -> JsonObject:
    """Return the params of the tool call inside a `call-tool`, with `name` as its name."""
    inner: JsonObject = {**params, "name": name}
    del inner["arguments"]
    if asked.arguments is not None:
        inner["arguments"] = asked.arguments
    return inner


def call_to(method: CallMethod, name: str, own: OwnParam, params: JsonObject) -> Call | None:
    """Return the call that a child gets, with the param `own` in place of the client's.

    `name` is the child's own name of what is called. None if `params` are not valid.
    """
    key, value, parts = own
    arguments: Json
    match method:
        case "tools/call" | "prompts/get":
            arguments = params.get("arguments")
            if arguments is None:
                arguments = {}
            elif not isinstance(arguments, dict):
                return None
        case "resources/read" | "resources/subscribe":
            arguments = {key: value, "parts": [*parts]} if parts else {key: value}
        case "completion/complete":
            arguments = _completed_arguments(params)
    kept = params if _BETWEEN.isdisjoint(params) else _without_envelope(params)
    if kept.get(key) != value:
        kept = {**kept, key: value}
    return Call(method, name, arguments, kept)


def label_of(method: str, params: JsonObject, expose: Expose) -> str | None:
    """Return the label that a call's route is cached by; None if the request names nothing."""
    if method == "tools/call":
        its = called(params) if expose == "search" else params
        name = None if its is None else its.get("name")
        return name if isinstance(name, str) else None
    if method == "completion/complete":
        ref = object_or_empty(params.get("ref"))
        name = ref.get("name") or ref.get("uri")
    else:
        name = params.get("name" if method == "prompts/get" else "uri")
    return f"{method}\0{name}" if isinstance(name, str) and len(name) <= _LONGEST_LABEL else None


def is_modern(request: Request) -> bool:
    """Return whether a request has the envelope of the modern era; `initialize` never counts."""
    meta = request.params.get("_meta")
    enveloped = isinstance(meta, dict) and PROTOCOL_VERSION_META in meta
    return enveloped and request.method != "initialize"


def _without_envelope(params: JsonObject) -> JsonObject:
    """Return `params` without progress token, protocol envelope and `_FOR_HUB`, for the child."""
    if _BETWEEN.isdisjoint(params):
        return params
    meta = object_or_empty(params.get("_meta"))
    rest: JsonObject = {key: value for key, value in params.items() if key not in _BETWEEN}
    kept: JsonObject = {key: value for key, value in meta.items() if key not in _ENVELOPE}
    return {**rest, "_meta": kept} if kept else rest


def _completed_arguments(params: JsonObject) -> JsonObject:
    """Return the argument that is being completed, by its name, and the context given with it.

    Their values are there without names, too: the client chooses a name, which may say that the
    value is a text, and the server may read it as a path all the same.
    """
    argument, context = object_or_empty(params.get("argument")), params.get("context")
    name, value = argument.get("name"), argument.get("value")
    completed: JsonObject = {name if isinstance(name, str) else "value": value}
    given = object_or_empty(object_or_empty(context).get("arguments"))
    return {"argument": completed, "context": context, "values": [value, *given.values()]}


def check_headers(session: Session, named: Addressed, route: ChildRoute) -> None:
    """Check that the HTTP headers of a modern tool call repeat its arguments where they must.

    Does nothing for a call without headers, for a `call-tool`, and for a tool whose `inputSchema`
    marks arguments in a way that the protocol forbids: clients ignore such a tool.

    Raises: RpcError if a header and its argument do not match, or one of the two is missing.
    """
    if session.headers is None or named.method != "tools/call" or named.server is not None:
        return
    try:
        params = declared(route.definition.get("inputSchema"))
    except AnnotationError:
        return
    objection = mismatch(params, object_or_empty(named.params.get("arguments")), session.headers)
    if objection is not None:
        raise RpcError(HEADER_MISMATCH, f"Header mismatch: {objection}")
