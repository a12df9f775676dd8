"""The state machine of a client's roots, as scripts: events in, effects out."""

from collections.abc import Sequence
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hub.roots import state as module
from hub.roots.roots import EMPTY, Announcement, Root, RootSet
from hub.roots.state import (
    MAX_DEBOUNCE,
    RETRY_AFTER,
    Ask,
    Asking,
    Changed,
    ClientEvent,
    ClientReady,
    Debouncing,
    Effect,
    Ended,
    Failed,
    Given,
    Needed,
    NotConnected,
    OwnEvent,
    Phase,
    Publish,
    Reachable,
    Revised,
    RootsAnswered,
    RootsEvent,
    RootsKnown,
    SessionClosed,
    Settled,
    State,
    Ticked,
    Unasked,
    Undeclared,
    Wake,
    Warn,
    start,
    step,
)

NOT_A_LIST = "the client's answer is not a list of roots"
DENIED = "the client's roots could not be read: denied"


def announced(path: str) -> Announcement:
    parts = tuple(path.strip("/").split("/"))
    return Announcement(RootSet((Root(f"file://{path}", path, "", False, parts, 1, 1),)), ())


A, B, C = announced("/a"), announced("/b"), announced("/c")


class Played:
    """A script that was played: the state it led to, the effects of each event."""

    def __init__(
        self, *events: RootsEvent, debounce: float = 0.25, state: State | None = None
    ) -> None:
        self.state = state or start(debounce)
        self.effects: list[Effect] = []
        self.play(*events)

    def play(self, *events: RootsEvent) -> list[Effect]:
        """Play on; returns the new effects."""
        before = len(self.effects)
        for event in events:
            self.state, effects = step(self.state, event)
            self.effects.extend(effects)
        return self.effects[before:]

    @property
    def asks(self) -> int:
        return sum(isinstance(effect, Ask) for effect in self.effects)


def known(announcement: Announcement = A) -> Played:
    return Played(
        ClientReady(declares_roots=True), Needed(1.0), RootsAnswered(1, announcement, 1.0)
    )


def test_a_client_is_asked_once_it_is_open_and_can_be_reached() -> None:
    played = Played(ClientReady(declares_roots=True))
    assert played.effects == []
    assert played.play(Reachable()) == [Ask(1)]
    assert played.play(Reachable(), Needed(1.0)) == []
    assert played.play(RootsAnswered(1, A, 2.0)) == [Publish()]
    assert played.state == State(Settled(), asked=1, settled=1, last=RootsKnown(A, 2.0), version=1)


def test_a_call_reaches_a_client_that_cannot_be_reached_otherwise() -> None:
    assert Played(ClientReady(declares_roots=True), Needed(1.0)).effects == [Ask(1)]


def test_a_client_that_does_not_declare_roots_is_never_asked() -> None:
    played = Played(ClientReady(declares_roots=False), Reachable(), Needed(1.0), Changed(2.0))
    assert played.play(Ticked(9.0), RootsAnswered(1, A, 9.0), Failed(1, "x", 9.0)) == []
    assert played.state == State(Undeclared())
    assert played.state.awaits is None


def test_a_handshake_is_over_once() -> None:
    played = known()
    before = played.state
    assert played.play(ClientReady(declares_roots=False), ClientReady(declares_roots=True)) == []
    assert played.state == before
    undeclared = Played(
        ClientReady(declares_roots=False), ClientReady(declares_roots=True), Needed(1.0)
    )
    assert undeclared.effects == []


def test_roots_that_come_with_a_request_count_as_asked_for() -> None:
    played = Played(Given(A, 1.0))
    assert played.effects == [Publish()]
    assert played.state == State(Settled(), asked=1, settled=1, last=RootsKnown(A, 1.0), version=1)
    assert played.play(Given(B, 2.0)) == [Publish()]
    assert played.state.last == RootsKnown(B, 2.0)
    assert played.play(RootsAnswered(1, C, 3.0)) == [], "a late answer never overwrites a newer one"


