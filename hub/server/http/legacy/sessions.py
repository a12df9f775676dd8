"""The HTTP sessions of legacy clients, and the requests in them: POST, GET and DELETE.

A session is opened by `initialize`, found by its id, adopted, or evicted.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from itertools import count
from typing import TypeAlias

import anyio
from msgspec import Struct, field
from starlette.types import Receive, Send

from hub.jsonrpc.deadlines import Deadlines
from hub.jsonrpc.messages import Failure, Message, Notification, Request, to_bytes
from hub.protocol.constants import INVALID_REQUEST, LIST_CHANGED
from hub.server.connection import ConnectionFactory, client_of_handshake
from hub.server.http.access import RequestHeaders
from hub.server.http.adoption import SessionIds
from hub.server.http.auth.admission import Admission
from hub.server.http.bounds.bodies import RETRY_AFTER
from hub.server.http.bounds.connections import RefusalLog
from hub.server.http.fast_calls import answer_post
from hub.server.http.legacy.event_store import EventStore
from hub.server.http.legacy.event_streams import NotificationStream
from hub.server.http.legacy.http_session import HttpSession, ResumableStreams, SessionPost
from hub.server.http.responses import ENDING, PostResponse, answer_in, refuse_for_now, respond
from hub.sessions.client import Client
from hub.system.tasks import TaskStarter
from hub.usage.fair_parts import Owner
from hub.usage.principals import OverLimit, UsageByPrincipal


class _Owned(Struct, eq=False):
    """How many sessions an owner has; `unused`: those without any call, longest unused first."""

    count: int = 0
    unused: dict[str, HttpSession] = field(default_factory=dict[str, HttpSession])


NoRoom: TypeAlias = OverLimit | str
"""Why no session is opened or adopted now: its principal has as many as it may, or all are open."""


class Sender(Struct, frozen=True):
    """Who sent a request, and the address that the request counts for."""

    admission: Admission
    address: str

    @property
    def principal(self) -> str:
        """Whose the request is."""
        return self.admission.principal

    @property
    def owner(self) -> Owner:
        """Whose part of what all clients share the request takes."""
        return self.admission.owner_at(self.address)


class LegacySessions:
    """Opens, adopts, finds and ends sessions: `most` at most, half of them at most for one address.

    An address at its limit loses a session of its own that never made a call and has nothing in
    flight. From nine tenths of `most` on, the address with the most sessions without a call loses
    one of these. A response without its answer after `poll_after` seconds (0: never) is ended for
    its client to come back.
    """

    def __init__(  # noqa: PLR0913 - each is one thing it cannot do without
        self,
        open_connection: ConnectionFactory,
        ids: SessionIds,
        *,
        clock: Callable[[], float],
        most: int,
        poll_after: float,
        usage: UsageByPrincipal,
    ) -> None:
        self._open_connection = open_connection
        self._ids = ids
        self._clock = clock
        self._most = most
        self._poll_after = poll_after
        self._events = EventStore(clock)
        self._usage = usage
        self._usage.counts["sessions"] = self.count_of
        self._sessions: dict[str, HttpSession] = {}
        self._owned: dict[str, _Owned] = {}

    def __iter__(self) -> Iterator[HttpSession]:
        return iter(list(self._sessions.values()))

    @property
    def is_busy(self) -> bool:
        """Whether a request is in progress, other than open notification streams."""
        return any(session.is_busy for session in self._sessions.values())

    def find(self, key: str | None, identity: str) -> HttpSession | None:
        """Return the client's session with this id that is open here; it counts as just used."""
        session = self._sessions.get(key) if key is not None else None
        if session is None or key is None:
            return None
        if not session.is_settled:
            unused = self._owned[session.owner].unused
            unused.pop(key, None)
            if session.has_called:
                session.is_settled = True
            else:
                unused[key] = session
        return session if session.identity == identity else None

    def opened(
        self, client: Client | None, sender: Sender, tasks: TaskStarter
    ) -> tuple[str, HttpSession] | NoRoom:
        """Open a session for a handshake, and return its id with it; `client` is what it said."""
        refused = self._refusal(sender)
        if refused is not None:
            return refused
        key = self._ids.made_for(client, sender.admission.identity)
        session = self._added(key, sender, tasks)
        if client is not None:
            session.speaks(client.version)  # a client may go on before its handshake's task ends
        return key, session

    async def adopted(
        self, key: str, sender: Sender, tasks: TaskStarter
    ) -> HttpSession | NoRoom | None:
        """Go on with a session of another process; None if its id may not be adopted.

        It counts as a new session. Its client may have missed anything: it is told to list again.
        """
        client = self._ids.opened(key, sender.admission.identity)
        if client is None:
            return None
        refused = self._refusal(sender)
        if refused is not None:
            return refused
        # No event of this process has the id of an earlier one: clients come back by these.
        session = self._added(key, sender, tasks, begins_at=int(self._ids.clock() * 1000))
        session.speaks(client.version)
        session.connection.adopt(client)
        for method in LIST_CHANGED:
            await session.notification_stream.send(Notification(method, {}))
        return session

    def _refusal(self, sender: Sender) -> NoRoom | None:
        """Return why a sender gets no further session, or None; may end one to make room."""
        usage = self._usage.of(sender.principal, sender.admission.profile)
        for part in () if usage is None else usage.parts:
            whose = part.principal, part.profile
            over = part.session_objection(self.count_of(*whose))
            if over is not None:
                its = {key: one for key, one in self._sessions.items() if one.is_of(*whose)}
                if not self._make_room(its):
                    return over
        return self._full(sender.address)

    def _full(self, owner: str) -> str | None:
        own = self._owned.get(owner)
        share = max(1, self._most // 2)
        if own is not None and own.count >= share and not self._make_room(own.unused):
            return f"{own.count} sessions of {owner} are open"
        if len(self._sessions) >= self._most - self._most // 10:
            most = max(self._owned.values(), key=lambda one: len(one.unused))
            if not self._make_room(most.unused) and len(self._sessions) >= self._most:
                return f"{len(self._sessions)} sessions are open"
        return None

    def count_of(self, principal: str, profile: str | None = None) -> int:
        """Return how many sessions a principal has, in all or in one profile."""
        return sum(one.is_of(principal, profile) for one in self._sessions.values())

    def _make_room(self, among: dict[str, HttpSession]) -> bool:
        """End the first of these that never made a call; return whether there was one."""
        for key, session in list(among.items()):
            if session.has_called:
                del among[key]
            elif not session.in_flight:
                self.end(key)
                return True
        return False

    def _added(
        self, key: str, sender: Sender, tasks: TaskStarter, *, begins_at: int = 0
    ) -> HttpSession:
        journal = self._events.journal(sender.principal)
        streams = ResumableStreams(journal, self._poll_after, _numbers=count(begins_at + 1))
        stream = NotificationStream(journal, streams.note_question, begins_at=begins_at)
        connections = self._open_connection.within(sender.admission.profile)
        connection = connections(stream, tasks, sender.principal)
        session = HttpSession(connection, stream, streams, self._clock, sender.address)
        self._sessions[key] = session
        own = self._owned.setdefault(session.owner, _Owned())
        own.count += 1
        own.unused[key] = session
        return session

    def end(self, key: str, why: str | None = None) -> None:
        """End a session if it is open; `why` is told to its requests under way."""
        session = self._sessions.pop(key, None)
        if session is None:
            return
        own = self._owned[session.owner]
        own.count -= 1
        own.unused.pop(key, None)
        if not own.count:
            del self._owned[session.owner]
        self._ids.end(key, session.identity)
        session.close(why)

    def expire(self, idle: float) -> None:
        """End the sessions that were idle for more than `idle` seconds; drop old events."""
        self._events.expire()
        for key, session in list(self._sessions.items()):
            if not session.in_flight and self._clock() - session.idle_since > idle:
                self.end(key)

    def forget(self) -> None:
        """Forget all sessions without ending them."""
        self._sessions.clear()
        self._owned.clear()

    def end_of(self, principals: Container[str], why: str) -> None:
        """End the sessions of some principals; `why` is told to their requests under way."""
        for key, session in list(self._sessions.items()):
            if session.principal in principals:
                self.end(key, why)


DELETED = "the session was ended by its client"
"""Why requests under way are given up when the client deletes its session."""


class LegacyRequests:
    """Answers requests that have passed the access checks, each in the session that it names.

    `tasks` is the group of the sessions that are opened; None: none is opened now.
    """

    tasks: TaskStarter | None = None

    def __init__(self, sessions: LegacySessions, log: RefusalLog, patience: Deadlines) -> None:
        self._sessions = sessions
        self._log = log
        self._patience = patience

    async def post(
        self,
        message: Message,
        headers: RequestHeaders,
        sender: Sender,
        receive: Receive,
        send: Send,
    ) -> None:
        """Answer a POST; `initialize` without a session opens one."""
        key = headers.get("mcp-session-id")
        if isinstance(message, Request) and message.method == "initialize" and key is None:
            await self._open(message, sender, receive, send)
            return
        session = await self._session(headers, sender, message, send)
        if session is None:
            return
        if isinstance(message, Request):
            post = SessionPost(session, message, sender.admission.scopes)
            response = post.response(send)
            with session.in_use():
                if headers.prefers_stream and not post.may_be_forbidden:
                    await response.begin()
                await answer_post(post, receive, response, self._patience)
        else:
            await session.connection.peer.receive(message)
            await respond(send, 202, b"")

    async def get(
        self, headers: RequestHeaders, sender: Sender, receive: Receive, send: Send
    ) -> None:
        """Answer a GET: the notification stream, or what is left of a stream that was lost."""
        if not headers.accepts("text/event-stream"):
            await respond(send, 406, {"error": "Accept must name text/event-stream"})
            return
        session = await self._session(headers, sender, None, send)
        if session is None:
            return
        seen = headers.get("last-event-id")
        with session.in_use():
            async with anyio.create_task_group() as tasks:
                end = tasks.cancel_scope.cancel
                if session.is_standing(seen):
                    end = session.notification_stream.interrupt
                tasks.start_soon(sender.admission.when_expired, end)
                await session.listen(seen, receive, send)
                tasks.cancel_scope.cancel()

    async def delete(self, headers: RequestHeaders, sender: Sender, send: Send) -> None:
        """Answer a DELETE: end the session."""
        key = headers.get("mcp-session-id")
        if await self._session(headers, sender, None, send) is not None and key is not None:
            self._sessions.end(key, DELETED)
            await respond(send, 200, b"")

    async def _session(
        self, headers: RequestHeaders, sender: Sender, message: Message | None, send: Send
    ) -> HttpSession | None:
        """Return the session that a request names, which may be one of an earlier process.

        Without one, send an error and return None.
        """
        key = headers.get("mcp-session-id")
        session: HttpSession | NoRoom | None
        session = self._sessions.find(key, sender.admission.identity)
        if session is None and key is not None:
            session = await self._adopted(key, sender)
        if isinstance(session, NoRoom):
            await self._refuse_session(sender, session, message, send)
            return None
        if session is None:
            status, text = (
                (400, "Mcp-Session-Id is missing")
                if key is None
                else (404, "There is no such session")
            )
            id_ = message.id if isinstance(message, Request) else None
            failure = Failure(
                id_, {"code": INVALID_REQUEST, "message": f"{text}: initialize a session first"}
            )
            await respond(send, status, to_bytes(failure))
        return session

    async def _adopted(self, key: str, sender: Sender) -> HttpSession | NoRoom | None:
        if self.tasks is None:
            return ENDING
        return await self._sessions.adopted(key, sender, self.tasks)

    async def _refuse_session(
        self, sender: Sender, refused: NoRoom, message: Message | None, send: Send
    ) -> None:
        why = refused if isinstance(refused, str) else refused.why
        self._log.note("session refused", sender.address, why)
        if isinstance(refused, OverLimit):
            await refuse_for_now(429, refused, message, send)
            return
        again = {"retry-after": str(RETRY_AFTER)}
        await respond(send, 503, {"error": f"{why}; try again later"}, again)

    async def _open(self, request: Request, sender: Sender, receive: Receive, send: Send) -> None:
        if self.tasks is None:
            await self._refuse_session(sender, ENDING, request, send)
            return
        opened = self._sessions.opened(client_of_handshake(request.params), sender, self.tasks)
        if isinstance(opened, NoRoom):
            await self._refuse_session(sender, opened, request, send)
            return
        key, session = opened
        response = PostResponse(send, {"mcp-session-id": key})
        try:
            await answer_in(session.connection, request, receive, response)
        finally:
            if session.connection.session.client is None or not response.has_result:
                self._sessions.end(key)
