"""What a plain call needs around it: how it is answered, where it is kept, and how it goes."""

from __future__ import annotations

from typing import Protocol

from hub.calls.routes import Lane
from hub.guard.decide import Admitted
from hub.jsonrpc.exact_json import RequestId
from hub.jsonrpc.messages import Failure, Payload, Request, Response
from hub.jsonrpc.outgoing import Answer, Underway
from hub.jsonrpc.peer import Outlet
from hub.sessions.session import Session
from hub.values import JsonObject


class Reply(Protocol):
    """How one request is answered."""

    @property
    def outlet(self) -> Outlet:
        """Where messages that belong to the request go before its answer."""
        ...

    def give(self, answer: Answer) -> bool:
        """Hand the answer over if it is taken now, and return whether it was.

        None: there will be none, because the request was taken back.
        """
        ...

    async def deliver(self, answer: Response | Failure) -> None:
        """Hand the answer over, waiting until it is taken."""
        ...

    def detour(self, request: Request) -> None:
        """Let the request be answered the general way after all."""
        ...


class Register(Protocol):
    """Keeps what one side has asked: a peer's backlog does."""

    @property
    def has_room(self) -> bool:
        """Whether an answer would be sent soon, or may wait until it is read."""
        ...

    def takes(self, id_: RequestId) -> bool:
        """Return whether a request with this id can be taken, and its answer sent, now."""
        ...

    def enter(self, id_: RequestId, underway: Underway) -> None:
        """Register a request, so that it is waited for, and can be cancelled."""
        ...

    def leave(self, id_: RequestId, underway: Underway) -> None:
        """Take note that a request has had its answer sent, or will never have."""
        ...


class Way(Protocol):
    """How one plain call goes."""

    @property
    def lane(self) -> Lane:
        """Where it goes."""
        ...

    @property
    def owner(self) -> Session:
        """Whose call it is."""
        ...

    @property
    def is_open(self) -> bool:
        """Whether the call would still be looked up to the same end."""
        ...

    def admit(self, params: JsonObject) -> Admitted | None:
        """Return the admitted call; None if there is more to it than that."""
        ...

    def complete(self, result: Payload) -> Payload:
        """Return a result as its client wants it.

        Raises: RpcError for one that cannot be read.
        """
        ...
