import pytest

from hub.guard.budget import FULL_BUDGET, INLINE_BUDGET, Meter, TooMuchError


def test_what_was_set_aside_can_be_spent_and_no_more() -> None:
    effort = Meter(3)
    effort.spend(1)
    effort.spend(2)
    assert not effort.is_spent
    with pytest.raises(TooMuchError, match="names more paths"):
        effort.spend(1)
    assert effort.is_spent


def test_what_is_too_much_can_have_a_reason_of_its_own() -> None:
    with pytest.raises(TooMuchError) as raised:
        Meter(0, "there is too much of it").spend(1)
    assert raised.value.reason == "there is too much of it"


def test_what_is_done_soon_is_a_part_of_the_whole() -> None:
    assert INLINE_BUDGET.search < FULL_BUDGET.search
    assert INLINE_BUDGET.readings < FULL_BUDGET.readings
    assert INLINE_BUDGET.effort < FULL_BUDGET.effort
