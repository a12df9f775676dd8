"""What a child's messages may cost: its useless output, and loop time for what nobody asked for.

A child's responses are bounded by our requests. Notifications, progress reports and invalid data
have no bound. For these, each child has a budget of time: a burst, then a share of each second. All
children together have one, too. A child over budget is not read for a while, so its pipe fills up
and its own writes block.

Strays are invalid messages, responses to unknown requests and progress reports on unknown calls.
Well-behaved servers send some, too: after a cancelled call, or from a library that prints. The
connection of a child that sends too many is ended; the limits are set here.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from hub.jsonrpc.errors import GoneError
from hub.jsonrpc.rated_log import ChildLog

WINDOW: Final = 30.0
"""Seconds in which strays are counted together."""
MAX_STRAYS: Final = 10_000
"""Number of strays that a child may send in `WINDOW`."""
MAX_WASTE: Final = 128 * 1024 * 1024
"""Bytes of strays, and of data that makes no line, that a child may send in `WINDOW`."""
FORGIVEN: Final = 1_000
FORGIVEN_WASTE: Final = 8 * 1024 * 1024
"""Strays, and bytes, that each response takes off the count: servers print while they work."""
BURST, SHARE = 0.25, 0.15
"""Seconds of loop time that one child may use at once, and then in each second."""
BURST_OF_ALL, SHARE_OF_ALL = 0.5, 0.3
"""The same for all children together."""
TURN: Final = 0.0001
"""Seconds of work after which other tasks get a turn, even with budget left."""
SHORTEST_REST: Final = 0.01
"""Shortest rest in seconds. Many short rests would let the child's messages into every call of
others: what they evict from the CPU's caches slows such a call down more than the work itself."""
MOST_OF_ONE: Final = 0.02
"""Most seconds counted for one message: longer work is mostly waiting, which costs no loop time."""
PASSED_ON: Final = 0.0001
"""Seconds added for each notification, because other tasks send it on later."""
READ: Final = 0.00002
"""Seconds counted for a read that brought little, as a line that comes in pieces: so much the loop
needs for it, before and after the part that can be timed."""
BYTE: Final = 4e-9
"""Seconds counted for reading one byte, which happens before the timing starts. It is more than
reading takes, because large reads empty the CPU's caches, and what runs next is slower by that."""


class TimeBudget:
    """Token bucket of time: each second adds `rate` seconds, up to `most`."""

    def __init__(self, most: float, rate: float, clock: Callable[[], float]) -> None:
        self._most, self._rate, self._clock = most, rate, clock
        self._left, self._at = most, clock()

    def spend(self, seconds: float) -> None:
        """Take `seconds` out of the budget; the rest may become negative."""
        self._left = self._now() - seconds

    def debt(self) -> float:
        """Return in how many seconds the budget is no longer negative; 0 if it is not now."""
        self._left = self._now()
        return max(0.0, -self._left / self._rate)

    def _now(self) -> float:
        before, self._at = self._at, self._clock()
        return min(self._most, self._left + (self._at - before) * self._rate)


of_all: Final = TimeBudget(BURST_OF_ALL, SHARE_OF_ALL, time.perf_counter)
"""The common budget of all children of this process, which share one event loop."""


class LoopShare:
    """Counts the loop time that one child uses, and tells when to rest; `clock` is in seconds."""

    def __init__(
        self, clock: Callable[[], float] = time.perf_counter, together: TimeBudget = of_all
    ) -> None:
        self.clock = clock
        self._own = TimeBudget(BURST, SHARE, clock)
        self._together = together
        self._turn = 0.0
        self._handed = 0
        self._handed_at: float | None = None

    def hand(self, size: int) -> None:
        """Start timing the work on a message of `size` bytes.

        A message before it that was not ended by `done` costs nothing: it was a response.
        """
        self._handed, self._handed_at = size, self.clock()

    def lap(self) -> None:
        """Count the work on the message so far, without a limit: nothing was awaited yet."""
        if self._handed_at is not None:
            began, self._handed_at = self._handed_at, self.clock()
            self.spend(self._handed_at - began)

    def done(self) -> float | None:
        """End and count the work on the message, if there is one; return as `rest`."""
        began, self._handed_at = self._handed_at, None
        if began is None:
            return None
        self.spend(min(self.clock() - began, MOST_OF_ONE), self._handed)
        return self.rest()

    def spend(self, seconds: float, size: int = 0) -> None:
        """Count `seconds` of work, and `size` bytes that were read."""
        spent = seconds + size * BYTE
        self._turn += spent
        self._own.spend(spent)
        self._together.spend(spent)

    def rest(self) -> float | None:
        """Return how many seconds to sleep now; 0 means one turn of the loop.

        None: no pause is needed yet.
        """
        if self._turn < TURN:
            return None
        self._turn = 0.0
        debt = max(self._own.debt(), self._together.debt())
        return max(debt, SHORTEST_REST) if debt else 0.0


class PeerConduct:
    """The counters of one connection to a child, its `log`, and its loop time (`pace`).

    `answers` counts the child's responses since its last stray. `last_stray` describes the last
    message that was of no use; empty if there was none.
    A given `log` is shared by all connections to the server, at the same time and one after the
    other. `clock` is in seconds.
    """

    def __init__(
        self,
        server: str,
        log: ChildLog | None = None,
        clock: Callable[[], float] = time.monotonic,
        *,
        pace: LoopShare | None = None,
    ) -> None:
        self.server = server
        self.log = log or ChildLog(server, clock)
        self._clock = clock
        self.pace = pace or LoopShare()
        self.answers = 0
        self._strays = self._waste = 0
        self._since = 0.0
        self.last_stray = ""

    def stray(self, what: str, size: int) -> None:
        """Log and count one stray of `size` bytes; `what` describes it in the log and the error.

        Raises: GoneError if the limit is exceeded.
        """
        self.log.debug("stray message", what=what, bytes=size)
        self.count(what, size)

    def count(self, what: str, size: int) -> None:
        """Count one stray that is logged already.

        Raises: GoneError if the limit is exceeded.
        """
        self.last_stray = what
        why = self.verdict(what, size, 1)
        if why is not None:
            raise GoneError(why)

    def verdict(self, what: str, size: int, strays: int = 0) -> str | None:
        """Count useless bytes and `strays`; return the reason to end the child if over a limit."""
        self._strays = max(0, self._strays - FORGIVEN * self.answers)
        self._waste = max(0, self._waste - FORGIVEN_WASTE * self.answers)
        self.answers = 0
        now = self._clock()
        if now - self._since >= WINDOW or not (self._strays or self._waste):
            self._since, self._strays, self._waste = now, 0, 0
        self._strays += strays
        self._waste += size
        if self._strays > MAX_STRAYS:
            much = f"over {MAX_STRAYS:,} times"
        elif self._waste > MAX_WASTE:
            much = f"over {MAX_WASTE >> 20} MiB"
        else:
            return None
        within = max(0.1, now - self._since)
        return f"the hub ended it because it misbehaved: {what}, {much} within {within:.1f} s"
