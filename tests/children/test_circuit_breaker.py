from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.children.circuit_breaker import (
    CLOSED,
    MAX_PAUSE,
    SPREAD,
    STEADY,
    TOLERATED,
    Answered,
    Breaker,
    Closed,
    Event,
    Fell,
    GivenUp,
    HalfOpen,
    Looked,
    Open,
    Taken,
    name_of,
    pause_of,
    step,
)


def after(*events: Event, breaker: Breaker = CLOSED) -> Breaker:
    for event in events:
        breaker = step(breaker, event)
    return breaker


def failed(now: float = 0.0, chance: float = 0.0) -> Fell:
    return Fell(now, None, chance)


def test_each_failed_start_doubles_the_pause_up_to_a_bound() -> None:
    breaker, pauses = after(), list[float]()
    for _ in range(9):
        breaker = step(breaker, failed())
        pauses.append(pause_of(breaker, 0.0))
    assert pauses == [1, 2, 4, 8, 16, 32, MAX_PAUSE, MAX_PAUSE, MAX_PAUSE]


def test_a_child_that_answered_calls_is_started_again_at_once_but_not_over_and_over() -> None:
    crashed = Fell(0.0, 1.0, 0.0)
    assert after(crashed) == Closed(1, 0.0)
    assert after(crashed, crashed) == Closed(2, 1.0)
    assert after(crashed, crashed, crashed) == Open(3, 2.0)


def test_a_child_that_was_well_for_long_begins_anew() -> None:
    assert after(failed(), failed(), Fell(100.0, STEADY, 0.0)) == Closed(1, 100.0)


def test_chance_takes_off_a_part_of_the_pause() -> None:
    assert after(failed(chance=1.0)) == Closed(1, 1 - SPREAD)


def test_repeated_failures_open_it_and_time_opens_it_half() -> None:
    opened = after(*[failed()] * TOLERATED)
    assert opened == Open(3, 4.0)
    assert step(opened, Looked(3.9)) is opened
    assert step(opened, Looked(4.0)) == HalfOpen(3)
    assert pause_of(opened, 1.0) == 3.0


def test_one_call_tries_and_its_answer_closes_it() -> None:
    half = HalfOpen(3)
    assert step(half, Taken()) == HalfOpen(3, is_taken=True)
    assert after(Taken(), GivenUp(), breaker=half) == half
    assert after(Taken(), Answered(), breaker=half) == CLOSED
    assert after(Taken(), failed(10.0), breaker=half) == Open(4, 18.0)
    assert pause_of(half, 0.0) == 0.0


@pytest.mark.parametrize("event", [Looked(0.0), Taken(), Answered(), GivenUp()])
@pytest.mark.parametrize("breaker", [Closed(1, 5.0), Open(3, 5.0)])
def test_nothing_else_moves_it(breaker: Breaker, event: Event) -> None:
    assert step(breaker, event) is breaker


def test_looking_leaves_a_trial_alone() -> None:
    assert step(HalfOpen(3, is_taken=True), Looked(9.0)) == HalfOpen(3, is_taken=True)


def test_each_state_has_a_name() -> None:
    assert [name_of(one) for one in (CLOSED, Open(3, 0.0), HalfOpen(3))] == [
        "closed",
        "open",
        "half-open",
    ]


EVENTS = st.one_of(
    st.builds(Looked, st.floats(0, 1e6)),
    st.just(Taken()),
    st.just(Answered()),
    st.just(GivenUp()),
    st.builds(Fell, st.floats(0, 1e6), st.none() | st.floats(0, 100), st.floats(0, 0.999)),
)


@given(st.lists(EVENTS))
def test_no_order_of_events_shuts_a_child_out_for_longer_than_the_bound(
    events: list[Event],
) -> None:
    now, breaker = 0.0, after()
    for event in events:
        breaker = step(breaker, event)
        if isinstance(event, Fell):
            now = event.now
        assert pause_of(breaker, now) <= MAX_PAUSE
