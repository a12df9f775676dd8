"""Limits on HTTP connections: how many, with which deadlines, and which one is closed to make room.

A client that opens connections and sends nothing, or sends slowly, does not keep others out for
long. At the limit the oldest of the least useful connections is closed. Where all are in use, some
new ones wait beside them; for each that passes the access checks, the address that has most gives
one up. Refusals are logged: the first of a kind at once, further ones as a count every few seconds.
"""

from __future__ import annotations

import asyncio  # noqa: TID251 - a timer without a task
from collections import Counter
from collections.abc import Callable
from operator import attrgetter
from typing import Final, Protocol, cast

import structlog
from msgspec import Struct

from hub.jsonrpc.deadlines import Deadlines
from hub.server.http.bounds.forwarded import Proxies
from hub.usage.fair_parts import Owner

KEEP_ALIVE: Final = 75.0
"""Seconds that a connection stays open without a request.

A request is lost that is sent on a connection which is just closing. That cannot happen to clients
and proxies that keep connections for less: Node's fetch keeps them for 4 seconds, httpx for 5, most
proxies for 60.
"""
CONNECTION: Final = "connection"
"""The key of a request's `state` that holds its connection."""
SENDS_NO_MORE: Final = "hub.sends_no_more"
"""The type of the message that tells an application that its client has shut down its side."""
MOST: Final = 20_000
"""How many connections there may be, however many files may be open."""
MOST_FILES: Final = MOST * 3 // 2
"""With how many files that is: a third is left for children and other files."""
MOST_UNPROVEN: Final = 1024
"""How many of them may be of clients that have not passed the access checks yet."""
MOST_UNREAD: Final = 256 * 1024 * 1024
"""How many bytes of responses may wait for clients that do not read."""
MOST_UNREAD_AT_ONCE: Final = 2 * MOST_UNREAD
"""How many may wait even for a moment: an answer that is at hand costs its client nothing."""
_PATIENCE: Final = 5.0
"""Seconds after which a response that is not read, or a body, can count as too slow."""
_MANY: Final = 1 / 8
"""The share of all connections from which on those of one kind, or of one address, are many."""
_LOOKED_AT: Final = 64
"""How many of the oldest connections are searched for the one to close."""
SLOW: Final = 64 * 1024
"""Bytes a second below which a body may be given up when others need its room."""
_FEWEST: Final = 8


