"""Reads clients' large messages one after the other, for a limited share of the loop's time."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeVar

import anyio

from hub.jsonrpc.exact_json import WireError
from hub.jsonrpc.loop_share import BURST_OF_ALL, SHARE_OF_ALL, TimeBudget
from hub.jsonrpc.messages import Message
from hub.jsonrpc.parsing import parse_client

LARGE_MESSAGE: Final = 128 * 1024
"""Bytes above which a message waits for its turn: shorter ones are read within milliseconds."""

_Waited = TypeVar("_Waited")


class MessageReader:
    """Parses messages of all clients over HTTP; `clock` is in seconds.

    Large messages wait for those before them, and until they have used their share of the loop's
    time: a client that sends one after the other delays only the large messages of others.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._budget = TimeBudget(BURST_OF_ALL, SHARE_OF_ALL, clock)
        self._turn = anyio.Lock()
        self._waiting: set[anyio.CancelScope] = set()
        self._has_ended = False

    async def read(self, body: bytes) -> Message | WireError | None:
        """Return the message in `body`, or why it is refused; None if the hub ends first."""
        if len(body) <= LARGE_MESSAGE:
            return _message_in(body)
        return await self.unless_ended(partial(self._in_turn, body))

    async def unless_ended(self, wait: Callable[[], Awaitable[_Waited]]) -> _Waited | None:
        """Return what `wait` returns; None if the hub ends first."""
        if not self._has_ended:
            with anyio.CancelScope() as waiting:
                self._waiting.add(waiting)
                try:
                    return await wait()
                finally:
                    self._waiting.discard(waiting)
        return None

    async def _in_turn(self, body: bytes) -> Message | WireError:
        async with self._turn:
            await anyio.sleep(self._budget.debt())
            began = self._clock()
            found = _message_in(body)
            self._budget.spend(self._clock() - began)
            return found

    def end(self) -> None:
        """Let nobody wait any more."""
        self._has_ended = True
        for waiting in self._waiting:
            waiting.cancel()


def _message_in(body: bytes) -> Message | WireError:
    try:
        return parse_client(body)
    except WireError as exc:
        return exc
