"""Client roots: asks one client for its roots by running the state machine in `roots/state.py`.

Asking during the client's `initialize` would deadlock the client. Over HTTP, a client can be asked
outside of its own requests only while it has an event stream open. So `roots/list` is sent through
the call that needs the roots, or through the open event stream, or waits until one of them exists.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import anyio
from msgspec.structs import replace

from hub.jsonrpc import messages
from hub.jsonrpc.errors import GoneError, LostError, RpcError, SilentError
from hub.jsonrpc.exact_json import WireError
from hub.jsonrpc.messages import Payload
from hub.jsonrpc.peer import LosableOutlet, Outlet
from hub.paths.resolve import Flavour, LinkReader
from hub.roots.roots import Announcement, Rejected, RootPresence
from hub.roots.state import (
    Ask,
    Changed,
    ClientReady,
    Ended,
    Failed,
    Given,
    Needed,
    Publish,
    Reachable,
    Revised,
    RootsAnswered,
    RootsEvent,
    SessionClosed,
    State,
    Ticked,
    Unasked,
    Undeclared,
    Wake,
    Warn,
    start,
    step,
)
from hub.system.tasks import TaskStarter
from hub.values import Json

MAX_PAGES = 16
"""Number of further pages of roots that are read; MCP has no pages of roots, some clients do."""

AskClient: TypeAlias = Callable[[Json, Outlet | None], Awaitable[Payload]]
"""Sends one `roots/list` for the page at the given cursor and returns its result."""
Read: TypeAlias = Callable[[Json], Announcement | None]
Sift: TypeAlias = Callable[[Announcement], Announcement]
"""Judges the roots of an announcement by the config as it is now."""


class ClientRoots:
    """One client's roots as far as known; `changed` is called when effective roots may change.

    `presence` says which of them were on disk when they were checked last. `warn` logs what is
    wrong with them, for the operator.
    """

    def __init__(  # noqa: PLR0913 - each is one thing it needs from outside
        self,
        *,
        ask: AskClient,
        read: Read,
        sift: Sift,
        links: LinkReader,
        flavour: Flavour,
        changed: Callable[[], None],
        tasks: TaskStarter,
        clock: Callable[[], float],
        debounce: float,
        warn: Callable[[str], None],
    ) -> None:
        self.state: State = start(debounce)
        self._ask = ask
        self._read, self._sift = read, sift
        self._links = links
        self._flavour = flavour
        self.presence = RootPresence(())
        self._rejected: tuple[Rejected, ...] = ()
        self._changed = changed
        self._tasks = tasks
        self._clock = clock
        self._moved = anyio.Event()
        self._timer: anyio.CancelScope | None = None
        self._asking: anyio.CancelScope | None = None
        self._asking_through: Outlet | None = None
        self._waiting: list[Outlet] = []
        self._is_certain = True
        self._warn = warn

    def opened(self, *, declares_roots: bool) -> None:
        """Process the end of the client's handshake."""
        self._feed(ClientReady(declares_roots))

    def given(self, raw: Json) -> Announcement | None:
        """Use the roots that a modern client sent with a request.

        Returns the parsed roots; None if `raw` is not a list of roots.
        """
        announcement = self._taken(raw)
        self._feed(Given(announcement, self._clock()))
        return announcement

    def kept(self, announcement: Announcement, at: float) -> None:
        """Use the roots that the client sent with an earlier request, at the time `at`."""
        announcement = self._sift(announcement)
        self._keep(announcement)
        self._feed(Given(announcement, at))

    def follow(self, debounce: float) -> None:
        """Apply a changed config to what the client has announced, and to its next changes."""
        self.state = replace(self.state, debounce=debounce)
        self._revise()

    def reachable(self, *, certain: bool = True) -> None:
        """Process that the client can be asked outside of its own requests.

        Not `certain`: through a stream that may be dead unnoticed. If no response comes there, the
        client is asked again through its next call.
        """
        self._is_certain = certain
        self._feed(Reachable())

    def unreachable(self) -> None:
        """Process the end of the client's stream: a request on it gets no response."""
        if self._asking_through is None:
            _cancel(self._asking)

    def connection_lost(self) -> None:
        """Process that the connection of a call is gone; the client may come back to its stream."""
        self._wake_waiting()

    def list_changed(self) -> None:
        """Process the client's `notifications/roots/list_changed`."""
        self._feed(Changed(self._clock()))

    def ended(self) -> None:
        """Process the end of the client's session."""
        _cancel(self._timer)
        self._feed(Ended())

    def is_settled_at(self, state: State) -> bool:
        """Return whether `state` is what `current` would return now, without waiting or asking.

        Of each root one disk query is made. Sooner than `current` it says False.
        """
        is_settled = state is self.state and state.awaits is None and state.failed is None
        return is_settled and self.presence.is_unchanged(self._links, self._flavour)

    async def current(self, outlet: Outlet, *, is_to_show: bool = False) -> State:
        """Return the state, after waiting for a due answer; `outlet` is that of the call.

        `is_to_show`: as `Needed` says.
        """
        try:
            if self.state.awaits is not None or self.state.failed is not None:
                await self._arrival(outlet, is_to_show=is_to_show)
        except anyio.get_cancelled_exc_class():
            # A request sent through this call's response stream gets no answer after the call.
            if self._asking_through is outlet:
                _cancel(self._asking)
            raise
        self.look_again()
        return self.state

    async def _arrival(self, outlet: Outlet, *, is_to_show: bool) -> None:
        self._feed(Needed(self._clock(), is_to_show), outlet)
        while is_to_show and self.state.is_retrying:
            await self._moved.wait()
        number = self.state.awaits
        if number is None or self._arrived(number):
            return
        self._waiting.append(outlet)
        try:
            while number is not None and not self._arrived(number):
                if self._is_asked_in_vain:
                    _cancel(self._asking)
                await self._moved.wait()
                if isinstance(self.state.phase, Unasked):
                    live = (one for one in self._waiting if not _is_lost(one))
                    self._feed(Needed(self._clock()), next(live, outlet))
                    number = self.state.awaits
        finally:
            self._waiting.remove(outlet)

    @property
    def _is_asked_in_vain(self) -> bool:
        """Whether the client may never see the question, and can be asked through another call."""
        through = self._asking_through
        is_lost = through is not None and _is_lost(through)
        return is_lost and not all(map(_is_lost, self._waiting))

    def _arrived(self, number: int) -> bool:
        state = self.state
        gone = isinstance(state.phase, SessionClosed | Undeclared)
        return (
            gone
            or state.failed is not None
            or (state.settled >= number and not isinstance(state.phase, Unasked))
        )

    def look_again(self) -> None:
        """Check on disk for roots that are gone, replaced or back, and update the state."""
        presence = self.presence.refresh(self._links, self._flavour)
        if presence is not self.presence:
            self.presence = presence
            self._revise()

    def _revise(self) -> None:
        """Judge the roots anew, by where they are now and by the config as it is now."""
        last, present = self.state.last, self.presence.present
        rejected = (*self._rejected, *self.presence.absent)
        revised = self._sift(Announcement(present, rejected, present.roots))
        if last is not None and revised != last.announcement:
            self._feed(Revised(revised))

    def _feed(self, event: RootsEvent, outlet: Outlet | None = None) -> None:
        self.state, effects = step(self.state, event)
        for effect in effects:
            match effect:
                case Ask(number):
                    self._asking, self._asking_through = anyio.CancelScope(), outlet
                    self._tasks.start_soon(self._perform_ask, number, outlet, self._asking)
                case Wake(at):
                    _cancel(self._timer)
                    self._timer = timer = anyio.CancelScope()
                    self._tasks.start_soon(self._perform_wake, at, timer)
                case Publish():
                    self._changed()
                case Warn(text):
                    self._warn(text)
        self._wake_waiting()

    def _wake_waiting(self) -> None:
        moved, self._moved = self._moved, anyio.Event()
        moved.set()

    async def _perform_wake(self, at: float, timer: anyio.CancelScope) -> None:
        with timer:
            await anyio.sleep(max(0.0, at - self._clock()))
            self._feed(Ticked(self._clock()))

    async def _perform_ask(
        self, number: int, outlet: Outlet | None, scope: anyio.CancelScope
    ) -> None:
        with scope:
            await self._ask_once(number, outlet)
        if scope.cancelled_caught:
            reason = "the connection to the client is closed"
            self._feed(Failed(number, reason, self._clock(), unreachable=True))
        if self._asking is scope:
            # The call would keep its connection in memory as long as the session lasts.
            self._asking = self._asking_through = None

    async def _ask_once(self, number: int, outlet: Outlet | None) -> None:
        try:
            raw = await self._read_pages(outlet)
        except (GoneError, LostError) as exc:
            self._feed(Failed(number, str(exc), self._clock(), unreachable=True))
        except SilentError as exc:
            lost = outlet is None and not self._is_certain
            self._feed(Failed(number, str(exc), self._clock(), unreachable=lost))
        except (RpcError, WireError) as exc:
            self._feed(Failed(number, f"the client's answer: {exc}", self._clock()))
        else:
            self._feed(RootsAnswered(number, self._taken(raw), self._clock()))

    def _taken(self, raw: Json) -> Announcement | None:
        announcement = self._read(raw)
        if announcement is not None:
            self._keep(announcement)
        return announcement

    def _keep(self, announcement: Announcement) -> None:
        self.presence = RootPresence.of(announcement.announced)
        self._rejected = announcement.rejected

    async def _read_pages(self, outlet: Outlet | None) -> Json:
        first = messages.as_object(await self._ask(None, outlet))
        roots, cursor = first.get("roots"), first.get("nextCursor")
        seen: set[str] = set()
        while (
            isinstance(roots, list)
            and isinstance(cursor, str)
            and cursor not in seen
            and len(seen) < MAX_PAGES
        ):
            seen.add(cursor)
            page = messages.as_object(await self._ask(cursor, outlet))
            more, cursor = page.get("roots"), page.get("nextCursor")
            roots = [*roots, *(more if isinstance(more, list) else [])]
        return {**first, "roots": roots}


def _is_lost(outlet: Outlet) -> bool:
    return isinstance(outlet, LosableOutlet) and outlet.is_lost


def _cancel(scope: anyio.CancelScope | None) -> None:
    if scope is not None:
        scope.cancel()
