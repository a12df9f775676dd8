from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from hub.children.circuit_breaker import MAX_PAUSE, SPREAD, STEADY, TOLERATED, ChildHealth
from hub.children.clients import InputNeededError
from hub.errors import ChildError
from hub.jsonrpc.errors import RpcError
from hub.protocol.input_requests import NO_STATE
from tests.kit.fakes import FakeClock


class TimedHealth(ChildHealth):
    """A child whose time is set; it is started at once, and fails after `ran` seconds, or never."""

    def __init__(self, chance: float = 0.0) -> None:
        self.time = FakeClock()
        super().__init__("files", self.time, lambda: chance)

    def fail(self, ran: float | None = None) -> float:
        if ran is not None:
            self.came()
            self.time.advance(ran)
        self.fell()
        return self.pause

    @property
    def pause(self) -> float:
        at = self.retry_at
        return 0.0 if at is None else at - self.time.now


def half_open() -> TimedHealth:
    health = TimedHealth()
    for _ in range(TOLERATED):
        health.fail()
    health.time.advance(4)
    assert (health.looked(), health.breaker) == (0.0, "half-open")
    return health


def test_each_failed_start_doubles_the_pause_up_to_a_bound() -> None:
    health = TimedHealth()
    pauses = [health.fail() for _ in range(9)]
    assert pauses == [1, 2, 4, 8, 16, 32, MAX_PAUSE, MAX_PAUSE, MAX_PAUSE]


def test_a_child_that_answered_calls_is_started_again_at_once_but_not_over_and_over() -> None:
    health = TimedHealth()
    told = [(health.fail(1.0), health.breaker) for _ in range(3)]
    assert told == [(0, "closed"), (1, "closed"), (2, "open")]


def test_a_child_that_ran_for_long_resets_its_failures() -> None:
    health = TimedHealth()
    health.fail()
    health.fail()
    assert (health.fail(STEADY), health.failures, health.breaker) == (0, 1, "closed")


def test_jitter_takes_off_a_part_of_the_pause() -> None:
    assert TimedHealth(chance=1.0).fail() == 1 - SPREAD


def test_repeated_failures_open_it_and_time_opens_it_half() -> None:
    health = TimedHealth()
    for _ in range(TOLERATED):
        health.fail()
    health.time.advance(1)
    assert (health.looked(), health.breaker) == (3, "open")
    health.time.advance(2.9)
    assert health.looked() > 0
    assert health.breaker == "open"
    health.time.advance(0.2)
    assert (health.looked(), health.breaker) == (0, "half-open")


def test_one_call_is_let_through_and_its_answer_closes_it() -> None:
    health = half_open()
    with health.trying():
        assert health.looked() == 0
        with pytest.raises(ChildError, match="testing"), health.trying():
            pass
        assert health.breaker == "half-open"
    assert (health.breaker, health.failures) == ("closed", 0)


def test_after_a_call_that_says_nothing_another_one_may_try() -> None:
    health = half_open()
    with pytest.raises(ChildError, match="too slow"), health.trying():
        raise ChildError("too slow")
    with health.trying():
        pass
    assert health.breaker == "closed"


def test_a_child_that_fails_while_a_call_tries_it_is_shut_out_for_longer() -> None:
    health = half_open()
    with health.trying():
        assert health.fail() == 8
    assert (health.breaker, health.failures) == ("open", 4)


def test_a_call_moves_no_breaker_that_is_not_half_open() -> None:
    health = TimedHealth()
    for state in ("closed", "open"):
        health.fail()
        health.fail()
        before = health.pause
        with health.trying():
            pass
        assert (health.breaker, health.pause) == (state, before)


@given(
    st.lists(
        st.one_of(st.just("look"), st.just("call"), st.none() | st.floats(0, 100)),
    ),
    st.floats(0, 0.999),
)
def test_no_order_of_events_shuts_a_child_out_for_longer_than_the_bound(
    events: list[str | float | None], chance: float
) -> None:
    health = TimedHealth(chance)
    for event in events:
        if event == "look":
            health.looked()
        elif event == "call":
            with health.trying():
                pass
        else:
            health.fail(None if event is None else float(event))
        assert health.pause <= MAX_PAUSE


def failing(times: int) -> tuple[ChildHealth, FakeClock]:
    clock = FakeClock()
    health = ChildHealth("files", clock, lambda: 0.0)
    for _ in range(times):
        health.fell()
    return health, clock


def test_what_comes_next_is_said() -> None:
    health, clock = failing(0)
    assert (health.outlook, health.retry_at) == ("the next call starts it again", None)
    health.fell()
    assert health.outlook == "it can be started again in 1.0 s"
    assert (health.looked(), health.retry_at) == (1.0, clock.now + 1)
    clock.advance(1)
    assert (health.looked(), health.retry_at) == (0.0, None)


def test_a_child_that_has_answered_is_started_again_at_once() -> None:
    health, clock = failing(0)
    health.came()
    clock.advance(5)
    health.fell()
    assert (health.failures, health.looked()) == (1, 0.0)
    health.fell()
    assert health.looked() == 2.0


def test_the_breaker_is_told_of_in_the_log() -> None:
    with capture_logs() as logs:
        health, clock = failing(3)
        clock.advance(4)
        with health.trying():
            pass
    assert [(entry["state"], entry["failures"]) for entry in logs] == [
        ("open", 3),
        ("half-open", 3),
        ("closed", 0),
    ]


@pytest.mark.parametrize(
    ("raised", "state"),
    [
        (RpcError(-1, "no"), "closed"),
        (InputNeededError({}, NO_STATE, lasts=1.0), "closed"),
        (ChildError("too slow"), "half-open"),
    ],
)
def test_an_error_of_the_child_is_an_answer_and_a_call_without_one_says_nothing(
    raised: Exception, state: str
) -> None:
    health, clock = failing(3)
    clock.advance(4)
    with pytest.raises(type(raised)), health.trying():
        raise raised
    assert health.breaker == state


def test_while_one_call_tries_no_other_does() -> None:
    health, clock = failing(3)
    with health.trying():
        pass
    assert health.breaker == "open"
    clock.advance(4)
    with health.trying(), pytest.raises(ChildError) as caught, health.trying():
        pass
    assert str(caught.value) == (
        "server 'files' has failed 3 times in a row, and one call is testing whether it works "
        "again; call again when that is answered"
    )


def test_a_child_is_well_while_nothing_watches_its_calls() -> None:
    assert ChildHealth().is_well
    assert not failing(20)[0].is_well
