"""How much one principal may use, and why something is too much."""

from __future__ import annotations

from typing import final

from msgspec import Struct


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
