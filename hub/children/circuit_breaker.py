"""Circuit breaker of a child: when a failed child may be started again or called.

While it is closed, all calls pass, and a child may be started after a pause that doubles with each
failure. Open, it lets none pass until the pause is over. Half-open, it lets one call try, and the
outcome of that call decides.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Literal, TypeAlias

import structlog

from hub.children.clients import InputNeededError
from hub.errors import ChildError
from hub.jsonrpc.errors import RpcError

PAUSE = 1.0
"""Seconds from the first failed start to the next start; each further failure doubles them."""
MAX_PAUSE = 60.0
"""Upper limit of that pause, in seconds."""
TOLERATED = 3
"""The number of failures in a row that opens the breaker."""
STEADY = 30.0
"""Seconds of answering calls after which a child that fails starts a new count of failures."""
SPREAD = 0.5
"""The random share of a pause, so that children that failed together do not restart together."""

Breaker: TypeAlias = Literal["closed", "open", "half-open"]

log = structlog.stdlib.get_logger(__name__)


class ChildHealth:
    """The circuit breaker of one child; `chance` returns random numbers from 0 up to 1.

    `failures` is the number of failures in a row. `is_well`: the breaker is closed, so that calls
    need no `trying`.
    """

    def __init__(
        self,
        server: str = "",
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._server = server
        self._clock = clock
        self._chance = chance
        self.breaker: Breaker = "closed"
        self.is_well = True  # each call asks for it
        self.failures = 0
        self._until = float("-inf")
        self._ready_at: float | None = None
        self._is_tried = False

    @property
    def _pause(self) -> float:
        """The seconds until a start is allowed; 0 if it is allowed now."""
        return 0.0 if self.breaker == "half-open" else max(0.0, self._until - self._clock())

    @property
    def retry_at(self) -> float | None:
        """The time when the child may be started again, by the hub's clock; None if now."""
        return self._until if self._pause else None

    @property
    def outlook(self) -> str:
        """A sentence on what the hub does next about a child that is not running."""
        pause = self._pause
        if not pause:
            return "the next call starts it again"
        if self.is_well:
            return f"it can be started again in {pause:.1f} s"
        return (
            f"after {self.failures} failures in a row, one call may try it again in {pause:.1f} s"
        )

    def looked(self) -> float:
        """Record that a caller wants the child; return the seconds until it may be started."""
        if self.breaker == "open" and not self._pause:
            self._become("half-open")
        return self._pause

    def came(self) -> None:
        """Record that the child answers calls now."""
        self._ready_at = self._clock()

    def fell(self) -> None:
        """Record that the child failed."""
        now, ready_at, self._ready_at = self._clock(), self._ready_at, None
        was_well = ready_at is not None and now - ready_at >= STEADY
        self.failures = 1 if was_well else self.failures + 1
        # A child that has answered calls may have had an accident: the first restart is immediate.
        doublings = self.failures - (1 if ready_at is None else 2)
        pause = 0.0 if doublings < 0 else min(PAUSE * 2.0 ** min(doublings, 32), MAX_PAUSE)
        self._until = now + pause * (1 - SPREAD * self._chance())
        self._is_tried = False
        self._become("open" if self.failures >= TOLERATED else "closed")

    @contextmanager
    def trying(self) -> Generator[None]:
        """Let a call through; while the breaker is half-open, only one at a time.

        Raises: ChildError if another call is trying the child.
        """
        self.looked()
        if self.breaker != "half-open":
            yield
            return
        if self._is_tried:
            raise ChildError(
                f"server {self._server!r} has failed {self.failures} times in a row, and one call "
                "is testing whether it works again; call again when that is answered"
            )
        self._is_tried = True
        try:
            yield
        except (RpcError, InputNeededError):
            self._answered()
            raise
        else:
            self._answered()
        finally:
            self._is_tried = False

    def _answered(self) -> None:
        """Close the breaker after the call that tried the child, unless the child failed again."""
        if self.breaker == "half-open":
            self.failures, self._until = 0, float("-inf")
            self._become("closed")

    def _become(self, breaker: Breaker) -> None:
        if breaker == self.breaker:
            return
        self.breaker, self.is_well = breaker, breaker == "closed"
        tell = log.warning if breaker == "open" else log.info
        tell(
            "breaker",
            server=self._server,
            state=breaker,
            failures=self.failures,
            pause=round(self._pause, 1),
        )
