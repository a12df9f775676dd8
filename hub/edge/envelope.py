"""The modern era's per-request checks over HTTP, by the SDK: headers, versions, the envelope.

This module is imported only when a modern client calls, because it loads the SDK.
"""

from __future__ import annotations

from mcp.shared.inbound import (
    ERROR_CODE_HTTP_STATUS,
    InboundLadderRejection,
    classify_inbound_request,
    find_duplicated_routing_header,
)

from hub.core.protocol import HEADER_MISMATCH, METHOD_NOT_FOUND
from hub.core.values import JsonObject
from hub.edge.gatekeeper import Headers
from hub.runtime import wire
from hub.runtime.wire import Failure, Request


def rejection(request: Request, headers: Headers) -> Failure | None:
    """Return the error for a modern request whose headers or envelope do not fit; else None."""
    twice = find_duplicated_routing_header(headers.pairs)
    if twice is not None:
        return Failure(
            request.id,
            {"code": HEADER_MISMATCH, "message": f"{twice} header appears more than once"},
        )
    body: JsonObject = {"method": request.method, "params": request.params}
    verdict = classify_inbound_request(body, headers=dict(headers.pairs))
    if not isinstance(verdict, InboundLadderRejection):
        # Without the header it would begin a session; with it, it is a method that this era lacks.
        return _not_found(request) if request.method == "initialize" else None
    error: JsonObject = {"code": verdict.code, "message": verdict.message}
    return Failure(request.id, error if verdict.data is None else {**error, "data": verdict.data})


def _not_found(request: Request) -> Failure:
    """Return the error for a method that there is not."""
    message = f"Method not found: {request.method}"
    return Failure(request.id, {"code": METHOD_NOT_FOUND, "message": message})


def status_of(failure: Failure) -> int:
    """Return the HTTP status that an error of the modern era is sent with."""
    code = wire.as_object(failure.error).get("code")
    return ERROR_CODE_HTTP_STATUS.get(code, 200) if isinstance(code, int) else 200
