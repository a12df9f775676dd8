"""What happens to one client's roots, and what is to be done about it: the state machine's words.

Times are seconds on any clock that never goes back; every event that needs one carries it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from hub.core.roots import Announcement

# Events


@dataclass(frozen=True, slots=True)
class Opened:
    """The client finished its handshake."""

    declares_roots: bool


@dataclass(frozen=True, slots=True)
class Given:
    """The client sent its roots with a request; `announcement` is None if it sent no list."""

    announcement: Announcement | None
    now: float


@dataclass(frozen=True, slots=True)
class Reachable:
    """A request can be sent to the client outside of its own requests."""


@dataclass(frozen=True, slots=True)
class Changed:
    """The client announced `notifications/roots/list_changed`."""

    now: float


@dataclass(frozen=True, slots=True)
class Needed:
    """A call needs the roots; the client can be reached through it."""

    now: float


@dataclass(frozen=True, slots=True)
class Ended:
    """The client is gone."""


@dataclass(frozen=True, slots=True)
class Ticked:
    """Time has passed."""

    now: float


@dataclass(frozen=True, slots=True)
class Answered:
    """Request number `asked` was answered; `announcement` is None if with no list of roots."""

    asked: int
    announcement: Announcement | None
    now: float


@dataclass(frozen=True, slots=True)
class Failed:
    """Request number `asked` brought nothing; `unreachable`: it did not even get to the client."""

    asked: int
    reason: str
    now: float
    unreachable: bool = False


@dataclass(frozen=True, slots=True)
class Revised:
    """Roots of the last answer came, went or were replaced on disk: what it comes to now."""

    announcement: Announcement


ClientEvent: TypeAlias = Opened | Given | Reachable | Changed | Needed | Ended
"""What the client does, or can be reached by."""
OwnEvent: TypeAlias = Ticked | Answered | Failed | Revised
"""What the hub's own waiting, asking and looking comes to."""
Event: TypeAlias = ClientEvent | OwnEvent


# Effects


@dataclass(frozen=True, slots=True)
class Ask:
    """Send `roots/list` as request number `asked`."""

    asked: int


@dataclass(frozen=True, slots=True)
class Wake:
    """Send `Ticked` at the time `at`; a later Wake replaces this one."""

    at: float


@dataclass(frozen=True, slots=True)
class Publish:
    """The roots in force may be others now."""


@dataclass(frozen=True, slots=True)
class Warn:
    """Tell the operator."""

    text: str


Effect: TypeAlias = Ask | Wake | Publish | Warn
