from __future__ import annotations

import pytest
from msgspec.structs import replace

from hub.catalog.merge import Listing
from hub.children.callbacks import ChildCallbacks
from hub.children.child import Child, Ready
from hub.children.handshake import HubDeclaration, ServerHandshake
from hub.children.slot import ChildLimits, ChildSlot, ClientOfKey, key_of
from hub.errors import ChildError
from hub.paths.resolve import Flavour
from hub.roots.roots import EMPTY
from hub.usage.principals import UsageLimits
from hub.values import Call, SessionKey
from tests.kit.child_calls import LinedUp, in_flight
from tests.kit.fakes import FakeChild, RecordingAsker, RecordingLessee
from tests.kit.rigs import INFO, remote

SPEC = remote("files")
READY = Ready(ServerHandshake("legacy", "2025-11-25", {}, {}, "", {}), Listing())


def slot(*sessions: str) -> ChildSlot:
    """Return a place that sessions wait for."""
    key = key_of(SPEC, None, EMPTY, ClientOfKey(SessionKey(""), None, "", {}))
    users = {SessionKey(session): RecordingLessee() for session in sessions}
    return ChildSlot(key, SPEC, users=dict(users))


def running(*sessions: str, used_at: float = 0.0, uses: int = 0) -> ChildSlot:
    """Return a place whose child is ready, and has nothing to do unless there are `uses`."""
    made = slot(*sessions)
    answers = ChildCallbacks(SPEC, EMPTY, Flavour.POSIX)
    made.child = Child(answers, HubDeclaration(INFO, {}), FakeChild().connect)
    made.child.state = READY
    made.used_at, made.uses = used_at, uses
    return made


def refusal(room: ChildLimits, *those: ChildSlot, sessions: str = "a") -> str:
    with pytest.raises(ChildError) as caught:
        room.made_for(slot(*sessions), those)
    return str(caught.value)


def test_nobody_makes_room_while_there_is_some() -> None:
    assert ChildLimits(3, 2).made_for(slot("a"), [running("a"), running("b")]) == []


def test_a_child_of_nobodys_makes_room_first_and_then_the_longest_unused() -> None:
    held, idlest = running("a", used_at=2.0), running("b", used_at=1.0)
    late, early = running(used_at=4.0), running(used_at=3.0)
    room, those = ChildLimits(1, 9), [held, late, idlest, early]
    for expected in (early, late, idlest, held):
        assert room.made_for(slot("c"), those) == [expected]
        those.remove(expected)


def test_a_child_that_may_keep_something_for_a_client_makes_room_last() -> None:
    own, away = running("a", used_at=1.0), running(used_at=2.0)
    for one in (own, away):
        one.key = replace(one.key, session=SessionKey("a"))
    held, unused = running("b", used_at=4.0), running(used_at=3.0)
    those = [own, away, held, unused]
    for expected in (unused, held, own, away):
        assert ChildLimits(1, 9).made_for(slot("c"), those) == [expected]
        those.remove(expected)


def test_a_child_that_is_at_work_makes_no_room() -> None:
    busy, called = running("a", uses=1), running()
    assert called.child is not None
    with in_flight(called.child.answers, RecordingAsker("b")):
        assert refusal(ChildLimits(2, 9), busy, called, sessions="c") == (
            "server 'files' is not started: 2 children run already, "
            "and all start or serve calls (max_children: 2)"
        )
    assert ChildLimits(2, 9).made_for(slot("c"), [busy, called]) == [called]


async def test_a_child_makes_no_room_while_a_call_waits_until_it_may_ask() -> None:
    waited_for = running()
    assert waited_for.child is not None
    answers = waited_for.child.answers
    answers.line.is_active = True
    given_up = RecordingAsker("a")
    answers.begin(given_up, Call("tools/call", "unknown", {}, {}))
    answers.end(given_up, is_answered=False)
    one = LinedUp("b", "unknown")
    assert not answers.line.admits(one)
    assert "1 children run already" in refusal(ChildLimits(1, 9), waited_for, sessions="c")
    answers.line.step_out(one)
    assert ChildLimits(1, 9).made_for(slot("c"), [waited_for]) == [waited_for]


