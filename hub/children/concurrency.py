"""Concurrency limit of a child: a fair queue for call slots, and preemption of abandoned calls."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable
from typing import Final, Protocol

import anyio
from msgspec import Struct, field

from hub.children.clients import Caller
from hub.jsonrpc.deadlines import Deadlines
from hub.specs import ServerSpec
from hub.values import SessionKey


class InLine(Protocol):
    """A call that waits in the queue for a slot."""

    @property
    def party(self) -> SessionKey:
        """The client of the call."""
        ...

    def have_turn(self) -> bool:
        """Offer a free slot to the call; return whether it is used: then `give` must follow."""
        ...

    def expire(self) -> None:
        """Leave the queue: no slot was free within the time limit."""
        ...


class FairLimiter:
    """The call slots of one child, given in turn to each client, and in order within a client.

    So a client with many calls does not delay the other clients. A call waits for a slot for at
    most the server's `timeout`, the same limit as for its response.
    """

    def __init__(self, spec: ServerSpec) -> None:
        self._spec = spec
        self._free = spec.concurrency
        self._lines: dict[SessionKey, OrderedDict[InLine, None]] = {}
        self._turns: deque[SessionKey] = deque()
        self._limits = Deadlines(spec.timeout)

    @property
    def wanted(self) -> int:
        """The number of calls in the queue."""
        return sum(map(len, self._lines.values()))

    def take(self) -> bool:
        """Take a slot if one is free; return whether it was. If so, `give` must follow."""
        if not self._free:
            return False
        self._free -= 1
        return True

    def line_up(self, one: InLine) -> None:
        """Put a call in the queue for a slot."""
        party = one.party
        line = self._lines.get(party)
        if line is None:
            line = self._lines[party] = OrderedDict()
            self._turns.append(party)
        line[one] = None
        self._limits.begin(one)

    def step_out(self, one: InLine) -> bool:
        """Remove a call from the queue; return whether it was still waiting."""
        self._limits.end(one)
        line = self._lines.get(one.party)
        return line is not None and line.pop(one, self) is None

    def give(self) -> None:
        """Give a slot back; the next call in the queue gets it."""
        while self._turns:
            party = self._turns[0]
            line = self._lines[party]
            if not line:
                del self._lines[party], self._turns[0]
                continue
            self._turns.rotate(-1)
            one, _ = line.popitem(last=False)
            self._limits.end(one)
            if one.have_turn():
                return
        self._free += 1


PATIENCE: Final = 60.0
"""Seconds that a client may stay away before its call has to make room for others."""
LAST_WORDS: Final = 5.0
"""Further seconds in which the child may answer that call."""
LINGER: Final = 0.5
"""Seconds in which a child may still send requests for a call that was abandoned.

Not longer: until then the child's requests cannot go to other clients. A modern client's next call
counts as another client's, as its requests have nothing in common.
"""


class _Held(Struct, eq=False):
    """A child's request that waits for the answers to `calls`: then its owner is clear."""

    calls: set[Caller]
    is_over: anyio.Event = field(default_factory=anyio.Event)


class Preemption:
    """Decides which abandoned call must end. `calls` are in flight; `waiting` counts the queue.

    `holds_requests`: requests of the child wait for calls to end, `patience` seconds at most.
    """

    def __init__(
        self,
        calls: Collection[Caller],
        *,
        waiting: Callable[[], int],
        patience: float = PATIENCE + LAST_WORDS,
    ) -> None:
        self._patience = patience
        self._calls = calls
        self._waiting = waiting
        self._leaving: set[Caller] = set()
        self._held: list[_Held] = []
        self.holds_requests = False
        self._given_up: dict[SessionKey, float] = {}

    def must_leave(self, call: Caller) -> bool:
        """Return whether an abandoned call has to end: others need its slot or its answer."""
        self._leaving.intersection_update(self._calls)
        others = len(self._leaving - {call})
        is_needed = self._waiting() > others or any(call in held.calls for held in self._held)
        if is_needed and call in self._calls:
            self._leaving.add(call)
        return is_needed

    async def until_answered(self, calls: Iterable[Caller]) -> bool:
        """Wait for the child to answer calls of absent clients; return whether it answered all.

        Meanwhile those calls have to end. A call that is still in flight or was abandoned may be
        the source of a child's request; an answered call cannot be.
        """
        held = _Held(set(calls))
        self._held.append(held)
        self.holds_requests = True
        try:
            with anyio.move_on_after(self._patience):
                await held.is_over.wait()
        finally:
            self._held.remove(held)
            self.holds_requests = bool(self._held)
        return not held.calls

    def ended(self, call: Caller, *, is_answered: bool) -> None:
        """Record that a call is over, and whether the child answered it."""
        for held in self._held:
            if call in held.calls:
                if is_answered:
                    held.calls.remove(call)
                if not is_answered or not held.calls:
                    held.is_over.set()

    def gave_up(self, call: Caller) -> None:
        """Record that a call was abandoned; its child may not know yet, or may not care."""
        self._given_up.pop(call.party, None)
        self._given_up[call.party] = anyio.current_time() + LINGER

    def lingering(self) -> set[SessionKey]:
        """Return the clients whose calls were abandoned in the last `LINGER` seconds."""
        now = anyio.current_time()
        while self._given_up and self._given_up[party := next(iter(self._given_up))] <= now:
            del self._given_up[party]
        return set(self._given_up)
