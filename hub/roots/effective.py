"""Effective roots: the roots that a client shares, or the fallback, cut to the ceiling."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from hub.roots.roots import EMPTY, Rejected, RootSet
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
