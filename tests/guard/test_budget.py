import pytest

from hub.guard.budget import FULL_BUDGET, INLINE_BUDGET, Meter, TooMuchError


def test_a_meter_can_be_spent_up_to_its_limit() -> None:
    effort = Meter(3)
    effort.spend(1)
    effort.spend(2)
    assert not effort.left
    with pytest.raises(TooMuchError, match="names too many paths"):
        effort.spend(1)
    assert effort.left < 0


def test_a_meter_can_have_its_own_reason() -> None:
    with pytest.raises(TooMuchError) as raised:
        Meter(0, "there is too much of it").spend(1)
    assert raised.value.reason == "there is too much of it"


def test_the_inline_budget_is_smaller_than_the_full_one() -> None:
    assert INLINE_BUDGET.search < FULL_BUDGET.search
    assert INLINE_BUDGET.readings < FULL_BUDGET.readings
    assert INLINE_BUDGET.effort < FULL_BUDGET.effort
