"""Writes one audit record for each call to a server; says what the guard objects to."""

from __future__ import annotations

from collections.abc import Collection, Generator
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from hub.audit.log_file import AuditRecord, CallOutcome, moment
from hub.calls.permission import Circumstances, allowed_by
from hub.children.clients import InputNeededError, RootsNeededError, StaleError
from hub.errors import ChildError, InsufficientScopeError, RouteError
from hub.guard.consent import Consent
from hub.guard.decide import Admitted, Refused
from hub.jsonrpc.errors import RpcError
from hub.jsonrpc.messages import Request
from hub.sessions.services import Services
from hub.sessions.session import Session
from hub.system.log import Later
from hub.values import Call, ServerName, SessionKey

_LONGEST_NAME: Final = 256


class CallAudit(Struct, eq=False, gc=False):
    """The audit record of one call, without its arguments; written once.

    As a context manager it writes the record when the context ends, unless the call is in flight
    by then: the call writes the record itself. `began` is in seconds of the machine's clock.
    `is_held`: the client is away, and its next request may be refused what the child answers.
    """

    services: Services
    session: SessionKey
    principal: str
    server: ServerName
    tool: str
    began: float
    verdict: Admitted | Refused | None = None
    consent: Consent | None = None
    is_in_flight: bool = False
    is_held: bool = False
    _is_written: bool = False
    _outside: Refused | None = None
    _outcome: CallOutcome | None = None
    _reason: str | None = None
    _objection: Refused | None = None
    _at: float = 0.0
    _took: float = 0.0

    @classmethod
    def of(
        cls,
        session: Session,
        server: ServerName,
        tool: str,
        verdict: Admitted | Refused | None = None,
    ) -> CallAudit:
        """Return the record of a call that begins now."""
        services = session.services
        now = services.machine.clock()
        return cls(services, session.key, session.principal, server, tool, now, verdict)

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
        # After two of these the call is judged again, and recorded then; one is recorded already.
        if isinstance(error, StaleError | RootsNeededError | InsufficientScopeError):
            return
        if error is not None and not isinstance(error, Exception):
            self.write("cancelled")  # perhaps while the user was asked about a refusal
        elif isinstance(self.verdict, Refused):
            self.write("refused", self.verdict.reason)
        elif isinstance(error, ChildError | RpcError):
            self.write("failed", str(error))
        elif error is None or isinstance(error, InputNeededError):
            self.write("admitted")
        else:
            self.write("failed")

    def write(self, outcome: CallOutcome, reason: str | None = None) -> None:
        """Write the record, unless it is written. `reason`: why the call was refused or failed."""
        if self._is_written:
            return
        machine, verdict = self.services.machine, self.verdict
        self._outcome, self._reason = outcome, reason
        self._at, self._took = machine.wall_clock(), machine.clock() - self.began
        if type(verdict) is Admitted:
            self._objection = verdict.would_refuse
            self.verdict = None  # it has the arguments, and records may wait for long
        else:
            self._objection = verdict
        if not self.is_held:
            self._is_written = True
            self.services.audit.write(self)

    def release(self) -> None:
        """Write the record if the call has ended while it was held, and hold it no longer."""
        self.is_held = False
        if self._outcome is not None and not self._is_written:
            self._is_written = True
            self.services.audit.write(self)

    def record(self) -> AuditRecord:
        """Return the record for the audit log."""
        refused = self._objection
        named = refused or self._outside
        return AuditRecord(
            moment(self._at),
            self.session,
            self.principal,
            self.server,
            self.tool,
            self._outcome or "failed",
            self._reason or (None if refused is None else refused.reason),
            None if named is None else named.pointer,
            None if named is None else named.path,
            refused is not None and self.verdict is None,
            round(self._took * 1e6) / 1000,
            self.consent,
            self.services.profile,
        )


@contextmanager
def looking_up(
    session: Session, owners: Collection[ServerName] | None, name: str
) -> Generator[None]:
    """Record a call that fails before its route is known, by its public name.

    `owners` are the servers that may own the name, None for any. A RouteError is not recorded: an
    unknown name is no call. An InsufficientScopeError is recorded where it is raised.
    """
    began = session.services.machine.clock()
    try:
        yield
    except (RouteError, InsufficientScopeError):
        raise
    except BaseException as exc:
        if owners is None or owners:
            record = _unresolved(session, owners, name)
            record.began = began
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
    """Return the name of the tool, prompt or resource in a request that was not taken."""
    named = request.params.get("name", request.params.get("uri"))
    return named[:_LONGEST_NAME] if isinstance(named, str) else request.method


def note_refusal(
    session: Session, call: Call, at: Circumstances, refused: Refused, consent: Consent | None
) -> Refused:
    """Record a refusal of the guard, also where it only reports; return it as it is told."""
    # Lines may wait long to be written, and many of them: without the arguments.
    named = Call(call.method, call.name, {}, {})
    told = {**session.named, "allowed_by": Later(partial(allowed_by, refused, named, at))}
    if at.no_overlap is not None:
        refused = replace(refused, reason=at.no_overlap)
    session.refusals.add(at.spec, call, refused, consent, told)
    return refused
