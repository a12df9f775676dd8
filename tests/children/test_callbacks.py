from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.abc import TaskGroup
from msgspec import Raw
from msgspec.structs import replace
from structlog.testing import capture_logs

from hub.children.callbacks import ChildCallbacks, ChildRequest
from hub.jsonrpc.errors import RpcError
from hub.jsonrpc.messages import Notification, Payload, Request
from hub.jsonrpc.peer import Asked
from hub.jsonrpc.requests import UNSAID, Answer, AwaitedRequest, PendingRequests, RequestWithin
from hub.jsonrpc.send_queue import MAX_WEIGHT
from hub.paths.resolve import Flavour
from hub.protocol.constants import METHOD_NOT_FOUND
from hub.roots.roots import EMPTY, Root, RootSet
from hub.specs import RemoteTarget, ServerSpec
from hub.values import Json, JsonObject, ServerName, SessionKey
from tests.kit.child_calls import LinedUp, in_flight
from tests.kit.fakes import RecordingAsker, RecordingLessee, RecordingOutlet
from tests.kit.loops import all_tasks_blocked

SPEC = ServerSpec(ServerName("files"), RemoteTarget("https://example.com/mcp"))
ROOTS = RootSet(
    (
        Root("file:///a%20b", "/a b", "A", is_file=False, parts=("a b",), device=1, inode=1),
        Root("file:///c", "/c", "", is_file=False, parts=("c",), device=1, inode=2),
    )
)
SAMPLING = "sampling/createMessage"
NO_PARAMS: JsonObject = {}


def answers(
    roots: RootSet = ROOTS,
    spec: ServerSpec = SPEC,
    users: Mapping[str, RecordingLessee] | None = None,
) -> ChildCallbacks:
    notifier = {SessionKey(name): user for name, user in (users or {}).items()}
    return ChildCallbacks(spec, roots, Flavour.POSIX, notifier=lambda: notifier)


async def refusal(made: ChildCallbacks, method: str) -> RpcError:
    with pytest.raises(RpcError) as caught:
        await made.answer(method, {})
    assert caught.value.code == METHOD_NOT_FOUND
    return caught.value


async def test_a_ping_is_answered() -> None:
    assert await answers().answer("ping", {}) == {}


async def test_a_child_that_asks_for_roots_gets_the_effective_ones() -> None:
    assert await answers().answer("roots/list", {}) == {
        "roots": [{"uri": "file:///a%20b", "name": "A"}, {"uri": "file:///c"}]
    }


async def test_a_child_without_roots_gets_its_empty_directory_never_an_empty_list() -> None:
    made = answers(EMPTY)
    made.private_directory = "/tmp/roots hub"  # noqa: S108 - only a name
    assert await made.answer("roots/list", {}) == {"roots": [{"uri": "file:///tmp/roots%20hub"}]}


async def test_a_child_whose_operator_wants_no_answers_gets_none() -> None:
    await refusal(answers(spec=replace(SPEC, answer_roots=False)), "roots/list")


async def test_a_question_that_the_hub_does_not_know_is_refused() -> None:
    assert str(await refusal(answers(), "tasks/list")) == "Method not found: tasks/list"


async def test_a_question_for_the_client_goes_to_the_one_whose_call_is_under_way() -> None:
    made, caller = answers(), RecordingAsker()
    with in_flight(made, caller):
        assert made.busy == 1
        assert await made.answer(SAMPLING, {"a": 1}) == {"answered": "caller"}
    assert caller.asked == [(SAMPLING, {"a": 1})]
    assert made.busy == 0


async def test_several_calls_of_one_client_are_of_one_client() -> None:
    made = answers()
    with in_flight(made, RecordingAsker("a")), in_flight(made, RecordingAsker("a")):
        assert await made.answer("elicitation/create", {}) == {"answered": "a"}


async def test_calls_of_one_party_are_of_one_client_and_the_one_that_waits_is_asked() -> None:
    made = answers()
    askers = [RecordingAsker(name) for name in ("a", "b", "c")]
    for caller in askers:
        caller.party = askers[0].party
    askers[2].is_present = False
    with in_flight(made, askers[0]), in_flight(made, askers[1]), in_flight(made, askers[2]):
        assert await made.answer(SAMPLING, {}) == {"answered": "b"}
    askers[0].is_present = askers[1].is_present = False
    with in_flight(made, askers[0]), in_flight(made, askers[1]), in_flight(made, askers[2]):
        assert await made.answer(SAMPLING, {}) == {"answered": "c"}


