"""What children do side by side: calls in a fair queue, abandoned calls that give way, starts."""

from __future__ import annotations

import os
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import asynccontextmanager
from typing import Final, Protocol

import anyio

from hub.children.clients import Caller
from hub.jsonrpc.deadlines import Deadlines
from hub.specs import ServerSpec


class InLine(Protocol):
    """A call that waits in the queue for a slot."""

    @property
    def queue_key(self) -> str:
        """The key by which calls take turns."""
        ...

    def have_turn(self) -> None:
        """Take the free slot, and use it or leave the queue without it."""

    def expire(self) -> None:
        """Leave the queue: no slot was free within the time limit."""


class FairLimiter:
    """The queue for the call slots of one child: each `queue_key` in turn, in order within one.

    So a client with many calls does not delay the other clients. A call waits for a slot for at
    most the server's `timeout`, the same limit as for its response. `calls` are those in flight:
    each has a slot, of `concurrency` in all. `turns` are the keys that calls wait under; there are
    none while a slot is free, except while slots are given. A call that comes while there are any
    has to wait, too.
    """

    def __init__(self, spec: ServerSpec, calls: Collection[Caller]) -> None:
        self.concurrency = spec.concurrency
        self.turns: deque[str] = deque()
        self._calls = calls
        self._lines: dict[str, OrderedDict[InLine, None]] = {}
        self._limits = Deadlines(spec.timeout)
        self._is_giving = False

    def follow(self, spec: ServerSpec) -> None:
        """Apply the limits of `spec`; calls that have a slot keep it."""
        self.concurrency = spec.concurrency
        self._limits.allow(spec.timeout)
        self.give()

    @property
    def wanted(self) -> int:
        """The number of calls in the queue."""
        return sum(map(len, self._lines.values()))

    def line_up(self, one: InLine) -> None:
        """Put a call in the queue for a slot."""
        key = one.queue_key
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = OrderedDict()
            self.turns.append(key)
        line[one] = None
        self._limits.begin(one)

    def step_out(self, one: InLine) -> bool:
        """Remove a call from the queue; return whether it was still waiting."""
        self._limits.end(one)
        line = self._lines.get(one.queue_key)
        return line is not None and line.pop(one, self) is None

    def give(self) -> None:
        """Give the slots that are free to the next calls in the queue."""
        if self._is_giving:  # by a call that was over as soon as it had the slot
            return
        self._is_giving = True
        try:
            while self.turns and len(self._calls) < self.concurrency:
                self._give_to_next()
        finally:
            self._is_giving = False

    def _give_to_next(self) -> None:
        """Give a slot to the next call of the party whose turn it is, if one waits."""
        key = self.turns[0]
        line = self._lines[key]
        if not line:
            del self._lines[key], self.turns[0]
            return
        self.turns.rotate(-1)
        one, _ = line.popitem(last=False)
        self._limits.end(one)
        one.have_turn()


PATIENCE: Final = 60.0
"""Seconds that a client may stay away before its call has to make room for others."""


class Preemption:
    """Decides which abandoned call must end. `calls` are in flight; `waiting` counts those in line.

    `is_needed` says whether a question of the child waits for the end of a call.
    """

    def __init__(
        self,
        calls: Collection[Caller],
        *,
        waiting: Callable[[], int],
        is_needed: Callable[[Caller], bool],
    ) -> None:
        self._calls = calls
        self._waiting = waiting
        self._is_needed = is_needed
        self._leaving: set[Caller] = set()

    def must_leave(self, call: Caller) -> bool:
        """Return whether an abandoned call has to end: others need its slot or its answer."""
        self._leaving.intersection_update(self._calls)
        others = len(self._leaving - {call})
        is_needed = self._waiting() > others or self._is_needed(call)
        if is_needed and call in self._calls:
            self._leaving.add(call)
        return is_needed


MOST_STARTS: Final = max(8, 4 * (os.cpu_count() or 1))
"""How many launched servers may start at once: more would keep each other from the processors."""
START_HOLDS: Final = 7.5
"""Seconds after which another server may start beside one that has not started yet."""


class StartTurns:
    """Lets servers start a few at a time (`most`), in the order in which they came.

    A server that a call waits for is urgent: it goes first, and beside so many others if need be,
    as those may hang. So one that hangs keeps others waiting for a while only, and only where many
    do.
    """

    def __init__(self, most: int = MOST_STARTS) -> None:
        self._most = most
        self._starting = 0
        self._waiting: dict[anyio.Event, Callable[[], bool]] = {}

    @asynccontextmanager
    async def turn(self, is_urgent: Callable[[], bool]) -> AsyncGenerator[None]:
        """Wait for a turn, and keep it while the context lasts, for `START_HOLDS` at most.

        `is_urgent` is asked again whenever it may be somebody's turn.
        """
        mine = anyio.Event()
        self._waiting[mine] = is_urgent
        self.let_in()
        try:
            await mine.wait()
            with anyio.move_on_after(START_HOLDS):
                yield
        finally:
            if self._waiting.pop(mine, None) is None:  # it was its turn
                self._starting -= 1
                self.let_in()

    def let_in(self) -> None:
        """Let those start whose turn it is; to be called when one may have become urgent."""
        while (following := self._following()) is not None:
            del self._waiting[following]
            self._starting += 1
            following.set()

    def _following(self) -> anyio.Event | None:
        urgent = (one for one, is_urgent in self._waiting.items() if is_urgent())
        if self._starting < self._most:
            return next(urgent, None) or next(iter(self._waiting), None)
        return next(urgent, None) if self._starting < 2 * self._most else None
