from __future__ import annotations

from msgspec.structs import replace

from hub.children.clients import Caller
from hub.children.concurrency import FairLimiter, Preemption
from hub.values import SessionKey
from tests.kit.fakes import RecordingAsker, Signals
from tests.kit.rigs import remote

ALICE, BOB, CAROL = SessionKey("alice"), SessionKey("bob"), SessionKey("carol")


class Slots:
    """The slots of a child with a queue for them, which say in `said` what becomes of calls."""

    def __init__(self, count: int, timeout: float = 300) -> None:
        self.taken: list[Caller] = []
        self.said: list[str] = []
        spec = replace(remote("files"), concurrency=count, timeout=timeout)
        self.limiter = FairLimiter(spec, self.taken)

    def take(self) -> None:
        self.taken.append(RecordingAsker())

    def give(self) -> None:
        """Give a slot back, as a call does that ends."""
        self.taken.pop()
        self.limiter.give()

    def follow(self, count: int) -> None:
        self.limiter.follow(replace(remote("files"), concurrency=count))


class LinedUpCall:
    """A call in the queue; without `uses` it takes no slot when it has its turn."""

    def __init__(
        self, slots: Slots, name: str, *, uses: bool = True, queue_key: str = ALICE
    ) -> None:
        self.queue_key = queue_key
        self.signals = Signals()
        self.slots = slots
        self._name = name
        self._uses = uses
        slots.limiter.line_up(self)

    def have_turn(self) -> None:
        self.slots.said.append(self._name)
        if self._uses:
            self.slots.take()

    def expire(self) -> None:
        assert self.slots.limiter.step_out(self)
        self.slots.said.append(f"{self._name} is late")
        self.signals.moved()


async def test_a_slot_that_is_given_back_goes_to_the_first_in_line_that_uses_it() -> None:
    slots = Slots(1)
    slots.take()
    for name in "abc":
        LinedUpCall(slots, name, uses=name == "b")
    slots.give()
    assert slots.said == ["a", "b"]
    assert slots.limiter.wanted == 1
    slots.give()
    assert slots.said == ["a", "b", "c"]
    assert slots.taken == []


async def test_nobody_has_a_turn_while_all_slots_are_taken() -> None:
    slots = Slots(2)
    for _ in range(2):
        slots.take()
    LinedUpCall(slots, "a")
    slots.limiter.give()
    assert slots.said == []
    slots.give()
    assert slots.said == ["a"]


async def test_parties_have_their_turns_one_after_the_other() -> None:
    slots = Slots(1)
    slots.take()
    for name in ("a1", "a2", "a3"):
        LinedUpCall(slots, name)
    for name in ("b1", "b2"):
        LinedUpCall(slots, name, queue_key=BOB)
    slots.give()
    LinedUpCall(slots, "c1", queue_key=CAROL)
    assert slots.limiter.wanted == 5
    for _ in range(6):
        slots.give()
    assert slots.said == ["a1", "b1", "a2", "c1", "b2", "a3"]
    assert slots.limiter.wanted == 0
    assert not slots.limiter.turns


async def test_who_steps_out_of_line_gets_no_slot() -> None:
    slots = Slots(1)
    slots.take()
    call = LinedUpCall(slots, "a")
    assert slots.limiter.step_out(call)
    assert not slots.limiter.step_out(call)
    assert slots.limiter.wanted == 0
    slots.give()
    assert slots.said == []


async def test_who_waits_for_too_long_steps_out_of_line() -> None:
    slots = Slots(1, timeout=0.01)
    slots.take()
    call = LinedUpCall(slots, "a")
    await call.signals.until(lambda: bool(slots.said))
    slots.give()
    assert slots.said == ["a is late"]


async def test_who_had_its_turn_is_not_late() -> None:
    slots = Slots(1, timeout=0.01)
    slots.take()
    LinedUpCall(slots, "a")
    slots.give()
    late = LinedUpCall(slots, "b")
    await late.signals.until(lambda: len(slots.said) > 1)
    assert slots.said == ["a", "b is late"]


async def test_a_higher_limit_serves_the_line_and_a_lower_one_takes_no_slot_away() -> None:
    slots = Slots(1)
    slots.take()
    for name in "abc":
        LinedUpCall(slots, name)
    slots.follow(3)
    assert slots.said == ["a", "b"]
    slots.follow(1)
    slots.give()
    slots.give()
    assert slots.said == ["a", "b"]
    slots.give()
    assert slots.said == ["a", "b", "c"]


async def test_any_number_of_calls_may_be_over_as_soon_as_they_have_the_slot() -> None:
    slots = Slots(1)

    class Brief(LinedUpCall):
        def have_turn(self) -> None:
            super().have_turn()
            self.slots.give()

    slots.take()
    for number in range(3000):
        Brief(slots, str(number))
    slots.give()
    assert len(slots.said) == 3000
    assert slots.taken == []


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
