"""How many calls a child is given at once; the others wait in line, and not for ever."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Callable, Collection, Iterable
from contextlib import asynccontextmanager
from typing import Final, Protocol

import anyio
from msgspec import Struct, field

from hub.children.clients import Caller
from hub.children.failures import no_slot_free
from hub.jsonrpc.deadlines import Deadlines
from hub.specs import ServerSpec
from hub.values import SessionKey


class InLine(Protocol):
    """A call that waits for a slot."""

    @property
    def party(self) -> SessionKey:
        """Whose call it is."""
        ...

    def have_turn(self) -> bool:
        """Take a free slot: return whether it is used. Then `give` must follow."""
        ...

    def expire(self) -> None:
        """Step out of line: all slots were taken for too long."""
        ...


class FairLimiter:
    """One child's slots for calls: those who wait have one in turn, each its own calls in order.

    So the many calls of one keep no other from its turn. A call waits for a slot as long as it may
    take then: for the server's `timeout`.
    """

    def __init__(self, spec: ServerSpec) -> None:
        self._spec = spec
        self._free = spec.concurrency
        self._lines: dict[SessionKey, OrderedDict[InLine, None]] = {}
        self._turns: deque[SessionKey] = deque()
        self._limits = Deadlines(spec.timeout)

    @property
    def wanted(self) -> int:
        """How many calls wait in line."""
        return sum(map(len, self._lines.values()))

    def take(self) -> bool:
        """Take a slot if one is free, and return whether it was; `give` must follow then."""
        if not self._free:
            return False
        self._free -= 1
        return True

    def line_up(self, one: InLine) -> None:
        """Let `one` have a free slot when it is its turn."""
        party = one.party
        line = self._lines.get(party)
        if line is None:
            line = self._lines[party] = OrderedDict()
            self._turns.append(party)
        line[one] = None
        self._limits.begin(one)

    def step_out(self, one: InLine) -> bool:
        """Let `one` have none; return whether it was still waiting for one."""
        self._limits.end(one)
        line = self._lines.get(one.party)
        return line is not None and line.pop(one, self) is None

    def give(self) -> None:
        """Give a slot back: the next in line has it."""
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

    @asynccontextmanager
    async def one_for(self, party: SessionKey) -> AsyncGenerator[None]:
        """Wait for a slot, and have it for as long as the context lasts.

        Raises: ChildError if there is none in time.
        """
        if not self.take():
            await self._turn(party)
        try:
            yield
        finally:
            self.give()

    async def _turn(self, party: SessionKey) -> None:
        turn = _Turn(self, party)
        self.line_up(turn)
        try:
            await turn.came.wait()
        except anyio.get_cancelled_exc_class():
            if not self.step_out(turn) and not turn.is_late:
                self.give()
            raise
        if turn.is_late:
            raise no_slot_free(self._spec)


class _Turn:
    """A task that waits until its turn has come, or it is too late for it."""

    def __init__(self, limiter: FairLimiter, party: SessionKey) -> None:
        self.came = anyio.Event()
        self.is_late = False
        self.party = party
        self._slots = limiter

    def have_turn(self) -> bool:
        self.came.set()
        return True

    def expire(self) -> None:
        self.is_late = self._slots.step_out(self)
        self.came.set()


PATIENCE: Final = 60.0
"""Seconds after which a call whose client has not come back gives way to who needs its place."""
LAST_WORDS: Final = 5.0
"""Seconds in which the child may then answer it."""
LINGER: Final = 0.5
"""Seconds in which a child may not have read yet that a call was given up, and asks on within it.

Not more: until then other clients' calls cannot be asked anything, the next ones of a modern client
among them, whose requests have nothing in common.
"""


class _Held(Struct, eq=False):
    """A question that waits until it is plain whose it is: until the child answers these calls."""

    calls: set[Caller]
    is_over: anyio.Event = field(default_factory=anyio.Event)


class Preemption:
    """The calls under way at one child, which are `calls`; `waiting` counts those in line."""

    def __init__(self, calls: Collection[Caller], *, waiting: Callable[[], int]) -> None:
        self._calls = calls
        self._waiting = waiting
        self._leaving: set[Caller] = set()
        self._held: list[_Held] = []
        self._given_up: dict[SessionKey, float] = {}

    def must_leave(self, call: Caller) -> bool:
        """Return whether others need what a call holds; it has to end then."""
        self._leaving.intersection_update(self._calls)
        others = len(self._leaving - {call})
        is_needed = self._waiting() > others or any(call in held.calls for held in self._held)
        if is_needed and call in self._calls:
            self._leaving.add(call)
        return is_needed

    async def until_answered(self, calls: Iterable[Caller]) -> bool:
        """Return once the child has answered calls whose clients are away, and whether it has.

        They give way. Who is still served then, or was given up, may ask on; who was answered not.
        """
        held = _Held(set(calls))
        self._held.append(held)
        try:
            with anyio.move_on_after(PATIENCE + LAST_WORDS):
                await held.is_over.wait()
        finally:
            self._held.remove(held)
        return not held.calls

    def ended(self, call: Caller, *, is_answered: bool) -> None:
        """Take note that a call is over, and whether that was the child's word."""
        for held in self._held:
            if call in held.calls:
                if is_answered:
                    held.calls.remove(call)
                if not is_answered or not held.calls:
                    held.is_over.set()

    def gave_up(self, call: Caller) -> None:
        """Take note that nobody waits for a call any more: its child may not know, or not care."""
        self._given_up.pop(call.party, None)
        self._given_up[call.party] = anyio.current_time() + LINGER

    def lingering(self) -> set[SessionKey]:
        """Return whose calls were given up not long ago."""
        now = anyio.current_time()
        while self._given_up and self._given_up[party := next(iter(self._given_up))] <= now:
            del self._given_up[party]
        return set(self._given_up)