def test_a_request_that_brings_no_list_of_roots_brings_none() -> None:
    played = Played(Given(None, 1.0))
    assert played.state.last is None
    assert played.state.failed == NOT_A_LIST
    assert played.state.awaits is None


def test_nothing_is_asked_before_the_handshake_is_over() -> None:
    assert Played(Reachable(), Needed(1.0), Changed(1.0), Ticked(2.0)).effects == []


@pytest.mark.parametrize("count", [1, 2, 10, 100])
def test_b02_g06_a_burst_of_changes_is_one_request_and_the_last_change_wins(count: int) -> None:
    played = known()
    for index in range(count):
        assert played.play(Changed(10 + index * 0.01)) == [
            Wake(min(10 + index * 0.01 + 0.25, 10 + MAX_DEBOUNCE))
        ]
    last = 10 + (count - 1) * 0.01
    assert played.play(Ticked(last + 0.2)) == [Wake(pytest.approx(last + 0.25))]  # pyright: ignore[reportArgumentType] - equal to a float
    assert played.play(Ticked(last + 0.26)) == [Ask(2)]
    assert played.play(Ticked(last + 9.0)) == []


@pytest.mark.parametrize("every", [0.01, 0.05, 0.2])
def test_g06_an_endless_stream_of_changes_is_asked_about_in_the_end(every: float) -> None:
    played, now = known(), 10.0
    wake = 0.0
    while played.asks == 1:
        now += every
        for effect in played.play(Changed(now)):
            if isinstance(effect, Wake):
                wake = effect.at
        if now >= wake:
            played.play(Ticked(now))
        assert now < 10 + MAX_DEBOUNCE + 2 * every
    assert isinstance(played.state.phase, Asking)


def test_a_debounce_longer_than_the_bound_is_kept() -> None:
    played = Played(
        ClientReady(declares_roots=True),
        Needed(0.0),
        RootsAnswered(1, A, 0.0),
        debounce=MAX_DEBOUNCE + 5,
    )
    assert played.play(Changed(10.0)) == [Wake(10 + MAX_DEBOUNCE + 5)]


def test_a_call_does_not_wait_for_the_end_of_a_burst() -> None:
    played = known()
    played.play(Changed(10.0))
    assert played.state.awaits == 2
    assert played.play(Needed(10.1)) == [Ask(2)]
    assert played.play(Ticked(10.25)) == [], "the burst's own timer has nothing left to do"
    assert played.state.awaits == 2


def test_b03_known_roots_remain_while_newer_ones_are_asked_for() -> None:
    played = known()
    for event in (Changed(10.0), Ticked(10.3)):
        played.play(event)
        assert played.state.last == RootsKnown(A, 1.0)
        assert played.state.stale
    assert played.play(RootsAnswered(2, B, 11.0)) == [Publish()]
    assert played.state.last == RootsKnown(B, 11.0)
    assert not played.state.stale


def test_b04_a_failure_keeps_the_roots_and_the_next_change_asks_again() -> None:
    played = known()
    played.play(Changed(10.0), Ticked(10.3))
    assert played.play(Failed(2, "denied", 20.0)) == [Warn(DENIED), Publish()]
    assert played.state.last == RootsKnown(A, 1.0)
    assert played.state.stale
    assert played.state.awaits is None, "no call waits for what has failed"
    assert played.play(Changed(30.0), Ticked(30.3)) == [Wake(30.25), Ask(3)]
    assert played.play(RootsAnswered(3, B, 31.0)) == [Publish()]
    assert played.state.last == RootsKnown(B, 31.0)
    assert played.state.failed is None


def test_b05_an_answer_that_is_no_list_of_roots_keeps_the_previous_ones() -> None:
    played = known()
    played.play(Changed(10.0), Ticked(10.3))
    text = f"the client's roots could not be read: {NOT_A_LIST}"
    assert played.play(RootsAnswered(2, None, 11.0)) == [Warn(text), Publish()]
    assert played.state.last == RootsKnown(A, 1.0)
    assert played.state.failed == NOT_A_LIST