async def test_a_question_may_say_itself_whose_call_the_child_serves() -> None:
    made, outlet, pending = answers(), RecordingOutlet(), PendingRequests()
    askers = [RecordingAsker(name) for name in ("a", "b")]
    for id_, caller in enumerate(askers):
        pending[id_] = AwaitedRequest(caller)
    pending[2] = AwaitedRequest(None)

    async def answer(within: int) -> Payload:
        asked = Asked(RequestWithin("q", SAMPLING, within=within), outlet, pending=pending)
        async with anyio.create_task_group() as tasks, ChildRequest(asked, tasks) as question:
            return await made.answer(SAMPLING, {}, question)
        raise AssertionError

    with in_flight(made, askers[0]), in_flight(made, askers[1]):
        assert [await answer(0), await answer(1)] == [{"answered": "a"}, {"answered": "b"}]
        assert not made.line.is_active
    with in_flight(made, askers[0]):
        assert await answer(2) == {"answered": "a"}, "it named a request of the hub's own"
    assert made.line.is_active
    del pending[1]
    with in_flight(made, askers[0]), pytest.raises(ExceptionGroup) as caught:
        await answer(1)
    assert "the call is over" in str(caught.value.exceptions[0])
    assert len(askers[0].asked) == 2


async def test_a_question_without_a_call_is_refused() -> None:
    assert "no client has a call under way" in str(await refusal(answers(), SAMPLING))


async def test_an_abandoned_call_ends_if_a_question_or_a_call_that_asks_waits_for_it() -> None:
    made, away, here = answers(), RecordingAsker("away"), RecordingAsker("here")
    away.is_present = False
    async with anyio.create_task_group() as tasks:
        with in_flight(made, away, "first"):
            assert not made.preemption.must_leave(away)
            with in_flight(made, here, "second"):
                tasks.start_soon(made.answer, SAMPLING, NO_PARAMS, None)
                await all_tasks_blocked()
                assert made.preemption.must_leave(away)
            await all_tasks_blocked()
            assert len(away.asked) == 1
            assert not made.preemption.must_leave(away)
            waiting = LinedUp("here", "first")
            assert not made.line.admits(waiting)
            assert made.preemption.must_leave(away)
            assert made.line.step_out(waiting)


async def test_everybody_who_uses_a_child_hears_it_once() -> None:
    idle, busy = RecordingLessee(), RecordingLessee()
    made = answers(users={"idle": idle, "busy": busy})
    first, second = RecordingAsker("busy"), RecordingAsker("busy")
    news = Notification("notifications/tools/list_changed", {})
    with in_flight(made, first), in_flight(made, second):
        await made.spread(news)
    assert idle.heard == [news]
    assert busy.heard == [], "it hears it through its call"
    assert first.told + second.told == [news]


async def test_everybody_who_uses_a_child_is_told_that_it_came() -> None:
    user = RecordingLessee()
    await answers(users={"a": user}).came()
    assert user.arrivals == ["files"]


async def test_it_is_known_whether_calls_of_others_are_under_way() -> None:
    made = answers()
    with in_flight(made, RecordingAsker("a")), in_flight(made, RecordingAsker("b")):
        assert made.serves_others({SessionKey("a")})
        assert not made.serves_others({SessionKey("a"), SessionKey("b")})
    assert not made.serves_others(())


PROGRESS = "notifications/progress"


def asked_with(token: Json) -> tuple[Asked, RecordingOutlet]:
    outlet = RecordingOutlet()
    return Asked(Request("q", "m", {"_meta": {"progressToken": token}}), outlet), outlet


@asynccontextmanager
async def some_tasks() -> AsyncGenerator[TaskGroup]:
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            yield tasks
            tasks.cancel_scope.cancel()


async def report(question: ChildRequest, number: int) -> None:
    assert question.progress is not None
    await question.progress(Raw(b'{"progressToken":9,"progress":%d.10}' % number))


@pytest.mark.parametrize("token", ["mine", 0])
async def test_reports_reach_the_child_under_its_own_token_before_the_end(token: Json) -> None:
    asked, outlet = asked_with(token)
    async with some_tasks() as tasks:
        async with ChildRequest(asked, tasks) as question:
            for number in (1, 2):
                await report(question, number)
            assert outlet.messages == [], "nobody waits for it"
        assert [line["params"] for line in outlet.lines] == [
            {"progressToken": token, "progress": 1.1},
            {"progressToken": token, "progress": 2.1},
        ]
        assert len(outlet.notified(PROGRESS)) == 2


