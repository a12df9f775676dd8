"""What is written down of every call: one line, no argument values but a refused path."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Literal, TypeAlias

from msgspec import Struct

from hub.core.consent import Consent
from hub.core.guard import Admitted, Refused
from hub.core.values import Call, JsonObject, ServerName, SessionKey

Outcome: TypeAlias = Literal["admitted", "refused", "failed", "cancelled"]


class AuditRecord(Struct, frozen=True, gc=False):
    """One call, made in a fraction of a microsecond: what takes longer is done for its line alone.

    `at` is in seconds since 1970; `ms` is the time to its answer, the child's included.

    `consent` is what the client's user said of a path outside the roots: with `session`, in this
    call or in one before it. `pointer` and `path` then name it, in an admitted call too.
    """

    at: float
    session: SessionKey
    principal: str
    server: str
    tool: str
    verdict: Outcome
    reason: str | None
    ms: float
    pointer: str | None = None
    path: str | None = None
    would_refuse: bool = False
    consent: Consent | None = None

    def line(self) -> AuditLine:
        """Return what is written of it."""
        return AuditLine(
            _in_utc(int(self.at * 1000)),
            self.session,
            self.principal,
            self.server,
            self.tool,
            self.verdict,
            self.reason,
            self.pointer,
            self.path,
            self.would_refuse,
            round(self.ms * 1000) / 1000,
            self.consent,
        )


class AuditLine(Struct, frozen=True, gc=False):
    """A record as the JSON object of its line; `time` is ISO 8601 in UTC."""

    time: str
    session: SessionKey
    principal: str
    server: str
    tool: str
    verdict: Outcome
    reason: str | None
    pointer: str | None
    path: str | None
    would_refuse: bool
    ms: float
    consent: Consent | None


@lru_cache(maxsize=4)
def _in_utc(milliseconds: int) -> str:
    """Return a moment, at which many calls may end."""
    second, rest = divmod(milliseconds, 1000)
    return f"{_second(second)}.{rest:03}+00:00"


@lru_cache(maxsize=4)
def _second(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S")


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
