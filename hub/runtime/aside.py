"""Work that takes long, done beside the loop so that nobody waits for it who does not need it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter, to_thread

Result = TypeVar("Result")


class Aside:
    """Does one piece of work at a time, in the order in which they come.

    So the loop has at least half of the time that Python has.
    """

    def __init__(self) -> None:
        self._turn = CapacityLimiter(1)

    async def run(self, work: Callable[[], Result]) -> Result:
        """Return what `work` returns, which touches nothing that changes meanwhile.

        Who is cancelled while it is done waits for its end.
        """
        return await to_thread.run_sync(work, limiter=self._turn)
