"""Decide if a call may reach its child: `decide`, its quick form `judge_inline`, and `explain`."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple, final

from msgspec import Struct
from msgspec.structs import force_setattr, replace

from hub.guard.arguments import PathCandidate, find_candidates
from hub.guard.budget import FULL_BUDGET, INLINE_BUDGET, Budget, TooMuchError
from hub.guard.containment import LEAST, OUTSIDE, CallContext, ReadingResult
from hub.guard.judge import Judge, is_option, rewritten
from hub.guard.keys.nodes import ArgumentNode, nodes_of
from hub.guard.keys.schema import compile_schema
from hub.guard.keys.vocabulary import Kind
from hub.guard.own_files import (
    ELSEWHERE,
    OWN,
    OwnFiles,
    OwnNames,
    by_proc,
    moves_folders,
    own_names_in,
)
from hub.guard.plain_paths import PlainPathCheck
from hub.guard.policy import Mode, Policy, ToolPolicy
from hub.paths.resolve import CachedDisk, LinkReader, PathError
from hub.values import Call, Json

_TOKEN = object()
_OFF = Mode.OFF  # looked up once, since that is slow
SHOWN: Final = 4096
"""Characters of a refused path that are shown to the client; the rest is cut off."""
_TURNS = 3
_MISREAD = "No path below this root can pass: programs may read its name as '%s'"
_PLACES = frozenset({Kind.PATH, Kind.GLOB, Kind.COMMAND})


@final
class Refused(Struct, frozen=True):
    """A call that does not reach its child.

    `pointer` is the JSON pointer of the argument, `path` its value as the client wrote it, or of a
    command the word that was refused. Both are empty if the call as a whole is refused. `roots` are
    the URIs of the client's roots; `why` says why there are none, or why nothing below one passes.
    `leads_to` is where the path leads, links followed; None if it was not followed.
    """

    pointer: str
    path: str
    reason: str
    roots: tuple[str, ...]
    why: str = ""
    leads_to: str | None = None

    def message(self) -> str:
        """Return the refusal as one line, for the client and its model."""
        path = self.path[:SHOWN]
        if not path.isprintable():
            path = "".join(char if char.isprintable() else "?" for char in path)
        if self.reason == OUTSIDE:
            roots = _listed(self.roots)
            why = f". {self.why}" if self.why else ""
            return f"Access denied: Path '{path}' is {OUTSIDE}. Current roots: {roots}{why}"
        if not self.pointer:
            return f"Access denied: {self.reason}"
        return f"Access denied: Path '{path}' is refused: {self.reason}"


@final
class Admitted(Struct, frozen=True):
    """A call that may reach its child, exactly as in `call`. Only this module can create one.

    `would_refuse` is the refusal that mode `report` did not enforce.
    """

    call: Call
    would_refuse: Refused | None = None
    token: object = None

    def __post_init__(self) -> None:
        if self.token is not _TOKEN:
            raise TypeError("only the guard admits a call")
        # Without this, a copy with a different call in it would count as admitted.
        force_setattr(self, "token", None)


def refusal_of(verdict: Admitted | Refused | None) -> Refused | None:
    """Return the refusal in a verdict, if any; in mode `report` an admitted call has one, too."""
    return verdict.would_refuse if isinstance(verdict, Admitted) else verdict


class ToolGuard(Struct, frozen=True):
    """The guard of one tool: its schema and policy, compiled once."""

    shape: ArgumentNode
    policy: ToolPolicy
    needs_write: bool


class Judged(Struct, frozen=True):
    """One judged value with all its readings, for `explain`."""

    pointer: str
    kind: Kind
    why: str
    value: Json
    readings: tuple[ReadingResult, ...]


def compile_tool(schema: Json, *, read_only: bool, policy: ToolPolicy, name: str = "") -> ToolGuard:
    """Return the guard of a tool with this input schema; any JSON is accepted as a schema."""
    access = policy.access or ("read" if read_only else "write")
    shape = compile_schema(schema, policy.arguments, tool=name)
    return ToolGuard(shape, policy, access == "write")


def judge_inline(
    call: Call,
    guard: ToolGuard,
    plain_check: PlainPathCheck | None,
    context: CallContext,
    is_current: Callable[[LinkReader], bool],
) -> Admitted | Refused | None:
    """Return the verdict of `decide` if the inline budget is enough, and if nobody has to be asked.

    `plain_check` is the quick check for plain paths, if this call has one. The disk of `context`
    has no cache, and `is_current` says whether the roots are unchanged on it.

    None decides nothing: the caller must ask `decide`.
    """
    policy = guard.policy.policy
    is_off = policy.mode is _OFF and policy.own is None
    try:
        found = [] if is_off else find_candidates(guard.shape, call.arguments, INLINE_BUDGET.search)
        if not found:
            return Admitted(call, token=_TOKEN)
        named = own_names_in(policy.own, call.arguments)
        check = None if named.ends or named.begins else plain_check
        is_single = len(found) == 1
        # A single path looks up no directory twice: a cache would not help yet.
        links = context.links if is_single else CachedDisk(context.links)
        if check is not None and check.admits(found, links):
            return Admitted(call, token=_TOKEN)
        context = replace(context, links=CachedDisk(links) if is_single else links)
        if not is_current(context.links):
            return None
        evaluated = _evaluate(call, _Findings(found, named), guard, context, INLINE_BUDGET)
    except Exception:  # noqa: BLE001 - `decide` then gives the reason
        return None
    if evaluated.refused is None:
        return Admitted(evaluated.call, token=_TOKEN)
    # Otherwise a refusal may be reported or asked for.
    is_enforced = policy.mode is Mode.ENFORCE and policy.on_refused == "refuse"
    return evaluated.refused if is_enforced and evaluated.is_final else None


def acts_on_places(guard: ToolGuard) -> bool:
    """Return whether a tool declares a path, glob or command argument, and its mode is not off.

    If a call omits this argument, the tool works in its server's own directory.
    """
    return guard.policy.policy.mode is not _OFF and any(
        node.kind in _PLACES for node in nodes_of(guard.shape)
    )


def decide(
    call: Call, guard: ToolGuard, context: CallContext, budget: Budget = FULL_BUDGET
) -> Admitted | Refused:
    """Return the verdict on `call`. Never raises: any error inside is a refusal.

    In mode `report` a refused call is admitted with `would_refuse`, unless it may reach the hub's
    own files.
    """
    return decide_within(call, guard, context, budget)[0]


def decide_within_inline_budget(
    call: Call, guard: ToolGuard, context: CallContext
) -> Admitted | Refused | None:
    """Return the verdict of `decide`, or None if that takes more than the inline budget."""
    verdict, is_final = decide_within(call, guard, context, INLINE_BUDGET)
    return verdict if is_final else None


def decide_within(
    call: Call, guard: ToolGuard, context: CallContext, budget: Budget
) -> tuple[Admitted | Refused, bool]:
    """Return the verdict of `decide`, and whether a larger budget would not change it."""
    policy, uris = guard.policy.policy, context.roots.uris
    if policy.mode is _OFF and policy.own is None:
        return Admitted(call, token=_TOKEN), True
    try:
        findings = _find(call, guard, budget)
        evaluated = _evaluate(call, findings, guard, context, budget)
        if policy.mode is Mode.REPORT and evaluated.refused is not None:
            own = _evaluate_own(call, findings, guard, context, budget)
            if own.refused is not None:
                return own.refused, own.is_final
            return Admitted(evaluated.call, evaluated.refused, token=_TOKEN), evaluated.is_final
    except PathError as exc:
        too_much = isinstance(exc, TooMuchError)
        evaluated = _Evaluation(Refused("", "", exc.reason, uris), call, is_final=not too_much)
    except Exception:  # noqa: BLE001 - deny on every doubt, our own mistakes included
        evaluated = _Evaluation(Refused("", "", "the arguments could not be judged", uris), call)
    # A call that cannot be judged may reach the hub's own files.
    only_reports = policy.mode is Mode.REPORT and policy.own is None
    if evaluated.refused is None or only_reports:
        return Admitted(evaluated.call, evaluated.refused, token=_TOKEN), evaluated.is_final
    return evaluated.refused, evaluated.is_final


def explain(
    call: Call, guard: ToolGuard, context: CallContext, budget: Budget = FULL_BUDGET
) -> tuple[Judged, ...]:
    """Return every judged value of a call, with all its readings and their results.

    Raises:
        PathError: the arguments are nested too deeply, too many, or cannot be read for certain.
    """
    findings = _find(call, guard, budget)
    judge = _judge(call, findings, guard, context, budget)
    evaluated = ((candidate, tuple(judge.evaluate(candidate))) for candidate in findings.found)
    return tuple(
        Judged(candidate.pointer, candidate.kind, candidate.why, candidate.value, readings)
        for candidate, readings in evaluated
        if readings or not candidate.is_repeated
    )


class _Evaluation(Struct, frozen=True):
    """The refusal of a call, if any, and the call as its child gets it if there is none.

    `is_final` False: the budget was used up, and a larger one may change the result.
    """

    refused: Refused | None
    call: Call
    is_final: bool = True


def _evaluate(
    call: Call, findings: _Findings, guard: ToolGuard, context: CallContext, budget: Budget
) -> _Evaluation:
    found, policy = findings.found, guard.policy.policy
    if not (context.enforcing or policy.deny.lines or policy.access):
        # Without roots no path is refused.
        found = list(filter(is_option, found)) if policy.refuse_options else []
    if not found or policy.mode is _OFF:
        return _evaluate_own(call, findings, guard, context, budget)
    if len(found) * LEAST > budget.effort:
        return _too_much(call, context)
    judge = _judge(call, findings, guard, context, budget)
    for candidate in found:
        objection = judge.objection(candidate)
        if objection is not None:
            is_final, leads_to = not judge.is_spent, judge.leads_to
            path = judge.refused_text(candidate)
            misread = judge.misread_root(path) if objection == OUTSIDE else ""
            uris = context.roots.uris
            why = _MISREAD % misread if misread else "" if uris else context.no_roots
            refused = Refused(candidate.pointer, path, objection, uris, why, leads_to)
            return _Evaluation(refused, call, is_final=is_final)
    if policy.rewrite == "verbatim":
        return _Evaluation(None, call)
    canonical = {candidate.pointer: judge.canonical(candidate) for candidate in found}
    if judge.is_spent:
        return _too_much(call, context)
    places = {at: path for at, path in canonical.items() if path is not None}
    return _Evaluation(None, rewritten(call, places))


def _evaluate_own(
    call: Call, findings: _Findings, guard: ToolGuard, context: CallContext, budget: Budget
) -> _Evaluation:
    """Judge a call by the rules for the hub's own files only."""
    own, found = guard.policy.policy.own, findings.found
    if own is None or not found:
        return _Evaluation(None, call)
    if len(found) * LEAST > budget.effort:
        return _too_much(call, context)
    anywhere = replace(context, enforcing=False)
    judge = _judge(call, findings, guard, anywhere, budget, Policy(own=own))
    for candidate in found:
        if judge.objection(candidate) is None:
            continue  # quicker than `evaluate`, and most candidates have no objection
        for evaluated in judge.evaluate(candidate):
            if _is_own(evaluated, candidate, judge, own):
                path = str(candidate.value)  # only of a text it is known where it leads
                refused = Refused(candidate.pointer, path, OWN, context.roots.uris)
                return _Evaluation(refused, call)
    return _too_much(call, context) if judge.is_spent else _Evaluation(None, call)


