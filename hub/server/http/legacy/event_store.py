"""Stored events of legacy sessions' event streams, for clients that come back to a stream.

MCP 2025-11-25, "Resumability and Redelivery". An event's id is `STREAM-NUMBER`, counted within its
session, so that no client can name an event of another session.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from math import inf
from typing import Final

from msgspec import Struct

from hub.jsonrpc.rated_log import RatedLog
from hub.jsonrpc.requests import PendingRequests

MAX_BYTES = 256 * 1024 * 1024
"""Bytes stored for all sessions together; at this and the limits below, the oldest event goes."""
MAX_SESSION_BYTES = 64 * 1024 * 1024
"""Bytes stored for one session: two messages of the largest size."""
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
    """An event as it is on the wire; `serial` counts all events of its session."""

    serial: int
    at: float
    id: EventId
    chunk: bytes


class EventStore:
    """Limits what the journals store: all sessions `max_bytes` together, and each one's share."""

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        max_bytes: int = MAX_BYTES,
        max_session_bytes: int = MAX_SESSION_BYTES,
        max_session_events: int = MAX_SESSION_EVENTS,
    ) -> None:
        self.clock = clock
        self._max_bytes = max_bytes
        self.max_session_bytes, self.max_session_events = max_session_bytes, max_session_events
        self._bytes = 0
        self._events = 0
        self._by_age: deque[tuple[Journal, int]] = deque()

    def journal(self) -> Journal:
        """Return the journal of a new session."""
        return Journal(self)

    def took(self, journal: Journal, event: StoredEvent) -> None:
        """Count a journal's new event; make room by dropping the oldest events of any journal."""
        self._bytes += len(event.chunk)
        self._events += 1
        self._by_age.append((journal, event.serial))
        self.expire()
        if len(self._by_age) > 2 * self._events + self.max_session_events:
            self._by_age = deque((one, serial) for one, serial in self._by_age if one.holds(serial))

    def expire(self) -> None:
        """Drop the events that are too old, and the oldest ones beyond `max_bytes`."""
        oldest_kept = self.clock() - MAX_AGE
        while self._by_age:
            owner, serial = self._by_age[0]
            if owner.holds(serial, oldest_kept) and self._bytes <= self._max_bytes:
                return
            self._by_age.popleft()
            owner.drop(serial)

    def dropped(self, event: StoredEvent) -> None:
        """Count an event no longer: its journal has dropped it."""
        self._bytes -= len(event.chunk)
        self._events -= 1


class Journal:
    """The latest events of one session, in the order in which they were made.

    `pending`: what the session's client was asked and has not answered. `log` is for lines about
    the client.
    """

    def __init__(self, store: EventStore) -> None:
        self.log = RatedLog({})
        self.pending = PendingRequests()
        self._store = store
        self._kept: deque[StoredEvent] = deque()
        self._bytes = 0
        self._serials = count()

    def add(self, id_: EventId, chunk: bytes) -> None:
        """Store one event."""
        event = StoredEvent(next(self._serials), self._store.clock(), id_, chunk)
        self._kept.append(event)
        self._bytes += len(chunk)
        self._store.took(self, event)
        limits = self._store
        while self._bytes > limits.max_session_bytes or len(self._kept) > limits.max_session_events:
            self._drop_oldest()

    def has(self, id_: EventId) -> bool:
        """Return whether an event is still stored."""
        return any(event.id == id_ for event in self._fresh())

    def after(self, id_: EventId) -> list[StoredEvent]:
        """Return the stored events of a stream after one of its events."""
        return [
            event
            for event in self._fresh()
            if event.id.stream == id_.stream and event.id.number > id_.number
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
        while self._kept:
            self._drop_oldest()

    def holds(self, serial: int, since: float = -inf) -> bool:
        """Return whether an event is still stored, and no event from before `since`."""
        first = self._kept[0] if self._kept else None
        return first is not None and first.serial <= serial and first.at >= since

    def drop(self, serial: int) -> None:
        """Drop an event and all before it, if the event is still stored."""
        while self._kept and self._kept[0].serial <= serial:
            self._drop_oldest()

    def _fresh(self) -> Iterator[StoredEvent]:
        oldest_kept = self._store.clock() - MAX_AGE
        return (event for event in self._kept if event.at >= oldest_kept)

    def _drop_oldest(self) -> None:
        event = self._kept.popleft()
        self._bytes -= len(event.chunk)
        self._store.dropped(event)
