"""HTTP responses to POSTs: JSON, event streams, CORS headers; also reads the bodies of POSTs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Final, TypeAlias

import anyio
from anyio.abc import TaskGroup
from starlette.types import Message as AsgiMessage
from starlette.types import Receive, Send

from hub.jsonrpc import exact_json
from hub.jsonrpc import messages as wire
from hub.jsonrpc.errors import GoneError
from hub.jsonrpc.exact_json import WireError
from hub.jsonrpc.messages import Failure, Message, Request, Response, to_bytes
from hub.protocol.constants import ALL_VERSIONS, INTERNAL_ERROR
from hub.server.connection import ClientConnection
from hub.server.http.access import Refusal, RequestHeaders
from hub.server.http.auth.admission import GrantedScopes
from hub.server.http.bounds.bodies import RETRY_AFTER, BodyLoad, BodyPieces
from hub.server.http.bounds.connections import SENDS_NO_MORE
from hub.usage.principals import ClientUsage, OverLimit
from hub.values import Json, JsonObject

Field: TypeAlias = tuple[bytes, bytes]
"""A header as on the wire: its name in lower case, and its value."""
NO_CONTENT: Final = 204
FORBIDDEN: Final = 403
PING_EVERY = 15.0
"""Seconds of silence after which a comment is sent, so that no proxy cuts an event stream."""
PING = b": ping\r\n\r\n"
"""A server-sent comment: keeps a stream open and means nothing."""
_IS_JSON = (b"content-type", b"application/json")
_STREAM_HEADERS = {
    "content-type": "text/event-stream",
    "cache-control": "no-cache, no-transform",
    "x-accel-buffering": "no",
}
UNKNOWN_VERSION: Final[JsonObject] = {
    "error": f"MCP-Protocol-Version: known are {', '.join(ALL_VERSIONS)}"
}


def is_known(version: str | None) -> bool:
    """Return whether a request's `MCP-Protocol-Version` is one that is served; it may have none."""
    return version is None or version in ALL_VERSIONS


def _raw_headers(headers: Mapping[str, str]) -> list[Field]:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]


async def respond(
    send: Send, status: int, body: Json | bytes, headers: Mapping[str, str] | None = None
) -> None:
    """Send a whole response: `body` as JSON, or bytes as they are; JSON too, unless told."""
    content = body if isinstance(body, bytes) else exact_json.encode(body)
    every = _raw_headers(headers or {})
    if status != NO_CONTENT:  # which must not tell a length (RFC 9110, 8.6)
        kind = [] if headers and "content-type" in headers else [_IS_JSON]
        every = [*kind, (b"content-length", b"%d" % len(content)), *every]
    await send({"type": "http.response.start", "status": status, "headers": every})
    await send({"type": "http.response.body", "body": content})


async def not_allowed(send: Send, methods: str) -> None:
    """Refuse a method that a path does not have."""
    await respond(send, 405, {"error": "Method not allowed"}, {"allow": methods})


async def refuse_for_now(status: int, over: OverLimit, message: Message | None, send: Send) -> None:
    """Refuse a message, and say when to try again."""
    id_ = message.id if isinstance(message, Request) else None
    failure = Failure(id_, {"code": INTERNAL_ERROR, "message": over.why})
    await respond(send, status, to_bytes(failure), {"retry-after": str(over.seconds)})


def counted(send: Send, usage: ClientUsage) -> Send:
    """Return a `send` whose bodies count for the limits of a principal."""

    async def counting(message: AsgiMessage) -> None:
        usage.carried(len(message.get("body", b"")))
        await send(message)

    return counting


async def begin_stream(send: Send, headers: Mapping[str, str] | None = None) -> None:
    """Send the headers of an event stream response."""
    raw = _raw_headers({**_STREAM_HEADERS, **(headers or {})})
    await send({"type": "http.response.start", "status": 200, "headers": raw})


def event(message: Message) -> bytes:
    """Return a message as a server-sent event."""
    return b"event: message\r\ndata: " + to_bytes(message) + b"\r\n\r\n"


