"""How many calls a child is given at once; the others wait in line, and not for ever."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Protocol

import anyio

from hub.children.failures import crowded
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


class Slots:
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
            raise crowded(self._spec)


class _Turn:
    """A task that waits until its turn has come, or it is too late for it."""

    def __init__(self, slots: Slots, party: SessionKey) -> None:
        self.came = anyio.Event()
        self.is_late = False
        self.party = party
        self._slots = slots

    def have_turn(self) -> bool:
        self.came.set()
        return True

    def expire(self) -> None:
        self.is_late = self._slots.step_out(self)
        self.came.set()
