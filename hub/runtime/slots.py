"""How many calls a child is given at once; the others wait in line."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import TypeAlias

import anyio

Begin: TypeAlias = Callable[[], bool]
"""Called with a free slot: returns whether it is used. Then `give` must follow."""


class Slots:
    """Slots for calls, given in the order in which they were asked for."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._line: deque[Begin] = deque()

    def take(self) -> bool:
        """Take a slot if one is free, and return whether it was; `give` must follow then."""
        if not self._free:
            return False
        self._free -= 1
        return True

    def line_up(self, begin: Begin) -> None:
        """Let `begin` have the next free slot."""
        self._line.append(begin)

    def step_out(self, begin: Begin) -> bool:
        """Let `begin` have none; return whether it was still waiting for one."""
        try:
            self._line.remove(begin)
        except ValueError:
            return False
        return True

    def give(self) -> None:
        """Give a slot back: the next in line has it."""
        while self._line:
            if self._line.popleft()():
                return
        self._free += 1

    async def __aenter__(self) -> None:
        if self.take():
            return
        turn = anyio.Event()

        def begin() -> bool:
            turn.set()
            return True

        self.line_up(begin)
        try:
            await turn.wait()
        except anyio.get_cancelled_exc_class():
            if not self.step_out(begin):
                self.give()
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.give()
