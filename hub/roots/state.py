"""What the hub knows of one client's roots: a state machine of events in, effects out.

Nothing here waits or looks at a clock. MCP 2025-11-25, "Roots"; the debounce answers clients that
announce a burst of changes.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from hub.roots.roots import Announcement

# Events


class ClientReady(Struct, frozen=True):
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


class RootsAnswered(Struct, frozen=True):
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


ClientEvent: TypeAlias = ClientReady | Given | Reachable | Changed | Needed | Ended
"""What the client does, or can be reached by."""
OwnEvent: TypeAlias = Ticked | RootsAnswered | Failed | Revised
"""What the hub's own waiting, asking and looking comes to."""
RootsEvent: TypeAlias = ClientEvent | OwnEvent


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


MAX_DEBOUNCE = 2.0
"""Seconds after which a burst of changes is asked about even though it goes on."""
RETRY_AFTER = 30.0
"""Seconds after a failed ask until a call starts another one in the background."""


class RootsKnown(Struct, frozen=True):
    """A usable answer: what it comes to, and when it came.

    `is_empty`: it named no usable root. A root that is gone from the disk since is another thing.
    """

    announcement: Announcement
    at: float
    is_empty: bool = False


class NotConnected(Struct, frozen=True):
    """The client has not finished its handshake: nothing is known, and it may not be asked yet."""


class Undeclared(Struct, frozen=True):
    """The client does not declare the roots capability: it is never asked."""


class Unasked(Struct, frozen=True):
    """Something is to be asked as soon as the client can be reached."""


class Debouncing(Struct, frozen=True):
    """The client announced a change; asking waits until `due` for more of them."""

    began: float
    due: float


class Asking(Struct, frozen=True):
    """A request is under way.

    `changed`: its answer may be old already. `wanted`: a call waits for a newer one.
    """

    changed: bool = False
    wanted: bool = False


class Settled(Struct, frozen=True):
    """The newest request has been answered, or has failed."""


class SessionClosed(Struct, frozen=True):
    """The client is gone."""


Phase: TypeAlias = (
    NotConnected | Undeclared | Unasked | Debouncing | Asking | Settled | SessionClosed
)


class State(Struct, frozen=True):
    """The record of one client's roots.

    `asked` counts the requests sent; `settled` is the newest that was answered, or failed at a
    client that could be reached. `last` is the newest usable answer; `failed` says why the newest
    request brought none. `version` counts how often the usable roots became others.
    """

    phase: Phase
    debounce: float = 0.25
    asked: int = 0
    settled: int = 0
    last: RootsKnown | None = None
    failed: str | None = None
    failed_at: float = 0.0
    version: int = 0

    @property
    def stale(self) -> bool:
        """Whether the client may have other roots by now than `last` says."""
        return self.last is not None and (
            self.failed is not None or not isinstance(self.phase, Settled)
        )

    @property
    def awaits(self) -> int | None:
        """The number of the request whose end a guarded call waits for; None if there is none."""
        if self.failed is not None:
            return None
        match self.phase:
            case Unasked() | Debouncing():
                return self.asked + 1
            case Asking(changed):
                return self.asked + 1 if changed else self.asked
            case NotConnected() | Undeclared() | Settled() | SessionClosed():
                return None


Step: TypeAlias = tuple[State, tuple[Effect, ...]]


def start(debounce: float) -> State:
    """Return the state of a client that has not finished its handshake."""
    return State(NotConnected(), debounce=debounce)


def step(state: State, event: RootsEvent) -> Step:
    """Return the state after `event`, and what is to be done about it."""
    if isinstance(state.phase, SessionClosed):
        return state, ()
    return _of_client(state, event) if isinstance(event, ClientEvent) else _of_hub(state, event)


