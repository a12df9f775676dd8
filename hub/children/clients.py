"""A child's clients: `Caller` (has a call in flight), `ChildUser` (is notified), `Listeners`.

And the log level of the child (`LogLevels`), where they want different ones.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Final, Protocol

from hub.errors import ChildError
from hub.jsonrpc.messages import Notification, Payload
from hub.jsonrpc.requests import RequestOwner
from hub.protocol.constants import LOG_LEVELS
from hub.protocol.input_requests import CallState, ChildInputRound, RetryInput
from hub.specs import ServerSpec
from hub.usage.fair_parts import FairParts
from hub.values import Json, JsonObject, ServerName, SessionKey


class RootsNeededError(Exception):
    """The client must be asked for its roots first; it then repeats the request."""


class StaleError(Exception):
    """The call was not sent: its roots or its child have changed since the guard's verdict."""


class MovedError(StaleError):
    """The roots or the config changed while the call's server was looked up or started."""


class InputNeededError(Exception):
    """A modern client must be asked by its call's result; `state` comes back with the retry.

    `lasts`: how many seconds the hub accepts that retry.
    """

    def __init__(self, requests: JsonObject, state: CallState, *, lasts: float) -> None:
        super().__init__("input is needed")
        self.requests = requests
        self.state = state
        self.lasts = lasts


class Caller(RequestOwner, Protocol):
    """The client that a call is made for: it can be asked and notified during the call."""

    @property
    def session(self) -> SessionKey:
        """The session of the call."""
        ...

    @property
    def party(self) -> SessionKey:
        """The client that would answer questions; several calls, even sessions, may share one."""
        ...

    @property
    def queue_key(self) -> str:
        """Calls that wait for a slot take turns by this key."""
        ...

    @property
    def is_present(self) -> bool:
        """Whether a request of the client waits for the call now; a modern client may be away."""
        ...

    @property
    def retry(self) -> RetryInput:
        """The input that the client's request brought from an earlier round of the call."""
        ...

    @property
    def asks(self) -> JsonObject:
        """The client's capabilities that children may use, as it declares them."""
        ...

    @property
    def log_level(self) -> str | None:
        """The lowest level of log messages that the client wants; None if it did not say."""
        ...

    async def ask(
        self, method: str, params: JsonObject, request_owner: RequestOwner | None = None
    ) -> Payload:
        """Forward a child's request to the client; `request_owner` is the child's side of it.

        Raises: RpcError if the client does not support the request.
        """
        ...

    async def inputs(
        self, spec: ServerSpec, requests: Mapping[str, JsonObject], round_: ChildInputRound
    ) -> JsonObject:
        """Return the client's responses to the requests in a modern child's result, by key.

        Raises: RpcError if the client does not support one of them; InputNeededError if the client
            must be asked by the result of its own call: its retry then brings `round_` back.
        """
        ...

    async def tell(self, spec: ServerSpec, notification: Notification) -> None:
        """Forward a notification within the call."""

    def done(self) -> None:
        """Tell a legacy client that the tasks it was sent to URLs for are complete."""

    def want_roots(self) -> bool:
        """Cancel the call to ask for roots; its client repeats it. False if that is not needed."""
        ...


class ChildUser(Protocol):
    """A user of a child that gets the notifications which belong to no call."""

    async def told(self, spec: ServerSpec, notification: Notification) -> None:
        """Receive a notification that belongs to no call."""

    async def came(self, spec: ServerSpec) -> None:
        """Receive the news that the child answers calls now."""


MAX_LISTENERS: Final = 1024
"""The number of notification streams that may be open at the same time."""


class Listener(ChildUser, Protocol):
    """A notification stream: its client hears of changes here, and lists by separate requests."""

    def missed(self, server: ServerName) -> None:
        """Record that a listing was sent without this server, whose child is not ready yet."""


class Listeners:
    """The open notification streams, with the principal of each, which has a fair part of them."""

    def __init__(self) -> None:
        self._parts = FairParts(MAX_LISTENERS)
        self._open: dict[SessionKey, tuple[str, SessionKey, Listener]] = {}

    @contextmanager
    def listening(
        self,
        session: SessionKey,
        principal: str,
        listener: Listener,
        party: SessionKey | None = None,
    ) -> Generator[None]:
        """Notify `listener` of the principal's children while the context lasts.

        `party` is the client, if it is not the session alone.

        Raises: ChildError if too many streams are open.
        """
        if not self._parts.has_room(principal):
            own = self._parts.of(principal)
            said = f"{len(self._open)} streams of notifications are open, {own} of them yours"
            raise ChildError(f"{said}; try again later")
        with self._parts.held(principal):
            self._open[session] = (principal, party or session, listener)
            try:
                yield
            finally:
                del self._open[session]

    def missed(self, principal: str, server: ServerName) -> None:
        """Tell the principal's listeners that a listing was sent without this server."""
        for listener in self.of(principal).values():
            listener.missed(server)

    def of(self, principal: str, owner: SessionKey | None = None) -> Mapping[SessionKey, Listener]:
        """Return the listeners for a child of `principal`; all if that is empty (`share: all`).

        `owner` is the client that the child belongs to; None if clients share it.
        """
        return {
            session: listener
            for session, (whose, party, listener) in self._open.items()
            if (not principal or whose == principal) and owner in {None, party}
        }


_UNSAID: Final = "info"
"""The lowest level for a client that set none, once the hub has set the child's level."""


def reaches(level: Json, least: str) -> bool:
    """Return whether `level` is at least `least`; True for an unknown level."""
    known = isinstance(level, str) and level in LOG_LEVELS
    return not known or LOG_LEVELS.index(level) >= LOG_LEVELS.index(least)


class LogLevels:
    """The levels that a child's sessions want, and the level the child was set to.

    `told` is None if no level was set: the child logs as it likes. Each level to set is followed by
    `confirm` or `forget`.
    """

    def __init__(self) -> None:
        self.told: str | None = None
        self._is_sure = False
        self._wanted: dict[SessionKey, str] = {}

    def of_session(self, session: SessionKey, level: str) -> str | None:
        """Store a session's level; return the level to set at the child, or None if that is set.

        A level is set again while somebody else's request for it is under way, and may fail.
        """
        self._wanted[session] = level
        lowest = min(self._wanted.values(), key=LOG_LEVELS.index)
        return None if lowest == self.told and self._is_sure else self._tell(lowest)

    def of_call(self, level: str) -> str | None:
        """Return the level to set at the child for one call; None if it already logs that much.

        A call never raises a level that was set before.
        """
        return None if self.told and reaches(level, self.told) else self._tell(level)

    def _tell(self, level: str) -> str:
        self.told, self._is_sure = level, False
        return level

    def confirm(self, level: str) -> None:
        """Record that the child was set to a level."""
        if self.told in {None, level}:
            self.told, self._is_sure = level, True

    def forget(self, level: str) -> None:
        """Record that the child could not be set to a level."""
        if self.told == level and not self._is_sure:
            self.told = None

    def leave(self, session: SessionKey) -> None:
        """Forget the level of a session."""
        self._wanted.pop(session, None)

    def is_filtered(self, session: SessionKey, level: Json) -> bool:
        """Return whether a message of `level` is withheld from a session.

        That is so below `_UNSAID` if the session set no level and the child was set to one.
        """
        return self.told is not None and session not in self._wanted and not reaches(level, _UNSAID)
