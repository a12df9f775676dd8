"""Carried objects: looked into and added to as bytes, without reading what they hold."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from hub.core.protocol import INVALID_REQUEST
from hub.core.values import JsonObject
from hub.runtime.strict_json import WireError, encode
from hub.runtime.surrogates import masked

_top = msgspec.json.Decoder(dict[str, Raw])


def keys_of(payload: Raw) -> frozenset[str]:
    """Return the keys at the top of a carried object, without reading what they hold.

    Raises: WireError if it is not a JSON object.
    """
    try:
        try:
            return frozenset(_top.decode(payload))
        except msgspec.DecodeError:
            return frozenset(_top.decode(masked(bytes(payload))))
    except (msgspec.DecodeError, RecursionError) as exc:
        raise WireError(INVALID_REQUEST, f"Expected a JSON object: {exc}") from exc


def with_fields(payload: Raw, fields: JsonObject) -> Raw:
    """Return a carried object with fields that it does not have yet before its own."""
    own = bytes(payload).lstrip()[1:].lstrip()
    made = encode(fields)[:-1]
    return Raw(made + (b"}" if own == b"}" else b"," + own))
