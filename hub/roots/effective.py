"""Effective roots: the roots that a client shares, or the fallback, cut to the ceiling.

Where there are none, `NoRoots` says why, and what would help.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from hub.legible import on_one_line
from hub.roots.roots import EMPTY, INACCESSIBLE, Rejected, RootCondition, RootSet
from hub.roots.state import State, Undeclared

Source: TypeAlias = Literal[
    "client", "--root", "HUB_ROOTS", "config", "detected", "ceiling", "server", "none"
]


class OperatorRoots(Struct, frozen=True):
    """The operator's settings: the fallback for missing roots, and the ceiling for all roots.

    `fallback` None: nothing was configured. An empty `fallback` is a configured one that grants
    nothing. `rejected` are the configured roots that cannot be used.
    """

    fallback: RootSet | None = None
    fallback_source: Source = "none"
    rejected: tuple[Rejected, ...] = ()
    ceiling: RootSet | None = None
    when_missing: Literal["allow", "deny"] = "allow"
    when_empty: Literal["allow", "deny"] = "deny"
    strict: bool = False


class EffectiveRoots(Struct, frozen=True):
    """The roots a client's calls are judged against.

    `enforcing` False: there are no roots to judge against, and the operator lets such calls pass.
    `stale`: the client may share other roots by now. `rejected`: the unusable roots that the client
    announced or, where the fallback applies, that the operator configured.
    """

    roots: RootSet
    source: Source
    enforcing: bool = True
    stale: bool = False
    rejected: tuple[Rejected, ...] = ()


NOT_ASKED = EffectiveRoots(EMPTY, "none")
"""Effective roots of a client that has roots but was not asked for them: no path is admitted."""


def effective_roots(state: State, operator: OperatorRoots) -> EffectiveRoots:
    """Return the effective roots of a client in `state`."""
    if state.last is not None:
        announced = state.last.announcement
        if state.stale and operator.strict:
            return EffectiveRoots(EMPTY, "client", stale=True, rejected=announced.rejected)
        if state.last.is_empty and operator.when_empty == "allow":
            return _unbounded(operator, announced.rejected)
        return EffectiveRoots(
            _below(announced.roots, operator),
            "client",
            stale=state.stale,
            rejected=announced.rejected,
        )
    if operator.fallback is not None:
        return EffectiveRoots(
            _below(operator.fallback, operator),
            operator.fallback_source,
            rejected=operator.rejected,
        )
    if isinstance(state.phase, Undeclared) and operator.when_missing == "allow":
        return _unbounded(operator, ())
    return EffectiveRoots(EMPTY, "none")


def for_rootless(operator: OperatorRoots) -> EffectiveRoots:
    """Return the effective roots of a client that does not support roots."""
    return effective_roots(State(Undeclared()), operator)


def _below(roots: RootSet, operator: OperatorRoots) -> RootSet:
    return roots if operator.ceiling is None else roots.within(operator.ceiling)


def _unbounded(operator: OperatorRoots, rejected: tuple[Rejected, ...]) -> EffectiveRoots:
    if operator.ceiling is not None:
        return EffectiveRoots(operator.ceiling, "ceiling", rejected=rejected)
    return EffectiveRoots(EMPTY, "none", enforcing=False, rejected=rejected)


def for_server(effective: EffectiveRoots, ceiling: RootSet | None) -> EffectiveRoots:
    """Return the effective roots for calls to one server.

    `ceiling` are the directories in the server's own arguments; None if these name none.
    """
    if ceiling is None:
        return effective
    if not effective.enforcing:
        return EffectiveRoots(ceiling, "server", rejected=effective.rejected)
    return EffectiveRoots(
        effective.roots.within(ceiling),
        effective.source,
        stale=effective.stale,
        rejected=effective.rejected,
    )


SHOWN: Final = 3
"""How many rejected roots a reason names."""
_LONGEST: Final = 200
_NAME_FOLDERS: Final = "name folders of this machine with --root or roots.fallback"


class NoRoots(Struct, frozen=True):
    """Why no root is in force: `reason` is one or two sentences, `fix` says what to do about it."""

    reason: str
    fix: str


def why_no_roots(state: State, operator: OperatorRoots) -> NoRoots:
    """Return why a client in `state`, whose calls are judged, has no effective root."""
    last = state.last
    if last is None:
        return _of_unknown(state, operator)
    shared, rejected = last.announcement.roots.roots, last.announcement.rejected
    if state.stale and operator.strict:
        why = f" ({_short(state.failed)})" if state.failed else ""
        return NoRoots(
            f"The client's folders have changed, and could not be read again{why}.",
            "Have the client answer roots/list, or take roots.strict out.",
        )
    if shared:
        return _of_ceiling("the client shares", operator)
    if rejected:
        return _of_rejected(rejected)
    return NoRoots(
        "The client shares no folder: its list of roots is empty.",
        "Open a folder in the client. roots.when_empty: allow gives such clients roots.ceiling, "
        "or all paths where there is none.",
    )


def _of_unknown(state: State, operator: OperatorRoots) -> NoRoots:
    if operator.fallback is None and not isinstance(state.phase, Undeclared):
        why = _short(state.failed or "it has not answered")
        return NoRoots(
            f"The client has roots, but they could not be read: {why}.",
            f"Have the client answer roots/list, or {_NAME_FOLDERS}: those count then.",
        )
    if operator.fallback is None:
        return NoRoots(
            "The client shares no folders, and the hub's operator has named none for it.",
            f"{_NAME_FOLDERS.capitalize()}, or set roots.when_missing: allow.",
        )
    if operator.fallback.roots:
        return _of_ceiling("the operator named for such clients", operator)
    refused = _listed(operator.rejected)
    return NoRoots(
        "The client shares no folders, and none that the hub's operator named can be used"
        + (f": {refused}." if refused else "."),
        f"{_NAME_FOLDERS.capitalize()} that exist. One that was made anew counts after "
        "`roots-hub reload`.",
    )


def _of_ceiling(which: str, operator: OperatorRoots) -> NoRoots:
    ceiling = ", ".join(operator.ceiling.paths) if operator.ceiling is not None else ""
    inside = f"the operator's ceiling ({on_one_line(ceiling) or 'no folder that exists'})"
    return NoRoots(
        f"No folder that {which} is inside {inside}.",
        "Open a folder below roots.ceiling in the client, or widen roots.ceiling.",
    )


def _of_rejected(rejected: Collection[Rejected]) -> NoRoots:
    verb = "it cannot" if len(rejected) == 1 else "none of them can"
    reason = (
        f"The client shares {_counted(len(rejected), 'folder')}, and {verb} be used on the hub's "
        f"machine: {_listed(rejected)}."
    )
    reasons = [entry.reason for entry in rejected]
    if RootCondition.REPLACED.value in reasons:
        fix = "Open the folder anew in the client, or connect the client anew."
    elif any(one.startswith(INACCESSIBLE) for one in reasons):
        fix = (
            "If it was made since it was shared, open it anew in the client, or connect the client "
            "anew. If the client, or the hub, runs in a container or on another machine: mount the "
            "folders here under the same paths, or run the hub beside the client. Or have the "
            f"client share no roots, and {_NAME_FOLDERS}."
        )
    else:
        fix = (
            "Open other folders in the client (file:// URIs of this machine that are safe to "
            f"share). Or have it share no roots, and {_NAME_FOLDERS}."
        )
    return NoRoots(reason, fix)


def _listed(rejected: Collection[Rejected]) -> str:
    shown = [f"{_short(entry.uri) or '(no URI)'}: {entry.reason}" for entry in rejected]
    more = len(shown) - SHOWN
    return "; ".join(shown[:SHOWN]) + (f"; and {more} more" if more > 0 else "")


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _short(text: str | None) -> str:
    shown = on_one_line((text or "")[:_LONGEST])
    return f"{shown}..." if text is not None and len(text) > _LONGEST else shown