def _of_client(state: State, event: ClientEvent) -> Step:
    match event:
        case ClientReady(declares):
            return _opened(state, declares_roots=declares)
        case Given(announcement, now):
            asked = replace(state, phase=Asking(), asked=state.asked + 1)
            return _answered(asked, RootsAnswered(asked.asked, announcement, now))
        case Reachable():
            return _ask(state) if isinstance(state.phase, Unasked) else (state, ())
        case Changed(now):
            return _changed(state, now)
        case Needed(now):
            return _needed(state, now)
        case Ended():
            return replace(state, phase=SessionClosed()), ()


def _of_hub(state: State, event: OwnEvent) -> Step:
    match event:
        case Ticked(now):
            return _ticked(state, now)
        case RootsAnswered():
            return _answered(state, event)
        case Failed():
            return _failed(state, event)
        case Revised(announcement):
            if state.last is None:
                return state, ()
            last = replace(state.last, announcement=announcement)
            return replace(state, last=last, version=state.version + 1), (Publish(),)


def _opened(state: State, *, declares_roots: bool) -> Step:
    if not isinstance(state.phase, NotConnected):
        return state, ()
    return replace(state, phase=Unasked() if declares_roots else Undeclared()), ()


def _ask(state: State) -> Step:
    number = state.asked + 1
    return replace(state, phase=Asking(), asked=number), (Ask(number),)


def _changed(state: State, now: float) -> Step:
    match state.phase:
        case NotConnected() | Undeclared() | Unasked() | SessionClosed():
            return state, ()
        case Asking():
            return replace(state, phase=replace(state.phase, changed=True), failed=None), ()
        case Debouncing(began):
            return _debounce(state, began, now)
        case Settled():
            return _debounce(replace(state, failed=None), now, now)


def _debounce(state: State, began: float, now: float) -> Step:
    due = min(now + state.debounce, began + max(MAX_DEBOUNCE, state.debounce))
    return replace(state, phase=Debouncing(began, due)), (Wake(due),)


def _needed(state: State, now: float) -> Step:
    match state.phase:
        case Unasked() | Debouncing():
            return _ask(state)
        case Asking(changed) if changed:
            return replace(state, phase=Asking(changed=True, wanted=True)), ()
        case Settled() if state.failed is not None and now - state.failed_at >= RETRY_AFTER:
            return _ask(state)
        case _:
            return state, ()


def _ticked(state: State, now: float) -> Step:
    match state.phase:
        case Debouncing(_, due):
            return _ask(state) if now >= due else (state, (Wake(due),))
        case _:
            return state, ()


def _answered(state: State, event: RootsAnswered) -> Step:
    if not isinstance(state.phase, Asking) or event.asked != state.asked:
        return state, ()
    if event.announcement is None:
        return _failed(
            state, Failed(event.asked, "the client's answer is not a list of roots", event.now)
        )
    is_empty = not event.announcement.roots.roots
    known = RootsKnown(event.announcement, event.now, is_empty)
    before = state.last.announcement.roots if state.last is not None else None
    version = state.version + (before != event.announcement.roots)
    answered = replace(state, last=known, failed=None, version=version)
    following, effects = _settle(answered, state.phase, event.now)
    return following, (Publish(), *effects)


def _failed(state: State, event: Failed) -> Step:
    if not isinstance(state.phase, Asking) or event.asked != state.asked:
        return state, ()
    if event.unreachable:
        # Not settled: who waits for its end waits for that of the next one.
        return replace(state, phase=Unasked()), ()
    failed = replace(state, failed=event.reason, failed_at=event.now)
    following, effects = _settle(failed, state.phase, event.now)
    return following, (
        Warn(f"the client's roots could not be read: {event.reason}"),
        Publish(),
        *effects,
    )


def _settle(state: State, asking: Asking, now: float) -> Step:
    """End a request; a change announced meanwhile is asked about, at once if a call waits."""
    settled = replace(state, phase=Settled(), settled=state.asked)
    if asking.wanted:
        return _ask(replace(settled, failed=None))
    if asking.changed:
        return _debounce(replace(settled, failed=None), now, now)
    return settled, ()
