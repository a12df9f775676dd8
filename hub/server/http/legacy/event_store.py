"""Stored events of legacy sessions' event streams, for clients that come back to a stream.

MCP 2025-11-25, "Resumability and Redelivery". An event's id is `STREAM-NUMBER`, counted within its
session, so that no client can name an event of another session.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Sequence
from itertools import count
from typing import Final

from msgspec import Struct, field

from hub.jsonrpc.rated_log import RatedLog
from hub.jsonrpc.requests import PendingRequests
from hub.server.http.bounds.bodies import MUCH
from hub.system.this_process import give_back

MAX_BYTES = 256 * 1024 * 1024
"""Bytes stored for all sessions together; beyond, the oldest events of who stores most go."""
MAX_SESSION_BYTES = 64 * 1024 * 1024
"""Bytes stored for one session: two messages of the largest size. Beyond, its oldest event goes."""
MAX_SESSION_EVENTS = 4096
MAX_AGE = 300.0
"""Seconds that an event is stored."""

STANDING: Final = 0
"""The number of a session's notification stream; the streams of its requests begin with 1."""
_ID = re.compile(r"(\d{1,15})-(\d{1,15})", re.ASCII)


class EventId(Struct, frozen=True):
    """The id of an event: its stream, and its number in the stream."""

    stream: int
    number: int

    @classmethod
    def parse(cls, text: str) -> EventId | None:
        """Return the id in a `Last-Event-ID` header; None if the hub cannot have made it."""
        found = _ID.fullmatch(text.strip())
        return None if found is None else cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.stream}-{self.number}"


class StoredEvent(Struct, frozen=True):
    """An event as it is on the wire; `serial` counts all events of its store."""

    serial: int
    at: float
    id: EventId
    chunk: bytes


class _Share(Struct, eq=False):
    """What the journals of one owner store together; those that store nothing are not here."""

    bytes: int = 0
    journals: set[Journal] = field(default_factory=set["Journal"])


class EventStore:
    """Limits what the journals store: all sessions `max_bytes` together, and each one's share.

    Beyond that the owner whose sessions store most gives up its oldest events. `give_back` returns
    free memory to the system.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        max_bytes: int = MAX_BYTES,
        max_session_bytes: int = MAX_SESSION_BYTES,
        max_session_events: int = MAX_SESSION_EVENTS,
        give_back: Callable[[], object] = give_back,
    ) -> None:
        self.clock = clock
        self._give_back = give_back
        self._max_bytes = max_bytes
        self.max_session_bytes, self.max_session_events = max_session_bytes, max_session_events
        self._bytes = self._peak = 0
        self._shares: dict[str, _Share] = {}
        self.serials = count()

    def journal(self, owner: str = "") -> Journal:
        """Return the journal of a new session of `owner`."""
        return Journal(self, owner)

    def took(self, journal: Journal, event: StoredEvent) -> None:
        """Count a journal's new event, and make room for it."""
        share = self._shares.setdefault(journal.owner, _Share())
        share.journals.add(journal)
        share.bytes += len(event.chunk)
        self._bytes += len(event.chunk)
        self._peak = max(self._peak, self._bytes)
        while self._bytes > self._max_bytes:
            fullest = max(self._shares.values(), key=lambda one: one.bytes)
            oldest = min(one.kept[0].serial for one in fullest.journals)
            # Many sessions take long to look through, so not for each of many small events.
            last = oldest + (event.serial - oldest) // 32
            for one in [*fullest.journals]:
                while one.kept and one.kept[0].serial <= last:
                    one.drop_oldest()

    def expire(self) -> None:
        """Drop the events that are too old; at half of the peak, memory goes back to the system."""
        for journal in [one for share in self._shares.values() for one in share.journals]:
            while journal.kept and not journal.is_fresh(journal.kept[0]):
                journal.drop_oldest()
        if self._peak >= MUCH and self._bytes <= self._peak // 2:
            self._peak = self._bytes
            self._give_back()

    def dropped(self, journal: Journal, event: StoredEvent) -> None:
        """Count an event no longer: its journal has dropped it."""
        share = self._shares[journal.owner]
        share.bytes -= len(event.chunk)
        self._bytes -= len(event.chunk)
        if not journal.kept:
            share.journals.discard(journal)
        if not share.journals:
            del self._shares[journal.owner]


class Journal:
    """The latest events of one session (`kept`), in the order in which they were made.

    `pending`: what the session's client was asked and has not answered. `log` is for lines about
    the client.
    """

    def __init__(self, store: EventStore, owner: str) -> None:
        self.owner = owner
        self.log = RatedLog({})
        self.pending = PendingRequests()
        self.kept: deque[StoredEvent] = deque()
        self._store = store
        self._bytes = 0

    def add(self, id_: EventId, chunk: bytes) -> None:
        """Store one event."""
        event = StoredEvent(next(self._store.serials), self._store.clock(), id_, chunk)
        self.kept.append(event)
        self._bytes += len(chunk)
        self._store.took(self, event)
        limits = self._store
        while self._bytes > limits.max_session_bytes or len(self.kept) > limits.max_session_events:
            self.drop_oldest()

    def has(self, id_: EventId) -> bool:
        """Return whether an event is still stored."""
        return any(event.id == id_ and self.is_fresh(event) for event in self.kept)

    def after(self, id_: EventId) -> list[StoredEvent]:
        """Return the stored events of a stream after one of its events."""
        return [
            event
            for event in self.kept
            if event.id.stream == id_.stream
            and event.id.number > id_.number
            and self.is_fresh(event)
        ]

    def count_lost(self, after: EventId, left: Sequence[StoredEvent], last: int) -> int:
        """Return how many events from behind `after` to `last` are not `left`; log it if any."""
        lost = last - after.number - len(left)
        if lost:
            text = "a client came back too late for some events"
            self.log.info(text, after=str(after), lost=lost)
        return lost

    def close(self) -> None:
        """Drop all events: the session is over."""
        while self.kept:
            self.drop_oldest()

    def is_fresh(self, event: StoredEvent) -> bool:
        """Return whether an event is not too old."""
        return event.at >= self._store.clock() - MAX_AGE

    def drop_oldest(self) -> None:
        """Drop the oldest event; there must be one."""
        event = self.kept.popleft()
        self._bytes -= len(event.chunk)
        self._store.dropped(self, event)
