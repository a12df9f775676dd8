"""Counts a child's useless output, and ends the connection of a child that sends too much.

Strays are invalid messages, responses to unknown requests and progress reports on unknown calls.
Well-behaved servers send some, too: after a cancelled call, or from a library that prints. The
limits are set here.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from hub.jsonrpc.errors import GoneError
from hub.jsonrpc.loop_share import LoopShare
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


class PeerConduct:
    """The counters of one connection to a child, its `log`, and its loop time (`pace`).

    `last_stray` describes the last message that was of no use; empty if there was none.
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
        self._strays = self._waste = 0
        self._since = 0.0
        self.last_stray = ""

    def answered(self) -> None:
        """Reduce the counters: the child has answered a request."""
        if self._strays or self._waste:
            self._strays = max(0, self._strays - FORGIVEN)
            self._waste = max(0, self._waste - FORGIVEN_WASTE)

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
