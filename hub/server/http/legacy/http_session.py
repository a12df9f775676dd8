"""One legacy session over HTTP: its connection, its POSTs and its event streams."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial

from msgspec import Struct
from starlette.types import Receive, Send

from hub.calls.in_flight import ReplySink
from hub.jsonrpc.messages import Failure, Request, to_bytes
from hub.jsonrpc.requests import Cancellable
from hub.protocol.constants import CALLS, INVALID_REQUEST
from hub.server.connection import ClientConnection
from hub.server.http.auth.admission import GrantedScopes
from hub.server.http.legacy.event_store import STANDING, EventId
from hub.server.http.legacy.event_streams import NotificationStream
from hub.server.http.legacy.resumption import ResumableResponse, ResumableStreams
from hub.server.http.responses import PostResponse, answer_in, last_word, respond

PRIMED_SINCE = "2025-11-25"
"""The first revision whose clients accept an event without data, and a stream that ends early."""


class HttpSession(Struct, eq=False):
    """One HTTP session of a legacy client.

    `notification_stream` carries messages that belong to no request, `streams` the responses to
    requests. `idle_since` counts only while nothing is in flight. `has_called`: the client made a
    call. `is_settled`: the registry `Sessions` has noticed that.
    """

    connection: ClientConnection
    notification_stream: NotificationStream
    streams: ResumableStreams
    clock: Callable[[], float]
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
        self.notification_stream.close()
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
