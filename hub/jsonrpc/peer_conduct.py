"""How one child behaves: what it says that is of no use to anybody, and when that is the end of it.

Strays are what is no message, answers to what nobody asked, reports on calls that there are not.
Some of that comes of everybody: of a call that was given up, of a library that prints. What is too
much for that is said here, once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from hub.jsonrpc.child_log import ChildLog
from hub.jsonrpc.loop_share import LoopShare
from hub.jsonrpc.peer import GoneError

WINDOW: Final = 30.0
"""Seconds within which strays are counted together."""
MAX_STRAYS: Final = 10_000
"""How many strays a child may send in that time."""
MAX_WASTE: Final = 128 * 1024 * 1024
"""How many bytes of them, and of what is not even a line."""
FORGIVEN: Final = 1_000
FORGIVEN_WASTE: Final = 8 * 1024 * 1024
"""How many strays, and bytes, an answer makes up for: servers print while they work."""


class PeerConduct:
    """One connection's account of its child: `log` is what is logged of it, `pace` its time.

    The log is that of all the server's connections, one after the other and beside each other, if
    it is given; `clock` counts seconds.
    """

    def __init__(
        self,
        server: str,
        log: ChildLog | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.server = server
        self.log = log or ChildLog(server, clock)
        self._clock = clock
        self.pace = LoopShare()
        self._strays = self._waste = 0
        self._since = 0.0

    def answered(self) -> None:
        """Forget some of what was counted: the child has answered what it was asked."""
        if self._strays or self._waste:
            self._strays = max(0, self._strays - FORGIVEN)
            self._waste = max(0, self._waste - FORGIVEN_WASTE)

    def stray(self, what: str, size: int) -> None:
        """Log and count one thing of so many bytes that is of no use; `what` it is, as it is told.

        Raises: GoneError if it was one too many.
        """
        self.log.debug("of no use", what=what, bytes=size)
        self.count(what, size)

    def count(self, what: str, size: int) -> None:
        """Count one that is logged already.

        Raises: GoneError if it was one too many.
        """
        why = self.verdict(what, size, 1)
        if why is not None:
            raise GoneError(why)

    def verdict(self, what: str, size: int, strays: int = 0) -> str | None:
        """Count bytes that are of no use; return why the child is ended if they are too many."""
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
