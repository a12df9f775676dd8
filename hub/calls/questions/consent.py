"""Consent: asks the user before a path outside the roots is refused, if the operator wants it.

A legacy client is asked within the call. A modern client is asked by the call's result. Its answer
comes with the retry, whose sealed state proves that this process asked this question.
"""

from __future__ import annotations

from typing import Final

import structlog

from hub.calls.audit_trail import CallAudit
from hub.calls.judging import JudgingContext
from hub.children.clients import InputNeededError
from hub.guard.consent import Consent, Wanted, consent_in, question
from hub.guard.containment import OUTSIDE
from hub.guard.decide import Admitted, Refused
from hub.jsonrpc import messages
from hub.jsonrpc.errors import GoneError, RpcError, SilentError
from hub.jsonrpc.exact_json import WireError
from hub.protocol.input_requests import ASKABLE, CONSENT_KEY, CallState, digest, takes_forms
from hub.values import Json, JsonObject

PATIENCE: Final = 6
"""Factor on the timeout for roots, as a person answers here."""

log = structlog.stdlib.get_logger(__name__)


async def decide_or_ask(case: JudgingContext, record: CallAudit) -> Admitted | Refused:
    """Return the verdict, after asking the user for consent if needed; `record` gets both.

    The user is asked only if the policy has `on_refused: ask` and consent could admit the call.

    Raises: InputNeededError if a modern client has to be asked first; StaleError if the config has
        changed while the user was asked.
    """
    judgement = await case.judge()
    refused = record.verdict = judgement.verdict
    if not isinstance(refused, Refused) or refused.reason != OUTSIDE:
        return refused
    if case.to.guard.policy.policy.on_refused != "ask":
        return refused
    granted = case.session.grants.of(case.to.spec.name, writes=case.to.guard.needs_write)
    if granted:
        judgement = await case.judge(granted)
    said: Consent | None = None
    verdict = judgement.verdict
    if isinstance(verdict, Admitted):
        said, case.granted = "session", granted
    else:
        enough = await case.enough(judgement)
        del judgement  # with all that it has seen of the disk: the user may take long
        said = await _said(case, enough.places)
        if said in {"once", "session"}:
            case.granted = (*granted, *(one.root for one in enough.places))
            verdict = enough.verdict
            if await case.look_again() or not enough.is_true_now():
                verdict = (await case.judge(case.granted)).verdict
    if said is not None:
        record.consented(said, refused)
    record.verdict = verdict
    return verdict


async def _said(case: JudgingContext, places: tuple[Wanted, ...]) -> Consent | None:
    """Return the user's consent to these places; None if there is nobody or nothing to ask."""
    client = case.session.client
    if client is None or not places or case.call.method not in ASKABLE:
        return None
    if not takes_forms(client.capabilities):
        return None
    return _retried(case, places) if client.is_modern else await _asked(case, places)


def _retried(case: JudgingContext, places: tuple[Wanted, ...]) -> Consent:
    """Return a modern client's answer on all places in `places`.

    Raises: InputNeededError for the next place that has no answer yet.
    """
    state = case.retry.state
    if state.consented == digest(_subject(case, places)):
        return _once(case, places)
    answer, answered = case.retry.responses.get(CONSENT_KEY), 0
    if answer is not None:
        answered = _proven(case, places, state.consent)
        if not answered or consent_in(answer) == "refused":
            return "refused"
    if answered == len(places):
        return _once(case, places)
    timeout = case.session.services.settings.timeout * PATIENCE
    asked: JsonObject = {
        "method": "elicitation/create",
        "params": _question(case, places[answered], lasting=False),
    }
    subject = digest(_subject(case, places[: answered + 1]))
    raise InputNeededError({CONSENT_KEY: asked}, CallState(consent=subject), lasts=timeout)


def _once(case: JudgingContext, places: tuple[Wanted, ...]) -> Consent:
    # A modern client has no session: its consent lasts for further rounds of this call only.
    case.consented = digest(_subject(case, places))
    return "once"


def _proven(case: JudgingContext, places: tuple[Wanted, ...], consent: str | None) -> int:
    """Return for how many places in `places` this state proves an answer; 0 if for none."""
    counts = range(1, len(places) + 1)
    fits = (n for n in counts if consent == digest(_subject(case, places[:n])))
    return next(fits, 0)


async def _asked(case: JudgingContext, places: tuple[Wanted, ...]) -> Consent | None:
    """Ask a legacy client about one place after the other, until the user refuses one.

    None if the user could not be asked about one.
    """
    said: set[Consent] = set()
    for one in places:
        answer = await _answer(case, one)
        if answer is None or answer == "refused":
            return answer
        if answer == "session":
            case.session.grants.add(case.to.spec.name, one.root, writes=case.to.guard.needs_write)
        said.add(answer)
    return "session" if "session" in said else "once"


async def _answer(case: JudgingContext, one: Wanted) -> Consent | None:
    peer = case.session.peer
    if peer is None:
        return None
    try:
        result = await peer.request(
            "elicitation/create",
            _question(case, one, lasting=True),
            timeout=case.session.services.settings.timeout * PATIENCE,
            outlet=case.asked.outlet,
        )
        return consent_in(messages.as_object(result))
    except SilentError:
        return "refused"
    except (GoneError, RpcError, WireError) as exc:
        log.warning("not asked", path=one.root.path, error=str(exc))
        return None


def _question(case: JudgingContext, one: Wanted, *, lasting: bool) -> JsonObject:
    return question(
        one,
        case.call,
        case.to.spec.name,
        writes=case.to.guard.needs_write,
        pointer=case.to.base + one.pointer,
        lasting=lasting,
    )


def _subject(case: JudgingContext, places: tuple[Wanted, ...]) -> Json:
    """Return the subject of a consent: principal, server, call, access, places in `places`."""
    call = case.call
    reached: list[Json] = [[one.pointer, one.root.path, one.root.is_file] for one in places]
    return [
        case.session.identity,
        case.to.spec.name,
        call.method,
        call.name,
        digest(call.arguments),
        case.to.guard.needs_write,
        reached,
    ]
