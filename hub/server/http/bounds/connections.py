"""How many connections there are, what each may take its time for, and which one makes room.

Who opens connections and says nothing, or says it slowly, takes no place from others for long. When
there are too many, the oldest of those that are worth least is closed, not the newest refused.
"""

from __future__ import annotations

from typing import Final, Protocol, cast

from msgspec import Struct

from hub.jsonrpc.deadlines import Deadlines
from hub.server.http.bounds.refusal_log import RefusalLog

KEEP_ALIVE: Final = 75.0
"""Seconds that a connection stays open without a request.

A request that is sent on one that ends just then is lost. Clients and proxies that keep theirs for
less never send one so: Node's fetch keeps them for 4 seconds, httpx for 5, most proxies for 60.
"""
CONNECTION: Final = "connection"
"""The key of a request's `state` under which its connection stands."""
MOST: Final = 20_000
"""How many connections there may be, however many files may be open."""
MOST_UNPROVEN: Final = 1024
"""How many of them may be of clients that have not been let in yet."""
MOST_UNREAD: Final = 256 * 1024 * 1024
"""How many bytes of responses may wait for clients that do not read."""
_PATIENCE: Final = 5.0
"""Seconds that a client has to read before its response counts as one that is not read."""
_MANY: Final = 1 / 8
"""What part of all connections are many that wait for their clients."""
_LOOKED_AT: Final = 64
"""How many idle connections are looked at for one that is worth less than the others."""
SLOW: Final = 64 * 1024
"""Bytes a second below which a body that has begun makes room for others, where that is needed."""
_FEWEST: Final = 8


class Limits(Struct, frozen=True):
    """Seconds that parts of a request may take, and how many connections there may be.

    A request's line and its headers have to be complete in time. Of a body, and of a response that
    its client has to read, so much time may pass until `progress` bytes or the rest have gone over;
    `linger` is for the rest of a body that is not wanted.
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
        """Return the limits of a process that may have so many files open; None: any number.

        A third is left for children and files.
        """
        connections = MOST if most is None else max(_FEWEST, min(MOST, most * 2 // 3))
        unproven = min(MOST_UNPROVEN, connections * 3 // 4)
        return cls(
            connections=connections, unproven=unproven, unproven_of_one=max(1, unproven * 3 // 4)
        )


class OpenConnection(Protocol):
    """A connection, as far as its place among others is concerned."""

    @property
    def address(self) -> str:
        """Where it comes from."""
        ...

    def is_slow(self, patience: float, rate: float) -> bool:
        """Return whether a body comes with less than so many bytes a second after so long."""
        ...

    def has_unread(self) -> bool:
        """Return whether some of what was written has not reached its client."""
        ...

    def expire(self) -> None:
        """End what takes too long."""
        ...

    def evict(self) -> None:
        """Close it at once: another one needs its place."""
        ...


class ReadingConnection(OpenConnection, Protocol):
    """A connection whose client has had something to read `since` then."""

    since: float


class SharedAddresses(Protocol):
    """Addresses that are of many clients."""

    def includes(self, address: str) -> bool:
        """Return whether an address is one of them."""
        ...


class Connections:
    """The connections of one endpoint. Those of `shared` addresses, proxies', have many clients."""

    def __init__(
        self, limits: Limits, log: RefusalLog, shared: SharedAddresses | None = None
    ) -> None:
        self.limits = limits
        self.log = log
        self.line = Deadlines(limits.line)
        self.headers = Deadlines(limits.headers)
        self.body = Deadlines(limits.body)
        self.linger = Deadlines(limits.linger)
        self.idle = Deadlines(limits.idle)
        self.unread = Deadlines(limits.unread)
        self.unread_bytes = 0
        self._shared = shared
        self._all: set[OpenConnection] = set()
        self._unproven: dict[str, dict[OpenConnection, None]] = {}
        self._unproven_count = 0

    def __len__(self) -> int:
        return len(self._all)

    def add(self, one: OpenConnection) -> bool:
        """Give a new connection its place; False if there is none for it."""
        if len(self._all) >= self.limits.connections:
            victim = self._least()
            if victim is None:
                self.log.note("connection refused: all others are in use", one.address)
                return False
            self._evict(victim)
        self._make_room_unproven(one.address)
        self._all.add(one)
        self._unproven.setdefault(one.address, {})[one] = None
        self._unproven_count += 1
        return True

    def prove(self, one: OpenConnection) -> None:
        """Take note that the client of a connection may use the hub."""
        own = self._unproven.get(one.address)
        if own is not None and one in own:
            del own[one]
            self._unproven_count -= 1
            if not own:
                del self._unproven[one.address]

    def remove(self, one: OpenConnection) -> None:
        """Take note that a connection is closed."""
        self._all.discard(one)
        self.prove(one)

    def unread_by(self, size: int, now: float) -> None:
        """Take note that a client has so much to read; who reads too slowly makes room for it."""
        self.unread_bytes += size
        while self.unread_bytes > MOST_UNREAD:
            slowest = cast("ReadingConnection | None", self.unread.oldest())
            if slowest is None or now - slowest.since < _PATIENCE:
                return
            self.log.note("connection closed: its client does not read", slowest.address)
            slowest.evict()

    def drop_slow_body(self) -> bool:
        """Give up a body that comes too slowly for the room that it takes, if there is one."""
        bodies = cast("list[OpenConnection]", self.body.first(_LOOKED_AT))
        slow = next((one for one in bodies if one.is_slow(_PATIENCE, SLOW)), None)
        if slow is not None:
            self.log.note("connection closed: its body comes too slowly", slow.address)
            slow.evict()
        return slow is not None

    def _make_room_unproven(self, address: str) -> None:
        own = self._unproven.get(address, {})
        is_shared = self._shared is not None and self._shared.includes(address)
        if len(own) >= self.limits.unproven_of_one and not is_shared:
            self._evict(next(iter(own)))
        elif self._unproven_count >= self.limits.unproven:
            self._evict(self._oldest_unproven())

    def _oldest_unproven(self) -> OpenConnection:
        """Return the oldest connection of the address that has the most."""
        return next(iter(max(self._unproven.values(), key=len)))

    def _least(self) -> OpenConnection | None:
        """Return the connection that is worth least; None if all are in use.

        That is the oldest of those that wait for their client, of the kind that there are the most
        of; but where these are few, one that has been idle the longest goes before them: new
        clients, who say something in a moment, always have some places.
        """
        kinds = [
            (self._unproven_count, self._oldest_unproven),
            (len(self.body), self.body.oldest),
            (len(self.unread), self.unread.oldest),
        ]
        most, oldest = max(kinds, key=_size)
        idle = cast("OpenConnection | None", self.linger.oldest()) or self._idle()
        if idle is None or most >= self.limits.connections * _MANY:
            return cast("OpenConnection | None", oldest() if most else idle)
        return idle

    def _idle(self) -> OpenConnection | None:
        """Return who has been idle the longest, of a few first who has not read its last answer."""
        first = cast("list[OpenConnection]", self.idle.first(_LOOKED_AT))
        unread = next((one for one in first if one.has_unread()), None)
        return unread or next(iter(first), None)

    def _evict(self, victim: OpenConnection) -> None:
        self.log.note("connection closed: others need its place", victim.address)
        self.remove(victim)
        victim.evict()


def _size(kind: tuple[int, object]) -> int:
    return kind[0]
