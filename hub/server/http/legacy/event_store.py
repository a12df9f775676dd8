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
from hub.server.http.bounds.bodies import MUCH
from hub.system.this_process import give_back

MAX_BYTES = 256 * 1024 * 1024
"""Bytes stored for all sessions together; beyond, the oldest event of who stores most goes."""
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
    """An event as it is on the wire; `serial` counts all events of its session."""

    serial: int
    at: float
    id: EventId
    chunk: bytes


class _Share:
    """What the journals of one owner store together; `by_age` has the oldest event first."""

    def __init__(self) -> None:
        self.bytes = 0
        self.events = 0
        self.by_age: deque[tuple[Journal, int]] = deque()

    def drop_oldest(self) -> None:
        """Drop the oldest event, if it is still stored."""
        journal, serial = self.by_age.popleft()
        journal.drop(serial)

    def expire(self, since: float) -> None:
        """Drop the events from before `since`."""
        while self.by_age:
            journal, serial = self.by_age[0]
            if journal.holds(serial, since):
                return
            self.drop_oldest()

    def compact(self, spare: int) -> None:
        """Forget the events that their journals have dropped, once there are many of these."""
        if len(self.by_age) > 2 * self.events + spare:
            self.by_age = deque((one, serial) for one, serial in self.by_age if one.holds(serial))


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

    def journal(self, owner: str = "") -> Journal:
        """Return the journal of a new session of `owner`."""
        return Journal(self, owner)

    def took(self, journal: Journal, event: StoredEvent) -> None:
        """Count a journal's new event, and make room for it."""
        share = self._shares.setdefault(journal.owner, _Share())
        share.bytes += len(event.chunk)
        share.events += 1
        share.by_age.append((journal, event.serial))
        self._bytes += len(event.chunk)
        self._peak = max(self._peak, self._bytes)
        share.expire(self.clock() - MAX_AGE)
        while self._bytes > self._max_bytes:
            max(self._shares.values(), key=lambda one: one.bytes).drop_oldest()
        share.compact(self.max_session_events)

    def expire(self) -> None:
        """Drop the events that are too old; at half of the peak, memory goes back to the system."""
        for owner, share in list(self._shares.items()):
            share.expire(self.clock() - MAX_AGE)
            if not share.by_age:
                del self._shares[owner]
        if self._peak >= MUCH and self._bytes <= self._peak // 2:
            self._peak = self._bytes
            self._give_back()

    def dropped(self, journal: Journal, event: StoredEvent) -> None:
        """Count an event no longer: its journal has dropped it."""
        share = self._shares[journal.owner]
        share.bytes -= len(event.chunk)
        share.events -= 1
        self._bytes -= len(event.chunk)


class Journal:
    """The latest events of one session, in the order in which they were made.

    `pending`: what the session's client was asked and has not answered. `log` is for lines about
    the client.
    """

    def __init__(self, store: EventStore, owner: str) -> None:
        self.owner = owner
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
        self._store.dropped(self, event)
