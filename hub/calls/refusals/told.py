"""What is recorded, and what a client is told, when the guard objects to its call."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from hub.audit.record import refusal_of
from hub.calls.audit_trail import CallAudit
from hub.calls.refusals.permission import Circumstances, changes_for
from hub.children.failures import denied
from hub.guard.decide import Refused
from hub.jsonrpc.messages import Payload
from hub.sessions.session import Session
from hub.specs import ServerSpec
from hub.system.log import Later
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
    at, named = Circumstances.of(session, spec), Call(call.method, call.name, {}, {})
    # Lines may wait long to be written, and many of them: without the arguments.
    allowed_by = Later(partial(_allowed_by, refused, named, at))
    told = {**session.named(), "allowed_by": allowed_by}
    if no_overlap is not None:
        refused = replace(refused, reason=no_overlap)
    session.refusals.add(spec, call, refused, audit.consent, told)
    if isinstance(audit.verdict, Refused):
        audit.verdict = refused


def _allowed_by(refused: Refused, call: Call, at: Circumstances) -> str:
    """Return what would lift the refusal, for the operator's log."""
    place = at.place_of(refused)
    found = changes_for(refused, call, at, () if place is None else (place,))
    return "; ".join(one.text for one in found) or "nothing that is known"


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
