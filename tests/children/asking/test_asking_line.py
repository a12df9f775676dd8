from __future__ import annotations

from collections.abc import Mapping

import anyio
import pytest
from msgspec.structs import replace

from hub.children.asking.asking_line import (
    EARLY,
    MAX_IN_LINE,
    MAX_KNOWN,
    AskingLine,
    ToolHabits,
    tool_of,
)
from hub.children.clients import Caller
from hub.values import Call, SessionKey
from tests.kit.child_calls import LinedUp
from tests.kit.loops import virtual_time
from tests.kit.rigs import remote


class ObservedLine:
    """A line, what its calls say, and the clients that have abandoned calls."""

    def __init__(self, timeout: float = 300) -> None:
        self.habits, self.said = ToolHabits(), list[str]()
        self.is_holding = False
        self.left: Mapping[SessionKey, float] = {}
        self.calls: dict[Caller, None] = {}
        self.line = AskingLine(
            replace(remote("files"), timeout=timeout),
            self.habits,
            self.calls.keys(),
            is_holding=lambda: self.is_holding,
            abandoned=lambda: self.left,
        )
        self.habits.asked("asks")
        self.habits.finished("quiet")

    def call(self, party: str, tool: str) -> LinedUp:
        """Line a call up; if it may go at once, it is sent."""
        one = LinedUp(party, tool, self.said, self.line)
        if self.line.admits(one):
            one.proceed()
        return one

    def over(self, one: LinedUp) -> None:
        self.line.over(one.request_owner)


async def test_calls_of_asking_tools_go_one_after_the_other() -> None:
    at = ObservedLine()
    first = at.call("a", "asks")
    at.call("b", "asks")
    at.call("c", "asks")
    assert at.said == ["a asks: goes"]
    assert at.line.wanted == 2
    at.over(first)
    assert at.said == ["a asks: goes", "b asks: goes"]
    assert at.line.wanted == 1


async def test_calls_of_quiet_tools_and_of_the_same_client_do_not_wait() -> None:
    at = ObservedLine()
    at.call("a", "asks")
    at.call("b", "quiet")
    at.call("a", "asks")
    at.call("a", "unknown")
    assert at.said == ["a asks: goes", "b quiet: goes", "a asks: goes", "a unknown: goes"]


async def test_what_a_client_calls_to_find_an_answer_does_not_wait_for_others() -> None:
    at = ObservedLine()
    first = at.call("a", "asks")
    at.call("b", "asks")
    at.call("a", "asks")
    assert at.said == ["a asks: goes"], "it is behind b"
    with at.line.asking(first.request_owner, "asks"):
        at.line.move()
        assert at.said == ["a asks: goes", "a asks: goes"]


@virtual_time
async def test_a_call_of_an_unknown_tool_waits_until_others_would_have_asked() -> None:
    at = ObservedLine()
    slow = at.call("a", "slow")
    second = at.call("b", "unknown")
    assert at.said == ["a slow: goes"]
    third = at.call("c", "asks")
    await third.signals.until(lambda: len(at.said) == 3)
    assert at.said == ["a slow: goes", "b unknown: goes", "c asks: goes"]
    at.call("d", "asks")
    for one in (slow, second):
        at.over(one)
    assert len(at.said) == 3, "c is under way"
    at.over(third)
    assert at.said[3:] == ["d asks: goes"]


async def test_a_call_that_asks_waits_for_all_that_were_sent_before_it() -> None:
    at = ObservedLine()
    before, after = at.call("a", "quiet"), LinedUp("b", "quiet")
    at.calls[before.request_owner] = None
    at.call("c", "unknown")
    at.call("d", "asks")
    at.call("a", "asks")
    at.calls[after.request_owner] = None
    assert at.said == ["a quiet: goes", "c unknown: goes"]
    del at.calls[before.request_owner]
    at.habits.finished("unknown")
    at.line.move()
    assert at.said[2:] == ["d asks: goes"]


@virtual_time
async def test_a_call_of_an_unknown_tool_does_not_wait_for_ever_for_one_that_asks() -> None:
    at = ObservedLine()
    at.call("a", "asks")
    second = at.call("b", "unknown")
    assert at.said == ["a asks: goes"]
    at.call("c", "asks")
    await second.signals.until(lambda: len(at.said) == 2)
    assert at.said == ["a asks: goes", "b unknown: goes"]


