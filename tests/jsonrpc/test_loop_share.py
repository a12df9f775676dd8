from __future__ import annotations

from hub.jsonrpc.peer_conduct import (
    BURST,
    MOST_OF_ONE,
    SHARE,
    SHORTEST_REST,
    TURN,
    LoopShare,
    TimeBudget,
)
from tests.kit.fakes import FakeClock


def paced(clock: FakeClock, *, together: float = 1e9) -> LoopShare:
    return LoopShare(clock, TimeBudget(together, SHARE, clock))


def test_an_account_fills_up_with_time_to_its_most() -> None:
    clock = FakeClock(100.0)
    account = TimeBudget(2.0, 0.5, clock)
    account.spend(3.0)
    assert account.debt() == 2.0
    clock.now += 1
    assert account.debt() == 1.0
    clock.now += 1000
    account.spend(2.0)
    assert account.debt() == 0.0


def test_others_have_their_turn_after_a_while_and_a_rest_once_the_burst_is_spent() -> None:
    clock = FakeClock(100.0)
    pace = paced(clock)
    pace.spend(TURN / 2)
    assert pace.rest() is None
    pace.spend(TURN)
    assert pace.rest() == 0.0
    assert pace.rest() is None
    pace.spend(BURST)
    rest = pace.rest()
    assert rest is not None
    assert rest >= SHORTEST_REST
    clock.now += rest
    pace.spend(SHORTEST_REST * SHARE)
    assert pace.rest() in {0.0, SHORTEST_REST}, "a share of the rest was there to spend"
    pace.spend(2 * SHORTEST_REST * SHARE)
    assert (pace.rest() or 0.0) > SHORTEST_REST


def test_one_child_rests_for_what_another_has_spent() -> None:
    clock = FakeClock(100.0)
    together = TimeBudget(BURST, SHARE, clock)
    one, other = LoopShare(clock, together), LoopShare(clock, together)
    one.spend(2 * BURST)
    other.spend(TURN)
    rest = other.rest()
    assert rest is not None
    assert rest > 0.0


def test_work_that_delays_no_other_task_counts_in_full() -> None:
    clock = FakeClock(100.0)
    pace = paced(clock)
    pace.lap()
    pace.hand(0)
    clock.now += 3600
    pace.lap()
    rest = pace.done()
    assert rest is not None
    assert rest > 3600


def test_work_is_timed_from_when_it_was_handed_out_as_far_as_it_is_work() -> None:
    clock = FakeClock(100.0)
    pace = paced(clock)
    assert pace.done() is None, "nothing was handed out"
    pace.hand(0)
    clock.now += TURN
    assert pace.done() == 0.0
    assert pace.done() is None
    pace.spend(BURST - TURN)
    pace.hand(0)
    clock.now += 3600  # it waited for somebody
    rest = pace.done()
    assert rest is not None
    assert rest <= MOST_OF_ONE / SHARE
