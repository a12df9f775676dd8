"""State machine of one client's roots: events in, a new `State` and effects to perform out.

Nothing here waits or reads a clock. Source: MCP 2025-11-25, "Roots". The debounce is for clients
that announce many changes in a short time.
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
    """The client sent its roots with a request; `announcement` is None if that was no list."""

    announcement: Announcement | None
    now: float


class Reachable(Struct, frozen=True):
    """The hub can now send requests to the client outside of the client's own requests."""


class Changed(Struct, frozen=True):
    """The client sent `notifications/roots/list_changed`."""

    now: float


class Needed(Struct, frozen=True):
    """A call needs the roots; the hub can ask the client through that call.

    `is_to_show`: it shows them, so it waits for a new request if the last one failed, and no roots
    are known. Other calls do not.
    """

    now: float
    is_to_show: bool = False


class Ended(Struct, frozen=True):
    """The client has disconnected."""


class Ticked(Struct, frozen=True):
    """The time of a `Wake` effect has come."""

    now: float


class RootsAnswered(Struct, frozen=True):
    """Request number `asked` was answered; `announcement` is None if that was no list of roots."""

    asked: int
    announcement: Announcement | None
    now: float


class Failed(Struct, frozen=True):
    """Request number `asked` failed; `unreachable`: it could not be sent to the client."""

    asked: int
    reason: str
    now: float
    unreachable: bool = False


class Revised(Struct, frozen=True):
    """Roots of the last answer changed on disk; `announcement` is that answer as it is now."""

    announcement: Announcement


ClientEvent: TypeAlias = ClientReady | Given | Reachable | Changed | Needed | Ended
"""Events that the client causes."""
OwnEvent: TypeAlias = Ticked | RootsAnswered | Failed | Revised
"""Events that the hub causes: its timer, its requests and its looks at the disk."""
RootsEvent: TypeAlias = ClientEvent | OwnEvent


# Effects


class Ask(Struct, frozen=True):
    """Send `roots/list` as request number `asked`."""

    asked: int


class Wake(Struct, frozen=True):
    """Feed `Ticked` at the time `at`; a later `Wake` replaces this one."""

    at: float


class Publish(Struct, frozen=True):
    """Tell the session that the effective roots may have changed."""


class Warn(Struct, frozen=True):
    """Write `text` to the log, for the operator."""

    text: str


Effect: TypeAlias = Ask | Wake | Publish | Warn


MAX_DEBOUNCE = 2.0
"""Seconds after the first of many changes until the client is asked, even if more changes come."""
RETRY_AFTER = 30.0
"""Seconds after a failed request until a call starts another one in the background."""


class RootsKnown(Struct, frozen=True):
    """A usable answer: its parsed roots, and the time `at` which it came.

    `is_empty`: the answer had no usable root when it came. Roots that were deleted later do not
    change this.
    """

    announcement: Announcement
    at: float
    is_empty: bool = False


class NotConnected(Struct, frozen=True):
    """The client has not finished its handshake: the hub knows nothing and must not ask yet."""


class Undeclared(Struct, frozen=True):
    """The client does not declare the roots capability: it is never asked."""


class Unasked(Struct, frozen=True):
    """The client is to be asked as soon as it can be reached."""


class Debouncing(Struct, frozen=True):
    """The client announced a change; the hub waits until `due` for more changes before it asks.

    `began` is the time of the first change.
    """

    began: float
    due: float


class Asking(Struct, frozen=True):
    """A `roots/list` request is in flight.

    `changed`: a change was announced since, so the answer may be old. `wanted`: a call waits for a
    newer answer.
    """

    changed: bool = False
    wanted: bool = False


class Settled(Struct, frozen=True):
    """The newest request has been answered, or has failed."""


class SessionClosed(Struct, frozen=True):
    """The client has disconnected; events no longer change the state."""


Phase: TypeAlias = (
    NotConnected | Undeclared | Unasked | Debouncing | Asking | Settled | SessionClosed
)


class State(Struct, frozen=True):
    """All that the hub knows of one client's roots.

    `asked` counts the requests sent. `settled` is the number of the newest request that was
    answered, or that failed at a client that could be reached. `last` is the newest usable answer.
    `failed` is the reason why the newest request failed. `version` counts the changes of the usable
    roots. `debounce` is in seconds.
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
        """Whether the client may have different roots by now than those in `last`."""
        return self.last is not None and (
            self.failed is not None or not isinstance(self.phase, Settled)
        )

    @property
    def awaits(self) -> int | None:
        """The number of the request that a guarded call must wait for; None if it need not wait."""
        if self.failed is not None:
            return None
        match self.phase:
            case Unasked() | Debouncing():
                return self.asked + 1
            case Asking(changed):
                return self.asked + 1 if changed else self.asked
            case NotConnected() | Undeclared() | Settled() | SessionClosed():
                return None

    @property
    def is_retrying(self) -> bool:
        """Whether a request is in flight that follows a failed one, and no roots are known."""
        return isinstance(self.phase, Asking) and self.failed is not None and self.last is None


Step: TypeAlias = tuple[State, tuple[Effect, ...]]


def start(debounce: float) -> State:
    """Return the state of a client that has not finished its handshake."""
    return State(NotConnected(), debounce=debounce)


def step(state: State, event: RootsEvent) -> Step:
    """Return the state after `event`, and the effects to perform."""
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
        case Needed():
            return _needed(state, event)
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


def _needed(state: State, event: Needed) -> Step:
    is_due = event.is_to_show and state.last is None
    is_due = is_due or event.now - state.failed_at >= RETRY_AFTER
    match state.phase:
        case Unasked() | Debouncing():
            return _ask(state)
        case Asking(changed) if changed:
            return replace(state, phase=Asking(changed=True, wanted=True)), ()
        case Settled() if state.failed is not None and is_due:
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
        # `settled` stays: a call that waits for this request now waits for the next one.
        return replace(state, phase=Unasked()), ()
    failed = replace(state, failed=event.reason, failed_at=event.now)
    following, effects = _settle(failed, state.phase, event.now)
    return following, (
        Warn(f"the client's roots could not be read: {event.reason}"),
        Publish(),
        *effects,
    )


def _settle(state: State, asking: Asking, now: float) -> Step:
    """End a request. After a change in the meantime ask again, at once if a call waits for it."""
    settled = replace(state, phase=Settled(), settled=state.asked)
    if asking.wanted:
        return _ask(replace(settled, failed=None))
    if asking.changed:
        return _debounce(replace(settled, failed=None), now, now)
    return settled, ()
