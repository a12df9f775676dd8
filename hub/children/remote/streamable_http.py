"""Streamable HTTP to a remote child: a POST per message, answered by its body or by events.

The legacy era has a session, and a GET stream for the child's own messages; streams that break off
are resumed. In the modern era there is no session: to close the response is to cancel the request.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from functools import partial

import anyio
import structlog
from anyio.abc import TaskGroup
from msgspec import Struct
from msgspec.structs import astuple, replace

from hub.children.remote.exchange import DRAIN, CountedParser, Exchange, ExchangeError
from hub.children.remote.http_client import CONNECT_TIMEOUT, Endpoint, Headers
from hub.children.remote.messages import (
    RemoteLink,
    events_in,
    is_session_unknown,
    messages_in,
    refusal_in,
    taken_back,
)
from hub.children.remote.resumption import SESSION_ENDED, Pauses, SessionEndedError, resumed
from hub.children.remote.sse import SseLink
from hub.errors import ChildError
from hub.jsonrpc import messages, parsing
from hub.jsonrpc.errors import GoneError
from hub.jsonrpc.exact_json import WireError
from hub.jsonrpc.messages import Failure, Message, Notification, Payload, Request, Response
from hub.jsonrpc.rated_log import ChildLog
from hub.jsonrpc.requests import RequestWithin
from hub.protocol.constants import METHOD_NOT_FOUND
from hub.protocol.http_headers import Marked, modern_version, offered, request_headers
from hub.protocol.sse_parser import EventParser, ServerSentEvent
from hub.values import JsonObject


class RemoteSession:
    """The headers of both eras: the legacy session's, or those that repeat a modern request."""

    def __init__(self, log: ChildLog) -> None:
        self._log = log
        self.is_modern = False
        self._id: Headers = {}
        self._version: Headers = {}
        self._marked: Marked = {}

    @property
    def has_id(self) -> bool:
        """Whether the child keeps a session, which it may end."""
        return bool(self._id)

    def headers(self) -> Headers:
        """Return the headers of every message that is not a modern request."""
        return {**self._id, **self._version}

    def headers_of(self, request: Request) -> Headers:
        """Return the headers of a request; its envelope tells the era until a version is agreed."""
        version = None if self._version else modern_version(request.params)
        self.is_modern = version is not None
        if version is None:
            return self.headers()
        return request_headers(version, request.method, request.params, self._marked)

    def begin(self, request: Request, exchange: Exchange) -> None:
        """Store the session id that comes with the response to `initialize`."""
        if request.method == "initialize":
            id_ = exchange.header("mcp-session-id")
            self._id = {b"mcp-session-id": id_.encode("latin-1", "replace")} if id_ else {}

    def learn(self, request: Request, result: Payload) -> Payload:
        """Store what a result says about later requests' headers; return the result to pass on.

        Tools whose header annotations are invalid are left out of a modern listing.

        Raises: WireError if the result cannot be read.
        """
        if request.method == "initialize":
            version = messages.as_object(result).get("protocolVersion")
            if isinstance(version, str) and version.isascii() and version.isprintable():
                self._version = {b"mcp-protocol-version": version.encode()}
        elif self.is_modern and request.method == "tools/list":
            found = offered(messages.as_object(result))
            marked = {**self._marked, **found.marked}
            self._marked = marked if len(marked) <= MAX_MARKED else found.marked
            for name, why in found.refused.items():
                self._log.warning("tool left out", tool=name, error=why)
            if found.refused:
                return found.listing
        return result


MAX_MARKED = 40_000
"""How many tools' headers are remembered: a child may list other tools each time."""
MAX_RESUMPTIONS = 3
"""How many resumptions of a response in a row may bring nothing."""
ENDPOINT_WAIT = 5.0
"""Seconds that a child has to offer HTTP+SSE once it has refused streamable HTTP."""
_NO_STREAMABLE_HTTP = frozenset({400, 404, 405})
_BROKE_OFF = "the connection broke off"

_ACCEPTS = {b"accept": b"application/json, text/event-stream", b"content-type": b"application/json"}
_OK, _ACCEPTED, _NOT_FOUND, _REDIRECTS = 200, 202, 404, 300

log = structlog.stdlib.get_logger(__name__)


class _Post(Struct, frozen=True, eq=False):
    """A request in flight, and how far the events up to its response were read."""

    request: Request
    is_modern: bool
    parser: EventParser

    def is_answered_by(self, message: Response | Failure) -> bool:
        """Return whether a message is the response, even if its id came back as another type."""
        return message.id is None or str(message.id) == str(self.request.id)


