"""The HTTP sessions of legacy clients: opened by `initialize`, found by id, adopted, or evicted."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from itertools import count

from msgspec import Struct, field

from hub.jsonrpc.messages import Notification
from hub.protocol.constants import LIST_CHANGED
from hub.server.connection import ConnectionFactory
from hub.server.http.adoption import SessionIds
from hub.server.http.auth.admission import Admission
from hub.server.http.legacy.event_store import EventStore
from hub.server.http.legacy.event_streams import NotificationStream
from hub.server.http.legacy.http_session import HttpSession
from hub.server.http.legacy.resumption import ResumableStreams
from hub.sessions.client import Client
from hub.system.tasks import TaskStarter
from hub.usage.principals import OverLimit, UsageByPrincipal


class _Owned(Struct, eq=False):
    """The sessions of one owner; `unused`: those without any call, least recently used first."""

    keys: set[str] = field(default_factory=set[str])
    unused: dict[str, HttpSession] = field(default_factory=dict[str, HttpSession])


class Sessions:
    """The sessions of one endpoint: `most` at most, half of them at most for one owner (address).

    An owner at its limit loses a session of its own that never made a call and has nothing in
    flight. From nine tenths of `most` on, the owner with the most sessions without a call loses one
    of these. `ended` is told each session that has ended, with its id.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        most: int,
        ended: Callable[[str, HttpSession], None],
    ) -> None:
        self._clock = clock
        self._ended = ended
        self._most = most
        self._share = max(1, most // 2)
        self._near = most - most // 10
        self._sessions: dict[str, HttpSession] = {}
        self._owned: dict[str, _Owned] = {}
        self._owner_of: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[HttpSession]:
        return iter(list(self._sessions.values()))

    def items(self) -> list[tuple[str, HttpSession]]:
        """Return all sessions, each with its id."""
        return list(self._sessions.items())

    def full(self, owner: str) -> str | None:
        """Return why the owner gets no further session, or None; may end one to make room."""
        own = self._owned.get(owner)
        if own is not None and len(own.keys) >= self._share and not self._make_room(own):
            return f"{len(own.keys)} sessions of {owner} are open"
        if len(self._sessions) >= self._near:
            most = max(self._owned.values(), key=_count_unused)
            if not self._make_room(most) and len(self._sessions) >= self._most:
                return f"{len(self._sessions)} sessions are open"
        return None

    def count_of(self, principal: str, profile: str | None = None) -> int:
        """Return how many sessions a principal has, in all or in one profile."""
        return sum(one.is_of(principal, profile) for one in self._sessions.values())

    def make_room_of(self, principal: str, profile: str | None = None) -> bool:
        """End a session of a principal, or of it in one profile, that never made a call.

        Returns whether there was one.
        """
        unused = (
            key
            for key, one in self._sessions.items()
            if one.is_of(principal, profile) and not one.has_called and not one.in_flight
        )
        key = next(unused, None)
        if key is not None:
            self.end(key)
        return key is not None

    def _make_room(self, owned: _Owned) -> bool:
        for key in [key for key, session in owned.unused.items() if session.has_called]:
            del owned.unused[key]
        found = (key for key, session in owned.unused.items() if not session.in_flight)
        key = next(found, None)
        if key is not None:
            self.end(key)
        return key is not None

    def add(self, session: HttpSession, owner: str, key: str) -> None:
        """Add a session with the id `key`; there must be room, see `full`."""
        self._sessions[key] = session
        self._owner_of[key] = owner
        own = self._owned.setdefault(owner, _Owned())
        own.keys.add(key)
        own.unused[key] = session

    def find(self, key: str | None) -> HttpSession | None:
        """Return the session with this id, or None; the session counts as just used."""
        session = self._sessions.get(key) if key is not None else None
        if session is not None and key is not None and not session.is_settled:
            self._used(key, session)
        return session

    def _used(self, key: str, session: HttpSession) -> None:
        unused = self._owned[self._owner_of[key]].unused
        unused.pop(key, None)
        if session.has_called:
            session.is_settled = True
        else:
            unused[key] = session

    def end(self, key: str, why: str | None = None) -> None:
        """End a session if it exists; `why` is told to its requests under way."""
        session = self._sessions.pop(key, None)
        if session is None:
            return
        owner = self._owner_of.pop(key)
        owned = self._owned[owner]
        owned.keys.discard(key)
        owned.unused.pop(key, None)
        if not owned.keys:
            del self._owned[owner]
        self._ended(key, session)
        session.close(why)

    def expire(self, idle: float) -> None:
        """End the sessions that were idle for more than `idle` seconds."""
        for key, session in list(self._sessions.items()):
            if not session.in_flight and self._clock() - session.idle_since > idle:
                self.end(key)

    def forget(self) -> None:
        """Forget all sessions without ending them."""
        self._sessions.clear()
        self._owned.clear()
        self._owner_of.clear()


def _count_unused(owned: _Owned) -> int:
    return len(owned.unused)


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
        poll_after: float,
        usage: UsageByPrincipal,
    ) -> None:
        self._open_connection = open_connection
        self._ids = ids
        self._clock = clock
        self._poll_after = poll_after
        self._events = EventStore(clock)
        self._open = Sessions(clock, most, self._ended)
        self._usage = usage
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
