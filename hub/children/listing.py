"""Reads a child's lists of tools, resources, templates and prompts, with all their pages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import TypeAlias

from msgspec.structs import replace

from hub.catalog.merge import Listing
from hub.children.handshake import ServerHandshake
from hub.jsonrpc.errors import (
    RpcError,
    SilentError,
)
from hub.jsonrpc.exact_json import WireError
from hub.jsonrpc.rated_log import ChildLog
from hub.protocol.constants import LIST_CHANGED, LISTS, METHOD_NOT_FOUND
from hub.values import Json, JsonObject

MAX_PAGES = 1000
MAX_ENTRIES = 20_000
"""Entries of one list that are used; merging and encoding more would keep other clients waiting."""

SendRequest: TypeAlias = Callable[[str, JsonObject], Awaitable[JsonObject]]

_CAPABILITY = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resources",
    "prompts/list": "prompts",
}
_FIELD = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "templates",
    "prompts/list": "prompts",
}


async def read_listing(
    request: SendRequest,
    handshake: ServerHandshake,
    log: ChildLog,
    *,
    methods: Iterable[str] = tuple(LISTS),
    known: Listing | None = None,
) -> Listing:
    """Return `known` with the lists of `methods` read again, as far as the child declares them.

    If the child answers a list request with an error, that list stays as in `known`; `log` tells.

    Raises: SilentError, GoneError.
    """
    listing = known or Listing()
    for method in methods:
        if handshake.offers(_CAPABILITY[method]):
            entries = await _read_list(request, method, log)
            if entries is not None:
                listing = replace(listing, **{_FIELD[method]: entries})
    return listing


async def read_again(
    request: SendRequest,
    handshake: ServerHandshake,
    log: ChildLog,
    known: Listing,
    changed: Collection[str],
) -> Listing:
    """Return `known` with those lists read again that the notifications `changed` are about.

    If that fails, the result is `known` itself.
    """
    methods = [method for name in sorted(changed) for method in LIST_CHANGED[name]]
    try:
        return await read_listing(request, handshake, log, methods=methods, known=known)
    except (RpcError, SilentError, WireError) as exc:
        log.warning("listing failed", error=str(exc))
        return known


async def _read_list(
    request: SendRequest, method: str, log: ChildLog
) -> tuple[JsonObject, ...] | None:
    entries: list[JsonObject] = []
    cursors: set[str] = set()
    cursor: Json = None
    for _ in range(MAX_PAGES):
        try:
            page = await request(method, {} if cursor is None else {"cursor": cursor})
        except (RpcError, WireError) as exc:
            if isinstance(exc, RpcError) and exc.code == METHOD_NOT_FOUND:
                return ()
            log.warning("listing failed", method=method, error=str(exc))
            return None
        found = page.get(LISTS[method])
        entries.extend(
            entry for entry in (found if isinstance(found, list) else []) if isinstance(entry, dict)
        )
        cursor = page.get("nextCursor")
        if len(entries) > MAX_ENTRIES:
            log.warning("listing cut off", method=method, entries=MAX_ENTRIES)
            break
        if not isinstance(cursor, str) or cursor in cursors:
            break
        cursors.add(cursor)
    else:
        log.warning("listing cut off", method=method, pages=MAX_PAGES)
    return tuple(entries[:MAX_ENTRIES])