class HttpLink(RemoteLink):
    """The connection to a child over streamable HTTP.

    With `falls_back` it goes on over HTTP+SSE if the child refuses `initialize` with 400, 404 or
    405 and offers that older transport at the same URL (MCP, "Backwards Compatibility").
    """

    def __init__(
        self,
        endpoint: Endpoint,
        tasks: TaskGroup,
        *,
        pauses: Pauses | None = None,
        falls_back: bool = False,
    ) -> None:
        super().__init__(endpoint, tasks)
        self._pauses = pauses or Pauses()
        self._session = RemoteSession(self.conduct.log)
        self._falls_back = falls_back

    async def leave(self) -> None:
        """Accept no further messages, and end the session at the child."""
        self._inbound.end("the connection ended")
        if not self._session.has_id:
            return
        try:
            exchange = await self._endpoint.open("DELETE", self._session.headers())
        except (ExchangeError, GoneError) as exc:
            log.debug("session not ended", server=self.conduct.server, error=str(exc))
        else:
            await exchange.finish()

    # Messages that are not requests

    async def tell(self, message: Message, body: bytes) -> None:
        """Post such a message; a cancellation only while its request is in flight."""
        if self._session.is_modern:  # the modern era has only requests
            return
        match message:
            case Notification("notifications/cancelled"):
                if self.outlet.has(taken_back(message)):
                    await self._tell(body)
            case Notification("notifications/initialized"):
                try:
                    await self._tell(body)
                finally:
                    self._tasks.start_soon(self._listen)
            case _:
                await self._tell(body)

    async def _tell(self, body: bytes) -> None:
        headers = {**_ACCEPTS, **self._session.headers()}
        exchange = await self._endpoint.open("POST", headers, body, patience=CONNECT_TIMEOUT)
        try:
            if exchange.status >= _REDIRECTS:
                self._endpoint.check_login(exchange)
                if self._has_ended(exchange, await refusal_in(exchange)):
                    self._inbound.end(SESSION_ENDED)
                raise ExchangeError(exchange.refusal)
        finally:
            await exchange.finish()

    # Requests

    def asking(self, request: Request, body: bytes) -> Callable[[], Awaitable[None]]:
        headers = {**_ACCEPTS, **self._session.headers_of(request)}
        parser = CountedParser(self._endpoint.unfinished)
        return partial(
            self._exchange, _Post(request, self._session.is_modern, parser), headers, body
        )

    async def _exchange(self, post: _Post, headers: Headers, body: bytes) -> None:
        exchange = await self._endpoint.open("POST", headers, body)
        try:
            if exchange.status != _OK:
                if not await self._fell_back(post, exchange, body):
                    await self._refused(post, exchange)
                return
            self._session.begin(post.request, exchange)
            if exchange.kind == "application/json":
                await self._read(post, exchange)
                return
            if exchange.kind != "text/event-stream":
                raise ExchangeError(f"it answered with content of type {exchange.kind!r}")
            if await self._follow(post, exchange):
                return
        finally:
            await exchange.close()
        await self._resume(post)

    async def _fell_back(self, post: _Post, exchange: Exchange, body: bytes) -> bool:
        """Go on over HTTP+SSE if the child has no streamable HTTP; return whether it has not."""
        is_first = self._falls_back and post.request.method == "initialize"
        if not is_first or exchange.status not in _NO_STREAMABLE_HTTP:
            return False
        older = SseLink(self._endpoint, self._tasks, self.outlet)
        try:
            with anyio.fail_after(ENDPOINT_WAIT):
                await self._tasks.start(older.listen)
        except (ChildError, TimeoutError) as exc:
            log.debug("no HTTP+SSE either", server=self.conduct.server, error=str(exc))
            return False
        log.info("speaks the older transport, HTTP+SSE", server=self.conduct.server)
        self.outlet.transport = older
        await older.asking(post.request, body)()
        return True

    async def _refused(self, post: _Post, exchange: Exchange) -> None:
        """Queue the failure of a refused request: a JSON-RPC error says more than a status."""
        if exchange.status == _ACCEPTED:
            raise ExchangeError("it accepted the request but will not answer it (HTTP status 202)")
        self._endpoint.check_login(exchange)
        error = await refusal_in(exchange)
        if self._has_ended(exchange, error):
            self._inbound.hand_back(post.request.id, SESSION_ENDED)
        elif error is not None:
            await self._inbound.put(replace(error, id=post.request.id))
        elif exchange.status == _NOT_FOUND:
            # To a server of the other era the method is unknown: send what such a server means.
            unknown: JsonObject = {"code": METHOD_NOT_FOUND, "message": exchange.refusal}
            await self._inbound.put(Failure(post.request.id, unknown))
        else:
            raise ExchangeError(exchange.refusal)

    def _has_ended(self, exchange: Exchange, error: Failure | None) -> bool:
        """Return whether a refusal means that the session has ended."""
        return self._session.has_id and is_session_unknown(exchange.status, error)

    async def _read(self, post: _Post, exchange: Exchange) -> None:
        """Queue the response that is the whole body."""
        text = await exchange.body(messages.MAX_MESSAGE_BYTES)
        try:
            message = parsing.parse_child(text)
        except WireError as exc:
            raise ExchangeError(f"its answer cannot be read: {exc}") from exc
        if not isinstance(message, Response | Failure):
            raise ExchangeError("it answered with a message that is not a response")
        if not post.is_answered_by(message):
            raise ExchangeError("it answered with the response to another request")
        await self._answer(post, message)

    async def _answer(self, post: _Post, answer: Response | Failure) -> None:
        id_ = post.request.id
        if isinstance(answer, Response):
            with suppress(WireError):  # the caller gets the same error on reading the result
                answer = Response(answer.id, self._session.learn(post.request, answer.result))
        await self._inbound.put(answer if answer.id == id_ else replace(answer, id=id_))

    # Events

    async def _follow(self, post: _Post, exchange: Exchange) -> bool:
        """Queue the messages of the events up to a response; return whether the response came."""
        answered = False
        try:
            with anyio.CancelScope() as rest:
                async with aclosing(exchange.chunks()) as chunks:
                    async for chunk in chunks:
                        async with aclosing(events_in(chunk, post.parser, self.conduct)) as events:
                            async for event in events:
                                answered |= await self._take(post, event)
                        if answered:
                            # The child should end the stream now; then the connection is reused.
                            rest.deadline = min(rest.deadline, anyio.current_time() + DRAIN)
        except ExchangeError:
            if not answered and not self._can_resume(post):
                raise
        return answered

    async def _take(self, post: _Post, event: ServerSentEvent) -> bool:
        """Queue the messages of an event; return whether the response was among them."""
        answered = False
        for message in messages_in(self.conduct, event):
            if isinstance(message, Response | Failure) and post.is_answered_by(message):
                await self._answer(post, message)
                answered = True
            elif isinstance(message, Request):
                within, (id_, method, params) = post.request.id, astuple(message)
                await self._inbound.put(RequestWithin(id_, method, params, within=within))
            else:
                await self._pass_on(message)
        return answered

    async def _pass_on(self, message: Message) -> None:
        await self._inbound.put(message)
        if isinstance(message, Response | Failure):
            self.outlet.give_up(message.id)  # nothing more comes on that request's own stream

    async def _resume(self, post: _Post) -> None:
        """Resume the event stream until the response has come."""
        if not self._can_resume(post):
            raise ExchangeError(_BROKE_OFF)
        await anyio.sleep(self._pauses.after(post.parser.retry, 1))
        try:
            async with aclosing(self._resumed(post.parser, MAX_RESUMPTIONS)) as events:
                async for event in events:
                    if await self._take(post, event):
                        return
        except SessionEndedError as exc:
            self._inbound.end(str(exc))
            return
        except ExchangeError as exc:
            raise ExchangeError(f"{_BROKE_OFF}, and cannot be resumed: {exc}") from exc
        raise ExchangeError(_BROKE_OFF)

    def _can_resume(self, post: _Post) -> bool:
        return bool(post.parser.last_id) and not post.is_modern

    def _resumed(
        self, parser: EventParser, attempts: int | None
    ) -> AsyncGenerator[ServerSentEvent]:
        headers, pauses = self._session.headers, self._pauses
        return resumed(self._endpoint, headers, parser, pauses, attempts=attempts)

    async def _listen(self) -> None:
        """Queue the child's own messages from the GET stream, while the child offers one."""
        parser = EventParser(messages.MAX_MESSAGE_BYTES)
        try:
            async with aclosing(self._resumed(parser, None)) as events:
                async for event in events:
                    for message in messages_in(self.conduct, event):
                        await self._pass_on(message)
        except (SessionEndedError, GoneError) as exc:
            self._inbound.end(str(exc))
        except ExchangeError as exc:
            log.debug("no stream for notifications", server=self.conduct.server, error=str(exc))