async def test_reports_go_out_before_an_error_too() -> None:
    asked, outlet = asked_with("mine")
    async with some_tasks() as tasks:

        async def refuse() -> None:
            async with ChildRequest(asked, tasks) as question:
                await report(question, 1)
                raise RpcError(-1, "no")

        with pytest.raises(RpcError, match="no"):
            await refuse()
        assert len(outlet.notified(PROGRESS)) == 1


@pytest.mark.parametrize("token", [None, True, 1.5, [1]])
async def test_who_gives_no_token_hears_no_reports(token: Json) -> None:
    asked, _ = asked_with(token)
    async with some_tasks() as tasks, ChildRequest(asked, tasks) as question:
        assert question.progress is None


async def test_a_child_that_is_gone_hears_nothing() -> None:
    asked, outlet = asked_with("mine")
    outlet.gone = True
    async with some_tasks() as tasks:
        async with ChildRequest(asked, tasks) as question:
            await report(question, 1)
        assert outlet.messages == []


async def test_a_child_that_does_not_read_holds_up_who_reports_as_little_as_who_gives_up() -> None:
    asked, outlet = asked_with("mine")
    outlet.stuck = True
    async with some_tasks() as tasks:
        with anyio.CancelScope() as scope:
            async with ChildRequest(asked, tasks) as question:
                for number in range(3):
                    await report(question, number)
                await all_tasks_blocked()
                scope.cancel()
        assert scope.cancelled_caught
        assert len(outlet.messages) == 1


async def test_reports_for_a_child_that_does_not_read_are_bounded_by_their_bytes() -> None:
    asked, outlet = asked_with("mine")
    outlet.stuck = True
    async with some_tasks() as tasks:
        with anyio.CancelScope() as scope, capture_logs() as logs:
            async with ChildRequest(asked, tasks) as question:
                assert question.progress is not None
                message = "x" * (MAX_WEIGHT * 6 // 10)
                for _ in range(3):
                    await question.progress({"progress": 1, "message": message})
                    await all_tasks_blocked()
                scope.cancel()
    assert [entry["log_level"] for entry in logs] == ["warning"], "one is on its way, one waits"


async def test_why_it_is_taken_back_is_what_the_child_says() -> None:
    asked, _ = asked_with("mine")
    async with some_tasks() as tasks, ChildRequest(asked, tasks) as question:
        assert question.reason == UNSAID
        asked.cancel("enough")
        assert question.reason == "enough"


class Waiter:
    """Somebody who waits for an answer without a task, on his own behalf."""

    progress = None
    reason = UNSAID

    @property
    def request_owner(self) -> Waiter:
        return self

    def settle(self, answer: Answer) -> None:
        raise AssertionError("nobody answers")


@pytest.mark.parametrize("has_task", [True, False])
async def test_a_child_may_say_within_which_request_it_asks(*, has_task: bool) -> None:
    pending, waiter = PendingRequests(), Waiter()
    pending[7] = AwaitedRequest(waiter) if has_task else waiter
    pending[8] = AwaitedRequest(None)
    outlet = RecordingOutlet()
    async with some_tasks() as tasks:
        for request, served in (
            (RequestWithin("q", "m", within=7), waiter),
            (RequestWithin("q", "m", within=8), None),
            (Request("q", "m"), None),
        ):
            async with ChildRequest(Asked(request, outlet, pending=pending), tasks) as question:
                assert question.served() is served
        over = Asked(RequestWithin("q", "m", within=9), outlet, pending=pending)
        async with ChildRequest(over, tasks) as question:
            with pytest.raises(RpcError, match="the call is over"):
                question.served()


async def test_a_report_says_all_that_the_client_said() -> None:
    asked, outlet = asked_with("mine")
    async with some_tasks() as tasks:
        async with ChildRequest(asked, tasks) as question:
            assert question.progress is not None
            await question.progress({"progress": 1, "x": [2**70], "message": "m"})
        params: JsonObject = {"progress": 1, "x": [2**70], "message": "m", "progressToken": "mine"}
        assert outlet.messages == [Notification(PROGRESS, params)]
