from __future__ import annotations

from collections.abc import Mapping

import anyio
import pytest
from msgspec.structs import replace

from hub.children.callbacks import ChildCallbacks, ChildRequest
from hub.jsonrpc.errors import RpcError
from hub.jsonrpc.messages import Notification, Payload
from hub.jsonrpc.peer import Asked
from hub.jsonrpc.requests import AwaitedRequest, PendingRequests, RequestWithin
from hub.paths.resolve import Flavour
from hub.protocol.constants import METHOD_NOT_FOUND
from hub.roots.roots import EMPTY, Root, RootSet
from hub.specs import RemoteTarget, ServerSpec
from hub.values import JsonObject, ServerName, SessionKey
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
        pending.add(id_, AwaitedRequest(caller))
    pending.add(2, AwaitedRequest(None))

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
    pending.forget(1)
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
