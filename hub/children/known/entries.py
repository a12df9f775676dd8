"""A known catalog as the content of a file, with a checksum; whatever else is there is refused."""

from __future__ import annotations

import hashlib
from typing import Final

from hub.catalog.merge import KnownCatalog, Listing
from hub.jsonrpc import exact_json
from hub.jsonrpc.exact_json import WireError
from hub.system.cache_files import UnfitEntryError
from hub.values import Json, JsonObject

_FORMAT: Final = b"roots-hub catalog 1"
_LISTS: Final = ("tools", "resources", "templates", "prompts")
_TEXTS: Final = ("era", "version", "instructions", "edition")
_OBJECTS: Final = ("info", "capabilities")


def encoded_entry(name: str, known: KnownCatalog) -> bytes | None:
    """Return the content of the file `name`; None for a catalog that has no JSON form."""
    listing = known.listing
    lists = None if listing is None else {key: list(getattr(listing, key)) for key in _LISTS}
    fields = {key: getattr(known, key) for key in (*_TEXTS, *_OBJECTS)}
    try:
        body = exact_json.encode({"name": name, "listing": lists, **fields})
    except WireError:
        return None
    return b"%b %b\n%b" % (_FORMAT, _checksum(body), body)


def decoded_entry(name: str, content: bytes) -> KnownCatalog:
    """Return the catalog in the content of the file `name`.

    Raises: UnfitEntryError if it is damaged, of another format or of another file.
    """
    head, _, body = content.partition(b"\n")
    if not head.startswith(_FORMAT + b" "):
        raise UnfitEntryError("it is not of this format")
    if head != b"%b %b" % (_FORMAT, _checksum(body)):
        raise UnfitEntryError("it is damaged")
    try:
        found = exact_json.decode_strict(body)
    except WireError as exc:
        raise UnfitEntryError(str(exc)) from None
    if not isinstance(found, dict) or found.get("name") != name:
        raise UnfitEntryError("it is a copy of another file")
    return KnownCatalog(
        listing=_listing(found.get("listing")),
        era=_text(found, "era"),
        version=_text(found, "version"),
        info=_object(found, "info"),
        capabilities=_object(found, "capabilities"),
        instructions=_text(found, "instructions"),
        edition=_text(found, "edition"),
    )


def _checksum(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest().encode()


def _listing(value: Json) -> Listing | None:
    if value is None:
        return None
    if not isinstance(value, dict) or value.keys() != set(_LISTS):
        raise UnfitEntryError("its lists are missing")
    return Listing(**{key: _objects(value[key]) for key in _LISTS})


def _objects(value: Json) -> tuple[JsonObject, ...]:
    entries = value if isinstance(value, list) else [None]
    found = tuple(entry for entry in entries if isinstance(entry, dict))
    if len(found) != len(entries):
        raise UnfitEntryError("a list has entries that are no objects")
    return found


def _text(found: JsonObject, key: str) -> str:
    value = found.get(key)
    if not isinstance(value, str):
        raise UnfitEntryError(f"{key} is no text")
    return value


def _object(found: JsonObject, key: str) -> JsonObject:
    value = found.get(key)
    if not isinstance(value, dict):
        raise UnfitEntryError(f"{key} is no object")
    return value
