"""What each principal uses now, and whether more is within its limits."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final, TypeAlias, final

from msgspec import Struct

from hub.usage.counters import MINUTE, LastMinute, LeakyBucket
from hub.values import JsonObject


class UsageLimits(Struct, frozen=True):
    """How much a principal may use; None: as much as it likes. `key` is where the config says so.

    They hold for what it does in `profile` alone; None: for all that it does.
    `calls_per_second` is an average: `burst` calls may come at once. `calls_per_minute` counts for
    any minute. `in_flight` are calls under way. `bytes_per_minute` are those of requests and
    responses together.
    """

    key: str = "listen.limits"
    profile: str | None = None
    calls_per_second: float | None = None
    calls_per_minute: int | None = None
    burst: int | None = None
    in_flight: int | None = None
    sessions: int | None = None
    children: int | None = None
    bytes_per_minute: int | None = None

    @property
    def most_at_once(self) -> float:
        """How many calls may come at once: `burst`, else as many as in a second."""
        if self.burst is not None:
            return self.burst
        return max(1.0, self.calls_per_second or 1.0)


@final
class OverLimit(Struct, frozen=True):
    """Why something is refused, and the `seconds` after which it may be tried again."""

    why: str
    seconds: int


@final
class RefusedCall(Struct, frozen=True):
    """A call that was refused before it reached a session: what it names, whose it is, and why.

    `session` is the key of the session that it was sent in; empty without one.
    """

    principal: str
    profile: str | None
    session: str
    name: str
    why: str


LimitsOf: TypeAlias = Callable[[str, str | None], UsageLimits | None]
"""Returns the limits of a principal within a profile, or (None) in all; None if it has none."""
CountOf: TypeAlias = Callable[[str, str | None], int]
"""Returns how many of something a principal has within a profile, or (None) in all."""
NoteRefusal: TypeAlias = Callable[[RefusedCall], None]

KEPT: Final = 1024
"""From this number of principals on, those that use nothing are forgotten."""
SOON: Final = 5
"""Seconds to wait for something of which nobody knows when it ends."""


class PrincipalUsage:
    """What one principal uses, in all or in one profile; `limits` are its limits there now."""

    def __init__(self, principal: str, limits: UsageLimits, clock: Callable[[], float]) -> None:
        self.principal = principal
        self.profile = limits.profile
        self._clock = clock
        self.follow(limits)
        self._second, self._minute, self._bytes = LeakyBucket(), LastMinute(), LeakyBucket()
        self._in_flight = 0

    def follow(self, limits: UsageLimits) -> None:
        """Hold the principal to these limits from now on."""
        self.limits = limits
        self._most_at_once = limits.most_at_once

    @property
    def parts(self) -> tuple[PrincipalUsage, ...]:
        """All that counts what the principal does: this alone."""
        return (self,)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is lost when this is forgotten."""
        if self._in_flight:
            return False
        now, rate, size = self._clock(), self.limits.calls_per_second, self.limits.bytes_per_minute
        is_empty = rate is None or not self._second.level(now, rate)
        is_paid = size is None or not self._bytes.level(now, size / MINUTE)
        return is_empty and is_paid and not self._minute.total(now)

    # Calls and bytes over time: this is asked and counted for each request

    def objection(self, *, is_call: bool) -> OverLimit | None:
        """Return why a request has to wait; None if it may be served now."""
        limits, now = self.limits, self._clock()
        rate, most, size = (
            limits.calls_per_second,
            limits.calls_per_minute,
            limits.bytes_per_minute,
        )
        for_second = for_minute = for_bytes = 0.0
        if is_call and rate is not None:
            for_second = self._second.wait(now, rate, self._most_at_once)
        if is_call and most is not None:
            for_minute = self._minute.wait(now, most)
        if size is not None:
            for_bytes = self._bytes.wait(now, size / MINUTE, size)
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

    def called(self) -> None:
        """Count a call."""
        now, rate = self._clock(), self.limits.calls_per_second
        if rate is not None:
            self._second.add(now, rate)
        self._minute.add(now)

    def carried(self, size: int) -> None:
        """Count `size` bytes of a request or a response."""
        most = self.limits.bytes_per_minute
        if most is not None:
            self._bytes.add(self._clock(), most / MINUTE, size)

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
        level = 0 if size is None else math.ceil(self._bytes.level(now, size / MINUTE))
        used = {
            "calls_per_second": 0 if rate is None else math.ceil(self._second.level(now, rate)),
            "calls_per_minute": self._minute.total(now),
            "in_flight": self._in_flight,
            "sessions": counts.get("sessions", 0),
            "children": counts.get("children", 0),
            "bytes_per_minute": level,
        }
        found: JsonObject = {}
        for key, so_many in used.items():
            most: float | None = getattr(limits, key)
            if most is not None:
                burst = {"burst": limits.most_at_once} if key == "calls_per_second" else {}
                found[key] = {"limit": most, **burst, "used": so_many}
        return found


