"""Writes one audit record for each call to a server, whatever its outcome."""

from __future__ import annotations

from collections.abc import Collection, Generator
from contextlib import contextmanager
from types import TracebackType
from typing import Final

from hub.audit.record import AuditRecord, CallOutcome, milliseconds, moment, refusal_of
from hub.children.clients import InputNeededError, RootsNeededError, StaleError
from hub.errors import ChildError, RouteError
from hub.guard.consent import Consent
from hub.guard.decide import Admitted, Refused
from hub.jsonrpc.peer import RpcError
from hub.sessions.services import Services
from hub.sessions.session import Session
from hub.values import ServerName

_LONGEST_NAME: Final = 256


class CallAudit:
    """The audit record of one call in progress, written once.

    As a context manager it writes the record when the context ends, unless the call is in flight
    by then: the call writes the record itself.
    """

    __slots__ = (
        "_began",
        "_outside",
        "_server",
        "_services",
        "_session",
        "_tool",
        "consent",
        "is_in_flight",
        "verdict",
    )

    def __init__(self, services: Services, session: Session, server: str, tool: str) -> None:
        self.verdict: Admitted | Refused | None = None
        self.consent: Consent | None = None
        self.is_in_flight = False
        self._services = services
        self._session = session
        self._server = server
        self._tool = tool
        self._began = services.machine.clock()
        self._outside: Refused | None = None

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
        machine, verdict = self._services.machine, self.verdict
        refused = refusal_of(verdict)
        named = refused or self._outside
        self._services.audit.write(
            AuditRecord(
                moment(machine.wall_clock()),
                self._session.key,
                self._session.principal,
                ServerName(self._server),
                self._tool,
                outcome,
                reason or (None if refused is None else refused.reason),
                pointer=None if named is None else named.pointer,
                path=None if named is None else named.path,
                would_refuse=refused is not None and isinstance(verdict, Admitted),
                ms=milliseconds(machine.clock() - self._began),
                consent=self.consent,
            )
        )


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
        if owners is None or owners:
            record.close(exc)
        raise