def test_an_empty_answer_is_an_answer() -> None:
    played = known(Announcement(EMPTY, ()))
    assert played.state.last == RootsKnown(Announcement(EMPTY, ()), 1.0, is_empty=True)
    assert played.state.failed is None


def test_the_version_counts_how_often_the_roots_became_others() -> None:
    played = known()
    assert played.state.version == 1
    played.play(Changed(10.0), Ticked(10.3), RootsAnswered(2, A, 11.0))
    assert played.state.version == 1, "they are the same"
    played.play(Changed(20.0), Ticked(20.3), Failed(3, "denied", 21.0))
    assert played.state.version == 1
    played.play(Changed(30.0), Ticked(30.3), RootsAnswered(4, B, 31.0))
    assert played.state.version == 2
    played.play(Revised(A))
    assert played.state.version == 3


def test_roots_that_are_gone_from_the_disk_do_not_make_an_empty_answer() -> None:
    played = known()
    played.play(Revised(Announcement(EMPTY, ())))
    assert played.state.last == RootsKnown(Announcement(EMPTY, ()), 1.0, is_empty=False)


def test_after_a_failure_a_call_asks_again_in_the_background_but_not_at_once() -> None:
    played = Played(ClientReady(declares_roots=True), Needed(1.0), Failed(1, "denied", 10.0))
    assert played.play(Needed(10.0), Needed(10 + RETRY_AFTER - 0.1)) == []
    assert played.play(Needed(10 + RETRY_AFTER)) == [Ask(2)]
    assert played.state.awaits is None
    assert played.play(Needed(11 + RETRY_AFTER)) == [], "one request at a time"
    assert played.play(RootsAnswered(2, A, 50.0)) == [Publish()]
    assert not played.state.stale


def test_after_a_failure_a_call_that_shows_the_roots_asks_at_once_and_others_do_not_wait() -> None:
    played = Played(ClientReady(declares_roots=True), Needed(1.0), Failed(1, "denied", 10.0))
    shows = Needed(10.0, is_to_show=True)
    assert played.play(shows) == [Ask(2)]
    assert (played.state.is_retrying, played.state.awaits) == (True, None)
    assert played.play(shows) == [], "one request at a time"
    assert played.play(RootsAnswered(2, A, 11.0)) == [Publish()]
    assert not played.state.is_retrying
    played.play(Changed(12.0), Needed(12.1), Failed(3, "denied", 12.2))
    assert played.play(shows) == [], "roots are known, if old ones"


def test_a_call_that_shows_the_roots_waits_for_what_is_asked_in_the_background() -> None:
    played = Played(ClientReady(declares_roots=True), Needed(1.0), Failed(1, "denied", 10.0))
    played.play(Needed(10 + RETRY_AFTER))
    assert played.play(Needed(10 + RETRY_AFTER, is_to_show=True)) == []
    assert played.state.is_retrying
    played.play(Failed(2, "denied", 41.0))
    assert not played.state.is_retrying


@pytest.mark.parametrize(
    "late", [RootsAnswered(1, A, 12.0), RootsAnswered(1, None, 12.0), Failed(1, "denied", 12.0)]
)
def test_b12_h03_a_late_answer_never_overwrites_a_newer_one(late: RootsEvent) -> None:
    played = Played(ClientReady(declares_roots=True), Needed(1.0), Failed(1, "no answer", 10.0))
    played.play(Changed(10.5), Needed(11.0))
    assert played.play(late) == []
    assert played.play(RootsAnswered(2, B, 13.0)) == [Publish()]
    assert played.play(late) == []
    assert played.state.last == RootsKnown(B, 13.0)


def test_an_answer_that_was_never_asked_for_is_dropped() -> None:
    played = known()
    before = played.state
    assert (
        played.play(RootsAnswered(1, B, 9.0), RootsAnswered(2, B, 9.0), Failed(2, "x", 9.0)) == []
    )
    assert played.state == before