async def test_what_is_learned_lets_calls_go() -> None:
    at = ObservedLine()
    at.call("a", "slow")
    for party in "bcd":
        at.call(party, "slow")
    assert at.said == ["a slow: goes"]
    at.habits.finished("slow")
    at.line.move()
    assert at.said[1:] == ["b slow: goes", "c slow: goes", "d slow: goes"]


@virtual_time
async def test_a_call_that_waits_for_a_slot_is_in_the_way_until_it_is_sent() -> None:
    at = ObservedLine()
    first = LinedUp("a", "slow", at.said)
    at.line.admits(first)
    del at.said[:]
    second = at.call("b", "unknown")
    await anyio.sleep(2 * EARLY)
    at.line.move()
    assert at.said == []
    at.line.sent(first.request_owner)
    at.line.move()
    assert at.said == []
    await second.signals.until(lambda: at.said == ["b unknown: goes"])


async def test_a_call_that_may_ask_waits_after_one_that_was_abandoned() -> None:
    at = ObservedLine()
    at.left = {SessionKey("a"): anyio.current_time() + 0.01}
    at.call("b", "quiet")
    at.call("a", "unknown")
    last = at.call("b", "asks")
    assert at.said == ["b quiet: goes", "a unknown: goes"]
    at.line.over(last.request_owner)
    at.left = {}
    at.line.move()
    assert len(at.said) == 2, "a's is early"


async def test_a_call_goes_by_itself_when_the_abandoned_one_can_ask_no_more() -> None:
    at = ObservedLine()
    at.left = left = {SessionKey("a"): anyio.current_time() + 0.02}
    one = at.call("b", "asks")
    assert at.said == []
    left.clear()
    await one.signals.until(lambda: bool(at.said))


async def test_a_call_that_asks_waits_for_held_questions() -> None:
    at = ObservedLine()
    at.is_holding = True
    at.call("a", "asks")
    at.call("b", "unknown")
    assert at.said == ["b unknown: goes"]


async def test_who_steps_out_of_line_does_not_go_and_is_in_nobodys_way() -> None:
    at = ObservedLine()
    first = at.call("a", "asks")
    second = at.call("b", "asks")
    at.call("c", "asks")
    assert at.line.step_out(second)
    assert not at.line.step_out(second)
    at.over(first)
    assert at.said == ["a asks: goes", "c asks: goes"]


async def test_who_waits_for_too_long_is_late() -> None:
    at = ObservedLine(timeout=0.01)
    at.call("a", "asks")
    late = at.call("b", "asks")
    await late.signals.until(lambda: len(at.said) == 2)
    assert at.said[1] == "b asks: is late"


async def test_no_more_calls_wait_than_may() -> None:
    at = ObservedLine()
    at.call("a", "asks")
    for _ in range(MAX_IN_LINE):
        at.call("b", "asks")
    at.call("c", "asks")
    assert f"c asks: server 'files' was not called: {MAX_IN_LINE} calls wait already" in at.said[1]
    at.call("d", "quiet")
    assert at.said[2] == "d quiet: goes"


@pytest.mark.parametrize(
    ("method", "habit"),
    [
        ("tools/call", "x"),
        ("prompts/get", "prompts/get x"),
        ("resources/read", "resources/read"),
        ("completion/complete", "completion/complete"),
    ],
)
def test_habits_are_those_of_tools_and_prompts_and_of_other_methods(
    method: str, habit: str
) -> None:
    call = Call("tools/call", "x", {}, {})
    assert tool_of(replace(call, method=method)) == habit


def test_a_tool_that_asked_once_stays_one_that_asks() -> None:
    habits = ToolHabits()
    for number in range(MAX_KNOWN):
        habits.finished(f"tool {number}")
    assert len(habits.quiet) == MAX_KNOWN
    habits.finished("c")
    assert habits.quiet == {"c"}
    habits.asked("c")
    assert (habits.quiet, habits.asking) == (set[str](), {"c"})
    assert habits.is_unknown("tool 0")
    assert not habits.is_unknown("c")


def test_no_more_tools_are_known_to_ask_than_may_be() -> None:
    habits = ToolHabits()
    for number in range(MAX_KNOWN + 1):
        habits.asked(f"tool {number}")
    assert habits.asking == {f"tool {MAX_KNOWN}"}