def test_a_session_makes_room_with_what_it_alone_uses() -> None:
    shared, own, others = running("a", "b"), running("a", used_at=1.0), running("b")
    assert ChildLimits(9, 2).made_for(slot("a"), [shared, own, others]) == [own]
    assert refusal(ChildLimits(9, 1), shared) == (
        "server 'files' is not started: this session uses 1 children already, "
        "and all start or serve calls (max_children_per_session: 1)"
    )


def test_a_session_uses_a_child_that_it_left_as_long_as_its_calls_are_under_way() -> None:
    left = running()
    assert left.child is not None
    with in_flight(left.child.answers, RecordingAsker("a")):
        assert "this session uses 1 children" in refusal(ChildLimits(9, 1), left)
    assert ChildLimits(9, 1).made_for(slot("a"), [left]) == []


def test_what_makes_room_with_a_session_makes_room_in_all() -> None:
    own, other = running("a", used_at=1.0), running("b")
    assert ChildLimits(2, 1).made_for(slot("a"), [own, other]) == [own]


def test_each_session_that_waits_makes_room_and_nobody_does_in_vain() -> None:
    first, second = running("a"), running("b")
    assert ChildLimits(9, 1).made_for(slot("a", "b"), [first, second]) == [first, second]
    second.uses = 1
    assert "this session uses 1 children" in refusal(
        ChildLimits(9, 1), first, second, sessions="ab"
    )


def test_a_principal_has_no_more_children_than_its_limit_over_all_its_sessions() -> None:
    def of(slot: ChildSlot, principal: str) -> ChildSlot:
        slot.key = replace(slot.key, principal=principal)
        return slot

    room, limits = ChildLimits(9, 9), [UsageLimits(children=2)]
    idle, busy, other = running("a", used_at=1.0), running("b", uses=1), running("c")
    those = [of(idle, "profile\nanna"), of(busy, "anna"), of(other, "ben")]
    wanted = of(slot("d"), "anna")
    assert room.made_for(wanted, those, limits) == [idle]
    assert room.made_for(wanted, those) == []
    assert room.made_for(of(slot("d"), "ben"), those, limits) == []
    idle.uses = 1
    with pytest.raises(ChildError) as caught:
        room.made_for(wanted, those, limits)
    assert str(caught.value) == (
        "server 'files' is not started: anna uses 2 children already, and all start or serve calls "
        "(listen.limits.children: 2; call it again when one has ended)"
    )


def test_a_principal_has_no_more_children_in_a_profile_than_the_profile_allows() -> None:
    def of(slot: ChildSlot, identity: str) -> ChildSlot:
        slot.key = replace(slot.key, principal=identity)
        return slot

    within = UsageLimits(key="profiles.few.limits", profile="few", children=1)
    room, limits = ChildLimits(9, 9), [within, UsageLimits(children=3)]
    elsewhere, another = running("a", used_at=1.0), running("b", used_at=3.0)
    own, bens = running("c", used_at=2.0), running("d")
    those = [
        of(elsewhere, "many\nanna"),
        of(another, "many\nanna"),
        of(own, "few\nanna"),
        of(bens, "few\nben"),
    ]
    # The one that makes room in the profile makes room in all.
    assert room.made_for(of(slot("e"), "few\nanna"), those, limits) == [own]
    own.uses = 1
    with pytest.raises(ChildError) as caught:
        room.made_for(of(slot("e"), "few\nanna"), those, limits)
    assert "anna uses 1 children already" in str(caught.value)
    assert "(profiles.few.limits.children: 1; call it again" in str(caught.value)
    assert room.made_for(of(slot("e"), "many\nanna"), those, limits[1:]) == [elsewhere]
