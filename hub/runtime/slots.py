"""How many calls a child is given at once; the others wait in line, and not for ever."""

from __future__ import annotations

from collections import OrderedDict
from types import TracebackType
from typing import Protocol

import anyio

from hub.core.specs import ServerSpec
from hub.runtime.deadlines import Deadlines
from hub.runtime.unanswered import crowded


class InLine(Protocol):
    """A call that waits for a slot."""

    def have_turn(self) -> bool:
        """Take a free slot: return whether it is used. Then `give` must follow."""
        ...

    def expire(self) -> None:
        """Step out of line: all slots were taken for too long."""
        ...


class Slots:
    """One child's slots for calls, given in the order in which they were asked for.

    A call waits for one as long as it may take then: for the server's `timeout`.
    """

    def __init__(self, spec: ServerSpec) -> None:
        self._spec = spec
        self._free = spec.concurrency
        self._line: OrderedDict[InLine, None] = OrderedDict()
        self._limits = Deadlines(spec.timeout)

    @property
    def wanted(self) -> int:
        """How many calls wait in line."""
        return len(self._line)

    def take(self) -> bool:
        """Take a slot if one is free, and return whether it was; `give` must follow then."""
        if not self._free:
            return False
        self._free -= 1
        return True

    def line_up(self, one: InLine) -> None:
        """Let `one` have the next free slot that nobody before it waits for."""
        self._line[one] = None
        self._limits.begin(one)

    def step_out(self, one: InLine) -> bool:
        """Let `one` have none; return whether it was still waiting for one."""
        self._limits.end(one)
        return self._line.pop(one, self) is None

    def give(self) -> None:
        """Give a slot back: the next in line has it."""
        while self._line:
            one, _ = self._line.popitem(last=False)
            self._limits.end(one)
            if one.have_turn():
                return
        self._free += 1

    async def __aenter__(self) -> None:
        """Wait for a slot.

        Raises: ChildError if there is none in time.
        """
        if self.take():
            return
        turn = _Turn(self)
        self.line_up(turn)
        try:
            await turn.came.wait()
        except anyio.get_cancelled_exc_class():
            if not self.step_out(turn) and not turn.is_late:
                self.give()
            raise
        if turn.is_late:
            raise crowded(self._spec)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.give()


class _Turn:
    """A task that waits until its turn has come, or it is too late for it."""

    def __init__(self, slots: Slots) -> None:
        self.came = anyio.Event()
        self.is_late = False
        self._slots = slots

    def have_turn(self) -> bool:
        self.came.set()
        return True

    def expire(self) -> None:
        self.is_late = self._slots.step_out(self)
        self.came.set()
