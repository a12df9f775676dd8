"""Pages of what clients are shown, as the bytes that go out: made once while what is shown is."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Raw

from hub.catalog.pages import page_of
from hub.jsonrpc import exact_json
from hub.protocol.constants import LISTS
from hub.values import JsonObject

KEPT_BYTES = 8 * 1024 * 1024
"""How many bytes of pages are kept; the oldest ones make room."""

Entries: TypeAlias = tuple[JsonObject, ...]


class Listed:
    """Keeps pages of listings. A listing that changes is another tuple."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int, str | None], tuple[Entries, Raw]] = {}
        self._size = 0

    def page(self, method: str, entries: Entries, cursor: str | None) -> Raw:
        """Return the result of a listing request.

        Raises: RouteError for a cursor that is not of this listing.
        """
        key = (method, id(entries), cursor)
        kept = self._kept.get(key)
        if kept is not None:
            return kept[1]
        made = encoded(method, entries, cursor)
        # The entries are kept with their page, so that their id stays theirs.
        self._kept[key] = entries, made
        self._size += len(bytes(made))
        while self._size > KEPT_BYTES:
            _, oldest = self._kept.pop(next(iter(self._kept)))
            self._size -= len(bytes(oldest))
        return made


def encoded(method: str, entries: Entries, cursor: str | None) -> Raw:
    """Return the result of a listing request, for entries that only this one is shown.

    Raises: RouteError for a cursor that is not of this listing.
    """
    page = page_of(entries, cursor)
    result: JsonObject = {LISTS[method]: list(page.entries)}
    if page.next_cursor is not None:
        result["nextCursor"] = page.next_cursor
    return Raw(exact_json.encode(result))
