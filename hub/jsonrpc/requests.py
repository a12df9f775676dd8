"""Requests under way at a peer, ours (`PendingRequests`) and the peer's own (`InboundRequests`).

With them: who owns a request, its progress token, and why it was cancelled.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Generator
from contextlib import ExitStack, contextmanager
from typing import Final, Protocol, TypeAlias

import anyio

from hub.jsonrpc.exact_json import RequestId, WireError, request_id
from hub.jsonrpc.messages import Failure, Payload, Request, Response, as_object
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
MAX_REASON: Final = 1000
"""Characters of a cancellation's `reason` that are kept; the rest is cut off."""
UNSAID: Final = "cancelled by the caller"
"""The reason of a cancellation that gives none."""
_NUMBER = re.compile("[1-9][0-9]{0,15}")

Answer: TypeAlias = Response | Failure | None
"""The response to a request; None if none will come, because the peer is gone."""
Progress: TypeAlias = Callable[[Payload], Awaitable[None]]
"""Receives the params of one progress notification."""


class RequestWithin(Request, frozen=True, kw_only=True):
    """A request that arrived in the response stream of another request, whose id is `within`."""

    within: RequestId


class Cancellable(Protocol):
    """A request of the peer that is being answered."""

    @property
    def can_be_cancelled(self) -> bool:
        """Whether the peer may cancel the request."""
        ...

    def cancel(self, reason: str = UNSAID) -> None:
        """Stop answering: the response is not wanted any more; `reason` is the peer's."""
        ...


class RequestOwner(Protocol):
    """The call on whose behalf a request is made."""

    @property
    def progress(self) -> Progress | None:
        """Receives progress reports; None if none are wanted."""
        ...

    @property
    def reason(self) -> str:
        """The reason that the peer is told if the request is cancelled."""
        ...


class PendingRequest(Protocol):
    """The waiter for the response to one of our requests."""

    @property
    def progress(self) -> Progress | None:
        """Receives progress reports; None if none are wanted."""
        ...

    @property
    def request_owner(self) -> RequestOwner | None:
        """The call on whose behalf the request is made; None if the hub itself makes it."""
        ...

    def settle(self, answer: Answer) -> None:
        """Receive the response; called once, and must not raise."""
        ...


class AwaitedRequest:
    """A pending request whose task waits for `done` and then reads `answer`."""

    def __init__(self, request_owner: RequestOwner | None) -> None:
        self.request_owner = request_owner
        self.progress = request_owner.progress if request_owner is not None else None
        self.done = anyio.Event()
        self.answer: Answer = None

    def settle(self, answer: Answer) -> None:
        self.answer = answer
        self.done.set()


class PendingRequests(dict[RequestId, PendingRequest]):
    """The waiters for the responses to the requests that we sent to one peer, by id."""

    def settle(self, answer: Response | Failure) -> bool:
        """Give a response to its waiter; return whether there was one.

        An id returned as text instead of a number is accepted, too.
        """
        id_ = answer.id if answer.id in self else self._known(answer.id)
        if id_ is None:
            return False
        self.pop(id_).settle(answer)
        return True

    def settle_gone(self, id_: RequestId) -> None:
        """Settle the waiter of a request with None, if it is pending: no response will come."""
        waiter = self.pop(id_, None)
        if waiter is not None:
            waiter.settle(None)

    async def report(self, params: Payload) -> bool:
        """Give a progress report to its owner; return whether its request is pending."""
        token = self._known(request_id(as_object(params).get("progressToken")))
        if token is None:
            return False
        progress = self[token].progress
        if progress is not None:
            await progress(params)
        return True

    def _known(self, id_: RequestId | None) -> RequestId | None:
        """Return the id of a pending request as we sent it, or None."""
        if id_ in self:
            return id_
        if isinstance(id_, str) and _NUMBER.fullmatch(id_):  # some servers return ids as text
            number = int(id_)
            return number if number in self else None
        return None

    def close(self) -> None:
        """Settle all waiters with None: no response will come."""
        waiting = [*self.values()]
        self.clear()
        with ExitStack() as stack:  # one that raises must not leave the others waiting
            for waiter in reversed(waiting):
                stack.callback(waiter.settle, None)


def with_token(params: JsonObject, token: RequestId) -> JsonObject:
    """Return `params` with `token` as the progress token."""
    meta = params.get("_meta")
    return {**params, "_meta": {**(meta if isinstance(meta, dict) else {}), "progressToken": token}}


def without_token(params: JsonObject) -> JsonObject:
    """Return `params` without a progress token."""
    meta = params.get("_meta")
    if not isinstance(meta, dict) or "progressToken" not in meta:
        return params
    rest: JsonObject = {key: value for key, value in meta.items() if key != "progressToken"}
    return {**params, "_meta": rest}


def token_in(params: JsonObject) -> RequestId | None:
    """Return the progress token in a request's params; None if there is none."""
    meta = params.get("_meta")
    return request_id(meta.get("progressToken")) if isinstance(meta, dict) else None


def reason_in(params: JsonObject) -> str:
    """Return the `reason` in a cancellation's params: untrusted text, cut to `MAX_REASON`."""
    reason = params.get("reason")
    return reason[:MAX_REASON] if isinstance(reason, str) else UNSAID


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
        """Register a request, so that it can be cancelled; `leave` must follow.

        Raises: WireError if its id is still in use, or if too many requests are in progress.
        """
        if len(self._underway) >= MAX_ASKED:
            raise WireError(INTERNAL_ERROR, f"Over {MAX_ASKED} requests are in progress", id_)
        if id_ in self._underway:
            raise WireError(INVALID_REQUEST, "A request with this id is under way", id_)
        self._underway[id_] = underway

    def add_size(self, id_: RequestId, size: int) -> None:
        """Count the bytes of a large request (over `LIGHT`) until it leaves."""
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
        """Forget a request that was answered or abandoned."""
        if self._underway.get(id_) is underway:
            del self._underway[id_]
            if self._heavy:
                self._weight -= self._heavy.pop(id_, 0)
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
        return not (self._underway or self._answering or self._unsent)

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
