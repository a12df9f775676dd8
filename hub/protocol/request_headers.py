"""The headers in which a request of the modern era repeats what is in its body."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from hub.protocol.constants import PROTOCOL_VERSION_META
from hub.protocol.http_headers import (
    NAMED_BY,
    AnnotationError,
    ParamHeader,
    declared,
    encoded,
    headers_of,
)
from hub.values import Json, JsonObject, object_or_empty

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


class Offered(Struct, frozen=True):
    """A listing of tools as it holds over HTTP, what they mark, and whom it is without and why."""

    listing: JsonObject
    marked: Marked
    refused: Mapping[str, str]


def offered(listing: JsonObject) -> Offered:
    """Return a listing without the tools that mark arguments as the protocol forbids."""
    tools = listing.get("tools")
    if not isinstance(tools, list):
        return Offered(listing, {}, {})
    kept: list[Json] = []
    marked: dict[str, tuple[ParamHeader, ...]] = {}
    refused: dict[str, str] = {}
    for tool in tools:
        entry = object_or_empty(tool)
        name = str(entry.get("name"))
        try:
            marked[name] = declared(entry.get("inputSchema"))
            kept.append(tool)
        except AnnotationError as exc:
            refused[name] = str(exc)
    return Offered({**listing, "tools": kept} if refused else listing, marked, refused)
