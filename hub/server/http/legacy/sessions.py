"""The HTTP sessions of legacy clients: a registry by session id, with limits and eviction."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct, field

from hub.server.http.legacy.http_session import HttpSession


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
