from __future__ import annotations

import anyio
import pytest

from hub.runtime.slots import Slots


def test_no_more_are_taken_than_there_are() -> None:
    slots = Slots(2)
    assert [slots.take(), slots.take(), slots.take()] == [True, True, False]
    slots.give()
    assert slots.take()


def test_a_slot_that_is_given_back_goes_to_the_first_in_line_that_uses_it() -> None:
    slots, asked = Slots(1), list[str]()

    def begin(name: str, *, uses: bool) -> bool:
        asked.append(name)
        return uses

    assert slots.take()
    slots.line_up(lambda: begin("a", uses=False))
    slots.line_up(lambda: begin("b", uses=True))
    slots.line_up(lambda: begin("c", uses=False))
    slots.give()
    assert asked == ["a", "b"]
    assert not slots.take()
    slots.give()
    assert asked == ["a", "b", "c"]
    assert slots.take()


def test_who_steps_out_of_line_gets_no_slot() -> None:
    slots, asked = Slots(1), list[str]()

    def begin() -> bool:
        asked.append("begun")
        return True

    assert slots.take()
    slots.line_up(begin)
    assert slots.step_out(begin)
    assert not slots.step_out(begin)
    slots.give()
    assert asked == []
    assert slots.take()


async def test_a_task_waits_for_its_turn_and_gives_its_slot_back() -> None:
    slots, order = Slots(1), list[str]()

    async def one(name: str) -> None:
        async with slots:
            order.append(name)
            await anyio.wait_all_tasks_blocked()

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            for name in "abc":
                tasks.start_soon(one, name)
    assert order == ["a", "b", "c"]
    assert slots.take()


@pytest.mark.parametrize("its_turn_came", [False, True])
async def test_a_task_that_is_cancelled_in_line_leaves_no_slot_taken(
    *, its_turn_came: bool
) -> None:
    slots = Slots(1)
    assert slots.take()
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:

            async def wait() -> None:
                async with slots:
                    raise AssertionError("it was cancelled first")

            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
            if its_turn_came:
                slots.give()
    if not its_turn_came:
        slots.give()
    assert slots.take()
    assert not slots.take()
