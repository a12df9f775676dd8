"""Audit record of one call: the fields of a log line; no argument values except a refused path."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from hub.guard.consent import Consent
from hub.guard.decide import Admitted, Refused
from hub.values import SessionKey

CallOutcome: TypeAlias = Literal["admitted", "refused", "failed", "cancelled"]


class Recordable(Protocol):
    """The end of a call, of which the audit log makes the record when it writes it."""

    def record(self) -> AuditRecord:
        """Return the record."""
        ...


class AuditRecord(Struct, frozen=True, gc=False):
    """One call, as the JSON object of its log line.

    `time` is ISO 8601 in UTC; `ms` is the time in milliseconds until the response, the child's time
    included. `consent` is the user's answer about a path outside the roots; `session` may come from
    an earlier call. `pointer` and `path` then name that path, in an admitted call, too.
    """

    time: str
    session: SessionKey
    principal: str
    server: str
    tool: str
    verdict: CallOutcome
    reason: str | None = None
    pointer: str | None = None
    path: str | None = None
    would_refuse: bool = False
    ms: float = 0.0
    consent: Consent | None = None
    profile: str | None = None

    def record(self) -> AuditRecord:
        return self


def moment(at: float) -> str:
    """Return a time (seconds since 1970) as ISO 8601 text in UTC, to the millisecond."""
    second, milliseconds = divmod(int(at * 1000), 1000)
    return f"{_second(second)}.{milliseconds:03}+00:00"


@lru_cache(maxsize=4)  # many calls end in the same second
def _second(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def refusal_of(verdict: Admitted | Refused | None) -> Refused | None:
    """Return the refusal in a verdict; None if there is none.

    In report mode an admitted call has one, too: `would_refuse`.
    """
    return verdict.would_refuse if isinstance(verdict, Admitted) else verdict