def test_h03_a_change_while_asking_is_asked_about_after_the_answer() -> None:
    played = Played(ClientReady(declares_roots=True), Needed(1.0))
    assert played.play(Changed(1.5), Changed(1.6)) == []
    assert played.state.awaits == 2, "the answer under way may be old already"
    assert played.play(RootsAnswered(1, A, 2.0)) == [Publish(), Wake(2.25)]
    assert played.state.stale
    assert played.play(Ticked(2.25)) == [Ask(2)]
    assert played.play(RootsAnswered(2, B, 3.0)) == [Publish()]
    assert played.state.last == RootsKnown(B, 3.0)


def test_a_call_that_waits_for_a_change_has_it_asked_about_at_once() -> None:
    played = Played(ClientReady(declares_roots=True), Needed(1.0), Changed(1.5), Needed(1.6))
    assert played.state.awaits == 2
    assert played.play(RootsAnswered(1, A, 2.0)) == [Publish(), Ask(2)]
    assert played.state.awaits == 2
    assert played.play(RootsAnswered(2, B, 3.0)) == [Publish()]
    assert played.state.awaits is None


def test_a_failure_is_forgotten_when_a_change_was_announced_meanwhile() -> None:
    played = Played(ClientReady(declares_roots=True), Needed(1.0), Changed(1.5))
    assert played.play(Failed(1, "denied", 2.0)) == [Warn(DENIED), Publish(), Wake(2.25)]
    assert played.state.awaits == 2
    wanted = Played(ClientReady(declares_roots=True), Needed(1.0), Changed(1.5), Needed(1.6))
    assert wanted.play(Failed(1, "denied", 2.0)) == [Warn(DENIED), Publish(), Ask(2)]
    assert wanted.state.awaits == 2


def test_a_change_during_a_retry_in_the_background_makes_calls_wait_again() -> None:
    played = Played(ClientReady(declares_roots=True), Needed(1.0), Failed(1, "denied", 2.0))
    played.play(Needed(2 + RETRY_AFTER))
    assert played.state.awaits is None
    played.play(Changed(40.0))
    assert played.state.awaits == 3


def test_a_request_that_did_not_get_to_the_client_is_sent_again_when_it_can_be_reached() -> None:
    played = Played(ClientReady(declares_roots=True), Needed(1.0))
    assert played.play(Failed(1, "no stream", 1.0, unreachable=True)) == []
    assert played.state.phase == Unasked()
    assert played.state.settled == 0, "who waits for it waits on"
    assert played.play(Reachable()) == [Ask(2)]


def test_changes_add_nothing_to_what_is_to_be_asked_anyway() -> None:
    played = Played(ClientReady(declares_roots=True))
    assert played.play(Changed(1.0), Ticked(2.0)) == []
    assert played.state.phase == Unasked()


def test_roots_that_came_or_went_on_this_machine_are_published() -> None:
    played = known()
    assert played.play(Revised(B)) == [Publish()]
    assert played.state.last == RootsKnown(B, 1.0)
    assert not played.state.stale
    assert Played(ClientReady(declares_roots=True)).play(Revised(B)) == []


@pytest.mark.parametrize(
    ("phase", "awaited", "stale"),
    [
        (NotConnected(), None, True),
        (Undeclared(), None, True),
        (Unasked(), 4, True),
        (Debouncing(1.0, 2.0), 4, True),
        (Asking(), 3, True),
        (Asking(changed=True), 4, True),
        (Asking(changed=True, wanted=True), 4, True),
        (Settled(), None, False),
        (SessionClosed(), None, True),
    ],
)
def test_what_a_call_waits_for_and_whether_roots_are_stale(
    phase: Phase, awaited: int | None, stale: bool
) -> None:
    state = State(phase, asked=3, settled=2, last=RootsKnown(A, 1.0))
    assert state.awaits == awaited
    assert state.stale is stale
    failed = replace(state, failed="denied")
    assert failed.awaits is None
    assert failed.stale
    assert not replace(state, last=None).stale


