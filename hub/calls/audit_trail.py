"""Writes one audit record for each call to a server, whatever its outcome."""

from __future__ import annotations

from collections.abc import Collection, Generator
from contextlib import contextmanager
from types import TracebackType
from typing import Final

from msgspec import Struct

from hub.audit.record import AuditRecord, CallOutcome, milliseconds, moment, refusal_of
from hub.children.clients import InputNeededError, RootsNeededError, StaleError
from hub.errors import ChildError, InsufficientScopeError, RouteError
from hub.guard.consent import Consent
from hub.guard.decide import Admitted, Refused
from hub.jsonrpc.errors import RpcError
from hub.jsonrpc.messages import Request
from hub.sessions.services import Services
from hub.sessions.session import Session
from hub.values import ServerName, SessionKey

_LONGEST_NAME: Final = 256


class CallEnd(Struct, frozen=True, eq=False, gc=False):
    """How a call has ended, without its arguments: what its audit record is made of.

    `refused` is the guard's refusal, which mode `report` did not enforce if the call `is_admitted`.
    `outside` is the refusal that the user's consent has lifted. `at` is in seconds since 1970,
    `took` in seconds.
    """

    session: SessionKey
    principal: str
    profile: str | None
    server: ServerName
    tool: str
    outcome: CallOutcome
    reason: str | None
    refused: Refused | None
    is_admitted: bool
    outside: Refused | None
    consent: Consent | None
    at: float
    took: float

    def record(self) -> AuditRecord:
        """Return the audit record."""
        refused = self.refused
        named = refused or self.outside
        return AuditRecord(
            moment(self.at),
            self.session,
            self.principal,
            self.server,
            self.tool,
            self.outcome,
            self.reason or (None if refused is None else refused.reason),
            None if named is None else named.pointer,
            None if named is None else named.path,
            refused is not None and self.is_admitted,
            milliseconds(self.took),
            self.consent,
            self.profile,
        )


class CallAudit(Struct, eq=False, gc=False):
    """The audit record of one call in progress, written once.

    As a context manager it writes the record when the context ends, unless the call is in flight
    by then: the call writes the record itself. `began` is in seconds of the machine's clock.
    """

    services: Services
    session: Session
    server: ServerName
    tool: str
    began: float
    verdict: Admitted | Refused | None = None
    consent: Consent | None = None
    is_in_flight: bool = False
    _outside: Refused | None = None

    @classmethod
    def of(cls, session: Session, server: ServerName, tool: str) -> CallAudit:
        """Return the record of a call that begins now."""
        services = session.services
        return CallAudit(services, session, server, tool, services.machine.clock())

    def consented(self, consent: Consent, outside: Refused) -> None:
        """Record the user's consent, and the refusal `outside` that the guard gave without it."""
        self.consent, self._outside = consent, outside

    def __enter__(self) -> CallAudit:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self.is_in_flight:
            self.close(error)

    def close(self, error: BaseException | None) -> None:
        """Write the record of a call that has ended, with `error` if it failed."""
        # After these errors the call is judged again, and recorded then.
        if isinstance(error, StaleError | RootsNeededError):
            return
        if isinstance(self.verdict, Refused):
            self.write("refused", self.verdict.reason)
        elif isinstance(error, ChildError | RpcError):
            self.write("failed", str(error))
        elif error is None or isinstance(error, InputNeededError):
            self.write("admitted")
        else:
            self.write("failed" if isinstance(error, Exception) else "cancelled")

    def write(self, outcome: CallOutcome, reason: str | None = None) -> None:
        """Write the record. `reason`: why the call was refused or failed."""
        services, session, machine = self.services, self.session, self.services.machine
        verdict = self.verdict
        is_admitted = type(verdict) is Admitted
        end = CallEnd(
            session.key,
            session.principal,
            services.profile,
            self.server,
            self.tool,
            outcome,
            reason,
            verdict.would_refuse if is_admitted else refusal_of(verdict),
            is_admitted,
            self._outside,
            self.consent,
            machine.wall_clock(),
            machine.clock() - self.began,
        )
        services.audit.write(end)


@contextmanager
def looking_up(
    session: Session, owners: Collection[ServerName] | None, name: str
) -> Generator[None]:
    """Record a call that fails before its route is known, by its public name.

    `owners` are the servers that may own the name, None for any. A RouteError is not recorded: an
    unknown name is no call. An InsufficientScopeError is recorded where it is raised.
    """
    record = _unresolved(session, owners, name)
    try:
        yield
    except (RouteError, InsufficientScopeError):
        raise
    except BaseException as exc:
        if owners is None or owners:
            record.close(exc)
        raise


def turned_away(
    session: Session, owners: Collection[ServerName] | None, name: str, why: str
) -> None:
    """Record a call that is refused before its route is looked up, by its public name."""
    _unresolved(session, owners, name).write("refused", why)


def turned_away_at(session: Session, server: ServerName, name: str, why: str) -> None:
    """Record a call to a server that is refused before the guard has judged it."""
    CallAudit.of(session, server, name[:_LONGEST_NAME]).write("refused", why)


def _unresolved(session: Session, owners: Collection[ServerName] | None, name: str) -> CallAudit:
    server = next(iter(owners)) if owners is not None and len(owners) == 1 else ServerName("")
    return CallAudit.of(session, server, name[:_LONGEST_NAME])


def called_in(request: Request) -> str:
    """Return what a request that was not taken calls: a tool, a prompt or a resource."""
    named = request.params.get("name", request.params.get("uri"))
    return named[:_LONGEST_NAME] if isinstance(named, str) else request.method
