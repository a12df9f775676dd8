"""The lanes that the calls of sessions have found: each session's own."""

from __future__ import annotations

from hub.calls.addressing import called
from hub.calls.routes import Found, Lane
from hub.jsonrpc.messages import Payload, Request
from hub.paths.resolve import LinkReader
from hub.roots.state import Closed, State
from hub.sessions.session import Session
from hub.values import SessionKey


class SessionLane(Found, frozen=True):
    """A lane, and what its session's roots were known to be when it was found."""

    roots: State

    @property
    def is_open(self) -> bool:
        """Whether a call of the session would be looked up to the same end."""
        owner = self.owner
        return (
            owner.roots.state is self.roots
            and self.lane.leads(owner.services)
            and owner.holds(self.lane.place)
        )

    def stands(self, links: LinkReader) -> bool:
        return self.owner.stands(self.lane.place.spec.name, links)

    def complete(self, result: Payload) -> Payload:
        """Return a child's result as it is."""
        return result


class SessionLanes:
    """The lanes of all sessions, by the tools' labels."""

    def __init__(self) -> None:
        self._lanes: dict[SessionKey, dict[str, SessionLane]] = {}

    def find(self, session: Session, request: Request) -> SessionLane | None:
        """Return the lane of the tool that a session calls if there is one, and it is open."""
        own, its = self._lanes.get(session.key), request.params
        if session.services.expose == "search":
            its = called(its) or {}
        name = its.get("name")
        found = own.get(name) if own is not None and isinstance(name, str) else None
        if found is None or found.is_open:
            return found
        self._lanes[session.key].pop(str(name))
        return None

    def keep(self, session: Session, label: str, lane: Lane) -> None:
        """Keep the lane that a call of the session has just gone, unless the session is over."""
        state = session.roots.state
        is_settled = state.awaits is None and state.failed is None
        if is_settled and not isinstance(state.phase, Closed):
            kept = SessionLane(lane, session, state)
            self._lanes.setdefault(session.key, {})[label] = kept

    def forget(self, session: Session) -> None:
        """Keep none for a session that is over."""
        self._lanes.pop(session.key, None)
