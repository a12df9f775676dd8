"""One legacy session over HTTP: its connection, its POSTs and their responses.

A response that is an event stream can be resumed. An answer that is sent first is plain JSON and
costs nothing here: a client without an event id cannot come back.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import partial

import anyio
from msgspec import Struct, field
from starlette.types import Receive, Send

from hub.calls.in_flight import ReplySink
from hub.jsonrpc.errors import GoneError
from hub.jsonrpc.messages import Failure, Message, Request, Response, to_bytes
from hub.jsonrpc.requests import Cancellable
from hub.protocol.constants import CALLS, INVALID_REQUEST
from hub.server.connection import ClientConnection
from hub.server.http.auth.admission import GrantedScopes
from hub.server.http.legacy.event_store import STANDING, EventId, Journal
from hub.server.http.legacy.event_streams import EventStream, NotificationStream, StreamConnection
from hub.server.http.responses import PostResponse, answer_in, begin_stream, last_word, respond

RESUME_WITHIN = 60.0
"""Seconds that a call goes on without its client, who has an event id; then it is cancelled."""


OPEN_AFTER = 0.25
"""Seconds that a client has to answer before the responses to its own requests begin.

A response that has begun is an event stream, and a large answer is better sent as plain JSON: the
Python SDK takes no event of more than 1 MiB.
"""


class ResumableStreams(Struct, eq=False):
    """The event streams that one session's requests are answered on.

    `primed`: the client accepts an event without data, and a response that ends before the answer.
    `is_asking`: whether the client has not answered all that it was asked. `lost` is called when
    the connection of a stream is gone.
    `poll_after`: seconds after which such a response ends, for the client to come back; 0: never.
    """

    journal: Journal
    poll_after: float = 0
    primed: bool = False
    is_asking: Callable[[], bool] = lambda: False
    lost: Callable[[], object] = lambda: None
    _under_way: dict[int, EventStream] = field(default_factory=dict[int, EventStream])
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    _asked: anyio.Event = field(default_factory=anyio.Event)

    @property
    def held_for(self) -> float | None:
        """Seconds that a response may stay open without its answer; None for any number."""
        return (self.poll_after or None) if self.primed else None

    def note_question(self) -> None:
        """Process that the client is asked something, over whichever stream."""
        asked, self._asked = self._asked, anyio.Event()
        asked.set()

    async def until_asking(self) -> None:
        """Return once the client has something to answer."""
        while not self.is_asking():
            await self._asked.wait()

    def begin(self, carrier: StreamConnection) -> EventStream:
        """Return a new stream, carried by the connection `carrier`."""
        number = next(self._numbers)
        stream = self._under_way[number] = EventStream(self.journal, number, carrier)
        return stream

    def ended(self, stream: EventStream) -> None:
        """End a stream that carries nothing more."""
        self._under_way.pop(stream.number, None)
        stream.end()

    async def resume(self, id_: EventId, send: Send, receive: Receive) -> bool:
        """Send the events after `id_`, stored and to come; return whether that event is known.

        Events that are stored no more are left out. The answer is the newest event, and a client
        that gets an error instead comes back twice, and may then wait for the answer in vain.
        """
        stream = self._under_way.get(id_.stream)
        if stream is not None:
            if stream.knows(id_):
                # Clients keep the last id of each connection only: this one needs an id of its own.
                carrier = await stream.attach(send, id_, primed=self.primed)
                await stream.hold(carrier, receive, at_most=self.held_for)
                return True
            return False
        left = self.journal.after(id_)
        if left:
            self.journal.count_lost(id_, left, left[-1].id.number)
            await begin_stream(send)
            body = b"".join(event.chunk for event in left)
            await send({"type": "http.response.body", "body": body, "more_body": False})
        elif self.journal.has(id_):
            await respond(send, 204, b"")
        return bool(left) or self.journal.has(id_)


class ResumableResponse(PostResponse):
    """The response to a legacy request; as an event stream it can outlive its first connection."""

    def __init__(self, send: Send, streams: ResumableStreams) -> None:
        super().__init__(send)
        self._streams = streams
        self._carrier: StreamConnection | None = None
        self._events: EventStream | None = None

    async def begin(self) -> EventStream:
        """Make the response an event stream, and return that. Raises: GoneError when it is over."""
        async with self._turn:
            if self._over:
                raise GoneError("the response is over")
            return await self._begun()

    async def _begun(self) -> EventStream:
        if self._events is None:
            if not self._streaming:
                await self._begin()
            self._carrier = StreamConnection(self._send)
            self._events = self._streams.begin(self._carrier)
            if self._streams.primed:
                await self._events.prime()
        return self._events

    async def send(self, message: Message) -> None:
        """Send a message that comes before the answer, or store it until the client comes back.

        Raises: GoneError when the response is over, or the client has gone for good.
        """
        if isinstance(message, Request):
            self._streams.note_question()
        await (await self.begin()).put(message)

    async def ping(self) -> None:
        """Send a comment, if the first connection still carries the stream."""
        stream = await self.begin()
        if stream.carrier is self._carrier:
            await stream.comment()

    async def probe(self) -> None:
        """Send a comment; a response without events gets none by this, and is not resumed later."""
        await (super().probe() if self._events is None else self.ping())

    async def tend(self) -> None:
        """Send comments until the answer, or end the response early for the client to come back."""
        if self._streams.held_for is None:
            await super().tend()
            return
        with anyio.move_on_after(self._streams.held_for):
            await super().tend()
            return
        try:
            stream = await self.begin()
        except GoneError:
            return
        if self._carrier is not None:
            stream.release(self._carrier)
            await self._carrier.hang_up()

    async def until_due(self) -> None:
        """Return when the client has something to answer, and has not done so for `OPEN_AFTER`.

        Some clients send nothing, no answer either, before the response to a request has begun.
        """
        while True:
            await self._streams.until_asking()
            await anyio.sleep(OPEN_AFTER)
            if self._streams.is_asking():
                return

    @property
    def is_lost(self) -> bool:
        """Whether no connection carries the stream, or its client has gone for good."""
        return self._over or (self._events is not None and self._events.carrier is None)

    async def lost(self) -> None:
        """Let the client come back; return if it cannot, or is away for `RESUME_WITHIN` seconds."""
        async with self._turn:
            stream, carrier = self._events, self._carrier
            if stream is None or carrier is None:
                self._over = True
                return
        carrier.gone = True
        stream.release(carrier)
        self._streams.lost()
        while stream.is_resumable:
            with anyio.move_on_after(RESUME_WITHIN) as away:
                await stream.carried.wait()
            if away.cancelled_caught:
                break
            await stream.idle.wait()
        self._over = True
        self._streams.ended(stream)

    async def finish(
        self,
        answer: Response | Failure | None,
        *,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Send the answer, or store it until the client comes back, and end the response."""
        async with self._turn:
            if self._over:
                return
            self._over = True
            stream = self._events
            if stream is None:
                await self._end(answer, status, headers or {})
                return
        if answer is not None:
            await stream.put(answer)
        self._streams.ended(stream)
        if self._carrier is not None:
            await self._carrier.hang_up()


