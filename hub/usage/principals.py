"""What each principal uses now, and whether more is within its limits."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final, TypeAlias

from hub.usage.counters import MINUTE, LastMinute, LeakyBucket
from hub.usage.limits import OverLimit, UsageLimits
from hub.values import JsonObject

LimitsOf: TypeAlias = Callable[[str], UsageLimits | None]
"""Returns the limits of a principal; None if it has none."""
CountOf: TypeAlias = Callable[[str], int]
"""Returns how many of something a principal has."""
NoteRefusal: TypeAlias = Callable[[str, str, str, str], None]
"""Records a refused call: its principal, its session's key, the name that it calls, and why."""

KEPT: Final = 1024
"""From this number of principals on, those that use nothing are forgotten."""
SOON: Final = 5
"""Seconds to wait for something of which nobody knows when it ends."""


class PrincipalUsage:
    """What one principal uses; `limits` are its limits now."""

    def __init__(self, principal: str, limits: UsageLimits, clock: Callable[[], float]) -> None:
        self.principal = principal
        self.limits = limits
        self._clock = clock
        self._second, self._minute, self._bytes = LeakyBucket(), LastMinute(), LeakyBucket()
        self._in_flight = 0
        self._last = clock()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is lost when this is forgotten."""
        limits, now = self.limits, self._clock()
        is_settled = now - self._last > 1 + MINUTE and not self._in_flight
        return is_settled and not (self._wait_for_bytes(now) or self._wait_for_second(limits, now))

    # Calls and bytes over time

    def objection(self, *, is_call: bool) -> OverLimit | None:
        """Return why a request has to wait; None if it may be served now."""
        limits, now = self.limits, self._clock()
        for_bytes = self._wait_for_bytes(now)
        for_second = self._wait_for_second(limits, now) if is_call else 0.0
        for_minute = self._wait_for_minute(now) if is_call else 0.0
        if not (for_bytes or for_second or for_minute):
            return None
        seconds, key = max(
            (for_bytes, "bytes_per_minute"),
            (for_second, "calls_per_second"),
            (for_minute, "calls_per_minute"),
        )
        whole = math.ceil(seconds)
        why = f"{self._named(key)} is reached; try again in {whole} s"
        return OverLimit(why, whole)

    def _wait_for_second(self, limits: UsageLimits, now: float) -> float:
        rate = limits.calls_per_second
        return 0.0 if rate is None else self._second.wait(now, rate, limits.most_at_once)

    def _wait_for_minute(self, now: float) -> float:
        most = self.limits.calls_per_minute
        return 0.0 if most is None else self._minute.wait(now, most)

    def _wait_for_bytes(self, now: float) -> float:
        most = self.limits.bytes_per_minute
        return 0.0 if most is None else self._bytes.wait(now, most / MINUTE, most)

    def called(self) -> None:
        """Count a call."""
        now, rate = self._clock(), self.limits.calls_per_second
        self._last = now
        if rate is not None:
            self._second.add(now, rate)
        self._minute.add(now)

    def carried(self, size: int) -> None:
        """Count `size` bytes of a request or a response."""
        most = self.limits.bytes_per_minute
        if most is not None:
            self._last = self._clock()
            self._bytes.add(self._last, most / MINUTE, size)

    def _named(self, key: str) -> str:
        most: float = getattr(self.limits, key)
        return f"the limit {self.limits.key}.{key}: {most:.15g} of {self.principal}"

    # Calls under way

    def in_flight_objection(self) -> OverLimit | None:
        """Return why no further call may be under way, or None."""
        most = self.limits.in_flight
        if most is None or self._in_flight < most:
            return None
        limit = self._named("in_flight")
        return OverLimit(f"{limit} is reached; try again when one of its calls has ended", SOON)

    def begin(self) -> None:
        """Count a call as under way; `end` must follow."""
        self._in_flight += 1

    def end(self) -> None:
        """Forget a call that is over."""
        self._in_flight -= 1
        self._last = self._clock()

    @contextmanager
    def underway(self) -> Generator[None]:
        """Count a call as under way while the context lasts."""
        self.begin()
        try:
            yield
        finally:
            self.end()

    # Sessions

    def session_objection(self, count: int) -> OverLimit | None:
        """Return why no session may be opened beside `count` others, or None."""
        most = self.limits.sessions
        if most is None or count < most:
            return None
        limit = self._named("sessions")
        return OverLimit(f"{limit} is reached; end one of its {count} sessions first", SOON)

    def shown(self, counts: dict[str, int]) -> JsonObject:
        """Return each limit with what is used of it; `counts` has what is not counted here."""
        limits, now = self.limits, self._clock()
        rate, size = limits.calls_per_second, limits.bytes_per_minute
        used = {
            "calls_per_second": 0 if rate is None else math.ceil(self._second.level(now, rate)),
            "calls_per_minute": self._minute.total(now),
            "in_flight": self._in_flight,
            "bytes_per_minute": 0
            if size is None
            else math.ceil(self._bytes.level(now, size / MINUTE)),
            **counts,
        }
        found: JsonObject = {}
        for key in KEYS:
            most = getattr(limits, key)
            if most is not None:
                found[key] = {"limit": most, "used": used.get(key, 0)}
        if limits.calls_per_second is not None:
            found["calls_per_second"] = {
                "limit": limits.calls_per_second,
                "burst": limits.most_at_once,
                "used": used["calls_per_second"],
            }
        return found


KEYS: Final = (
    "calls_per_second",
    "calls_per_minute",
    "in_flight",
    "sessions",
    "children",
    "bytes_per_minute",
)
"""The limits that something is counted for."""


def _none(_principal: str) -> None:
    return None


def _unrecorded(_principal: str, _session: str, _name: str, _why: str) -> None:
    """Record nothing."""


class UsageByPrincipal:
    """What all principals use; `is_limited`: some may have limits.

    `counts` tells how many a principal has of what others count, such as sessions. `refused`
    records a call that was refused before it reached a session.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._of: dict[str, PrincipalUsage] = {}
        self._limits_of: LimitsOf = _none
        self._sweep_at = KEPT
        self.is_limited = False
        self.counts: dict[str, CountOf] = {}
        self.refused: NoteRefusal = _unrecorded

    def _now(self) -> float:
        return self.clock()

    def follow(self, limits_of: LimitsOf | None) -> None:
        """Ask `limits_of` for the limits of a principal from now on; None: nobody has any."""
        self._limits_of = limits_of or _none
        self.is_limited = limits_of is not None

    def of(self, principal: str) -> PrincipalUsage | None:
        """Return what a principal with limits uses; None if it has none."""
        limits = self._limits_of(principal) if self.is_limited else None
        if limits is None:
            return None
        found = self._of.get(principal)
        if found is None:
            self._make_room()
            found = self._of[principal] = PrincipalUsage(principal, limits, self._now)
        else:
            found.limits = limits
        return found

    def limits_of(self, principal: str) -> UsageLimits | None:
        """Return the limits of a principal; None if it has none."""
        return self._limits_of(principal)

    def _make_room(self) -> None:
        if len(self._of) >= self._sweep_at:
            self._of = {name: one for name, one in self._of.items() if not one.is_idle}
            self._sweep_at = max(KEPT, 2 * len(self._of))

    def shown(self, principal: str) -> JsonObject | None:
        """Return the limits of a principal and what it uses; None if it has none."""
        usage = self.of(principal)
        if usage is None:
            return None
        return usage.shown({key: count(principal) for key, count in self.counts.items()})

    def all_shown(self) -> list[JsonObject]:
        """Return what each principal uses that has done something lately."""
        return [{"principal": name, "limits": self.shown(name)} for name in list(self._of)]
