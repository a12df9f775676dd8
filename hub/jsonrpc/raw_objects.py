"""Edit raw JSON objects as bytes: take fields out or add fields, without decoding the values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet

import msgspec
from msgspec import Raw

from hub.jsonrpc.exact_json import WireError, encode, masked
from hub.protocol.constants import INVALID_REQUEST
from hub.values import Json

_top = msgspec.json.Decoder(dict[str, Raw])
_KEY = re.compile(rb'\s*"[^"\\]*+(?:\\.[^"\\]*+)*"\s*:\s*')
_BEGINNING = re.compile(rb"\s*\{\s*")
_BEHIND = re.compile(rb"\s*[,}]")


def _members(payload: Raw) -> tuple[dict[str, Raw], bytes | memoryview]:
    """Return the top-level fields, and the text that they were decoded from.

    That text is `payload`, or a masked copy of the same length if `payload` has lone surrogates,
    which the decoder refuses.
    """
    try:
        try:
            return _top.decode(payload), memoryview(payload)
        except msgspec.DecodeError:
            text = masked(bytes(payload))
            return _top.decode(text), text
    except (msgspec.DecodeError, RecursionError) as exc:
        raise WireError(INVALID_REQUEST, f"Expected a JSON object: {exc}") from exc


def parted(payload: Raw, keys: AbstractSet[str]) -> tuple[dict[str, Raw], Raw]:
    """Return the fields of `payload` that are in `keys`, and the object without these fields.

    Raises: WireError if `payload` is not a JSON object, or if it has a field of `keys` and
    repeats any key.
    """
    members, read = _members(payload)
    if keys.isdisjoint(members):
        return {}, payload
    text, read = bytes(payload), bytes(read)
    taken: dict[str, Raw] = {}
    kept: list[bytes] = []
    at = read.index(b"{") + 1
    for key, value in members.items():
        found = _KEY.match(read, at)
        start = found.end() if found is not None else at
        end = start + len(bytes(value))
        if read[start:end] != bytes(value):
            raise WireError(INVALID_REQUEST, "A key is repeated in one object")
        if key in keys:
            taken[key] = Raw(text[start:end])
        else:
            kept.append(text[at:end])
        behind = _BEHIND.match(read, end)
        at = behind.end() if behind is not None else end
    if members and read[at:].strip():
        raise WireError(INVALID_REQUEST, "A key is repeated in one object")
    return taken, Raw(b"{" + b",".join(kept) + b"}")


def with_fields(payload: Raw, fields: Mapping[str, Json | Raw]) -> Raw:
    """Return the object `payload` with `fields` added before its own fields.

    `fields` must not be empty, and `payload` must have none of them: keys are not compared.
    """
    found = _BEGINNING.match(payload)
    own = memoryview(payload)[found.end() if found is not None else 0 :]
    made = encode(fields)[:-1]
    # One join: the payload may be large and is copied only once.
    return Raw(b"".join((made, b"" if bytes(own[:1]) == b"}" else b",", own)))