def _is_own(
    evaluated: ReadingResult,
    candidate: PathCandidate,
    judge: Judge,
    own: OwnFiles,
    turns: int = _TURNS,
) -> bool:
    """Return whether the objection is that the reading is, or may be, one of the hub's own files.

    Through `/proc` a process reaches its directory and its root under other names, in up to `turns`
    steps.
    """
    if evaluated.objection is None or evaluated.objection == OWN:
        return evaluated.objection is not None
    if not evaluated.objection.endswith(ELSEWHERE):
        return False
    inner = by_proc(evaluated.reading)
    if not turns or own.may_end(evaluated.reading):
        return True
    if inner is None:
        return False
    again = PathCandidate(candidate.pointer, candidate.key, Kind.PATH, inner, candidate.why)
    return any(_is_own(one, again, judge, own, turns - 1) for one in judge.evaluate(again))


class _Findings(NamedTuple):
    """The path candidates of a call, and which names of the hub's own files it has."""

    found: list[PathCandidate]
    named: OwnNames


def _find(call: Call, guard: ToolGuard, budget: Budget) -> _Findings:
    """Return what is judged of a call. Raises PathError like `find_candidates`."""
    found = find_candidates(guard.shape, call.arguments, budget.search)
    return _Findings(found, own_names_in(guard.policy.policy.own, call.arguments))


def _judge(  # noqa: PLR0913, PLR0917 - a judge needs them all
    call: Call,
    findings: _Findings,
    guard: ToolGuard,
    context: CallContext,
    budget: Budget,
    policy: Policy | None = None,
) -> Judge:
    policy = policy or guard.policy.policy
    writes, reach = guard.needs_write, None
    if policy.own is not None:
        words = (candidate.value for candidate in findings.found if candidate.kind is Kind.COMMAND)
        reach = policy.own.rules_for(
            call.name,
            writes=writes,
            commands=[text for text in words if isinstance(text, str)],
            names_kept=findings.named.ends,
            names_secret=findings.named.begins,
        )
    return Judge(
        context,
        policy,
        needs_write=writes,
        budget=budget,
        reach=reach,
        moves_folders=bool(policy.access) and moves_folders(call.name),
        candidates=findings.found,
    )


def _too_much(call: Call, context: CallContext) -> _Evaluation:
    return _Evaluation(
        Refused("", "", TooMuchError().reason, context.roots.uris), call, is_final=False
    )


@lru_cache(maxsize=64)
def _listed(uris: tuple[str, ...]) -> str:
    return json.dumps(uris)
