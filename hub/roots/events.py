"""What happens to one client's roots, and what is to be done about it: the state machine's words.

Times are seconds on any clock that never goes back; every event that needs one carries it.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from hub.roots.roots import Announcement

# Events


class Opened(Struct, frozen=True):
    """The client finished its handshake."""

    declares_roots: bool


class Given(Struct, frozen=True):
    """The client sent its roots with a request; `announcement` is None if it sent no list."""

    announcement: Announcement | None
    now: float


class Reachable(Struct, frozen=True):
    """A request can be sent to the client outside of its own requests."""


class Changed(Struct, frozen=True):
    """The client announced `notifications/roots/list_changed`."""

    now: float


class Needed(Struct, frozen=True):
    """A call needs the roots; the client can be reached through it."""

    now: float


class Ended(Struct, frozen=True):
    """The client is gone."""


class Ticked(Struct, frozen=True):
    """Time has passed."""

    now: float


class Answered(Struct, frozen=True):
    """Request number `asked` was answered; `announcement` is None if with no list of roots."""

    asked: int
    announcement: Announcement | None
    now: float


class Failed(Struct, frozen=True):
    """Request number `asked` brought nothing; `unreachable`: it did not even get to the client."""

    asked: int
    reason: str
    now: float
    unreachable: bool = False


class Revised(Struct, frozen=True):
    """Roots of the last answer came, went or were replaced on disk: what it comes to now."""

    announcement: Announcement


ClientEvent: TypeAlias = Opened | Given | Reachable | Changed | Needed | Ended
"""What the client does, or can be reached by."""
OwnEvent: TypeAlias = Ticked | Answered | Failed | Revised
"""What the hub's own waiting, asking and looking comes to."""
Event: TypeAlias = ClientEvent | OwnEvent


# Effects


class Ask(Struct, frozen=True):
    """Send `roots/list` as request number `asked`."""

    asked: int


class Wake(Struct, frozen=True):
    """Send `Ticked` at the time `at`; a later Wake replaces this one."""

    at: float


class Publish(Struct, frozen=True):
    """The roots in force may be others now."""


class Warn(Struct, frozen=True):
    """Tell the operator."""

    text: str


Effect: TypeAlias = Ask | Wake | Publish | Warn