PRIMED_SINCE = "2025-11-25"
"""The first revision whose clients accept an event without data, and a stream that ends early."""


class HttpSession(Struct, eq=False):
    """One HTTP session of a legacy client.

    `notification_stream` carries messages that belong to no request, `streams` the responses to
    requests. `owner` is the address that it counts for. `idle_since` counts only while nothing is
    in flight. `has_called`: the client made a call. `is_settled`: that was noticed.
    """

    connection: ClientConnection
    notification_stream: NotificationStream
    streams: ResumableStreams
    clock: Callable[[], float]
    owner: str
    in_flight: int = 0
    idle_since: float = 0.0
    has_called: bool = False
    is_settled: bool = False

    def __post_init__(self) -> None:
        self.idle_since = self.clock()
        journal, session = self.streams.journal, self.connection.session
        journal.pending, journal.log = self.connection.peer.pending, session.log
        self.streams.is_asking = lambda: bool(self.connection.peer.pending)
        self.streams.lost = session.roots.connection_lost

    @property
    def principal(self) -> str:
        """Who opened the session."""
        return self.connection.session.principal

    @property
    def identity(self) -> str:
        """The key of what belongs to its client: nobody else may use the session."""
        return self.connection.session.identity

    def is_of(self, principal: str, profile: str | None) -> bool:
        """Return whether a principal opened it, in this profile (None: in any)."""
        session = self.connection.session
        return session.principal == principal and profile in {None, session.services.profile}

    def speaks(self, version: str) -> None:
        """Apply the agreed protocol revision to the session's streams."""
        self.streams.primed = version >= PRIMED_SINCE

    @property
    def is_busy(self) -> bool:
        """Whether a request is in flight, other than the open notification stream."""
        return self.in_flight > self.notification_stream.is_open

    def begin(self) -> None:
        """Count a request as in flight; `end` must follow."""
        self.in_flight += 1

    def end(self) -> None:
        """Forget a request that was answered or abandoned."""
        self.in_flight -= 1
        self.idle_since = self.clock()

    @contextmanager
    def in_use(self) -> Generator[None]:
        """Count a request as in flight while the context lasts."""
        self.begin()
        try:
            yield
        finally:
            self.end()

    def close(self, why: str | None = None) -> None:
        """End the session; `why` is told to its requests under way."""
        self.notification_stream.end()
        if why is None:
            self.connection.close()
        else:
            self.connection.end(why)
        self.streams.journal.close()

    def is_standing(self, seen: str | None) -> bool:
        """Return whether a GET after the event `seen` is for the notification stream."""
        after = None if seen is None else EventId.parse(seen)
        return seen is None or (after is not None and after.stream == STANDING)

    async def listen(self, seen: str | None, receive: Receive, send: Send) -> None:
        """Answer a GET: open the notification stream, or resume a stream after the event `seen`."""
        after = None if seen is None else EventId.parse(seen)
        stream = self.notification_stream
        if seen is None or (after is not None and after.stream == STANDING and stream.knows(after)):
            await self._stand(after, receive, send)
        elif after is None or not await self.streams.resume(after, send, receive):
            text = f"Nothing is kept from after the event {seen!r}: make the request again"
            error = Failure(None, {"code": INVALID_REQUEST, "message": text})
            await respond(send, 400, to_bytes(error))

    async def _stand(self, after: EventId | None, receive: Receive, send: Send) -> None:
        """Hold the notification stream open, in place of the connection that carried it before."""
        roots = self.connection.session.roots
        opened = partial(roots.reachable, certain=False)
        try:
            await self.notification_stream.serve(
                send, receive, opened, primed=self.streams.primed, after=after
            )
        finally:
            if not self.notification_stream.is_open:
                roots.unreachable()


