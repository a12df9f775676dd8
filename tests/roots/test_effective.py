"""The table of DESIGN.md, "Roots": what a client says, and which roots are in force for it."""

import pytest
from msgspec.structs import replace

from hub.paths.resolve import Flavour
from hub.roots.effective import InForce, OperatorRoots, at_server, for_rootless, in_force
from hub.roots.roots import EMPTY, Announcement, Rejected, Root, RootSet, root_from_path
from hub.roots.state import Asking, Debouncing, Known, Phase, Settled, State, Unasked, Undeclared
from tests.kit.fakes import FakeLinks

LINKS = FakeLinks("/team/project/src/", "/team/docs/", "/media/")


def root(path: str) -> Root:
    return root_from_path(path, name=None, links=LINKS, flavour=Flavour.POSIX, unsafe=None)


def roots(*paths: str) -> RootSet:
    return RootSet(tuple(map(root, paths)))


PROJECT, DOCS, MEDIA = roots("/team/project"), roots("/team/docs"), roots("/media")
REFUSED = (Rejected("https://example.com", "Only file:// URIs are supported"),)


def knows(shared: RootSet, *rejected: Rejected, phase: Phase | None = None) -> State:
    known = Known(Announcement(shared, rejected), 1.0, is_empty=not shared.roots)
    return State(phase or Settled(), last=known)


VANISHED = State(Settled(), last=Known(Announcement(EMPTY, ()), 1.0, is_empty=False))
"""A client that shared a root which is gone from the disk since."""
UNDECLARED, WAITING = State(Undeclared()), State(Asking(), asked=1)
UNANSWERED = State(Settled(), asked=1, settled=1, failed="no answer within 10 s")
FALLBACK = OperatorRoots(fallback=DOCS, fallback_source="--root")
CEILING = roots("/team/project/src")


@pytest.mark.parametrize(
    ("state", "operator", "expected"),
    [
        # lists usable roots
        (knows(PROJECT), OperatorRoots(), InForce(PROJECT, "client")),
        (knows(PROJECT), FALLBACK, InForce(PROJECT, "client")),
        (knows(PROJECT), OperatorRoots(ceiling=CEILING), InForce(CEILING, "client")),
        (knows(PROJECT), OperatorRoots(ceiling=MEDIA), InForce(EMPTY, "client")),
        (knows(PROJECT, *REFUSED), OperatorRoots(), InForce(PROJECT, "client", rejected=REFUSED)),
        # lists none, or only unusable ones
        (knows(EMPTY), OperatorRoots(), InForce(EMPTY, "client")),
        (knows(EMPTY), FALLBACK, InForce(EMPTY, "client")),
        (knows(EMPTY, *REFUSED), OperatorRoots(), InForce(EMPTY, "client", rejected=REFUSED)),
        (
            knows(EMPTY, *REFUSED),
            OperatorRoots(when_empty="allow"),
            InForce(EMPTY, "none", enforcing=False, rejected=REFUSED),
        ),
        (
            knows(EMPTY),
            OperatorRoots(when_empty="allow", ceiling=CEILING),
            InForce(CEILING, "ceiling"),
        ),
        # listed a root that is gone from the disk since
        (VANISHED, OperatorRoots(when_empty="allow"), InForce(EMPTY, "client")),
        (
            VANISHED,
            OperatorRoots(when_empty="allow", ceiling=CEILING),
            InForce(EMPTY, "client"),
        ),
        # declares roots, first answer not here yet, or never
        (WAITING, OperatorRoots(), InForce(EMPTY, "none")),
        (WAITING, OperatorRoots(when_missing="allow"), InForce(EMPTY, "none")),
        (UNANSWERED, OperatorRoots(), InForce(EMPTY, "none")),
        (UNANSWERED, FALLBACK, InForce(DOCS, "--root")),
        # declares roots, refresh failed or under way
        (
            replace(knows(PROJECT), failed="no answer"),
            OperatorRoots(),
            InForce(PROJECT, "client", stale=True),
        ),
        (
            replace(knows(PROJECT, *REFUSED), failed="no answer"),
            OperatorRoots(strict=True),
            InForce(EMPTY, "client", stale=True, rejected=REFUSED),
        ),
        (
            knows(PROJECT, phase=Debouncing(1, 2)),
            OperatorRoots(),
            InForce(PROJECT, "client", stale=True),
        ),
        (knows(PROJECT), OperatorRoots(strict=True), InForce(PROJECT, "client")),
        # does not declare roots, fallback exists
        (UNDECLARED, FALLBACK, InForce(DOCS, "--root")),
        (UNDECLARED, replace(FALLBACK, ceiling=PROJECT), InForce(EMPTY, "--root")),
        (UNDECLARED, replace(FALLBACK, fallback=EMPTY), InForce(EMPTY, "--root")),
        # does not declare roots, no fallback
        (UNDECLARED, OperatorRoots(), InForce(EMPTY, "none", enforcing=False)),
        (UNDECLARED, OperatorRoots(when_missing="deny"), InForce(EMPTY, "none")),
        (UNDECLARED, OperatorRoots(ceiling=CEILING), InForce(CEILING, "ceiling")),
        (State(Unasked()), OperatorRoots(), InForce(EMPTY, "none")),
    ],
)
def test_what_a_client_says_decides_the_roots_in_force(
    state: State, operator: OperatorRoots, expected: InForce
) -> None:
    assert in_force(state, operator) == expected


@pytest.mark.parametrize(
    "operator", [OperatorRoots(), FALLBACK, OperatorRoots(ceiling=CEILING, when_missing="deny")]
)
def test_a_client_that_knows_no_roots_is_one_that_declares_none(operator: OperatorRoots) -> None:
    assert for_rootless(operator) == in_force(UNDECLARED, operator)


def test_a_server_without_directories_of_its_own_adds_nothing() -> None:
    force = InForce(PROJECT, "client", stale=True)
    assert at_server(force, None) is force


def test_a_servers_own_directories_narrow_the_clients_roots() -> None:
    force = InForce(PROJECT, "client", stale=True, rejected=REFUSED)
    assert at_server(force, CEILING) == replace(force, roots=CEILING)
    assert at_server(force, MEDIA) == replace(force, roots=EMPTY)


def test_a_client_without_roots_gets_a_servers_own_directories() -> None:
    nothing = InForce(EMPTY, "none", enforcing=False, rejected=REFUSED)
    assert at_server(nothing, MEDIA) == InForce(MEDIA, "server", rejected=REFUSED)


def test_a_client_that_is_denied_gets_nothing_from_a_server_either() -> None:
    assert at_server(InForce(EMPTY, "none"), MEDIA).roots == EMPTY
    assert at_server(InForce(EMPTY, "none"), MEDIA).enforcing


def test_who_is_held_to_a_fallback_hears_what_of_it_is_none() -> None:
    operator = OperatorRoots(fallback=EMPTY, fallback_source="config", rejected=REFUSED)
    assert for_rootless(operator) == InForce(EMPTY, "config", rejected=REFUSED)
    assert in_force(knows(PROJECT), operator) == InForce(PROJECT, "client")
