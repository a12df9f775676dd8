from __future__ import annotations

import anyio
import pytest
from msgspec.structs import replace

from hub.children.concurrency import FairLimiter, InLine
from hub.errors import ChildError
from hub.values import SessionKey
from tests.kit.fakes import Signals
from tests.kit.rigs import remote

ALICE, BOB, CAROL = SessionKey("alice"), SessionKey("bob"), SessionKey("carol")


def slots_of(count: int, timeout: float = 300) -> FairLimiter:
    return FairLimiter(replace(remote("files"), concurrency=count, timeout=timeout))


class Call:
    """A call in line, which says in `said` what becomes of it."""

    def __init__(
        self,
        said: list[str],
        name: str,
        limiter: FairLimiter,
        *,
        uses: bool = True,
        party: SessionKey = ALICE,
    ) -> None:
        self.party = party
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
        Call(said, name, limiter, uses=name == "b")
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
        Call(said, name, limiter)
    for name in ("b1", "b2"):
        Call(said, name, limiter, party=BOB)
    limiter.give()
    Call(said, "c1", limiter, party=CAROL)
    assert limiter.wanted == 5
    for _ in range(6):
        limiter.give()
    assert said == ["a1", "b1", "a2", "c1", "b2", "a3"]
    assert limiter.wanted == 0
    assert limiter.take()


async def test_who_steps_out_of_line_gets_no_slot() -> None:
    limiter, said = slots_of(1), list[str]()
    assert limiter.take()
    call = Call(said, "a", limiter)
    assert limiter.step_out(call)
    assert not limiter.step_out(call)
    assert limiter.wanted == 0
    limiter.give()
    assert said == []
    assert limiter.take()


async def test_who_waits_for_too_long_steps_out_of_line() -> None:
    limiter, said = slots_of(1, timeout=0.01), list[str]()
    assert limiter.take()
    call = Call(said, "a", limiter)
    await call.signals.until(lambda: bool(said))
    limiter.give()
    assert said == ["a is late"]
    assert limiter.take()


async def test_who_had_its_turn_is_not_late() -> None:
    limiter, said = slots_of(1, timeout=0.01), list[str]()
    assert limiter.take()
    Call(said, "a", limiter)
    limiter.give()
    late = Call(said, "b", limiter)
    await late.signals.until(lambda: len(said) > 1)
    assert said == ["a", "b is late"]


async def test_a_task_waits_for_its_turn_and_gives_its_slot_back() -> None:
    limiter, order = slots_of(1), list[str]()

    async def one(name: str) -> None:
        async with limiter.one_for(ALICE):
            order.append(name)
            await anyio.wait_all_tasks_blocked()

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            for name in "abc":
                tasks.start_soon(one, name)
    assert order == ["a", "b", "c"]
    assert limiter.take()


@pytest.mark.parametrize(("count", "taken"), [(1, "its only slot was"), (2, "all 2 slots were")])
async def test_a_task_that_waits_for_too_long_learns_why(count: int, taken: str) -> None:
    limiter = slots_of(count, timeout=0.01)
    assert all(limiter.take() for _ in range(count))
    with anyio.fail_after(5), pytest.raises(ChildError, match=f"not called: {taken} taken"):
        async with limiter.one_for(ALICE):
            raise AssertionError("there is no slot")
    limiter.give()
    assert limiter.take()
    assert not limiter.take()


class Watched(FairLimiter):
    """Slots that remember who has lined up for one."""

    def line_up(self, one: InLine) -> None:
        self.last = one
        super().line_up(one)


@pytest.mark.parametrize("meanwhile", ["nothing", "its turn comes", "it is late"])
async def test_a_task_that_is_cancelled_in_line_leaves_no_slot_taken(meanwhile: str) -> None:
    limiter = Watched(replace(remote("files"), concurrency=1))
    assert limiter.take()
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:

            async def wait() -> None:
                async with limiter.one_for(ALICE):
                    raise AssertionError("it was cancelled first")

            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
            if meanwhile == "its turn comes":
                limiter.give()
            elif meanwhile == "it is late":
                limiter.last.expire()
    if meanwhile != "its turn comes":
        limiter.give()
    assert limiter.take()
    assert not limiter.take()
