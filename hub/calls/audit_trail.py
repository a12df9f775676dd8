"""Writes one audit record for each call to a server, whatever its outcome."""

from __future__ import annotations

from collections.abc import Collection, Generator
from contextlib import contextmanager
from types import TracebackType
from typing import Final

from hub.audit.record import AuditRecord, CallOutcome, milliseconds, moment, refusal_of
from hub.children.child import StaleError
from hub.children.clients import InputNeededError, RootsNeededError
from hub.errors import ChildError, RouteError
from hub.guard.consent import Consent
from hub.guard.decide import Admitted, Refused
from hub.sessions.services import Services
from hub.sessions.session import Session
from hub.values import ServerName

_LONGEST_NAME: Final = 256


class CallAudit:
    """The audit record of one call in progress; it is written when the context manager exits."""

    def __init__(self, services: Services, session: Session, server: str, tool: str) -> None:
        self.verdict: Admitted | Refused | None = None
        self._services = services
        self._session = session
        self._server = server
        self._tool = tool
        self._began = services.machine.clock()
        self._failure: str | None = None
        self.consent: Consent | None = None
        self._outside: Refused | None = None

    def consented(self, consent: Consent, outside: Refused) -> None:
        """Record the user's consent, and the refusal `outside` that the guard gave without it."""
        self.consent, self._outside = consent, outside

    def failed(self, reason: str) -> None:
        """Record that the child did not answer, or answered with an error."""
        self._failure = reason

    def __enter__(self) -> CallAudit:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close(error)

    def close(self, error: BaseException | None) -> None:
        """Write the record of a call that has ended, with `error` if it failed."""
        # After these errors the call is judged again, and recorded then.
        if not isinstance(error, StaleError | RootsNeededError):
            self._write(self._outcome(error))

    def _write(self, outcome: CallOutcome) -> None:
        machine, refused = self._services.machine, refusal_of(self.verdict)
        named = refused or self._outside
        self._services.audit.write(
            AuditRecord(
                time=moment(machine.wall_clock()),
                session=self._session.key,
                principal=self._session.principal,
                server=self._server,
                tool=self._tool,
                verdict=outcome,
                reason=self._failure or (refused.reason if refused is not None else None),
                pointer=named.pointer if named is not None else None,
                path=named.path if named is not None else None,
                would_refuse=refused is not None and isinstance(self.verdict, Admitted),
                ms=milliseconds(machine.clock() - self._began),
                consent=self.consent,
            )
        )

    def _outcome(self, error: BaseException | None) -> CallOutcome:
        if isinstance(self.verdict, Refused):
            return "refused"
        if self._failure is not None:
            return "failed"
        if error is None or isinstance(error, InputNeededError):
            return "admitted"
        return "failed" if isinstance(error, Exception) else "cancelled"


@contextmanager
def looking_up(
    services: Services, session: Session, owners: Collection[ServerName] | None, name: str
) -> Generator[None]:
    """Record a call that fails before its route is known, by its public name.

    `owners` are the servers that may own the name, None for any. A RouteError is not recorded: an
    unknown name is no call.
    """
    server = next(iter(owners)) if owners is not None and len(owners) == 1 else ""
    record = CallAudit(services, session, server, name[:_LONGEST_NAME])
    try:
        yield
    except RouteError:
        raise
    except BaseException as exc:
        if isinstance(exc, ChildError):
            record.failed(str(exc))
        if owners is None or owners:
            record.close(exc)
        raise
