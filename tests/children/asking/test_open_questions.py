from __future__ import annotations

import tracemalloc
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio

from hub.children.asking.asking_line import ToolHabits
from hub.children.asking.open_questions import LINGER, OpenQuestions
from hub.children.clients import Caller
from hub.jsonrpc.errors import RpcError
from hub.values import Call
from tests.kit.fakes import RecordingAsker
from tests.kit.loops import all_tasks_blocked, in_time, virtual_time
from tests.kit.rigs import remote

SAMPLING = "sampling/createMessage"


class QuestioningChild:
    """The calls at a child, and whom its questions found."""

    def __init__(self, timeout: float = 300) -> None:
        self.calls: dict[Caller, Call] = {}
        self.habits = ToolHabits()
        spec = remote("files")
        self.questions = OpenQuestions(spec, self.calls, self.habits)
        self.found: list[str] = []

    def begin(self, party: str, tool: str, *, is_present: bool = True) -> RecordingAsker:
        caller = RecordingAsker(party)
        caller.is_present = is_present
        self.calls[caller] = Call("tools/call", tool, {}, {})
        return caller

    async def end(self, caller: RecordingAsker, *, is_answered: bool = True) -> None:
        call = self.calls.pop(caller)
        self.questions.ended(caller, call, is_answered=is_answered)
        await all_tasks_blocked()

    async def ask(self) -> None:
        try:
            caller = await self.questions.source(SAMPLING)
            self.found.append(f"{caller.party} {self.calls[caller].name}")
        except RpcError as exc:
            self.found.append("none" if "several clients" in str(exc) else str(exc))


class Asking:
    """Questions that the test lets the child ask."""

    def __init__(self, child: QuestioningChild, tasks: anyio.abc.TaskGroup) -> None:
        self._child = child
        self._tasks = tasks

    async def __call__(self) -> None:
        self._tasks.start_soon(self._child.ask)
        await all_tasks_blocked()


@asynccontextmanager
async def asking(child: QuestioningChild) -> AsyncGenerator[Asking]:
    async with anyio.create_task_group() as tasks:
        yield Asking(child, tasks)
        tasks.cancel_scope.cancel()


async def test_a_question_is_of_the_only_client_and_its_tool_is_known_from_then_on() -> None:
    child = QuestioningChild()
    caller = child.begin("a", "tool")
    async with asking(child) as ask:
        await ask()
    assert child.found == ["a tool"]
    assert child.habits.asking == {"tool"}
    assert child.questions.tool_asking(caller) == "tool"


async def test_of_several_calls_of_one_client_the_last_that_is_waited_for_is_asked() -> None:
    child = QuestioningChild()
    child.begin("a", "one", is_present=False)
    child.begin("a", "two")
    last = child.begin("a", "three", is_present=False)
    async with asking(child) as ask:
        await ask()
    assert child.found == ["a two"]
    assert not child.habits.asking, "any of them may have asked"
    assert not child.questions.is_clear(last)
    child.habits.finished("one")
    child.habits.finished("two")
    async with asking(child) as ask:
        await ask()
    assert child.habits.asking == {"three"}


async def test_a_question_waits_until_the_calls_of_other_clients_are_answered() -> None:
    child = QuestioningChild()
    slow, _, other = (child.begin(party, party) for party in ("slow", "asker", "other"))
    async with asking(child) as ask:
        await ask()
        assert child.questions.is_holding()
        assert child.questions.holds_for(slow)
        late = child.begin("late", "late")
        assert not child.questions.holds_for(late), "it was not there"
        await child.end(other)
        assert child.found == []
        await child.end(slow)
        assert child.found == ["asker asker"]
    assert not child.questions.is_holding()


async def test_a_question_of_a_call_that_was_abandoned_goes_to_nobody() -> None:
    child = QuestioningChild()
    slow, _ = child.begin("slow", "slow"), child.begin("asker", "asker")
    async with asking(child) as ask:
        await ask()
        await child.end(slow, is_answered=False)
        assert child.found == ["none"]
        assert child.habits.asking == {"slow", "asker"}, "either may have"
        await ask()
        assert child.found == ["none"] * 2, "the child may not know yet that it was given up"


@virtual_time
async def test_not_for_ever() -> None:
    child = QuestioningChild()
    slow, _ = child.begin("slow", "slow"), child.begin("asker", "asker")
    await child.end(slow, is_answered=False)
    await anyio.sleep(LINGER)
    async with asking(child) as ask:
        await ask()
    assert child.found == ["asker asker"]


@virtual_time
async def test_abandoned_calls_of_many_clients_are_forgotten_though_no_child_asks() -> None:
    child, most = QuestioningChild(), 0
    tracemalloc.start()
    try:
        for number in range(2000):
            await child.end(child.begin(f"client {number}", "x"), is_answered=False)
            await anyio.sleep(LINGER / 10)
            if number == 100:
                most = tracemalloc.get_traced_memory()[0] + 100_000
        assert tracemalloc.get_traced_memory()[0] < most
    finally:
        tracemalloc.stop()


async def test_an_abandoned_call_of_the_same_client_is_in_no_ones_way() -> None:
    child = QuestioningChild()
    given_up, _ = child.begin("a", "slow"), child.begin("a", "asker")
    other = child.begin("b", "other")
    async with asking(child) as ask:
        await child.end(given_up, is_answered=False)
        await ask()
        assert child.found == []
        await child.end(other)
    assert child.found == ["a asker"]


async def test_a_call_of_an_asking_tool_that_ends_unasked_may_have_stopped_waiting() -> None:
    child = QuestioningChild()
    child.habits.asked("asks")
    gave_up, _ = child.begin("a", "asks"), child.begin("b", "other")
    async with asking(child) as ask:
        await ask()
        await child.end(gave_up)
    assert child.found == ["none"]


async def test_a_call_that_was_asked_about_and_answered_is_over() -> None:
    child = QuestioningChild()
    first = child.begin("a", "asks")
    async with asking(child) as ask:
        await ask()
        child.begin("b", "other")
        await ask()
        await child.end(first)
    assert child.found == ["a asks", "b other"]


async def test_a_question_whose_call_has_ended_finds_nobody() -> None:
    child = QuestioningChild()
    async with asking(child) as ask:
        await ask()
    assert "no client has a call under way" in child.found[0]


@virtual_time
async def test_calls_that_wait_for_each_other_are_told_so() -> None:
    child = QuestioningChild()
    one, _ = child.begin("a", "one"), child.begin("b", "two")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(child.ask)
        await all_tasks_blocked()
        with in_time():
            await child.ask()
        assert child.found == ["none"]
        assert child.habits.asking == {"one", "two"}
        child.questions.ended(one, child.calls.pop(one), is_answered=True)
        await all_tasks_blocked()
    assert child.found == ["none"] * 2, "it may be of the call that has ended"
