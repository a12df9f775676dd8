"""The headers in which a request of the modern era repeats what is in its body."""

from __future__ import annotations

from collections.abc import Mapping

from hub.core.param_headers import (
    NAMED_BY,
    AnnotationError,
    ParamHeader,
    declared,
    encoded,
    headers_of,
)
from hub.core.protocol import PROTOCOL_VERSION_META
from hub.core.values import Json, JsonObject, object_or_empty

Marked = Mapping[str, tuple[ParamHeader, ...]]
"""Which arguments are to be repeated, by the names of the tools that want it."""


def modern_version(params: JsonObject) -> str | None:
    """Return the version in a request's envelope; only those of the modern era have one."""
    version = object_or_empty(params.get("_meta")).get(PROTOCOL_VERSION_META)
    return version if isinstance(version, str) else None


def request_headers(
    version: str, method: str, params: JsonObject, marked: Marked
) -> dict[bytes, bytes]:
    """Return the headers of a modern request, names in lower case."""
    headers = {"mcp-protocol-version": encoded(version), "mcp-method": encoded(method)}
    named = params.get(NAMED_BY.get(method, ""))
    if isinstance(named, str):
        headers["mcp-name"] = encoded(named)
        if method == "tools/call" and named in marked:
            arguments = object_or_empty(params.get("arguments"))
            headers |= headers_of(marked[named], arguments)
    return {name.lower().encode(): value.encode() for name, value in headers.items()}


def marked_in(listing: JsonObject) -> Marked:
    """Return what the tools of a listing mark; of one that marks it wrongly, nothing."""
    tools = listing.get("tools")
    return {
        name: _declared(tool.get("inputSchema"))
        for tool in (tools if isinstance(tools, list) else [])
        if isinstance(tool, dict) and isinstance(name := tool.get("name"), str)
    }


def _declared(schema: Json) -> tuple[ParamHeader, ...]:
    try:
        return declared(schema)
    except AnnotationError:
        return ()
