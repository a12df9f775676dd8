"""Concurrency limit of a child: a fair queue for call slots, and preemption of abandoned calls."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Collection
from typing import Final, Protocol

from hub.children.clients import Caller
from hub.jsonrpc.deadlines import Deadlines
from hub.specs import ServerSpec


class InLine(Protocol):
    """A call that waits in the queue for a slot."""

    @property
    def queue_key(self) -> str:
        """The key by which calls take turns."""
        ...

    def have_turn(self) -> bool:
        """Offer a free slot to the call; return whether it is used: then `give` must follow."""
        ...

    def expire(self) -> None:
        """Leave the queue: no slot was free within the time limit."""
        ...


class FairLimiter:
    """The call slots of one child, given to each `queue_key` in turn, and in order within one.

    So a client with many calls does not delay the other clients. A call waits for a slot for at
    most the server's `timeout`, the same limit as for its response.
    """

    def __init__(self, spec: ServerSpec) -> None:
        self._spec = spec
        self._free = spec.concurrency
        self._lines: dict[str, OrderedDict[InLine, None]] = {}
        self._turns: deque[str] = deque()
        self._limits = Deadlines(spec.timeout)
        self._is_giving = False

    def follow(self, spec: ServerSpec) -> None:
        """Apply the limits of `spec`; calls that have a slot keep it."""
        more = spec.concurrency - self._spec.concurrency
        self._spec = spec
        self._limits.allow(spec.timeout)
        self._free += min(more, 0)
        for _ in range(max(more, 0)):
            self.give()

    @property
    def wanted(self) -> int:
        """The number of calls in the queue."""
        return sum(map(len, self._lines.values()))

    def take(self) -> bool:
        """Take a slot if one is free; return whether it was. If so, `give` must follow."""
        if self._free <= 0:  # less than 0 after `follow` has lowered the limit
            return False
        self._free -= 1
        return True

    def line_up(self, one: InLine) -> None:
        """Put a call in the queue for a slot."""
        key = one.queue_key
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = OrderedDict()
            self._turns.append(key)
        line[one] = None
        self._limits.begin(one)

    def step_out(self, one: InLine) -> bool:
        """Remove a call from the queue; return whether it was still waiting."""
        self._limits.end(one)
        line = self._lines.get(one.queue_key)
        return line is not None and line.pop(one, self) is None

    def give(self) -> None:
        """Give a slot back; the next call in the queue gets it."""
        self._free += 1
        if self._is_giving:  # by a call that was over as soon as it had the slot
            return
        self._is_giving = True
        try:
            while self._turns and self._free > 0:
                self._give_to_next()
        finally:
            self._is_giving = False

    def _give_to_next(self) -> None:
        """Offer a slot to the next call of the party whose turn it is, if one waits."""
        key = self._turns[0]
        line = self._lines[key]
        if not line:
            del self._lines[key], self._turns[0]
            return
        self._turns.rotate(-1)
        one, _ = line.popitem(last=False)
        self._limits.end(one)
        self._free -= 1
        if not one.have_turn():
            self._free += 1


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
