"""Modern requests over HTTP: their routing headers, their HTTP statuses, and who answers them.

A plain call needs no connection object; any other request has a `ClientConnection` of its own.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import Final

import anyio
from msgspec import Struct
from starlette.types import Receive, Send

from hub.calls.in_flight import ReplySink
from hub.jsonrpc.errors import head_of
from hub.jsonrpc.exact_json import RequestId
from hub.jsonrpc.messages import Failure, Message, Request
from hub.jsonrpc.requests import Cancellable
from hub.protocol.constants import (
    ALL_VERSIONS,
    CLIENT_CAPABILITIES_META,
    HEADER_MISMATCH,
    INTERNAL_ERROR,
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
from hub.server.connection import ClientConnection, ConnectionFactory
from hub.server.http.access import RequestHeaders
from hub.server.http.auth.admission import Admission
from hub.server.http.responses import ENDING, Field, PostResponse, answer_in, last_word
from hub.server.modern import supported
from hub.system.tasks import TaskStarter
from hub.usage.fair_parts import FairParts, Owner
from hub.values import Json, JsonObject

_VERSION: Final = "mcp-protocol-version"
_METHOD: Final = "mcp-method"
_NAME: Final = "mcp-name"
_SHOWN: Final = 64
"""How many characters of a version an error repeats."""
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


class RoutingHeaders(Struct, frozen=True):
    """Headers that repeat parts of the body; `name` is decoded, `twice` names a repeated header."""

    version: str | None
    method: str | None
    name: str | None
    twice: str | None


def routing_headers_of(headers: RequestHeaders) -> RoutingHeaders:
    """Return the routing headers of a request."""
    name = headers.get(_NAME)
    return RoutingHeaders(
        version=headers.get(_VERSION),
        method=headers.get(_METHOD),
        name=None if name is None else decoded(name),
        # A proxy that reads the other copy would route otherwise.
        twice=next((one for one in (_VERSION, _METHOD, _NAME) if headers.count(one) > 1), None),
    )


def is_new(message: Message) -> bool:
    """Return whether a message is a request, and no retry of one that is in progress."""
    if not isinstance(message, Request):
        return False
    return message.params.keys().isdisjoint({"requestState", "inputResponses"})


def rejection(request: Request, told: RoutingHeaders) -> Failure | None:
    """Return the error for a modern request with wrong headers or a wrong envelope; else None."""
    error = _objection(request, told)
    return None if error is None else Failure(request.id, error)


def _objection(request: Request, told: RoutingHeaders) -> JsonObject | None:
    if told.twice is not None:
        return _error(HEADER_MISMATCH, f"{told.twice} header appears more than once")
    meta = request.params.get("_meta")
    error = _incomplete(meta, told.version)
    if error is not None or not isinstance(meta, dict):
        return error
    version = meta.get(PROTOCOL_VERSION_META)
    return _mismatch(request, version, told) or _unsupported(request, version)


def status_of(failure: Failure) -> int:
    """Return the HTTP status that an error of the modern era is sent with."""
    code = head_of(failure.error).code
    return _STATUS.get(code, 200) if isinstance(code, int) else 200


def _incomplete(meta: Json, version: str | None) -> JsonObject | None:
    is_named = isinstance(meta, dict) and PROTOCOL_VERSION_META in meta
    if not is_named and version is not None and version not in ALL_VERSIONS:
        # A legacy client that makes a mistake there knows no envelope.
        said = f"MCP-Protocol-Version {version[:_SHOWN]!a} is not one of {', '.join(ALL_VERSIONS)}"
        return _error(INVALID_PARAMS, said)
    if not isinstance(meta, dict):
        return _error(INVALID_PARAMS, "params._meta must be an object: the request's envelope")
    for key in (PROTOCOL_VERSION_META, CLIENT_CAPABILITIES_META):
        if key not in meta:
            return _error(INVALID_PARAMS, f"params._meta lacks {key}, a part of the envelope")
    return None


def _mismatch(request: Request, version: Json, told: RoutingHeaders) -> JsonObject | None:
    key = NAMED_BY.get(request.method)
    named = request.params.get(key) if key is not None else None
    if told.version is None or told.version != version:
        wrong = _VERSION
    elif told.method != request.method:
        wrong = _METHOD
    elif named is not None and told.name != named:
        wrong = _NAME
    else:
        return None
    return _error(HEADER_MISMATCH, f"{wrong} header does not say what the request's body says")


def _unsupported(request: Request, version: Json) -> JsonObject | None:
    if version not in MODERN_VERSIONS:
        error = _error(UNSUPPORTED_VERSION, "Unsupported protocol version")
        return {**error, "data": supported(version)}
    if request.method == "initialize":
        # Without the version header this would open a session. The modern era has no `initialize`.
        return _error(METHOD_NOT_FOUND, f"Method not found: {request.method}")
    return None


def _error(code: int, message: str) -> JsonObject:
    return {"code": code, "message": message}


def _pairs(fields: Sequence[Field]) -> Iterator[tuple[str, str]]:
    """Yield the headers of a request, which are only read if somebody wants them."""
    yield from RequestHeaders(fields).pairs


MAX_UNDERWAY: Final = 10_000
"""How many requests may be under way, as many as there may be sessions; more are refused."""


class _Underway(Struct, eq=False):
    """Registers the calls of one owner. Equal ids do not matter: they are of several clients.

    Each call has a response of its own; no other call waits for the client to read that.
    """

    posts: ModernPosts
    owner: Owner

    @property
    def has_room(self) -> bool:
        return True

    def accepts(self, id_: RequestId) -> bool:
        return self.posts.parts.has_room(self.owner)

    def enter(self, id_: RequestId, underway: Cancellable) -> None:
        self.posts.calls.add(underway)
        self.posts.parts.add(self.owner)

    def leave(self, id_: RequestId, underway: Cancellable) -> None:
        if underway in self.posts.calls:
            self.posts.calls.discard(underway)
            self.posts.parts.give(self.owner)


class ModernPosts:
    """The modern requests under way, `max_underway` at most; `is_ending` once the hub ends.

    Each takes one of the `parts` of its owner. A plain call is in `calls` alone, any other request
    has one of the `connections`.
    """

    def __init__(self, open_connection: ConnectionFactory, max_underway: int) -> None:
        self.open_connection = open_connection
        self.parts = FairParts(max_underway)
        self.calls: set[Cancellable] = set()
        self.connections: set[ClientConnection] = set()
        self.is_ending = False

    @property
    def is_busy(self) -> bool:
        """Whether a request is in progress, other than a `subscriptions/listen` stream."""
        listening = sum(connection.modern.is_listening for connection in self.connections)
        return self.parts.taken > listening

    def end_listening(self, principals: Container[str] | None = None) -> None:
        """End the `subscriptions/listen` streams: all, or those of some principals."""
        for connection in self.connections:
            if principals is None or connection.session.principal in principals:
                connection.modern.end_listening()

    def end(self) -> None:
        """Give up the requests under way, because the hub ends."""
        self.is_ending = True
        for call in list(self.calls):
            call.cancel()
        for connection in list(self.connections):
            connection.end(ENDING)


class ModernPost(Struct, eq=False):
    """One modern request, the headers of its POST, and who sent it; implements `PostedRequest`.

    `owner`: whose part of the requests under way it takes.
    """

    posts: ModernPosts
    admission: Admission
    request: Request
    fields: Sequence[Field]
    tasks: TaskStarter
    owner: Owner

    def begin(self) -> None:
        """Do nothing: there is no session to count the request for."""

    def end(self) -> None:
        """Do nothing: nothing was counted."""

    def pass_on(self, reply: ReplySink) -> Cancellable | None:
        posts, admission = self.posts, self.admission
        factory, headers = posts.open_connection.within(admission.profile), _pairs(self.fields)
        route = factory.route_for(admission.principal, self.request, headers)
        dispatcher = factory.dispatcher(_Underway(posts, self.owner), self.tasks)
        return dispatcher.take(self.request, route, reply, admission.granted)

    def response(self, send: Send) -> PostResponse:
        return PostResponse(send)

    async def converse(self, receive: Receive, response: PostResponse) -> None:
        posts, request, admission = self.posts, self.request, self.admission
        if not posts.parts.has_room(self.owner):
            said = f"{posts.parts.of(self.owner)} requests are in progress; try again later"
            refused = Failure(request.id, {"code": INTERNAL_ERROR, "message": said})
            await response.finish(refused, status=503)
            return
        with posts.parts.held(self.owner):
            async with anyio.create_task_group() as tasks:
                factory = posts.open_connection.within(admission.profile)
                connection = factory(response, tasks, admission.principal)
                connection.modern.headers = RequestHeaders(self.fields).pairs
                tasks.start_soon(admission.when_expired, connection.modern.end_listening)
                posts.connections.add(connection)
                try:
                    scopes = admission.scopes
                    await answer_in(
                        connection, request, receive, response, status_of=status_of, scopes=scopes
                    )
                finally:
                    posts.connections.discard(connection)
                    connection.close()
                tasks.cancel_scope.cancel()

    def last_word(self) -> Failure | None:
        return last_word(self.request, ENDING) if self.posts.is_ending else None

    def status_of(self, failure: Failure) -> int:
        return status_of(failure)
