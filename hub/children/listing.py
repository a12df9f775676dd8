"""Reads a child's lists of tools, resources, templates and prompts, and what has changed again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Final, TypeAlias

import anyio
import anyio.lowlevel
import msgspec
from msgspec import Raw
from msgspec.structs import replace

from hub.catalog.merge import Listing
from hub.children.handshake import SHOWN, HubDeclaration, ServerHandshake, with_envelope
from hub.jsonrpc import messages as wire
from hub.jsonrpc.errors import RpcError, SilentError
from hub.jsonrpc.exact_json import WireError, limit_parts
from hub.jsonrpc.messages import Payload, size_of
from hub.jsonrpc.peer import Peer
from hub.jsonrpc.pipes import LARGE
from hub.jsonrpc.rated_log import ChildLog
from hub.jsonrpc.raw_objects import parted
from hub.legible import shortened
from hub.protocol.constants import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    LIST_CHANGED,
    LISTS,
    METHOD_NOT_FOUND,
)
from hub.values import Json, JsonObject

MAX_PAGES = 1000
MAX_ENTRIES = 20_000
"""Entries of one list that are used; merging and encoding more would keep other clients waiting."""

MAX_LEFT_OUT = 20
"""Entries of a page that cannot be read and are left out; with more the page is not read: each of
them takes milliseconds."""
AT_ONCE: Final = 256
"""Entries of a large page that are read before others have a turn: a millisecond's work or so."""
MAX_LISTED = 32 * 1024 * 1024
"""Bytes that the pages of a child's lists may have together."""
RELIST_PAUSE, RELIST_SHARE = 0.2, 20
"""Pause between two readings of the lists: least seconds, and multiple of a reading's duration.
Changes during the pause share the next reading."""

SendRequest: TypeAlias = Callable[[str, JsonObject], Awaitable[JsonObject]]

FIELD: Final = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "templates",
    "prompts/list": "prompts",
}
"""The field of a `Listing` for each method."""


class ChildLists:
    """The lists of one child, read again after changes; `timeout` is for each page, in seconds."""

    def __init__(self, hub: HubDeclaration, timeout: float) -> None:
        self.timeout = timeout
        self._hub = hub
        self._outdated: set[str] = set()
        self._is_told = False
        self._unread: set[str] = set()
        self._wake = anyio.Event()

    def note_change(self, methods: Collection[str], *, is_told: bool = True) -> None:
        """Have the lists read again that these notifications are about.

        If the child has not told of the change itself, the notifications are passed on only if
        there is one: a client that calls again after each would go on for ever.
        """
        self._outdated.update(methods)
        self._is_told |= is_told
        self._wake.set()

    def try_again(self) -> None:
        """Have the lists read again that could not be read the last time."""
        for name, methods in LIST_CHANGED.items():
            if not self._unread.isdisjoint(methods):
                self.note_change({name})

    async def read(self, peer: Peer, handshake: ServerHandshake, log: ChildLog) -> Listing:
        """Return the lists that the child declares. Raises: SilentError, GoneError."""
        request, failed = self._pages(peer, handshake, log), self._unread.add
        return await read_listing(request, handshake, log, failed=failed)

    async def follow(
        self,
        peer: Peer,
        handshake: ServerHandshake,
        log: ChildLog,
        known: Listing,
        changed_to: Callable[[Listing, Collection[str]], Awaitable[None]],
    ) -> None:
        """Read what changes, and pass on the new lists and the notifications; until cancelled.

        If reading fails, the lists that are `known` stay.
        """
        while True:
            await self._wake.wait()
            self._wake, changed, self._outdated = anyio.Event(), self._outdated, set()
            is_told, self._is_told = self._is_told, False
            methods = [method for name in sorted(changed) for method in LIST_CHANGED[name]]
            began, request = anyio.current_time(), self._pages(peer, handshake, log)
            self._unread.difference_update(methods)
            try:
                listing = await read_listing(
                    request, handshake, log, methods=methods, known=known, failed=self._unread.add
                )
            except (RpcError, SilentError, WireError) as exc:
                log.warning("listing failed", error=str(exc))
                listing = known
            if listing is not known and (is_told or listing != known):
                known = listing
                await changed_to(listing, changed)
            taken = anyio.current_time() - began
            await anyio.sleep(max(RELIST_PAUSE, RELIST_SHARE * taken))

    def _pages(self, peer: Peer, handshake: ServerHandshake, log: ChildLog) -> SendRequest:
        """Return a function that requests pages; their size is limited in all."""
        listed = 0

        async def request(method: str, params: JsonObject) -> JsonObject:
            nonlocal listed
            asked = with_envelope(params, handshake, self._hub)
            page = await peer.request(method, asked, timeout=self.timeout)
            listed += size_of(page)
            if listed > MAX_LISTED:
                raise WireError(INTERNAL_ERROR, f"its lists have over {MAX_LISTED} bytes")
            return await readable(page, method, log)

        return request


