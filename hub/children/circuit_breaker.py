"""Circuit breaker of a child: when a failed child may be started again or called.

A state machine: events in, state out. `BreakerClosed` lets all calls through, and starts a child
after a pause that doubles with each failure. `BreakerOpen` lets none through until its time is up;
then `BreakerHalfOpen` lets one call try, and the outcome of that call decides.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TypeAlias

import structlog
from msgspec import Struct

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

NEVER = float("-inf")


class BreakerClosed(Struct, frozen=True):
    """All calls pass. A child may be started from `until` on (seconds of the hub's clock)."""

    failures: int = 0
    until: float = NEVER


class BreakerOpen(Struct, frozen=True):
    """No call passes, and no child is started, before `until`."""

    failures: int
    until: float


class BreakerHalfOpen(Struct, frozen=True):
    """One call may try the child; `is_taken` once a call is trying."""

    failures: int
    is_taken: bool = False


Breaker: TypeAlias = BreakerClosed | BreakerOpen | BreakerHalfOpen
CLOSED = BreakerClosed()


class Looked(Struct, frozen=True):
    """A caller wants the child at `now`."""

    now: float


class Taken(Struct, frozen=True):
    """A call has begun to try the child."""


class CallAnswered(Struct, frozen=True):
    """The trying call was answered."""


class GivenUp(Struct, frozen=True):
    """The trying call ended and says nothing about the child: it was cancelled, for example."""


class Fell(Struct, frozen=True):
    """The child failed at `now`, after answering calls for `ran` seconds (None: it never did).

    `chance` is a random number from 0 up to 1.
    """

    now: float
    ran: float | None
    chance: float


BreakerEvent: TypeAlias = Looked | Taken | CallAnswered | GivenUp | Fell


def step(breaker: Breaker, event: BreakerEvent) -> Breaker:
    """Return the state after `event`."""
    match event:
        case Fell():
            return _fallen(breaker, event)
        case Looked(now):
            is_due = isinstance(breaker, BreakerOpen) and now >= breaker.until
            return BreakerHalfOpen(breaker.failures) if is_due else breaker
        case Taken() | GivenUp() if isinstance(breaker, BreakerHalfOpen):
            return BreakerHalfOpen(breaker.failures, is_taken=isinstance(event, Taken))
        case CallAnswered() if isinstance(breaker, BreakerHalfOpen):
            return CLOSED
        case _:
            return breaker


def _fallen(breaker: Breaker, fell: Fell) -> Breaker:
    was_well = fell.ran is not None and fell.ran >= STEADY
    failures = 1 if was_well else breaker.failures + 1
    # A child that has answered calls may have had an accident: the first restart is immediate.
    doublings = failures - 1 if fell.ran is None else failures - 2
    pause = 0.0 if doublings < 0 else min(PAUSE * 2.0 ** min(doublings, 32), MAX_PAUSE)
    until = fell.now + pause * (1 - SPREAD * fell.chance)
    return BreakerOpen(failures, until) if failures >= TOLERATED else BreakerClosed(failures, until)


def pause_of(breaker: Breaker, now: float) -> float:
    """Return the seconds until a start is allowed; 0 if it is allowed now."""
    return 0.0 if isinstance(breaker, BreakerHalfOpen) else max(0.0, breaker.until - now)


_NAMES: dict[type[Breaker], str] = {
    BreakerClosed: "closed",
    BreakerOpen: "open",
    BreakerHalfOpen: "half-open",
}


log = structlog.stdlib.get_logger(__name__)


class ChildHealth:
    """The circuit breaker of one child; `chance` returns random numbers from 0 up to 1.

    `is_well`: the breaker is closed, so calls need no `trying`.
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
        """The number of failures in a row."""
        return self._breaker.failures

    @property
    def breaker(self) -> str:
        """The breaker's state, for people: `closed`, `open` or `half-open`."""
        return _NAMES[type(self._breaker)]

    @property
    def retry_at(self) -> float | None:
        """The time when the child may be started again, by the hub's clock; None if now."""
        now = self._clock()
        pause = pause_of(self._breaker, now)
        return now + pause if pause > 0 else None

    @property
    def outlook(self) -> str:
        """A sentence on what the hub does next about a child that is not running."""
        pause = pause_of(self._breaker, self._clock())
        if pause <= 0:
            return "the next call starts it again"
        if self.breaker == "closed":
            return f"it can be started again in {pause:.1f} s"
        return (
            f"after {self.failures} failures in a row, one call may try it again in {pause:.1f} s"
        )

    def looked(self) -> float:
        """Record that a caller wants the child; return the seconds until it may be started."""
        self._step(Looked(self._clock()))
        return pause_of(self._breaker, self._clock())

    def came(self) -> None:
        """Record that the child answers calls now."""
        self._ready_at = self._clock()

    def fell(self) -> None:
        """Record that the child failed."""
        now = self._clock()
        ran = None if self._ready_at is None else now - self._ready_at
        self._ready_at = None
        self._step(Fell(now, ran, self._chance()))

    @contextmanager
    def trying(self) -> Generator[None]:
        """Let a call through; while the breaker is half-open, only one at a time.

        Raises: ChildError if another call is trying the child.
        """
        self._step(Looked(self._clock()))
        if not isinstance(self._breaker, BreakerHalfOpen):
            yield
            return
        if self._breaker.is_taken:
            raise ChildError(
                f"server {self._server!r} has failed {self.failures} times in a row, and one call "
                "is testing whether it works again; call again when that is answered"
            )
        self._step(Taken())
        outcome: BreakerEvent = GivenUp()
        try:
            yield
            outcome = CallAnswered()
        except (RpcError, InputNeededError):
            outcome = CallAnswered()
            raise
        finally:
            self._step(outcome)

    def _step(self, event: BreakerEvent) -> None:
        before, self._breaker = self._breaker, step(self._breaker, event)
        self.is_well = isinstance(self._breaker, BreakerClosed)
        if type(self._breaker) is not type(before):
            tell = log.warning if self.breaker == "open" else log.info
            tell(
                "breaker",
                server=self._server,
                state=self.breaker,
                failures=self.failures,
                pause=round(pause_of(self._breaker, self._clock()), 1),
            )
