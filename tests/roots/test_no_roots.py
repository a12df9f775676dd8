"""What a client, and the operator, are told where no root is in force."""

import pytest

from hub.paths.resolve import Flavour
from hub.roots.effective import SHOWN, OperatorRoots, why_no_roots
from hub.roots.roots import EMPTY, Announcement, Rejected, RootCondition, RootSet, root_from_path
from hub.roots.state import Asking, RootsKnown, Settled, State, Undeclared
from tests.kit.fakes import FakeLinks

LINKS = FakeLinks("/a/", "/b/")
GONE = Rejected("file:///home/me/project", "Path is not accessible")
UNSAFE = Rejected("file:///etc", "Path is not safe for sharing")


def at(*paths: str) -> RootSet:
    return RootSet(
        tuple(
            root_from_path(path, name=None, links=LINKS, flavour=Flavour.POSIX, unsafe=None)
            for path in paths
        )
    )


def shared(*rejected: Rejected, roots: RootSet = EMPTY) -> State:
    known = RootsKnown(Announcement(roots, rejected), 1.0, is_empty=not roots.roots)
    return State(Settled(), last=known)


NOBODY = OperatorRoots(when_missing="deny")


@pytest.mark.parametrize(
    ("state", "operator", "reason", "advice"),
    [
        (
            shared(GONE),
            NOBODY,
            "The client shares 1 folder, and it cannot be used on the hub's machine: "
            "file:///home/me/project: Path is not accessible.",
            "container",
        ),
        (
            shared(GONE),
            NOBODY,
            "The client shares 1 folder, and it cannot be used on the hub's machine: "
            "file:///home/me/project: Path is not accessible.",
            "If it was made since it was shared, open it anew in the client",
        ),
        (
            shared(GONE, UNSAFE),
            NOBODY,
            "The client shares 2 folders, and none of them can be used on the hub's machine: "
            "file:///home/me/project: Path is not accessible; "
            "file:///etc: Path is not safe for sharing.",
            "--root",
        ),
        (
            shared(Rejected("file:///home/me/project", RootCondition.REPLACED.value)),
            NOBODY,
            "The client shares 1 folder, and it cannot be used on the hub's machine: "
            "file:///home/me/project: Path was replaced by another one since it was shared: "
            "share it anew.",
            "connect the client anew",
        ),
        (
            shared(UNSAFE, Rejected("", "Only file:// URIs are supported")),
            NOBODY,
            "The client shares 2 folders, and none of them can be used on the hub's machine: "
            "file:///etc: Path is not safe for sharing; (no URI): Only file:// URIs are supported.",
            "--root",
        ),
        (
            shared(),
            NOBODY,
            "The client shares no folder: its list of roots is empty.",
            "when_empty",
        ),
        (
            shared(roots=at("/a")),
            OperatorRoots(ceiling=at("/b")),
            "No folder that the client shares is inside the operator's ceiling (/b).",
            "roots.ceiling",
        ),
        (
            shared(roots=at("/a")),
            OperatorRoots(ceiling=EMPTY),
            "No folder that the client shares is inside the operator's ceiling "
            "(no folder that exists).",
            "roots.ceiling",
        ),
        (
            State(Settled(), failed="the client's answer: Method not found"),
            NOBODY,
            "The client has roots, but they could not be read: "
            "the client's answer: Method not found.",
            "--root",
        ),
        (
            State(Asking(), last=shared(roots=at("/a")).last),
            OperatorRoots(strict=True),
            "The client's folders have changed, and could not be read again.",
            "roots.strict",
        ),
        (
            State(Settled(), last=shared(roots=at("/a")).last, failed="no answer within 10 s"),
            OperatorRoots(strict=True),
            "The client's folders have changed, and could not be read again "
            "(no answer within 10 s).",
            "roots.strict",
        ),
        (
            State(Asking(), last=shared(roots=at("/a")).last),
            OperatorRoots(ceiling=at("/b")),
            "No folder that the client shares is inside the operator's ceiling (/b).",
            "roots.ceiling",
        ),
        (
            shared(),
            OperatorRoots(strict=True),
            "The client shares no folder: its list of roots is empty.",
            "when_empty",
        ),
        (
            State(Undeclared()),
            NOBODY,
            "The client shares no folders, and the hub's operator has named none for it.",
            "when_missing",
        ),
        (
            State(Undeclared()),
            OperatorRoots(fallback=at("/a"), ceiling=at("/b")),
            "No folder that the operator named for such clients is inside the "
            "operator's ceiling (/b).",
            "roots.ceiling",
        ),
        (
            State(Undeclared()),
            OperatorRoots(fallback=EMPTY, rejected=(GONE,)),
            "The client shares no folders, and none that the hub's operator named can be used: "
            "file:///home/me/project: Path is not accessible.",
            "--root",
        ),
        (
            State(Undeclared()),
            OperatorRoots(fallback=EMPTY),
            "The client shares no folders, and none that the hub's operator named can be used.",
            "--root",
        ),
    ],
)
def test_the_reason_is_for_the_client_and_the_advice_for_the_operator(
    state: State, operator: OperatorRoots, reason: str, advice: str
) -> None:
    told = why_no_roots(state, operator)
    assert told.reason == reason
    assert advice in told.fix


def test_a_reason_names_few_roots_and_is_one_line() -> None:
    many = [Rejected(f"file:///{n}\n{'x' * 300}", "Path is not accessible") for n in range(9)]
    told = why_no_roots(shared(*many), NOBODY)
    assert told.reason.startswith("The client shares 9 folders, and none of them can be used")
    assert told.reason.endswith("; and 6 more.")
    assert "\n" not in told.reason
    assert len(told.reason) < 1000


@pytest.mark.parametrize(("count", "rest"), [(SHOWN, "accessible."), (SHOWN + 1, "; and 1 more.")])
def test_what_is_not_named_is_counted(count: int, rest: str) -> None:
    many = [Rejected(f"file:///{n}", "Path is not accessible") for n in range(count)]
    assert why_no_roots(shared(*many), NOBODY).reason.endswith(rest)


@pytest.mark.parametrize(("length", "told"), [(200, f"{'x' * 200}:"), (201, f"{'x' * 200}...:")])
def test_a_long_uri_is_cut(length: int, told: str) -> None:
    rejected = Rejected("x" * length, "Path is not accessible")
    assert f" {told} Path is not" in why_no_roots(shared(rejected), NOBODY).reason
