"""Results and errors of calls: their form in protocol 2026-07-28, and how large they may be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Raw

from hub.catalog.pages import is_for_legacy
from hub.jsonrpc.errors import RpcError
from hub.jsonrpc.exact_json import WireError, encode
from hub.jsonrpc.messages import Payload, as_object
from hub.jsonrpc.raw_objects import parted, with_fields
from hub.protocol.constants import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    MISSING_CLIENT_CAPABILITY,
    RESOURCE_NOT_FOUND,
    SERVER_INFO_META,
)
from hub.protocol.input_requests import URL_NEEDED
from hub.sessions.services import ResultLimit
from hub.values import Json, JsonObject, object_or_empty

UNCACHED: Final[JsonObject] = {"ttlMs": 0, "cacheScope": "private"}
"""The fields of a result that clients must not cache."""
_SPECIFIED: Final = range(-32099, HEADER_MISMATCH + 1)
"""The error codes that the specification keeps for itself, in the modern era."""
_MEANT: Final = frozenset({HEADER_MISMATCH, MISSING_CLIENT_CAPABILITY, URL_NEEDED})
"""Those that a server's error may have; URL_NEEDED is replaced where the client is sent to URLs."""
_STRUCTURED: Final = "structuredContent"
_COMPLETE: Final = b'"complete"'
_ENVELOPE: Final = frozenset({"_meta", "resultType", "ttlMs", "cacheScope"})


def completed(found: Payload, info: JsonObject, hints: JsonObject | None = None) -> Payload:
    """Return a result with the fields that modern clients require; other fields stay unchanged.

    `info` names the hub; `hints` are the fields on caching, if the result needs them.

    Raises: RpcError for a result that cannot be read.
    """
    named: JsonObject = {SERVER_INFO_META: info}
    if isinstance(found, dict):
        own = hints if hints and found.get("resultType") != "input_required" else {}
        meta: JsonObject = {**object_or_empty(found.get("_meta")), **named}
        return {"resultType": "complete", **found, **own, "_meta": meta}
    try:
        return _carried(found, named, hints or {})
    except WireError as exc:
        raise RpcError(INTERNAL_ERROR, f"the server's answer cannot be read: {exc}") from exc


def for_legacy(result: Payload, definition: Mapping[str, Json]) -> Payload:
    """Return a result of the tool as legacy clients can read it: structured content is an object.

    Only a tool whose `outputSchema` they are not shown is looked at. Raises: RpcError as above.
    """
    if is_for_legacy(definition):
        return result
    if isinstance(result, dict):
        is_read = isinstance(result.get(_STRUCTURED, {}), dict)
        return result if is_read else {k: v for k, v in result.items() if k != _STRUCTURED}
    try:
        own, rest = parted(result, {_STRUCTURED})
    except WireError as exc:
        raise RpcError(INTERNAL_ERROR, f"the server's answer cannot be read: {exc}") from exc
    return result if bytes(own.get(_STRUCTURED, b"{")).startswith(b"{") else rest


def renumbered(error: RpcError) -> RpcError:
    """Return an error of a call with a code that a modern server may use; all else stays unchanged.

    Data that cannot be read is left out of an error whose code is another now.
    """
    code = _code_for_modern(error.code)
    if code == error.code:
        return error
    try:
        whole: JsonObject = {**as_object(error.error), "code": code}
    except WireError:
        return RpcError(code, str(error))
    return RpcError(code, str(error), error=whole)


def _code_for_modern(code: int) -> int:
    """Return the code for modern clients of a server's error.

    Codes that only the specification may define mean nothing there, and UNSUPPORTED_VERSION would
    be read as one of the hub's own: the hub has chosen the version that it speaks with its server.
    """
    if code == RESOURCE_NOT_FOUND:
        return INVALID_PARAMS
    return INTERNAL_ERROR if code in _SPECIFIED and code not in _MEANT else code


def too_large(result: Payload, limit: ResultLimit | None, source: str) -> str | None:
    """Return the error text in place of a result that is larger than `limit`; None if it is not.

    `source` names who gave the result.
    """
    if limit is None:
        return None
    size = len(encode(result)) if isinstance(result, dict) else memoryview(result).nbytes
    if size <= limit.bytes:
        return None
    return (
        f"{source} gave a result of {size:,} bytes, and this hub passes on at most "
        f"{limit.bytes:,}: it is left out as a whole. The call has been carried out. Ask for less "
        f"at a time; the limit is the operator's, `{limit.key}`"
    )


def _carried(found: Raw, named: JsonObject, hints: JsonObject) -> Raw:
    own, rest = parted(found, _ENVELOPE)
    if not own:
        return with_fields(rest, {"resultType": "complete", **hints, "_meta": named})
    kind = bytes(own.pop("resultType", _COMPLETE))
    if kind != _COMPLETE:
        # Questions of a server are never results: they would come in the hub's own name.
        raise WireError(INTERNAL_ERROR, "it has an unknown resultType")
    told = own.pop("_meta", Raw(b""))
    others = parted(told, named.keys())[1] if bytes(told).startswith(b"{") else Raw(b"{}")
    more = {"resultType": "complete", **own, **hints, "_meta": with_fields(others, named)}
    return with_fields(rest, more)
