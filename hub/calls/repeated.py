"""Whether the headers of an HTTP request repeat a call's arguments as its tool wants it."""

from __future__ import annotations

from hub.calls.addressing import Addressed
from hub.jsonrpc.peer import RpcError
from hub.protocol.constants import HEADER_MISMATCH
from hub.protocol.http_headers import AnnotationError, declared, mismatch
from hub.sessions.session import Session
from hub.values import ChildRoute, object_or_empty


def check_headers(session: Session, named: Addressed, route: ChildRoute) -> None:
    """Check a modern call over HTTP; one that came another way has no headers.

    A tool that marks its arguments as the protocol forbids has none either: clients leave it alone.

    Raises: RpcError if a header and its argument do not match, or one of the two is missing.
    """
    if session.headers is None or named.method != "tools/call" or named.server is not None:
        return
    try:
        params = declared(route.definition.get("inputSchema"))
    except AnnotationError:
        return
    objection = mismatch(params, object_or_empty(named.params.get("arguments")), session.headers)
    if objection is not None:
        raise RpcError(HEADER_MISMATCH, f"Header mismatch: {objection}")
