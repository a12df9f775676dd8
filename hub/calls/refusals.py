"""What is recorded, and what a client is told, when the guard objects to its call."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from hub.audit.record import refusal_of
from hub.calls.audit_trail import CallAudit
from hub.children.failures import denied
from hub.guard.decide import Refused
from hub.jsonrpc.messages import Payload
from hub.sessions.session import Session
from hub.specs import ServerSpec
from hub.values import Call


def note_objection(
    session: Session, spec: ServerSpec, call: Call, audit: CallAudit, no_overlap: str | None
) -> None:
    """Record the guard's objection to a call, if it has one, also where it only reports.

    `no_overlap` says why no path is admitted, if roots and the server's directories do not overlap.
    """
    refused = refusal_of(audit.verdict)
    if refused is None:
        return
    if no_overlap is not None:
        refused = replace(refused, reason=no_overlap)
    session.refusals.add(spec, call, refused, audit.consent, session.named())
    if isinstance(audit.verdict, Refused):
        audit.verdict = refused


def refusal(
    spec: ServerSpec, call: Call, audit: CallAudit, pointer: Callable[[str], str]
) -> Payload:
    """Return the result of a call that the guard has refused, by its record.

    `pointer` converts a JSON pointer into the call's arguments to one into the client's arguments.

    Raises: RpcError for a prompt or a resource.
    """
    refused = audit.verdict
    if not isinstance(refused, Refused):
        raise TypeError("the call was not refused")
    return denied(call, refused, spec, pointer(refused.pointer))
