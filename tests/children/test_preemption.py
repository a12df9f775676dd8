from __future__ import annotations

from hub.children.clients import Caller
from hub.children.concurrency import Preemption
from tests.kit.fakes import RecordingAsker


class CallsInProgress:
    """Calls under way at a child, and how many more wait for a slot."""

    def __init__(self, count: int, **limits: float) -> None:
        self.askers = [RecordingAsker(f"client {number}") for number in range(count)]
        self.calls: dict[Caller, None] = dict.fromkeys(self.askers)
        self.waiting = 0
        self.asked: set[Caller] = set()
        self.preemption = Preemption(
            self.calls.keys(),
            waiting=lambda: self.waiting,
            is_needed=lambda caller: caller in self.asked,
        )

    def leaving(self) -> list[bool]:
        return [self.preemption.must_leave(caller) for caller in self.askers]

    def end(self, caller: Caller) -> None:
        del self.calls[caller]


def test_no_call_is_preempted_while_no_other_waits() -> None:
    assert CallsInProgress(2).leaving() == [False, False]


def test_as_many_calls_must_leave_as_others_wait() -> None:
    rush = CallsInProgress(3)
    rush.waiting = 1
    assert rush.leaving() == [True, False, False]
    assert rush.leaving() == [True, False, False], "it has not gone yet"
    rush.waiting = 2
    assert rush.leaving() == [True, True, False]
    rush.end(rush.askers[0])
    rush.waiting = 1
    assert [rush.preemption.must_leave(caller) for caller in rush.askers[1:]] == [True, False]


def test_a_call_that_is_over_keeps_no_other_from_leaving() -> None:
    rush = CallsInProgress(2)
    rush.waiting = 1
    first, second = rush.askers
    del rush.calls[first]
    assert rush.preemption.must_leave(first)
    assert rush.preemption.must_leave(second)


def test_a_call_that_a_question_waits_for_must_leave() -> None:
    rush = CallsInProgress(3)
    rush.asked.add(rush.askers[1])
    assert rush.leaving() == [False, True, False]
    rush.waiting = 2
    assert rush.leaving() == [True, True, False]
