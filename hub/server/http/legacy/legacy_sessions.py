"""The legacy sessions of one endpoint: opened by `initialize`, found by id, or adopted."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from itertools import count

from msgspec import Struct

from hub.jsonrpc.messages import Notification
from hub.protocol.constants import LIST_CHANGED
from hub.server.connection import ConnectionFactory
from hub.server.http.adoption.session_ids import SessionIds
from hub.server.http.auth.admission import Admission
from hub.server.http.legacy.event_store import EventStore
from hub.server.http.legacy.event_streams import NotificationStream
from hub.server.http.legacy.http_session import HttpSession
from hub.server.http.legacy.resumption import ResumableStreams
from hub.server.http.legacy.sessions import Sessions
from hub.sessions.client import Client
from hub.system.tasks import TaskStarter
from hub.usage.principals import OverLimit, UsageByPrincipal


class NoRoomForSession(Struct, frozen=True):
    """Why no session is opened or adopted now; its client may try again later.

    `over`: its principal has as many as it may.
    """

    why: str
    over: OverLimit | None = None


class Sender(Struct, frozen=True):
    """Who sent a request, and the address that the request counts for."""

    admission: Admission
    address: str

    @property
    def principal(self) -> str:
        """Whose the request is."""
        return self.admission.principal


class LegacySessions:
    """Opens, adopts, finds and ends sessions; no more than `most` at a time.

    A response without its answer after `poll_after` seconds (0: never) is ended for its client to
    come back.
    """

    def __init__(  # noqa: PLR0913 - each is one thing it cannot do without
        self,
        open_connection: ConnectionFactory,
        ids: SessionIds,
        *,
        clock: Callable[[], float],
        most: int,
        poll_after: float = 0,
        usage: UsageByPrincipal | None = None,
    ) -> None:
        self._open_connection = open_connection
        self._ids = ids
        self._clock = clock
        self._poll_after = poll_after
        self._events = EventStore(clock)
        self._open = Sessions(clock, most, self._ended)
        self._usage = usage or UsageByPrincipal()
        self._usage.counts["sessions"] = self._open.count_of

    def __iter__(self) -> Iterator[HttpSession]:
        return iter(self._open)

    @property
    def is_busy(self) -> bool:
        """Whether a request is in progress, other than open notification streams."""
        return any(session.is_busy for session in self._open)

    def find(self, key: str | None, identity: str) -> HttpSession | None:
        """Return the client's session with this id that is open here, or None."""
        session = self._open.find(key)
        return session if session is not None and session.identity == identity else None

    def opened(
        self, client: Client | None, sender: Sender, tasks: TaskStarter
    ) -> tuple[str, HttpSession] | NoRoomForSession:
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
    ) -> HttpSession | NoRoomForSession | None:
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

    def _refusal(self, sender: Sender) -> NoRoomForSession | None:
        """Return why a sender gets no further session, or None; may end one to make room."""
        usage = self._usage.of(sender.principal, sender.admission.profile)
        for part in () if usage is None else usage.parts:
            whose = part.principal, part.profile
            over = part.session_objection(self._open.count_of(*whose))
            if over is not None and not self._open.make_room_of(*whose):
                return NoRoomForSession(over.why, over)
        full = self._open.full(sender.address)
        return None if full is None else NoRoomForSession(full)

    def _added(
        self, key: str, sender: Sender, tasks: TaskStarter, *, begins_at: int = 0
    ) -> HttpSession:
        journal = self._events.journal(sender.principal)
        streams = ResumableStreams(journal, self._poll_after, _numbers=count(begins_at + 1))
        stream = NotificationStream(journal, streams.note_question, begins_at=begins_at)
        connections = self._open_connection.within(sender.admission.profile)
        connection = connections(stream, tasks, sender.principal)
        session = HttpSession(connection, stream, streams, self._clock)
        self._open.add(session, sender.address, key)
        return session

    def end(self, key: str, why: str | None = None) -> None:
        """End a session if it is open; `why` is told to its requests under way."""
        self._open.end(key, why)

    def expire(self, idle: float) -> None:
        """End the sessions that were idle for more than `idle` seconds; drop old events."""
        self._events.expire()
        self._open.expire(idle)

    def forget(self) -> None:
        """Forget all sessions without ending them."""
        self._open.forget()

    def end_of(self, principals: Container[str], why: str) -> None:
        """End the sessions of some principals; `why` is told to their requests under way."""
        for key, session in self._open.items():
            if session.principal in principals:
                self._open.end(key, why)

    def _ended(self, key: str, session: HttpSession) -> None:
        self._ids.end(key, session.identity)
