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
    Breaker,
    BreakerClosed,
    BreakerEvent,
    BreakerHalfOpen,
    BreakerOpen,
    CallAnswered,
    Fell,
    GivenUp,
    Looked,
    Taken,
    pause_of,
    step,
)


def after(*events: BreakerEvent, breaker: Breaker = CLOSED) -> Breaker:
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
    assert after(crashed) == BreakerClosed(1, 0.0)
    assert after(crashed, crashed) == BreakerClosed(2, 1.0)
    assert after(crashed, crashed, crashed) == BreakerOpen(3, 2.0)


def test_a_child_that_ran_for_long_resets_its_failures() -> None:
    assert after(failed(), failed(), Fell(100.0, STEADY, 0.0)) == BreakerClosed(1, 100.0)


def test_jitter_takes_off_a_part_of_the_pause() -> None:
    assert after(failed(chance=1.0)) == BreakerClosed(1, 1 - SPREAD)


def test_repeated_failures_open_it_and_time_opens_it_half() -> None:
    opened = after(*[failed()] * TOLERATED)
    assert opened == BreakerOpen(3, 4.0)
    assert step(opened, Looked(3.9)) is opened
    assert step(opened, Looked(4.0)) == BreakerHalfOpen(3)
    assert pause_of(opened, 1.0) == 3.0


def test_one_call_is_let_through_and_its_answer_closes_it() -> None:
    half = BreakerHalfOpen(3)
    assert step(half, Taken()) == BreakerHalfOpen(3, is_taken=True)
    assert after(Taken(), GivenUp(), breaker=half) == half
    assert after(Taken(), CallAnswered(), breaker=half) == CLOSED
    assert after(Taken(), failed(10.0), breaker=half) == BreakerOpen(4, 18.0)
    assert pause_of(half, 0.0) == 0.0


@pytest.mark.parametrize("event", [Looked(0.0), Taken(), CallAnswered(), GivenUp()])
@pytest.mark.parametrize("breaker", [BreakerClosed(1, 5.0), BreakerOpen(3, 5.0)])
def test_nothing_else_moves_it(breaker: Breaker, event: BreakerEvent) -> None:
    assert step(breaker, event) is breaker


def test_looking_leaves_a_trial_alone() -> None:
    assert step(BreakerHalfOpen(3, is_taken=True), Looked(9.0)) == BreakerHalfOpen(3, is_taken=True)


EVENTS = st.one_of(
    st.builds(Looked, st.floats(0, 1e6)),
    st.just(Taken()),
    st.just(CallAnswered()),
    st.just(GivenUp()),
    st.builds(Fell, st.floats(0, 1e6), st.none() | st.floats(0, 100), st.floats(0, 0.999)),
)


@given(st.lists(EVENTS))
def test_no_order_of_events_shuts_a_child_out_for_longer_than_the_bound(
    events: list[BreakerEvent],
) -> None:
    now, breaker = 0.0, after()
    for event in events:
        breaker = step(breaker, event)
        if isinstance(event, Fell):
            now = event.now
        assert pause_of(breaker, now) <= MAX_PAUSE