class SessionPost:
    """One request of a legacy session, with the scopes of its token; a `PostedRequest`."""

    def __init__(
        self, session: HttpSession, request: Request, scopes: GrantedScopes | None
    ) -> None:
        self._session = session
        self._request = request
        self._scopes = scopes
        self._granted = None if scopes is None else scopes.names
        self.begin, self.end = session.begin, session.end
        if not session.has_called and request.method in CALLS:
            session.has_called = True

    @property
    def may_be_forbidden(self) -> bool:
        """Whether the answer may be that the token lacks a scope, which needs an HTTP status."""
        services = self._session.connection.session.services
        return self._granted is not None and services.needs_scopes

    def pass_on(self, reply: ReplySink) -> Cancellable | None:
        connection, request = self._session.connection, self._request
        route = connection.route_for(request)
        return connection.dispatcher.take(request, route, reply, self._granted)

    def response(self, send: Send) -> ResumableResponse:
        return ResumableResponse(send, self._session.streams)

    async def converse(self, receive: Receive, response: PostResponse) -> None:
        connection = self._session.connection
        await answer_in(connection, self._request, receive, response, scopes=self._scopes)

    def last_word(self) -> Failure | None:
        given_up = self._session.connection.given_up
        return None if given_up is None else last_word(self._request, given_up)

    def status_of(self, failure: Failure) -> int:
        return 200
