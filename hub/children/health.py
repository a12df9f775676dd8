"""How one child has fared: its breaker, told what happens and asked before anything is begun."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

import structlog

from hub.children.circuit_breaker import (
    CLOSED,
    Answered,
    Breaker,
    Closed,
    Event,
    Fell,
    GivenUp,
    HalfOpen,
    Looked,
    Taken,
    name_of,
    pause_of,
    step,
)
from hub.children.clients import InputNeededError
from hub.errors import ChildError
from hub.jsonrpc.peer import RpcError

log = structlog.stdlib.get_logger(__name__)


class Health:
    """The breaker before one child; `chance` draws from 0 up to 1.

    `is_well`: calls go through without being watched.
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
        self._breaker: Breaker = CLOSED
        self._ready_at: float | None = None
        self.is_well = True

    @property
    def failures(self) -> int:
        """How often in a row the child fell."""
        return self._breaker.failures

    @property
    def breaker(self) -> str:
        """The breaker's state, for people: `closed`, `open` or `half-open`."""
        return name_of(self._breaker)

    @property
    def retry_at(self) -> float | None:
        """When the child may be started again, by the hub's clock; None if it may be now."""
        now = self._clock()
        pause = pause_of(self._breaker, now)
        return now + pause if pause > 0 else None

    @property
    def outlook(self) -> str:
        """What the hub does next about a child that is not there."""
        pause = pause_of(self._breaker, self._clock())
        if pause <= 0:
            return "the next call starts it again"
        if self.breaker == "closed":
            return f"it can be started again in {pause:.1f} s"
        return f"after {self.failures} failures in a row one call may try it in {pause:.1f} s"

    def looked(self) -> float:
        """Take note that somebody wants the child; returns for how long it must not be started."""
        self._step(Looked(self._clock()))
        return pause_of(self._breaker, self._clock())

    def came(self) -> None:
        """Take note that the child answers calls now."""
        self._ready_at = self._clock()

    def fell(self) -> None:
        """Take note that the child fell."""
        now = self._clock()
        ran = None if self._ready_at is None else now - self._ready_at
        self._ready_at = None
        self._step(Fell(now, ran, self._chance()))

    @contextmanager
    def trying(self) -> Generator[None]:
        """Let a call through; while it is not known whether the child is well, no second one.

        Raises: ChildError where another call is trying.
        """
        self._step(Looked(self._clock()))
        if not isinstance(self._breaker, HalfOpen):
            yield
            return
        if self._breaker.is_taken:
            raise ChildError(
                f"server {self._server!r} has failed {self.failures} times in a row, and one call "
                "is trying it; call again when that is answered"
            )
        self._step(Taken())
        outcome: Event = GivenUp()
        try:
            yield
            outcome = Answered()
        except (RpcError, InputNeededError):
            outcome = Answered()
            raise
        finally:
            self._step(outcome)

    def _step(self, event: Event) -> None:
        before = self.breaker
        self._breaker = step(self._breaker, event)
        self.is_well = isinstance(self._breaker, Closed)
        if self.breaker != before:
            tell = log.warning if self.breaker == "open" else log.info
            tell(
                "breaker",
                server=self._server,
                state=self.breaker,
                failures=self.failures,
                pause=round(pause_of(self._breaker, self._clock()), 1),
            )
