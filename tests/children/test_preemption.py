from __future__ import annotations

import anyio
import pytest

from hub.children.clients import Caller
from hub.children.concurrency import Preemption
from tests.kit.fakes import RecordingAsker


class CallsInProgress:
    """Calls under way at a child, and how many more wait for a slot."""

    def __init__(self, count: int, **limits: float) -> None:
        self.askers = [RecordingAsker(f"client {number}") for number in range(count)]
        self.calls: dict[Caller, None] = dict.fromkeys(self.askers)
        self.waiting = 0
        self.preemption = Preemption(self.calls.keys(), waiting=lambda: self.waiting, **limits)

    def leaving(self) -> list[bool]:
        return [self.preemption.must_leave(caller) for caller in self.askers]

    def end(self, caller: Caller, *, is_answered: bool) -> None:
        del self.calls[caller]
        self.preemption.ended(caller, is_answered=is_answered)


def test_no_call_is_preempted_while_no_other_waits() -> None:
    assert CallsInProgress(2).leaving() == [False, False]


def test_as_many_calls_must_leave_as_others_wait() -> None:
    rush = CallsInProgress(3)
    rush.waiting = 1
    assert rush.leaving() == [True, False, False]
    assert rush.leaving() == [True, False, False], "it has not gone yet"
    rush.waiting = 2
    assert rush.leaving() == [True, True, False]
    rush.end(rush.askers[0], is_answered=True)
    rush.waiting = 1
    assert [rush.preemption.must_leave(caller) for caller in rush.askers[1:]] == [True, False]


def test_a_call_that_is_over_keeps_no_other_from_leaving() -> None:
    rush = CallsInProgress(2)
    rush.waiting = 1
    first, second = rush.askers
    del rush.calls[first]
    assert rush.preemption.must_leave(first)
    assert rush.preemption.must_leave(second)


@pytest.mark.parametrize("answered", [2, 1, 0])
async def test_a_questions_call_is_known_once_all_other_calls_are_answered(
    answered: int,
) -> None:
    rush, found = CallsInProgress(3), list[bool]()
    async with anyio.create_task_group() as tasks:

        async def wait() -> None:
            found.append(await rush.preemption.until_answered(rush.askers[:2]))

        tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        assert rush.leaving() == [True, True, False]
        rush.end(rush.askers[2], is_answered=False)
        for number in (0, 1):
            assert not found
            rush.end(rush.askers[number], is_answered=number < answered)
            await anyio.wait_all_tasks_blocked()
            if number >= answered:
                break
    assert found == [answered == 2]
    assert rush.leaving() == [False] * 3


async def test_a_question_waits_no_longer_than_calls_may_take_to_leave() -> None:
    rush = CallsInProgress(2, patience=0.01)
    with anyio.fail_after(5):
        assert not await rush.preemption.until_answered(rush.askers[:1])
