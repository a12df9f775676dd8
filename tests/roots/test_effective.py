"""The table of DESIGN.md, "Roots": a client's state, and its effective roots."""

import pytest
from msgspec.structs import replace

from hub.paths.resolve import Flavour
from hub.roots.effective import (
    EffectiveRoots,
    OperatorRoots,
    effective_roots,
    for_rootless,
    for_server,
)
from hub.roots.roots import EMPTY, Announcement, Rejected, Root, RootSet, root_from_path
from hub.roots.state import (
    Asking,
    Debouncing,
    Phase,
    RootsKnown,
    Settled,
    State,
    Unasked,
    Undeclared,
)
from tests.kit.fakes import FakeLinks

LINKS = FakeLinks("/team/project/src/", "/team/docs/", "/media/")


def root(path: str) -> Root:
    return root_from_path(path, name=None, links=LINKS, flavour=Flavour.POSIX, unsafe=None)


def roots(*paths: str) -> RootSet:
    return RootSet(tuple(map(root, paths)))


PROJECT, DOCS, MEDIA = roots("/team/project"), roots("/team/docs"), roots("/media")
REFUSED = (Rejected("https://example.com", "Only file:// URIs are supported"),)


def knows(shared: RootSet, *rejected: Rejected, phase: Phase | None = None) -> State:
    known = RootsKnown(Announcement(shared, rejected), 1.0, is_empty=not shared.roots)
    return State(phase or Settled(), last=known)


VANISHED = State(Settled(), last=RootsKnown(Announcement(EMPTY, ()), 1.0, is_empty=False))
"""A client that shared a root which is gone from the disk since."""
UNDECLARED, WAITING = State(Undeclared()), State(Asking(), asked=1)
UNANSWERED = State(Settled(), asked=1, settled=1, failed="no answer within 10 s")
FALLBACK = OperatorRoots(fallback=DOCS, fallback_source="--root")
CEILING = roots("/team/project/src")