moments = st.floats(0, 5)
announcements = st.sampled_from([A, B, C])
numbers = st.integers(0, 6)
events = st.one_of(
    st.builds(ClientReady, st.booleans()),
    st.just(Reachable()),
    st.builds(Given, announcements | st.none(), moments),
    st.builds(Changed, moments),
    st.builds(Needed, moments),
    st.builds(Ticked, moments),
    st.builds(RootsAnswered, numbers, announcements | st.none(), moments),
    st.builds(Failed, numbers, st.just("denied"), moments, st.booleans()),
    st.builds(Revised, announcements),
)


def in_time(script: Sequence[RootsEvent]) -> list[RootsEvent]:
    """Read the moments of a script's events as what passes between them."""
    now, timed = 0.0, list[RootsEvent]()
    for event in script:
        if isinstance(event, Given | Changed | Needed | Ticked | RootsAnswered | Failed):
            now += event.now
            timed.append(replace(event, now=now))
        else:
            timed.append(event)
    return timed


@given(st.lists(events, max_size=40), st.lists(events, max_size=10))
def test_a_client_that_is_gone_has_no_effects(
    before: list[RootsEvent], after: list[RootsEvent]
) -> None:
    played = Played(*in_time(before), Ended())
    assert isinstance(played.state.phase, SessionClosed)
    assert played.state.awaits is None
    assert played.play(*after, Ended()) == []


@given(st.lists(events, max_size=60))
def test_in_any_order_of_events_requests_are_numbered_and_only_the_newest_counts(
    script: list[RootsEvent],
) -> None:
    played = Played(ClientReady(declares_roots=True))
    newest = 0
    for event in in_time(script):
        before = played.state
        effects = played.play(event)
        asked = [effect.asked for effect in effects if isinstance(effect, Ask)]
        given = isinstance(event, Given)
        assert asked in ([], [before.asked + 1 + given])
        assert played.state.asked == before.asked + len(asked) + given
        assert before.settled <= played.state.settled <= played.state.asked
        if played.state.last != before.last and not isinstance(event, Revised):
            assert isinstance(event, RootsAnswered | Given)
            number = before.asked + 1 if isinstance(event, Given) else event.asked
            assert isinstance(event, Given) or number == before.asked
            assert number > newest, "an answer counts once, and never after a newer one"
            newest = number
            assert Publish() in effects


@given(st.lists(events, max_size=60))
def test_in_any_order_of_events_a_call_that_waits_has_its_request_under_way(
    script: list[RootsEvent],
) -> None:
    played = Played(ClientReady(declares_roots=True), *in_time(script))
    played.play(Needed(1e6))
    state = played.state
    if state.awaits is None:
        return
    assert isinstance(state.phase, Asking)
    for _ in range(2):
        played.play(RootsAnswered(played.state.asked, A, 1e6))
    assert played.state.settled >= state.awaits


@given(st.lists(events, max_size=60))
def test_in_any_order_of_events_a_burst_ends_in_time(script: list[RootsEvent]) -> None:
    played, began = Played(ClientReady(declares_roots=True)), 0.0
    for event in in_time(script):
        effects = played.play(event)
        if not isinstance(played.state.phase, Debouncing):
            continue
        began = played.state.phase.began
        for effect in effects:
            if isinstance(effect, Wake):
                assert effect.at <= began + MAX_DEBOUNCE
                assert effect.at == played.state.phase.due


def test_every_event_is_the_clients_or_the_hubs_own_and_no_effect() -> None:
    clients, own, effects = map(set, map(get_args, (ClientEvent, OwnEvent, Effect)))
    assert clients | own == set(get_args(RootsEvent))
    assert not clients & own
    assert not effects & (clients | own)
    words = {word for word in vars(module).values() if isinstance(word, type)}
    assert clients | own | effects <= words


def test_a_failure_is_one_of_a_client_that_was_reached_unless_it_says_otherwise() -> None:
    assert not Failed(1, "no answer", 0.0).unreachable
