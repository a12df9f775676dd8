"""What is written down of every call: one line, no argument values but a refused path."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Literal, TypeAlias

from msgspec import Struct

from hub.guard.consent import Consent
from hub.guard.decide import Admitted, Refused
from hub.values import Call, JsonObject, ServerName, SessionKey

CallOutcome: TypeAlias = Literal["admitted", "refused", "failed", "cancelled"]


class AuditRecord(Struct, frozen=True, gc=False):
    """One call, as the JSON object of its line.

    `time` is ISO 8601 in UTC; `ms` is the time to its answer, the child's included.

    `consent` is what the client's user said of a path outside the roots: with `session`, in this
    call or in one before it. `pointer` and `path` then name it, in an admitted call too.
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


def moment(at: float) -> str:
    """Return a time in seconds since 1970 as records have it, to the millisecond."""
    return _moment(int(at * 1000))


@lru_cache(maxsize=4)
def _moment(milliseconds: int) -> str:
    # Many calls end in one.
    second, rest = divmod(milliseconds, 1000)
    return f"{_second(second)}.{rest:03}+00:00"


@lru_cache(maxsize=4)
def _second(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def milliseconds(seconds: float) -> float:
    """Return how long something took as records have it, to the microsecond."""
    return round(seconds * 1e6) / 1000


def refusal_of(verdict: Admitted | Refused | None) -> Refused | None:
    """Return what a verdict objects to: in report mode a call is admitted and objected to."""
    return verdict.would_refuse if isinstance(verdict, Admitted) else verdict


def refusal_details(
    server: ServerName, call: Call, refused: Refused, consent: Consent | None
) -> JsonObject:
    """Return what an operator is told of a refusal."""
    details: JsonObject = {
        "server": server,
        "name": call.name,
        "argument": refused.pointer,
        "path": refused.path,
        "reason": refused.reason,
    }
    return details if consent is None else {**details, "consent": consent}