async def readable(page: Payload, method: str, log: ChildLog) -> JsonObject:
    """Return a page of a list, without a few entries that cannot be read (nested too deeply).

    A long list is read in pieces, between the turns of others.

    Raises: WireError if it cannot be read otherwise.
    """
    if not isinstance(page, Raw) or size_of(page) <= LARGE:
        try:
            return wire.as_object(page)
        except WireError:
            if not isinstance(page, Raw):
                raise
    limit_parts(bytes(page))
    entries, rest = parted(page, {LISTS[method]})
    listed = entries.get(LISTS[method], Raw(b"[]"))
    if bytes(listed) == b"null":  # as some write an empty list
        return wire.as_object(rest)
    return {**wire.as_object(rest), LISTS[method]: await _in_pieces(listed, method, log)}


async def _in_pieces(listed: Raw, method: str, log: ChildLog) -> list[Json]:
    """Return the entries of a page that can be read. Raises: WireError if too many cannot."""
    kept: list[Json] = []
    left_out = 0
    for number, entry in enumerate(_raw_entries(listed), start=1):
        if not number % AT_ONCE:
            await anyio.lowlevel.checkpoint()
        try:
            kept.append(wire.as_object(entry))
        except WireError as exc:
            left_out += 1
            if left_out > MAX_LEFT_OUT:
                raise
            name = parted(entry, {"name"})[0].get("name", Raw(b""))
            shown = shortened(bytes(name).decode("utf-8", "replace"), SHOWN)
            log.warning("left out of its list", method=method, name=shown, error=str(exc))
    return kept


def _raw_entries(entries: Raw) -> list[Raw]:
    try:
        return msgspec.json.decode(entries, type=list[Raw])
    except (msgspec.DecodeError, RecursionError) as exc:
        raise WireError(INVALID_REQUEST, f"Expected a list of entries: {exc}") from exc


async def read_listing(  # noqa: PLR0913 - what is read, and who hears of it
    request: SendRequest,
    handshake: ServerHandshake,
    log: ChildLog,
    *,
    methods: Iterable[str] = tuple(LISTS),
    known: Listing | None = None,
    failed: Callable[[str], None] = lambda _method: None,
) -> Listing:
    """Return `known` with the lists of `methods` read again, as far as the child declares them.

    If the child answers a list request with an error, that list stays as in `known`, or is what was
    read before; `log` tells, and `failed` is called with the method.

    Raises: SilentError, GoneError.
    """
    listing = known or Listing()
    for method in methods:
        if handshake.offers(method.partition("/")[0]):
            entries, is_whole = await _read_list(request, method, log)
            if not is_whole:
                failed(method)
            if is_whole or known is None:
                listing = replace(listing, **{FIELD[method]: entries})
    return listing


async def _read_list(
    request: SendRequest, method: str, log: ChildLog
) -> tuple[tuple[JsonObject, ...], bool]:
    """Return a list as far as it could be read, and whether that is all that counts."""
    entries: list[JsonObject] = []
    cursors: set[str] = set()
    cursor: Json = None
    for _ in range(MAX_PAGES):
        try:
            page = await request(method, {} if cursor is None else {"cursor": cursor})
        except (RpcError, WireError) as exc:
            if isinstance(exc, RpcError) and exc.code == METHOD_NOT_FOUND:
                return (), True
            log.warning("listing failed", method=method, error=str(exc))
            return tuple(entries), False
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
    return tuple(entries[:MAX_ENTRIES]), True
