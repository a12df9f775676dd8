from __future__ import annotations

from msgspec.structs import replace

from hub.children.clients import Caller
from hub.children.concurrency import FairLimiter, Preemption
from hub.values import SessionKey
from tests.kit.fakes import RecordingAsker, Signals
from tests.kit.rigs import remote

ALICE, BOB, CAROL = SessionKey("alice"), SessionKey("bob"), SessionKey("carol")


def slots_of(count: int, timeout: float = 300) -> FairLimiter:
    return FairLimiter(replace(remote("files"), concurrency=count, timeout=timeout))


class LinedUpCall:
    """A call in line, which says in `said` what becomes of it."""

    def __init__(
        self,
        said: list[str],
        name: str,
        limiter: FairLimiter,
        *,
        uses: bool = True,
        queue_key: str = ALICE,
    ) -> None:
        self.queue_key = queue_key
        self.signals = Signals()
        self._said = said
        self._name = name
        self._slots = limiter
        self._uses = uses
        limiter.line_up(self)

    def have_turn(self) -> bool:
        self._said.append(self._name)
        return self._uses

    def expire(self) -> None:
        assert self._slots.step_out(self)
        self._said.append(f"{self._name} is late")
        self.signals.moved()


async def test_no_more_are_taken_than_there_are() -> None:
    limiter = slots_of(2)
    assert [limiter.take(), limiter.take(), limiter.take()] == [True, True, False]
    limiter.give()
    assert limiter.take()


async def test_a_slot_that_is_given_back_goes_to_the_first_in_line_that_uses_it() -> None:
    limiter, said = slots_of(1), list[str]()
    assert limiter.take()
    for name in "abc":
        LinedUpCall(said, name, limiter, uses=name == "b")
    limiter.give()
    assert said == ["a", "b"]
    assert limiter.wanted == 1
    assert not limiter.take()
    limiter.give()
    assert said == ["a", "b", "c"]
    assert limiter.take()


async def test_parties_have_their_turns_one_after_the_other() -> None:
    limiter, said = slots_of(1), list[str]()
    assert limiter.take()
    for name in ("a1", "a2", "a3"):
        LinedUpCall(said, name, limiter)
    for name in ("b1", "b2"):
        LinedUpCall(said, name, limiter, queue_key=BOB)
    limiter.give()
    LinedUpCall(said, "c1", limiter, queue_key=CAROL)
    assert limiter.wanted == 5
    for _ in range(6):
        limiter.give()
    assert said == ["a1", "b1", "a2", "c1", "b2", "a3"]
    assert limiter.wanted == 0
    assert limiter.take()


async def test_who_steps_out_of_line_gets_no_slot() -> None:
    limiter, said = slots_of(1), list[str]()
    assert limiter.take()
    call = LinedUpCall(said, "a", limiter)
    assert limiter.step_out(call)
    assert not limiter.step_out(call)
    assert limiter.wanted == 0
    limiter.give()
    assert said == []
    assert limiter.take()


async def test_who_waits_for_too_long_steps_out_of_line() -> None:
    limiter, said = slots_of(1, timeout=0.01), list[str]()
    assert limiter.take()
    call = LinedUpCall(said, "a", limiter)
    await call.signals.until(lambda: bool(said))
    limiter.give()
    assert said == ["a is late"]
    assert limiter.take()


async def test_who_had_its_turn_is_not_late() -> None:
    limiter, said = slots_of(1, timeout=0.01), list[str]()
    assert limiter.take()
    LinedUpCall(said, "a", limiter)
    limiter.give()
    late = LinedUpCall(said, "b", limiter)
    await late.signals.until(lambda: len(said) > 1)
    assert said == ["a", "b is late"]


async def test_a_higher_limit_serves_the_line_and_a_lower_one_takes_no_slot_away() -> None:
    limiter, said = slots_of(1), list[str]()
    assert limiter.take()
    for name in "abc":
        LinedUpCall(said, name, limiter)
    limiter.follow(replace(remote("files"), concurrency=3))
    assert said == ["a", "b"]
    limiter.follow(replace(remote("files"), concurrency=1))
    limiter.give()
    limiter.give()
    assert said == ["a", "b"]
    assert not limiter.take()
    limiter.give()
    assert said == ["a", "b", "c"]
    limiter.give()
    assert [limiter.take(), limiter.take()] == [True, False]


async def test_any_number_of_calls_may_be_over_as_soon_as_they_have_the_slot() -> None:
    limiter, said = slots_of(1), list[str]()

    class Brief(LinedUpCall):
        def have_turn(self) -> bool:
            super().have_turn()
            self._slots.give()
            return True

    assert limiter.take()
    for number in range(3000):
        Brief(said, str(number), limiter)
    limiter.give()
    assert len(said) == 3000
    assert [limiter.take(), limiter.take()] == [True, False]


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
