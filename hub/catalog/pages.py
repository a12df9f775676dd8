"""Pages of the hub's listings, with opaque cursors that are invalid after the listing changes."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from hub.errors import RouteError
from hub.values import Json, JsonObject

PAGE_SIZE: Final = 1000
"""Entries per page. Large, because many clients never ask for a second page."""

_IDENTITY: Final = ("name", "uri", "uriTemplate")


class CursorError(RouteError):
    """A cursor is not one of ours, or its listing has changed; `data` has reason and cursor."""

    def __init__(self, reason: str, cursor: str) -> None:
        super().__init__(f"Invalid cursor: {reason}")
        self.data: JsonObject = {"reason": reason, "cursor": cursor}


class Page(Struct, frozen=True):
    """Some entries of a listing, and the cursor of the next page if there is one."""

    entries: tuple[JsonObject, ...]
    next_cursor: str | None


def page_of(
    listing: tuple[JsonObject, ...], cursor: str | None = None, *, size: int = PAGE_SIZE
) -> Page:
    """Return the page of `listing` at `cursor`, or the first page for None.

    Raises:
        CursorError: the cursor is not one of ours, or the listing has changed since.
    """
    if cursor is None and len(listing) <= size:
        return Page(listing, None)
    digest = _digest(listing)
    start = 0 if cursor is None else _start(cursor, digest, len(listing))
    end = start + size
    return Page(listing[start:end], _cursor(digest, end) if end < len(listing) else None)


def _cursor(digest: str, start: int) -> str:
    return base64.urlsafe_b64encode(f"{digest}:{start}".encode()).decode()


def _start(cursor: str, digest: str, length: int) -> int:
    try:
        text = base64.b64decode(cursor.encode(), altchars=b"-_", validate=True).decode("ascii")
    except (binascii.Error, UnicodeError):
        text = ""
    made_for, found, start = text.partition(":")
    if not found or not start.isdecimal() or len(start) > len(str(length)):
        raise CursorError("not a cursor of this hub", cursor)
    if made_for != digest or int(start) >= length:
        raise CursorError("the listing has changed or is another one, list again", cursor)
    return int(start)


def _digest(listing: Sequence[JsonObject]) -> str:
    identities = ([entry.get(key) for key in _IDENTITY] for entry in listing)
    spelled = "\n".join(map(repr, identities)).encode("utf-8", "backslashreplace")
    return hashlib.sha256(spelled).hexdigest()[:16]


def for_legacy(tool: JsonObject) -> JsonObject:
    """Return a tool without an `outputSchema` that legacy clients do not know.

    Some of them refuse the whole list for one.
    """
    if is_for_legacy(tool):
        return tool
    return {key: value for key, value in tool.items() if key != "outputSchema"}


def is_for_legacy(tool: Mapping[str, Json]) -> bool:
    """Return whether legacy clients know a tool's `outputSchema`: it is of an object, or none."""
    output = tool.get("outputSchema")
    return output is None or (isinstance(output, dict) and output.get("type") == "object")
