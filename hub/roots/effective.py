"""Which roots are in force for a client: what it shares, or a stand-in, below the ceiling."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from hub.roots.roots import EMPTY, Rejected, RootSet
from hub.roots.state import State, Undeclared

Source: TypeAlias = Literal[
    "client", "--root", "HUB_ROOTS", "config", "detected", "ceiling", "server", "none"
]


class OperatorRoots(Struct, frozen=True):
    """What the operator lays down: a stand-in for a client's roots, and what no roots exceed.

    `fallback` None means that nothing was configured, which is another thing than a set that grants
    nothing. `rejected` is what was to be in it and cannot.
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

    `enforcing` False: there is nothing to judge against, and the operator lets such clients pass.
    `stale`: the client could not be asked again and may share other roots by now. `rejected`: what
    it announced in vain, or the operator wrote in vain where the fallback stands in.
    """

    roots: RootSet
    source: Source
    enforcing: bool = True
    stale: bool = False
    rejected: tuple[Rejected, ...] = ()


NOT_ASKED = EffectiveRoots(EMPTY, "none")
"""What is in force while a client that has roots was not asked for them: nothing is reached."""


def effective_roots(state: State, operator: OperatorRoots) -> EffectiveRoots:
    """Return the roots in force for a client in `state`."""
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
    """Return the roots in force for a client that knows no roots."""
    return effective_roots(State(Undeclared()), operator)


def _below(roots: RootSet, operator: OperatorRoots) -> RootSet:
    return roots if operator.ceiling is None else roots.within(operator.ceiling)


def _unbounded(operator: OperatorRoots, rejected: tuple[Rejected, ...]) -> EffectiveRoots:
    if operator.ceiling is not None:
        return EffectiveRoots(operator.ceiling, "ceiling", rejected=rejected)
    return EffectiveRoots(EMPTY, "none", enforcing=False, rejected=rejected)


def for_server(force: EffectiveRoots, ceiling: RootSet | None) -> EffectiveRoots:
    """Return what is in force for calls to a server, whose own arguments may name a ceiling."""
    if ceiling is None:
        return force
    if not force.enforcing:
        return EffectiveRoots(ceiling, "server", rejected=force.rejected)
    return EffectiveRoots(
        force.roots.within(ceiling), force.source, stale=force.stale, rejected=force.rejected
    )
