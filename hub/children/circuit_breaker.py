"""When a child that fails may be started again, and whether it is believed to be well.

A state machine: events in, state out. `Closed` lets everything through, after a pause that doubles
with each failure; `Open` lets nothing through until its time has come; then `HalfOpen` lets one
call try, and what becomes of it decides.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

PAUSE = 1.0
"""Seconds to the next start after the first failed one; doubled by each further failure."""
MAX_PAUSE = 60.0
"""What that grows to."""
TOLERATED = 3
"""How many failures in a row open the breaker."""
STEADY = 30.0
"""A child that fell after answering calls for so many seconds was well before."""
SPREAD = 0.5
"""How much of a pause is left to chance, so that those who failed together come back apart."""

NEVER = float("-inf")


class Closed(Struct, frozen=True):
    """Everything is let through from `until` on."""

    failures: int = 0
    until: float = NEVER


class Open(Struct, frozen=True):
    """Nothing is let through before `until`."""

    failures: int
    until: float


class HalfOpen(Struct, frozen=True):
    """One call may try; `is_taken` once there is one."""

    failures: int
    is_taken: bool = False


Breaker: TypeAlias = Closed | Open | HalfOpen
CLOSED = Closed()


class Looked(Struct, frozen=True):
    """Somebody wants the child at `now`."""

    now: float


class Taken(Struct, frozen=True):
    """A call has begun to try."""


class Answered(Struct, frozen=True):
    """The call that tried was answered."""


class GivenUp(Struct, frozen=True):
    """The call that tried has ended, and says nothing about the child: it was cancelled, say."""


class Fell(Struct, frozen=True):
    """The child fell at `now`, after it had answered calls for `ran` seconds; None: it never did.

    `chance` is a random number from 0 up to 1.
    """

    now: float
    ran: float | None
    chance: float


Event: TypeAlias = Looked | Taken | Answered | GivenUp | Fell


def step(breaker: Breaker, event: Event) -> Breaker:
    """Return the state after `event`."""
    match event:
        case Fell():
            return _fallen(breaker, event)
        case Looked(now):
            is_due = isinstance(breaker, Open) and now >= breaker.until
            return HalfOpen(breaker.failures) if is_due else breaker
        case Taken() | GivenUp() if isinstance(breaker, HalfOpen):
            return HalfOpen(breaker.failures, is_taken=isinstance(event, Taken))
        case Answered() if isinstance(breaker, HalfOpen):
            return CLOSED
        case _:
            return breaker


def _fallen(breaker: Breaker, fell: Fell) -> Breaker:
    was_well = fell.ran is not None and fell.ran >= STEADY
    failures = 1 if was_well else breaker.failures + 1
    # One that had answered calls may have had an accident: it is started again at once, once.
    doublings = failures - 1 if fell.ran is None else failures - 2
    pause = 0.0 if doublings < 0 else min(PAUSE * 2.0 ** min(doublings, 32), MAX_PAUSE)
    until = fell.now + pause * (1 - SPREAD * fell.chance)
    return Open(failures, until) if failures >= TOLERATED else Closed(failures, until)


def pause_of(breaker: Breaker, now: float) -> float:
    """Return how many seconds nothing may be started yet; 0 if it may."""
    return 0.0 if isinstance(breaker, HalfOpen) else max(0.0, breaker.until - now)


def name_of(breaker: Breaker) -> str:
    """Return the state's name, for people."""
    return _NAMES[type(breaker)]


_NAMES: dict[type[Breaker], str] = {Closed: "closed", Open: "open", HalfOpen: "half-open"}
