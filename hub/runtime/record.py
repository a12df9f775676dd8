"""Writes one audit record for each call that is looked up, however it ends."""

from __future__ import annotations

from types import TracebackType

from hub.core.audit import AuditRecord, Outcome, milliseconds, moment, refusal_of
from hub.core.consent import Consent
from hub.core.guard import Admitted, Refused
from hub.core.specs import ServerSpec
from hub.core.values import Call
from hub.runtime.child import StaleError
from hub.runtime.parties import InputNeededError, RootsNeededError
from hub.runtime.services import Services
from hub.runtime.session import Session


class Record:
    """The audit record of one call while it runs: written when the context ends."""

    def __init__(self, services: Services, session: Session, spec: ServerSpec, call: Call) -> None:
        self.verdict: Admitted | Refused | None = None
        self._services = services
        self._session = session
        self._spec = spec
        self._call = call
        self._began = services.machine.clock()
        self._failure: str | None = None
        self.consent: Consent | None = None
        self._outside: Refused | None = None

    def consented(self, consent: Consent, outside: Refused) -> None:
        """Note what the client's user said of what the guard alone would have refused."""
        self.consent, self._outside = consent, outside

    def failed(self, reason: str) -> None:
        """Note that the child did not answer, or answered with an error."""
        self._failure = reason

    def __enter__(self) -> Record:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # With these it is judged again, and recorded later.
        if not isinstance(error, StaleError | RootsNeededError):
            self._write(self._outcome(error))

    def _write(self, outcome: Outcome) -> None:
        machine, refused = self._services.machine, refusal_of(self.verdict)
        named = refused or self._outside
        self._services.audit.write(
            AuditRecord(
                time=moment(machine.wall_clock()),
                session=self._session.key,
                principal=self._session.principal,
                server=self._spec.name,
                tool=self._call.name,
                verdict=outcome,
                reason=self._failure or (refused.reason if refused is not None else None),
                pointer=named.pointer if named is not None else None,
                path=named.path if named is not None else None,
                would_refuse=refused is not None and isinstance(self.verdict, Admitted),
                ms=milliseconds(machine.clock() - self._began),
                consent=self.consent,
            )
        )

    def _outcome(self, error: BaseException | None) -> Outcome:
        if isinstance(self.verdict, Refused):
            return "refused"
        if self._failure is not None:
            return "failed"
        if error is None or isinstance(error, InputNeededError):
            return "admitted"
        return "failed" if isinstance(error, Exception) else "cancelled"
