"""What `explain` prints of a judged call, as text and as JSON."""

from __future__ import annotations

import json

from msgspec import Struct, to_builtins

from hub.audit.record import refusal_of
from hub.calls.permission import READ_ONLY, Change
from hub.cli.explain.case import ExplainedCall
from hub.cli.output import BAD, GOOD, NAME, WARNING, painted
from hub.guard.containment import OUTSIDE
from hub.guard.decide import Admitted, Judged, Refused
from hub.legible import on_one_line

FINE = "fine"
"""What is shown for a reading that is inside the roots."""


class Explanation(Struct, frozen=True):
    """The verdict on a call, its judged values, and what would let it pass, if that is known."""

    case: ExplainedCall
    verdict: Admitted | Refused
    judged: tuple[Judged, ...]
    allowed_by: tuple[Change, ...] | None


def as_text(told: Explanation) -> str:
    """Return the verdict, each value with its readings, and what would let the call pass."""
    case, verdict, judged = told.case, told.verdict, told.judged
    refused = refusal_of(verdict)
    style = GOOD if refused is None else WARNING if isinstance(verdict, Admitted) else BAD
    outcome = painted(_outcome(verdict), style)
    lines = [f"{painted(on_one_line(case.name), NAME)}: {outcome}"]
    lines += [refused.message()] if refused else []
    for value in judged:
        lines += ["", on_one_line(f"{value.pointer}  ({value.kind.value}: {value.why})")]
        rows = _rows(value)
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for *cells, objection in rows:
            row = "  ".join(map(str.ljust, cells, widths))
            lines.append(f"  {row}  {painted(objection, GOOD if objection == FINE else BAD)}")
    if not judged and refused is None:
        lines.append("No argument is judged as a path.")
    elif not case.context.enforcing:
        lines += [
            "",
            "No roots are set, so paths are not compared with any; set one with --root DIR.",
        ]
    if case.scopes:
        lines += ["", f"A token of an issuer needs the scopes {' '.join(case.scopes)}."]
    if refused is not None:
        lines += ["", *_permission(told, refused)]
    return "\n".join(lines)


def _rows(value: Judged) -> list[tuple[str, str, str, str]]:
    """Return the readings of a value; one that is fine for one rule and not for another is not."""
    rows = dict.fromkeys(
        (
            json.dumps(read.reading),
            on_one_line(read.how),
            on_one_line(read.leads_to or "-"),
            on_one_line(read.objection or FINE),
        )
        for read in value.readings
    )
    refused = {row[:3] for row in rows if row[3] != FINE}
    return [row for row in rows if row[3] != FINE or row[:3] not in refused]


def _permission(told: Explanation, refused: Refused) -> list[str]:
    case, allowed_by = told.case, told.allowed_by
    lines = list[str]()
    if refused.reason == READ_ONLY and case.schema is None:
        lines.append("A tool that only reads passes: --connect asks the server whether it does.")
    if not allowed_by:
        profile = case.circumstances.profile
        where = "" if profile is None else f" The rules of profiles.{profile} count, too."
        return [*lines, f"No change that is known would let this call pass.{where}"]
    lines += ["It passes after:", *(f"  {on_one_line(change.text)}" for change in allowed_by)]
    if refused.reason == OUTSIDE:
        lines.append(
            "For a client that shares roots, its own count instead: it has to share the folder."
        )
    return lines


def _outcome(verdict: Admitted | Refused) -> str:
    if isinstance(verdict, Refused):
        return "refused"
    return (
        "allowed" if verdict.would_refuse is None else "allowed, because refusals are only reported"
    )


def as_json(told: Explanation) -> str:
    """Return the same as one JSON object, in camel case."""
    case, verdict, allowed_by = told.case, told.verdict, told.allowed_by
    refused = refusal_of(verdict)
    arguments = [
        {
            "pointer": value.pointer,
            "kind": value.kind.value,
            "why": value.why,
            "value": value.value,
            "readings": [
                {
                    "reading": read.reading,
                    "how": read.how,
                    "leadsTo": read.leads_to,
                    "objection": read.objection,
                }
                for read in value.readings
            ],
        }
        for value in told.judged
    ]
    shown = {
        "call": case.name,
        "verdict": "deny" if isinstance(verdict, Refused) else "allow",
        "mode": case.policy.policy.mode.value,
        "message": refused.message() if refused is not None else None,
        "pointer": refused.pointer if refused is not None else None,
        "roots": list(case.context.roots.uris),
        "enforcing": case.context.enforcing,
        "scopes": list(case.scopes),
        "allowedBy": [to_builtins(change) for change in allowed_by] if allowed_by else None,
        "arguments": arguments,
    }
    return json.dumps(shown, indent=2, default=str)