@pytest.mark.parametrize(
    ("state", "operator", "expected"),
    [
        # lists usable roots
        (knows(PROJECT), OperatorRoots(), EffectiveRoots(PROJECT, "client")),
        (knows(PROJECT), FALLBACK, EffectiveRoots(PROJECT, "client")),
        (knows(PROJECT), OperatorRoots(ceiling=CEILING), EffectiveRoots(CEILING, "client")),
        (knows(PROJECT), OperatorRoots(ceiling=MEDIA), EffectiveRoots(EMPTY, "client")),
        (
            knows(PROJECT, *REFUSED),
            OperatorRoots(),
            EffectiveRoots(PROJECT, "client", rejected=REFUSED),
        ),
        # lists none, or only unusable ones
        (knows(EMPTY), OperatorRoots(), EffectiveRoots(EMPTY, "client")),
        (knows(EMPTY), FALLBACK, EffectiveRoots(EMPTY, "client")),
        (
            knows(EMPTY, *REFUSED),
            OperatorRoots(),
            EffectiveRoots(EMPTY, "client", rejected=REFUSED),
        ),
        (
            knows(EMPTY, *REFUSED),
            OperatorRoots(when_empty="allow"),
            EffectiveRoots(EMPTY, "none", enforcing=False, rejected=REFUSED),
        ),
        (
            knows(EMPTY),
            OperatorRoots(when_empty="allow", ceiling=CEILING),
            EffectiveRoots(CEILING, "ceiling"),
        ),
        # listed a root that is gone from the disk since
        (VANISHED, OperatorRoots(when_empty="allow"), EffectiveRoots(EMPTY, "client")),
        (
            VANISHED,
            OperatorRoots(when_empty="allow", ceiling=CEILING),
            EffectiveRoots(EMPTY, "client"),
        ),
        # declares roots, first answer not here yet, or never
        (WAITING, OperatorRoots(), EffectiveRoots(EMPTY, "none")),
        (WAITING, OperatorRoots(when_missing="allow"), EffectiveRoots(EMPTY, "none")),
        (UNANSWERED, OperatorRoots(), EffectiveRoots(EMPTY, "none")),
        (UNANSWERED, FALLBACK, EffectiveRoots(DOCS, "--root")),
        # declares roots, refresh failed or under way
        (
            replace(knows(PROJECT), failed="no answer"),
            OperatorRoots(),
            EffectiveRoots(PROJECT, "client", stale=True),
        ),
        (
            replace(knows(PROJECT, *REFUSED), failed="no answer"),
            OperatorRoots(strict=True),
            EffectiveRoots(EMPTY, "client", stale=True, rejected=REFUSED),
        ),
        (
            knows(PROJECT, phase=Debouncing(1, 2)),
            OperatorRoots(),
            EffectiveRoots(PROJECT, "client", stale=True),
        ),
        (knows(PROJECT), OperatorRoots(strict=True), EffectiveRoots(PROJECT, "client")),
        # does not declare roots, fallback exists
        (UNDECLARED, FALLBACK, EffectiveRoots(DOCS, "--root")),
        (UNDECLARED, replace(FALLBACK, ceiling=PROJECT), EffectiveRoots(EMPTY, "--root")),
        (UNDECLARED, replace(FALLBACK, fallback=EMPTY), EffectiveRoots(EMPTY, "--root")),
        # does not declare roots, no fallback
        (UNDECLARED, OperatorRoots(), EffectiveRoots(EMPTY, "none", enforcing=False)),
        (UNDECLARED, OperatorRoots(when_missing="deny"), EffectiveRoots(EMPTY, "none")),
        (UNDECLARED, OperatorRoots(ceiling=CEILING), EffectiveRoots(CEILING, "ceiling")),
        (State(Unasked()), OperatorRoots(), EffectiveRoots(EMPTY, "none")),
    ],
)
def test_the_clients_state_decides_its_effective_roots(
    state: State, operator: OperatorRoots, expected: EffectiveRoots
) -> None:
    assert effective_roots(state, operator) == expected


@pytest.mark.parametrize(
    "operator", [OperatorRoots(), FALLBACK, OperatorRoots(ceiling=CEILING, when_missing="deny")]
)
def test_a_client_that_knows_no_roots_is_one_that_declares_none(operator: OperatorRoots) -> None:
    assert for_rootless(operator) == effective_roots(UNDECLARED, operator)


def test_a_server_without_directories_of_its_own_adds_nothing() -> None:
    effective = EffectiveRoots(PROJECT, "client", stale=True)
    assert for_server(effective, None) is effective


def test_a_servers_own_directories_narrow_the_clients_roots() -> None:
    effective = EffectiveRoots(PROJECT, "client", stale=True, rejected=REFUSED)
    assert for_server(effective, CEILING) == replace(effective, roots=CEILING)
    assert for_server(effective, MEDIA) == replace(effective, roots=EMPTY)


def test_a_client_without_roots_gets_a_servers_own_directories() -> None:
    nothing = EffectiveRoots(EMPTY, "none", enforcing=False, rejected=REFUSED)
    assert for_server(nothing, MEDIA) == EffectiveRoots(MEDIA, "server", rejected=REFUSED)


def test_a_client_that_is_denied_gets_nothing_from_a_server_either() -> None:
    assert for_server(EffectiveRoots(EMPTY, "none"), MEDIA).roots == EMPTY
    assert for_server(EffectiveRoots(EMPTY, "none"), MEDIA).enforcing


def test_rejected_roots_of_the_fallback_are_reported() -> None:
    operator = OperatorRoots(fallback=EMPTY, fallback_source="config", rejected=REFUSED)
    assert for_rootless(operator) == EffectiveRoots(EMPTY, "config", rejected=REFUSED)
    assert effective_roots(knows(PROJECT), operator) == EffectiveRoots(PROJECT, "client")
