"""The modern era's checks of each request over HTTP: its envelope, and headers that repeat it.

MCP 2026-07-28, "Transports": what stands between client and server may route by the headers, so a
request whose headers say something else than its body is refused.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from hub.jsonrpc import messages
from hub.jsonrpc.messages import Failure, Request
from hub.protocol.constants import (
    CLIENT_CAPABILITIES_META,
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CLIENT_CAPABILITY,
    MODERN_VERSIONS,
    PARSE_ERROR,
    PROTOCOL_VERSION_META,
    UNSUPPORTED_VERSION,
)
from hub.protocol.http_headers import NAMED_BY, decoded
from hub.server.http.access import RequestHeaders
from hub.server.modern import supported
from hub.values import Json, JsonObject

_VERSION: Final = "mcp-protocol-version"
_METHOD: Final = "mcp-method"
_NAME: Final = "mcp-name"
_STATUS: Final = {
    METHOD_NOT_FOUND: 404,
    **dict.fromkeys(
        (
            PARSE_ERROR,
            INVALID_REQUEST,
            INVALID_PARAMS,
            HEADER_MISMATCH,
            MISSING_CLIENT_CAPABILITY,
            UNSUPPORTED_VERSION,
        ),
        400,
    ),
}


class Told(Struct, frozen=True):
    """What headers say of the body; `name` is decoded, `twice` a header that stands repeatedly."""

    version: str | None
    method: str | None
    name: str | None
    twice: str | None


def told_in(headers: RequestHeaders) -> Told:
    """Return what a request's headers say of its body."""
    name = headers.get(_NAME)
    return Told(
        version=headers.get(_VERSION),
        method=headers.get(_METHOD),
        name=None if name is None else decoded(name),
        # Who reads the other one of two routes otherwise.
        twice=next((one for one in (_VERSION, _METHOD, _NAME) if headers.count(one) > 1), None),
    )


def rejection(request: Request, told: Told) -> Failure | None:
    """Return the error for a modern request whose headers or envelope do not fit; else None."""
    if told.twice is not None:
        error = _error(HEADER_MISMATCH, f"{told.twice} header appears more than once")
        return Failure(request.id, error)
    error = (
        _incomplete(request.params.get("_meta"))
        or _mismatch(request, told)
        or _unsupported(request)
    )
    return None if error is None else Failure(request.id, error)


def status_of(failure: Failure) -> int:
    """Return the HTTP status that an error of the modern era is sent with."""
    code = messages.as_object(failure.error).get("code")
    return _STATUS.get(code, 200) if isinstance(code, int) else 200


def _incomplete(meta: Json) -> JsonObject | None:
    if not isinstance(meta, dict):
        return _error(INVALID_PARAMS, "params._meta must be an object: the request's envelope")
    for key in (PROTOCOL_VERSION_META, CLIENT_CAPABILITIES_META):
        if key not in meta:
            return _error(INVALID_PARAMS, f"params._meta lacks {key}, a part of the envelope")
    return None


def _mismatch(request: Request, told: Told) -> JsonObject | None:
    params = request.params
    meta = params.get("_meta")
    version = meta.get(PROTOCOL_VERSION_META) if isinstance(meta, dict) else None
    key = NAMED_BY.get(request.method)
    named = params.get(key) if key is not None else None
    if told.version is None or told.version != version:
        wrong = _VERSION
    elif told.method != request.method:
        wrong = _METHOD
    elif named is not None and told.name != named:
        wrong = _NAME
    else:
        return None
    return _error(HEADER_MISMATCH, f"{wrong} header does not say what the request's body says")


def _unsupported(request: Request) -> JsonObject | None:
    meta = request.params.get("_meta")
    version = meta.get(PROTOCOL_VERSION_META) if isinstance(meta, dict) else None
    if version not in MODERN_VERSIONS:
        error = _error(UNSUPPORTED_VERSION, "Unsupported protocol version")
        return {**error, "data": supported(version)}
    if request.method == "initialize":
        # Without the header it would begin a session; with it, it is a method that this era lacks.
        return _error(METHOD_NOT_FOUND, f"Method not found: {request.method}")
    return None


def _error(code: int, message: str) -> JsonObject:
    return {"code": code, "message": message}
