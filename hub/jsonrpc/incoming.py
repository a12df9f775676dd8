"""What one side has asked and not been answered: counted, so that nobody piles it up."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import anyio

from hub.jsonrpc.exact_json import RequestId, WireError, request_id
from hub.jsonrpc.outgoing import Cancellable, reason_in
from hub.protocol.constants import INTERNAL_ERROR, INVALID_REQUEST
from hub.values import JsonObject

MAX_ASKED = 1024
"""How many requests of one side may be under way; more are refused."""
MAX_UNSENT, MAX_UNREAD = 64, 64 * 1024 * 1024
"""How many answers may wait for somebody who does not read, and bytes of them.

Beyond, he is not read any more, and what he has asked is not begun.
"""
MAX_WEIGHT = 64 * 1024 * 1024
"""How many bytes of one side's requests may be under way before it is not read any more."""
LIGHT = MAX_WEIGHT // MAX_ASKED
"""How many bytes of a request are not counted: as many as may be under way are within bounds."""


class InboundRequests:
    """Keeps the requests whose answers are being made, and counts the answers being sent."""

    def __init__(self) -> None:
        self._underway: dict[RequestId, Cancellable] = {}
        self._answering = 0
        self._unsent = self._unread = 0
        self._heavy: dict[RequestId, int] = {}
        self._weight = 0
        self._moved: anyio.Event | None = None
        self._is_closed = False

    def add(self, id_: RequestId, underway: Cancellable) -> None:
        """Register a request, so that it can be cancelled.

        Raises: WireError if one with its id is being answered still, or too many are.
        """
        if len(self._underway) >= MAX_ASKED:
            raise WireError(INTERNAL_ERROR, f"Over {MAX_ASKED} requests are under way", id_)
        if id_ in self._underway:
            raise WireError(INVALID_REQUEST, "A request with this id is under way", id_)
        self._underway[id_] = underway

    def remove(self, id_: RequestId, underway: Cancellable) -> None:
        """Take note that a request has its answer."""
        if self._underway.get(id_) is underway:
            del self._underway[id_]
            if self._heavy:
                self._weight -= self._heavy.pop(id_, 0)

    def add_size(self, id_: RequestId, size: int) -> None:
        """Count the bytes of a request for as long as it is under way, if they are many."""
        if size > LIGHT and id_ in self._underway:
            self._heavy[id_] = size
            self._weight += size

    def accepts(self, id_: RequestId) -> bool:
        """Return whether `add` would take the id, and nothing has to be waited for before."""
        room = len(self._underway) < MAX_ASKED and id_ not in self._underway
        return room and not self._unsent and self._weight <= MAX_WEIGHT and not self._is_closed

    def cancel(self, params: JsonObject) -> None:
        """Give up the request that its asker takes back by a notification with these params."""
        known = request_id(params.get("requestId"))
        underway = self._underway.get(known) if known is not None else None
        if underway is not None and underway.can_be_cancelled:
            underway.cancel(reason_in(params))

    def enter(self, id_: RequestId, underway: Cancellable) -> None:
        """Register a request that `accepts` said yes to; `leave` must follow."""
        self._underway[id_] = underway

    def leave(self, id_: RequestId, underway: Cancellable) -> None:
        """Take note that such a request has had its answer sent, or will never have."""
        self.remove(id_, underway)
        if self._moved is not None:
            self._moves()

    def begun(self) -> None:
        """Count a request that a task answers; `ended` must follow."""
        self._answering += 1

    def ended(self) -> None:
        """Take note that such a request has had its answer sent, or will never have."""
        self._answering -= 1
        self._moves()

    @contextmanager
    def sending(self, weight: int = 0) -> Generator[None]:
        """Count an answer of about so many bytes for as long as it is being sent."""
        self._unsent += 1
        self._unread += weight
        try:
            yield
        finally:
            self._unsent -= 1
            self._unread -= weight
            self._moves()

    @property
    def has_room(self) -> bool:
        """Whether not too many answers wait to be read, nor too much of them."""
        return self._unsent < MAX_UNSENT and self._unread <= MAX_UNREAD

    async def wait_for_room(self) -> None:
        """Return once there is room for another answer, or there will be none."""
        while not self.has_room and not self._is_closed:
            await self._move()

    async def room_for_more(self) -> None:
        """Return once another request can be read, or none will be."""
        while (not self.has_room or self._weight > MAX_WEIGHT) and not self._is_closed:
            await self._move()

    @property
    def is_idle(self) -> bool:
        """Whether everything has its answer sent."""
        return not self._underway and not self._answering

    async def idle(self) -> None:
        """Return once everything has its answer sent."""
        while not self.is_idle:
            await self._move()

    def close(self) -> None:
        """Give up everything, and let go who waits for room."""
        self._is_closed = True
        # Who came last first: what still waits in a line behind others is not to have its turn.
        for underway in reversed(list(self._underway.values())):
            underway.cancel()
        self._moves()

    async def _move(self) -> None:
        if self._moved is None:
            self._moved = anyio.Event()
        await self._moved.wait()

    def _moves(self) -> None:
        if self._moved is not None:
            self._moved.set()
            self._moved = None