class PostResponse:
    """The response to a POST: JSON if the answer is sent first, else an event stream.

    `headers` are for a result, or an event stream that begins before it. `has_result`: the answer
    is a result, and it was sent to a client that was there.
    """

    def __init__(self, send: Send, headers: Mapping[str, str] | None = None) -> None:
        self.has_result = False
        self._send = send
        self._headers = dict(headers or {})
        self._turn = anyio.Lock(fast_acquire=True)
        self._streaming = False
        self._over = False

    async def send(self, message: Message) -> None:
        """Send a message that comes before the answer.

        Raises: GoneError when the response is over, or the client has gone.
        """
        await self._stream(event(message))

    async def ping(self) -> None:
        """Send a comment, to show that the request is still being worked on."""
        await self._stream(PING)

    async def probe(self) -> None:
        """Send a comment, to see whether the client is still there."""
        await self._stream(PING)

    async def _stream(self, chunk: bytes) -> None:
        async with self._turn:
            if self._over:
                raise GoneError("the response is over")
            if not self._streaming:
                await self._begin()
            await self._send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def open(self) -> None:
        """Begin the response as an event stream, without an event, unless it has begun or ended."""
        async with self._turn:
            if not self._over and not self._streaming:
                await self._begin()

    async def _begin(self) -> None:
        await begin_stream(self._send, self._headers)
        self._streaming = True

    async def tend(self) -> None:
        """Keep the client waiting, until cancelled or the response is over.

        Sends a comment every `PING_EVERY` seconds, and begins the response if that is due before.
        """
        with suppress(GoneError):
            with anyio.move_on_after(PING_EVERY) as silence:
                await self.until_due()
            if not silence.cancelled_caught:
                await self.open()
                await anyio.sleep(PING_EVERY)
            while True:
                await self.ping()
                await anyio.sleep(PING_EVERY)

    async def until_due(self) -> None:
        """Return when the response must begin even without a message to send."""
        await anyio.sleep_forever()

    async def lost(self) -> None:
        """Mark the client as gone; return when nobody will take the answer any more."""
        self._over = True

    async def finish(
        self,
        answer: Response | Failure | None,
        *,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Send the answer and end the response.

        `status` and further `headers` count only if nothing was sent before. Without an answer
        (the request was cancelled) the response is an event stream that just ends.
        """
        async with self._turn:
            if self._over:
                return
            self._over = True
            await self._end(answer, status, headers or {})

    async def _end(
        self, answer: Response | Failure | None, status: int, headers: Mapping[str, str]
    ) -> None:
        """Send the answer as JSON, or as the stream's last event if the response has begun."""
        self.has_result = isinstance(answer, Response)
        if not self._streaming:
            if not self.has_result:
                self._headers.clear()
            if answer is not None:
                every = {**self._headers, **headers}
                await respond(self._send, status, to_bytes(answer), every)
                return
            await self._begin()
        last = b"" if answer is None else event(answer)
        await self._send({"type": "http.response.body", "body": last, "more_body": False})


PROBED_AFTER: Final = (0.05, 0.1, 1.0)
"""Seconds before each comment to a client that may have gone: the first is refused, as the next
shows."""


async def until_disconnected(
    receive: Receive, tasks: TaskGroup, ping: Callable[[], Awaitable[None]]
) -> None:
    """Return when the client has gone.

    A client that sends no more may still wait for its answer. `ping` sends it something, soon and
    more than once, in one of the `tasks`: a client that has gone refuses that.
    """
    while (kind := (await receive())["type"]) != "http.disconnect":
        if kind == SENDS_NO_MORE:
            tasks.start_soon(_probe, ping)


async def _probe(ping: Callable[[], Awaitable[None]]) -> None:
    with suppress(GoneError):
        for seconds in PROBED_AFTER:
            await anyio.sleep(seconds)
            await ping()


ENDING: Final = "the hub is ending"
"""Why requests under way are given up when the hub ends."""
NOT_BEGUN: Final = OverLimit(f"{ENDING}; try again later", RETRY_AFTER)
"""Why a request is not begun by a hub that ends."""
HUB_ENDS: Final = Refusal(503, "The hub is ending")
TOO_LARGE: Final = Refusal(413, f"A message may have {wire.MAX_MESSAGE_BYTES} bytes at most")
NO_ROOM: Final = Refusal(
    503,
    "The messages under way take all the memory that there is for them; try again later",
    {"retry-after": str(RETRY_AFTER)},
)


async def read_body(receive: Receive, load: BodyLoad, announced: int = 0) -> bytes | Refusal:
    """Return a request's body, counted by `load`; a refusal if it, or all bodies, are too large.

    `announced`: the bytes that its head says; too many are refused before any has come.

    Raises: GoneError if the client disconnected before the body was complete.
    """
    if announced > wire.MAX_MESSAGE_BYTES:
        return TOO_LARGE
    parts = BodyPieces()
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise GoneError("the client went before its message was complete")
        part = message.get("body", b"")
        size += len(part)
        if size > wire.MAX_MESSAGE_BYTES:
            return TOO_LARGE
        if not load.add(len(part)):
            return NO_ROOM
        parts.add(part)
        if not message.get("more_body", False):
            return parts.taken()


def last_word(request: Request, why: str) -> Failure:
    """Return the error that answers a request which the hub gives up."""
    said = f"{why}, and gave the request up: it may have taken effect or not"
    return Failure(request.id, {"code": INTERNAL_ERROR, "message": said})


async def answer_in(  # noqa: PLR0913 - all that the answer depends on
    connection: ClientConnection,
    request: Request,
    receive: Receive,
    response: PostResponse,
    *,
    status_of: Callable[[Failure], int] = lambda _: 200,
    scopes: GrantedScopes | None = None,
) -> None:
    """Answer one request in its own response; the request is cancelled when its client is lost.

    If the hub ends the connection, the answer is an error. A request that its client cancelled has
    no answer. `scopes` are those of its token.
    """
    try:
        granted = None if scopes is None else scopes.names
        asked = connection.peer.accept(request, response, granted)
    except WireError as exc:
        # Too many requests under way are no fault of this request: 503.
        status = 503 if exc.code == INTERNAL_ERROR else 400
        await response.finish(wire.failure_of(exc), status=status)
        return

    async def watch() -> None:
        await until_disconnected(receive, tasks, response.probe)
        await response.lost()
        asked.scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        tasks.start_soon(response.tend)
        answer = await connection.peer.answer(asked)
        if answer is None and connection.given_up is not None:
            answer = last_word(request, connection.given_up)
        status, headers = status_of(answer) if isinstance(answer, Failure) else 200, None
        if scopes is not None and asked.needed:
            status = FORBIDDEN
            headers = {"www-authenticate": scopes.resource.step_up(asked.needed)}
        await response.finish(answer, status=status, headers=headers)
        tasks.cancel_scope.cancel()


METHODS: Final = "GET, POST, DELETE"


_KEPT: Final = 600
"""Seconds that a browser may cache the answer to a preflight."""


def asks_first(method: str, headers: RequestHeaders) -> bool:
    """Return whether a request is a CORS preflight."""
    return method == "OPTIONS" and headers.get("access-control-request-method") is not None


def permission(headers: RequestHeaders) -> dict[str, str]:
    """Return the headers that answer a CORS preflight.

    Any request header is allowed: some are named after the arguments of tools.
    """
    wanted = headers.get("access-control-request-headers")
    own_network = headers.get("access-control-request-private-network")
    return {
        "access-control-allow-methods": METHODS,
        "access-control-max-age": str(_KEPT),
        **({} if wanted is None else {"access-control-allow-headers": wanted}),
        **({} if own_network is None else {"access-control-allow-private-network": "true"}),
    }


def readable(send: Send, origin: str) -> Send:
    """Return a `send` that adds CORS headers, so that pages of `origin` may read the response."""
    more: list[Field] = [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-expose-headers", b"mcp-session-id, retry-after, www-authenticate"),
        (b"vary", b"origin"),
    ]

    async def sent(message: AsgiMessage) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], *more]}
        await send(message)

    return sent