@final
class JointUsage:
    """What a principal uses in one profile: each of `parts` counts it, and all their limits hold.

    The profile's part comes first, then that of all that the principal does.
    """

    __slots__ = ("parts",)

    def __init__(self, *parts: PrincipalUsage) -> None:
        self.parts = parts

    def objection(self, *, is_call: bool) -> OverLimit | None:
        """Return why a request has to wait, the longest wait of all; None if it may be served."""
        found = (part.objection(is_call=is_call) for part in self.parts)
        return max(filter(None, found), key=lambda over: over.seconds, default=None)

    def called(self) -> None:
        """Count a call."""
        for part in self.parts:
            part.called()

    def carried(self, size: int) -> None:
        """Count `size` bytes of a request or a response."""
        for part in self.parts:
            part.carried(size)

    def in_flight_objection(self) -> OverLimit | None:
        """Return why no further call may be under way, or None."""
        return next(filter(None, (part.in_flight_objection() for part in self.parts)), None)

    def begin(self) -> None:
        """Count a call as under way; `end` must follow."""
        for part in self.parts:
            part.begin()

    def end(self) -> None:
        """Forget a call that is over."""
        for part in self.parts:
            part.end()


ClientUsage: TypeAlias = PrincipalUsage | JointUsage
"""What counts the requests of one client."""


@contextmanager
def underway(usage: ClientUsage) -> Generator[None]:
    """Count a call as under way while the context lasts."""
    usage.begin()
    try:
        yield
    finally:
        usage.end()


def _unlimited(_principal: str, _profile: str | None) -> None:
    return None


class UsageByPrincipal:
    """What all principals use, in all and in each profile; `is_limited`: some may have limits.

    `counts` tells how many a principal has of what others count, such as sessions. `refused`
    records a call that was refused before it reached a session.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._of: dict[tuple[str, str | None], PrincipalUsage] = {}
        self._found: dict[tuple[str, str | None], ClientUsage | None] = {}
        self._limits_of: LimitsOf = _unlimited
        self._sweep_at = KEPT
        self.is_limited = False
        self.counts: dict[str, CountOf] = {}
        self.refused: NoteRefusal = lambda _call: None

    def follow(self, limits_of: LimitsOf | None) -> None:
        """Ask `limits_of` for the limits of a principal from now on; None: nobody has any."""
        self._limits_of = limits_of or _unlimited
        self.is_limited = limits_of is not None
        self._found.clear()

    def of(self, principal: str, profile: str | None = None) -> ClientUsage | None:
        """Return the usage of a principal in its profile; None if nothing is limited.

        It is the same object each time, until limits change or principals are forgotten.
        """
        if not self.is_limited:
            return None
        key = principal, profile
        try:
            return self._found[key]
        except KeyError:
            found = self._joint(principal, profile)
        if len(self._found) >= KEPT:
            self._found.clear()
        self._found[key] = found
        return found

    def _joint(self, principal: str, profile: str | None) -> ClientUsage | None:
        self._make_room()  # before both parts: a new one uses nothing, and would be forgotten
        whole = self._part(principal, None)
        within = None if profile is None else self._part(principal, profile)
        if whole is None or within is None:
            return whole or within
        return JointUsage(within, whole)

    def _part(self, principal: str, profile: str | None) -> PrincipalUsage | None:
        """Return the usage of a principal in one profile, or in all; None if nothing is limited."""
        limits = self._limits_of(principal, profile)
        if limits is None:
            return None
        found = self._of.get((principal, profile))
        if found is None:
            found = PrincipalUsage(principal, limits, self.clock)
            self._of[principal, profile] = found
        else:
            found.follow(limits)
        return found

    def limits_of(self, principal: str, profile: str | None = None) -> list[UsageLimits]:
        """Return the limits that hold for a principal in a profile, those of the profile first."""
        within = None if profile is None else self._limits_of(principal, profile)
        return [one for one in (within, self._limits_of(principal, None)) if one is not None]

    def _make_room(self) -> None:
        if len(self._of) >= self._sweep_at:
            self._of = {key: one for key, one in self._of.items() if not one.is_idle}
            self._found.clear()
            self._sweep_at = max(KEPT, 2 * len(self._of))

    def shown(self, principal: str, profile: str | None = None) -> JsonObject | None:
        """Return a principal's limits in one profile, or in all, and what it uses of them."""
        usage = self._part(principal, profile)
        if usage is None:
            return None
        return usage.shown({key: count(principal, profile) for key, count in self.counts.items()})

    def all_shown(self) -> list[JsonObject]:
        """Return what each principal uses that has done something lately, and where."""
        found: list[JsonObject] = []
        for principal, profile in list(self._of):
            limits = self.shown(principal, profile)
            if limits is not None:
                found.append({"principal": principal, "profile": profile, "limits": limits})
        return found