class Limits(Struct, frozen=True):
    """Seconds that parts of a request may take, and how many connections there may be.

    A request's `line` and `headers` must be complete in time. For a `body`, and for an `unread`
    response, the time is for the next `progress` bytes or the rest. `linger` is for the rest of a
    body that is not wanted, `idle` for the time without a request.
    """

    line: float = 10
    headers: float = 10
    body: float = 60
    unread: float = 60
    linger: float = 5
    idle: float = KEEP_ALIVE
    progress: int = 1024 * 1024
    connections: int = MOST
    unproven: int = MOST_UNPROVEN
    unproven_of_one: int = MOST_UNPROVEN // 2

    @classmethod
    def of_files(cls, most: int | None) -> Limits:
        """Return the limits of a process that may open `most` files; None: any number."""
        connections = MOST if most is None else max(_FEWEST, min(MOST, most * 2 // 3))
        unproven = min(MOST_UNPROVEN, connections * 3 // 4)
        return cls(
            connections=connections, unproven=unproven, unproven_of_one=max(1, unproven * 3 // 4)
        )


class OpenConnection(Protocol):
    """A connection, as far as `Connections` needs to know it."""

    @property
    def address(self) -> str:
        """The address that it comes from."""
        ...

    @property
    def owner(self) -> Owner:
        """Whose the request on it is, as far as parts of memory are concerned."""
        ...

    def is_slow(self, patience: float, rate: float) -> bool:
        """Return whether, after `patience` seconds, a body comes below `rate` bytes a second."""
        ...

    def has_unread(self) -> bool:
        """Return whether a part of what was written has not reached the client."""
        ...

    def expire(self) -> None:
        """End what has taken too long."""

    def unread_for_too_long(self) -> None:
        """Close the connection, unless its client has read much."""

    def evict(self) -> None:
        """Close the connection at once: another one needs its place."""


class UnreadResponse(Struct, eq=False):
    """The `size` bytes that a connection's client has had to read `since` that time of the loop."""

    connection: OpenConnection
    size: int = 0
    since: float = 0.0

    def expire(self) -> None:
        self.connection.unread_for_too_long()


class Connections:
    """The connections of one endpoint; an address of `proxies` has many clients."""

    def __init__(self, limits: Limits, log: RefusalLog, proxies: Proxies | None = None) -> None:
        self.limits = limits
        self.log = log
        self.line = Deadlines(limits.line)
        self.headers = Deadlines(limits.headers)
        self.body = Deadlines(limits.body)
        self.linger = Deadlines(limits.linger)
        self.idle = Deadlines(limits.idle)
        self.unread = Deadlines(limits.unread)
        self.unread_bytes = 0
        self._proxies = proxies or Proxies()
        self._all: dict[OpenConnection, None] = {}
        self._count: Counter[str] = Counter()
        self._many: dict[str, None] = {}  # the few addresses that have many connections each
        self._unproven: dict[str, dict[OpenConnection, None]] = {}
        self._unproven_count = 0

    def __len__(self) -> int:
        return len(self._all)

    def add(self, one: OpenConnection) -> bool:
        """Add a new connection, closing another if needed; return False if there is no room."""
        if len(self._all) >= self.limits.connections and not self._has_place(one.address):
            self.log.note("connection refused: all others are in use", one.address)
            return False
        self._make_room_unproven(one.address)
        self._all[one] = None
        self._unproven.setdefault(one.address, {})[one] = None
        self._unproven_count += 1
        self._counted(one.address, 1)
        return True

    def _has_place(self, newcomer: str) -> bool:
        """Return whether a new connection gets a place at the limit: another's, or one beside."""
        victim = self._least()
        is_beside = (
            self._unproven_count < self.limits.connections * _MANY
            and self._who_gives_way(self._count[newcomer] + 1) is not None
        )
        if victim is None or self._is_spared(victim, newcomer):
            return is_beside
        if not (is_beside and self._is_unproven(victim)):
            self._evict(victim)
        return True

    def prove(self, one: OpenConnection) -> None:
        """Mark the client of a connection as one that may use the hub.

        If there are too many of these now, one makes room: an unused one, else one of the address
        that has most.
        """
        if not self._is_unproven(one):
            return
        if len(self._all) - self._unproven_count >= self.limits.connections:
            victim = self._unused(one.address) or self._used(one.address)
            if victim is not None:
                self._evict(victim)
        self._no_longer_unproven(one)

    def _unused(self, newcomer: str) -> OpenConnection | None:
        """Return a client's connection that it does not use now; None if there is none."""
        those = (cast("OpenConnection | None", self.linger.oldest()), self._idle())
        among = (one for one in those if one is not None and not self._is_unproven(one))
        return next((one for one in among if not self._is_spared(one, newcomer)), None)

    def _used(self, newcomer: str) -> OpenConnection | None:
        """Return the oldest connection of who gives way; where nobody does, of the newcomer's."""
        address = self._who_gives_way(self._count[newcomer]) or newcomer
        among = (one for one in self._all if one.address == address)
        return next((one for one in among if not self._is_unproven(one)), None)

    def _is_unproven(self, one: OpenConnection) -> bool:
        return one in self._unproven.get(one.address, {})

    def _no_longer_unproven(self, one: OpenConnection) -> None:
        own = self._unproven[one.address]
        del own[one]
        self._unproven_count -= 1
        if not own:
            del self._unproven[one.address]

    def remove(self, one: OpenConnection) -> None:
        """Forget a connection that is closed."""
        if self._is_unproven(one):
            self._no_longer_unproven(one)
        if one in self._all:
            del self._all[one]
            self._counted(one.address, -1)

    def _counted(self, address: str, more: int) -> None:
        self._count[address] += more
        if self._count[address] >= self.limits.connections * _MANY:
            self._many[address] = None
        else:
            self._many.pop(address, None)
        if not self._count[address]:
            del self._count[address]

    def unread_by(self, size: int, now: float) -> None:
        """Count `size` unread bytes; close the largest responses if there are too many bytes.

        Over `MOST_UNREAD` those that are read too slowly, over `MOST_UNREAD_AT_ONCE` any.
        """
        self.unread_bytes += size
        while self.unread_bytes > MOST_UNREAD:
            first = cast("list[UnreadResponse]", self.unread.first(_LOOKED_AT))
            slow = [one for one in first if now - one.since >= _PATIENCE]
            if not first or (not slow and self.unread_bytes <= MOST_UNREAD_AT_ONCE):
                return
            most = max(slow or first, key=attrgetter("size")).connection
            self.log.note("connection closed: its client does not read", most.address)
            most.evict()

    def drop_slow_body(self, gives_way: Callable[[Owner], bool]) -> bool:
        """Close a connection whose body comes too slowly, if its owner gives way.

        Return whether there was one.
        """
        bodies = cast("list[OpenConnection]", self.body.first(_LOOKED_AT))
        among = (one for one in bodies if one.is_slow(_PATIENCE, SLOW))
        slow = next((one for one in among if gives_way(one.owner)), None)
        if slow is not None:
            self.log.note("connection closed: its body comes too slowly", slow.address)
            slow.evict()
        return slow is not None

    def _make_room_unproven(self, address: str) -> None:
        own = self._unproven.get(address, {})
        is_shared = self._proxies.includes(address)
        if len(own) >= self.limits.unproven_of_one and not is_shared:
            self._evict(next(iter(own)))
        elif self._unproven_count >= self.limits.unproven:
            self._evict(self._oldest_unproven())

    def _oldest_unproven(self) -> OpenConnection:
        """Return the oldest unproven connection of the address that has the most."""
        return next(iter(max(self._unproven.values(), key=len)))

    def _least(self) -> OpenConnection | None:
        """Return the connection that is worth least; None if all are in use.

        That is the oldest of the most frequent kind that waits for its client: unproven, sending a
        body, or reading a response. If that kind has few connections (see `_MANY`), a lingering one
        or the longest idle one goes first: new clients, who send something in a moment, always have
        some places.
        """
        counts = self._unproven_count, len(self.body), len(self.unread)
        most = max(counts)
        idle = cast("OpenConnection | None", self.linger.oldest()) or self._idle()
        if not most or (idle is not None and most < self.limits.connections * _MANY):
            return idle
        if most == counts[0]:
            return self._oldest_unproven()
        if most == counts[1]:
            return cast("OpenConnection", self.body.oldest())
        return cast("UnreadResponse", self.unread.oldest()).connection

    def _largest(self) -> str | None:
        """Return the address that has most connections; None if only proxies have many."""
        among = (one for one in self._many if not self._proxies.includes(one))
        return max(among, key=self._count.__getitem__, default=None)

    def _who_has_most(self) -> str | None:
        """Return the address that has more than half of all; None if there is none."""
        most = self._largest()
        return most if most and self._count[most] > self.limits.connections // 2 else None

    def _who_gives_way(self, count: int) -> str | None:
        """Return the address that gives one up for another address, with so many; None if none.

        It has many of all, and more than the other: so no few addresses keep all others out.
        """
        most = self._largest()
        return most if most and self._count[most] > count else None

    def _is_spared(self, one: OpenConnection, newcomer: str) -> bool:
        """Return whether a connection stays because another address has more than half.

        Of who has not been let in, only that address itself spares others.
        """
        most = self._who_has_most()
        if most is None or most == one.address:
            return False
        return newcomer == most or not self._is_unproven(one)

    def _idle(self) -> OpenConnection | None:
        """Return the longest idle connection, or one near it that is worth less.

        That is one of the address that has most, and one that has not read its last answer.
        """
        first = cast("list[OpenConnection]", self.idle.first(_LOOKED_AT))
        most = self._who_has_most()
        among = [one for one in first if one.address == most] or first
        unread = next((one for one in among if one.has_unread()), None)
        return unread or next(iter(among), None)

    def _evict(self, victim: OpenConnection) -> None:
        self.log.note("connection closed: others need its place", victim.address)
        self.remove(victim)
        victim.evict()


EVERY: Final = 10.0
"""Seconds between two lines of the same kind."""

log = structlog.stdlib.get_logger(__name__)


class RefusalLog:
    """The log of one endpoint's refusals; it stays short however many there are."""

    def __init__(self) -> None:
        self._further: dict[str, int] = {}

    def note(self, kind: str, address: str, text: str = "") -> None:
        """Log that a client was refused, or count it if a line of this kind was logged just now."""
        if kind in self._further:
            self._further[kind] += 1
            return
        more = {"reason": text} if text else {}
        log.warning(kind, address=address, **more)
        self._further[kind] = 0
        asyncio.get_running_loop().call_later(EVERY, self._sum_up, kind)

    def _sum_up(self, kind: str) -> None:
        further = self._further.pop(kind)
        if not further:
            return
        log.warning(kind, further=further, seconds=EVERY)
        self._further[kind] = 0
        asyncio.get_running_loop().call_later(EVERY, self._sum_up, kind)
