"""What a session's calls of a tool need, looked up once: where they go, how they are judged."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

from hub.core.guard import Admitted, ToolGuard, admit
from hub.core.session import State
from hub.core.values import JsonObject
from hub.core.whereabouts import Surroundings
from hub.runtime.addressing import tool_call
from hub.runtime.child import Child
from hub.runtime.child_state import Ready
from hub.runtime.consent import Case
from hub.runtime.links import CachedLinks
from hub.runtime.places import Place
from hub.runtime.session import Session


@dataclass(frozen=True, slots=True)
class Lane:
    """A tool's way to a child that is ready, as one call found it.

    It is open while everything that it was found by is still the same. `name` is the child's own
    for the tool, `at` what is in force there; `judged_in` lacks only the links.
    """

    name: str
    place: Place
    child: Child
    ready: Ready
    guard: ToolGuard
    roots: State
    operator: int
    judged_in: Surroundings

    def is_open(self, session: Session) -> bool:
        """Return whether a call of the session would be looked up to the same end."""
        child, place = self.child, self.place
        return (
            session.roots.state is self.roots
            and session.services.operator.version == self.operator
            and child.state is self.ready
            and place.child is child
            and not child.is_stopping
            and place.health.is_well
            and session.holds(place)
        )

    def admit(self, session: Session, params: JsonObject) -> Admitted | None:
        """Return the admitted call that a request makes; None if there is more to it than that."""
        call = tool_call(self.name, params)
        if call is None:
            return None
        return admit(call, self.guard, lambda: self._around(session))

    def _around(self, session: Session) -> Surroundings | None:
        at, links = self.judged_in, CachedLinks(session.services.machine.links)
        if not session.stands(self.place.spec.name, links):
            return None
        return Surroundings(at.roots, at.cwd, at.env, links, at.flavour, at.enforcing)


class Lanes:
    """The lanes that the calls of each session have found, by the tools' public names."""

    def __init__(self) -> None:
        self._lanes: WeakKeyDictionary[Session, dict[str, Lane]] = WeakKeyDictionary()

    def of(self, session: Session) -> dict[str, Lane]:
        """Return the lanes of one session."""
        return self._lanes.setdefault(session, {})

    def keep(self, public: str, case: Case, child: Child) -> None:
        """Keep the lane that a call has just gone, if others can go it without being looked at."""
        lane = _lane(case, child)
        if lane is not None:
            self.of(case.session)[public] = lane


def _lane(case: Case, child: Child) -> Lane | None:
    session, ready = case.session, child.state
    if not isinstance(ready, Ready) or ready.greeting.era != "legacy" or not _is_plain(case):
        return None
    return Lane(
        name=case.call.name,
        place=case.place,
        child=child,
        ready=ready,
        guard=case.guard,
        roots=session.roots.state,
        operator=session.services.operator.version,
        judged_in=case.around(),
    )


def _is_plain(case: Case) -> bool:
    session, state, services = case.session, case.session.roots.state, case.session.services
    return (
        case.call.method == "tools/call"
        and session.client is not None
        and not session.client.is_modern
        and state.awaits is None
        and state.failed is None
        and services.expose == "tools"
        # Without prefixes a name may come to lead elsewhere when another server's list changes.
        and (services.names.mode != "never" or len(services.servers) == 1)
    )
