"""Inbound requests of a peer that are not answered yet: registered, counted and limited."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import anyio

from hub.jsonrpc.exact_json import RequestId, WireError, request_id
from hub.jsonrpc.outgoing import Cancellable, reason_in
from hub.protocol.constants import INTERNAL_ERROR, INVALID_REQUEST
from hub.values import JsonObject

MAX_ASKED = 1024
"""Number of one peer's requests that may be under way; more are refused."""
MAX_UNSENT, MAX_UNREAD = 64, 64 * 1024 * 1024
"""Number of responses, and their bytes, that may wait for a peer that does not read.

Beyond, the hub reads no more from this peer and starts none of its requests.
"""
MAX_WEIGHT = 64 * 1024 * 1024
"""Bytes of one peer's requests that may be under way; beyond, the hub reads no more from it."""
LIGHT = MAX_WEIGHT // MAX_ASKED
"""Bytes up to which a request is not counted: `MAX_ASKED` of these stay within `MAX_WEIGHT`."""


class InboundRequests:
    """The requests of one peer that are being answered, and the count of unsent responses."""

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

        Raises: WireError if its id is still in use, or if too many requests are in progress.
        """
        if len(self._underway) >= MAX_ASKED:
            raise WireError(INTERNAL_ERROR, f"Over {MAX_ASKED} requests are in progress", id_)
        if id_ in self._underway:
            raise WireError(INVALID_REQUEST, "A request with this id is under way", id_)
        self._underway[id_] = underway

    def remove(self, id_: RequestId, underway: Cancellable) -> None:
        """Forget a request whose response is made."""
        if self._underway.get(id_) is underway:
            del self._underway[id_]
            if self._heavy:
                self._weight -= self._heavy.pop(id_, 0)

    def add_size(self, id_: RequestId, size: int) -> None:
        """Count the bytes of a large request (over `LIGHT`) until it is removed."""
        if size > LIGHT and id_ in self._underway:
            self._heavy[id_] = size
            self._weight += size

    def accepts(self, id_: RequestId) -> bool:
        """Return whether a request with this id can start now, without waiting."""
        room = len(self._underway) < MAX_ASKED and id_ not in self._underway
        return room and not self._unsent and self._weight <= MAX_WEIGHT and not self._is_closed

    def cancel(self, params: JsonObject) -> None:
        """Cancel the request that a `notifications/cancelled` with these params names."""
        known = request_id(params.get("requestId"))
        underway = self._underway.get(known) if known is not None else None
        if underway is not None and underway.can_be_cancelled:
            underway.cancel(reason_in(params))

    def enter(self, id_: RequestId, underway: Cancellable) -> None:
        """Register a request for which `accepts` is true; `leave` must follow."""
        self._underway[id_] = underway

    def leave(self, id_: RequestId, underway: Cancellable) -> None:
        """Forget a request from `enter` that was answered or abandoned."""
        if self._heavy:
            self.remove(id_, underway)
        elif self._underway.get(id_) is underway:
            del self._underway[id_]
        if self._moved is not None:
            self._moves()

    def begun(self) -> None:
        """Count a request that a task answers; `ended` must follow."""
        self._answering += 1

    def ended(self) -> None:
        """Count a request from `begun` as answered or abandoned."""
        self._answering -= 1
        self._moves()

    @contextmanager
    def sending(self, weight: int = 0) -> Generator[None]:
        """Count a response of about `weight` bytes as unsent within the context."""
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
        """Whether the unsent responses are within the limits."""
        return self._unsent < MAX_UNSENT and self._unread <= MAX_UNREAD

    async def wait_for_room(self) -> None:
        """Return once the unsent responses are within the limits, or after `close`."""
        while not self.has_room and not self._is_closed:
            await self._move()

    async def room_for_more(self) -> None:
        """Return once another request may be read, or after `close`."""
        while (not self.has_room or self._weight > MAX_WEIGHT) and not self._is_closed:
            await self._move()

    @property
    def is_idle(self) -> bool:
        """Whether no request is under way and every response is sent."""
        return not self._underway and not self._answering

    async def idle(self) -> None:
        """Return once no request is under way and every response is sent."""
        while not self.is_idle:
            await self._move()

    def close(self) -> None:
        """Cancel all requests, and wake all tasks that wait for room."""
        self._is_closed = True
        # Newest first: a request that waits in a queue must not start when an older one ends.
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
