"""Who waits for the answers to requests, and who makes them."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeAlias

import anyio

from hub.jsonrpc.exact_json import RequestId, request_id
from hub.jsonrpc.messages import Failure, Payload, Request, Response, as_object
from hub.values import JsonObject

MAX_REASON: Final = 1000
"""Characters of what somebody says who takes a request back; the rest is cut off."""
UNSAID: Final = "cancelled by the caller"
"""What is told where nobody says why a request is taken back."""

_NUMBER = re.compile("[1-9][0-9]{0,15}")

Answer: TypeAlias = Response | Failure | None
"""What comes of a request; None if nothing ever will, because the other side is gone."""
Progress: TypeAlias = Callable[[Payload], Awaitable[None]]
"""Takes the params of one progress report."""


class RequestWithin(Request, frozen=True, kw_only=True):
    """A request that came on the way to the answer to another, whose id is `within`."""

    within: RequestId


class Cancellable(Protocol):
    """A request of the other side that is being answered, in whatever way."""

    @property
    def can_be_cancelled(self) -> bool:
        """Whether its asker may take it back."""
        ...

    def cancel(self, reason: str = UNSAID) -> None:
        """Give it up: nobody wants the answer any more, for a reason of its asker's."""
        ...


class RequestOwner(Protocol):
    """On whose behalf a request is made."""

    @property
    def progress(self) -> Progress | None:
        """Where progress reports go; None if nobody wants any."""
        ...

    @property
    def reason(self) -> str:
        """What is told of it when it is taken back."""
        ...


class PendingRequest(Protocol):
    """Somebody who waits for the answer to a request."""

    @property
    def progress(self) -> Progress | None:
        """Where progress reports go; None if nobody wants any."""
        ...

    @property
    def request_owner(self) -> RequestOwner | None:
        """On whose behalf the request is made; None: on the hub's own."""
        ...

    def settle(self, answer: Answer) -> None:
        """Take what came of the request; called once, and never raises."""
        ...


class AwaitedRequest:
    """A task that waits for an answer, on somebody's behalf or the hub's own."""

    def __init__(self, request_owner: RequestOwner | None) -> None:
        self.request_owner = request_owner
        self.progress = request_owner.progress if request_owner is not None else None
        self.done = anyio.Event()
        self.answer: Answer = None

    def settle(self, answer: Answer) -> None:
        self.answer = answer
        self.done.set()


class PendingRequests:
    """Who waits for the answers to what one side has asked, by the ids it gave."""

    def __init__(self) -> None:
        self._waiting: dict[RequestId, PendingRequest] = {}

    def add(self, id_: RequestId, waiter: PendingRequest) -> None:
        """Let `waiter` have the answer to a request."""
        self._waiting[id_] = waiter

    def forget(self, id_: RequestId) -> bool:
        """Let nobody have it; return whether somebody was waiting."""
        return self._waiting.pop(id_, None) is not None

    def waiting(self, id_: RequestId) -> PendingRequest | None:
        """Return who waits for the answer to a request; None if it has come, or never will."""
        return self._waiting.get(id_)

    def settle(self, answer: Response | Failure) -> bool:
        """Give an answer to who waits for it; return whether somebody did."""
        waiter = self._waiting.pop(answer.id, None) if answer.id is not None else None
        if waiter is not None:
            waiter.settle(answer)
        elif isinstance(answer.id, str) and (number := _number_in(answer.id)) in self._waiting:
            self._waiting.pop(number).settle(answer)
        else:
            return False
        return True

    async def report(self, params: Payload) -> bool:
        """Give a progress report to who wants it; return whether it is on something under way."""
        token = request_id(as_object(params).get("progressToken"))
        waiter = self._waiting.get(token) if token is not None else None
        if waiter is not None and waiter.progress is not None:
            await waiter.progress(params)
        return waiter is not None

    def close(self) -> None:
        """Tell everybody that no answer will come."""
        waiting, self._waiting = self._waiting, {}
        for waiter in waiting.values():
            waiter.settle(None)


def _number_in(text: str) -> int | None:
    """Return the id that a text is, as some servers give a number back; None if it is none."""
    return int(text) if _NUMBER.fullmatch(text) else None


def with_token(params: JsonObject, token: RequestId) -> JsonObject:
    """Return params that ask for progress reports under `token`."""
    meta = params.get("_meta")
    return {**params, "_meta": {**(meta if isinstance(meta, dict) else {}), "progressToken": token}}


def without_token(params: JsonObject) -> JsonObject:
    """Return params that ask for no progress reports."""
    meta = params.get("_meta")
    if not isinstance(meta, dict) or "progressToken" not in meta:
        return params
    rest: JsonObject = {key: value for key, value in meta.items() if key != "progressToken"}
    return {**params, "_meta": rest}


def token_in(params: JsonObject) -> RequestId | None:
    """Return what a request's asker wants progress reported under, if it does."""
    meta = params.get("_meta")
    return request_id(meta.get("progressToken")) if isinstance(meta, dict) else None


def reason_in(params: JsonObject) -> str:
    """Return why a request is taken back: its asker's own words, which may be anything."""
    reason = params.get("reason")
    return reason[:MAX_REASON] if isinstance(reason, str) else UNSAID
