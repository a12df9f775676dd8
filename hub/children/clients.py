"""Who is on the client side of a child: the one whose call is served, those who only listen."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from hub.jsonrpc.messages import Notification, Payload
from hub.jsonrpc.outgoing import RequestOwner
from hub.protocol.request_state import CallState, ChildInputRound, RetryInput
from hub.specs import ServerSpec
from hub.values import JsonObject, SessionKey


class RootsNeededError(Exception):
    """A client must be asked for its roots before its request can be served: it comes again."""


class InputNeededError(Exception):
    """A modern client has to be asked, by its call's result; its retry brings `state` back.

    `lasts`: for how many seconds that retry is waited for.
    """

    def __init__(self, requests: JsonObject, state: CallState, *, lasts: float) -> None:
        super().__init__("input is needed")
        self.requests = requests
        self.state = state
        self.lasts = lasts


class Stoppable(Protocol):
    """What can be given up while it is under way, such as a cancel scope."""

    def cancel(self) -> None:
        """Give it up."""
        ...


class Caller(Protocol):
    """On whose behalf a call is made: who can be asked and told things while it runs."""

    @property
    def session(self) -> SessionKey:
        """Whose call it is."""
        ...

    @property
    def party(self) -> SessionKey:
        """Who would answer what is asked: several calls, even sessions, may be one client's."""
        ...

    @property
    def is_present(self) -> bool:
        """Whether the client waits for the call just now; a modern one comes and goes."""
        ...

    @property
    def retry(self) -> RetryInput:
        """What the client's request brought for the call that it continues."""
        ...

    @property
    def asks(self) -> JsonObject:
        """What the client can be asked, as it declares it."""
        ...

    @property
    def progress(self) -> Callable[[Payload], Awaitable[None]] | None:
        """Where progress reports go; None if the client wants none."""
        ...

    @property
    def reason(self) -> str:
        """What is told of the call when the client takes it back."""
        ...

    @property
    def log_level(self) -> str | None:
        """From which level on the client wants to read what the child logs; None: not said."""
        ...

    async def ask(
        self, method: str, params: JsonObject, request_owner: RequestOwner | None = None
    ) -> Payload:
        """Pass a child's request on to the client, on the child's `request_owner`.

        Raises: RpcError if the client does not take it.
        """
        ...

    async def inputs(
        self, spec: ServerSpec, requests: Mapping[str, JsonObject], round_: ChildInputRound
    ) -> JsonObject:
        """Return the client's answers to what a modern child asks by its result, by key.

        Raises: RpcError if the client does not take one; InputNeededError if it is asked by the
            call's result in turn, and answers with a retry that brings `round_` back.
        """
        ...

    async def tell(self, spec: ServerSpec, notification: Notification) -> None:
        """Pass on a notification that came while the call ran."""
        ...

    def done(self) -> None:
        """Tell the client, if its era wants that, that what it was asked for is over and done."""
        ...

    async def flush(self) -> None:
        """Return once all that the client was told within the call is sent."""
        ...

    def want_roots(self) -> bool:
        """Give the call up to ask the client for its roots; returns False if they are known.

        The client makes the call again.
        """
        ...


class ChildUser(Protocol):
    """Somebody who uses a child and wants to know what it says between calls."""

    async def told(self, spec: ServerSpec, notification: Notification) -> None:
        """Take a notification that belongs to no call."""
        ...

    async def came(self, spec: ServerSpec) -> None:
        """Take note that the child answers calls now."""
        ...
