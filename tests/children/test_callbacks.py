from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, suppress

import anyio
import pytest
from msgspec.structs import replace

from hub.children.callbacks import ChildCallbacks, as_child_request
from hub.children.concurrency import LINGER
from hub.jsonrpc.messages import Notification, Payload
from hub.jsonrpc.outgoing import AwaitedRequest, PendingRequests, RequestWithin
from hub.jsonrpc.peer import Asked, GoneError, RpcError
from hub.paths.resolve import Flavour
from hub.protocol.constants import METHOD_NOT_FOUND
from hub.roots.roots import EMPTY, Root, RootSet
from hub.specs import RemoteTarget, ServerSpec
from hub.values import ServerName, SessionKey
from tests.kit.child_calls import in_flight
from tests.kit.fakes import RecordingAsker, RecordingLessee, RecordingOutlet

SPEC = ServerSpec(ServerName("files"), RemoteTarget("https://example.com/mcp"))
ROOTS = RootSet(
    (
        Root("file:///a%20b", "/a b", "A", is_file=False, parts=("a b",), device=1, inode=1),
        Root("file:///c", "/c", "", is_file=False, parts=("c",), device=1, inode=2),
    )
)
SAMPLING = "sampling/createMessage"


def answers(
    roots: RootSet = ROOTS,
    spec: ServerSpec = SPEC,
    users: Mapping[str, RecordingLessee] | None = None,
) -> ChildCallbacks:
    notifier = {SessionKey(name): user for name, user in (users or {}).items()}
    return ChildCallbacks(spec, roots, Flavour.POSIX, notifier=lambda: notifier)


async def refusal(made: ChildCallbacks, method: str) -> RpcError:
    with pytest.raises(RpcError) as caught:
        await made.answer(method, {}, None)
    assert caught.value.code == METHOD_NOT_FOUND
    return caught.value


async def test_a_ping_is_answered() -> None:
    assert await answers().answer("ping", {}, None) == {}


async def test_a_child_that_asks_for_roots_gets_the_effective_ones() -> None:
    assert await answers().answer("roots/list", {}, None) == {
        "roots": [{"uri": "file:///a%20b", "name": "A"}, {"uri": "file:///c"}]
    }


async def test_a_child_without_roots_gets_its_empty_directory_never_an_empty_list() -> None:
    made = answers(EMPTY)
    made.opened(private="/tmp/roots hub")  # noqa: S108 - only a name
    assert await made.answer("roots/list", {}, None) == {
        "roots": [{"uri": "file:///tmp/roots%20hub"}]
    }


async def test_a_child_whose_operator_wants_no_answers_gets_none() -> None:
    await refusal(answers(spec=replace(SPEC, answer_roots=False)), "roots/list")


async def test_a_question_that_the_hub_does_not_know_is_refused() -> None:
    assert str(await refusal(answers(), "tasks/list")) == "Method not found: tasks/list"


async def test_a_question_for_the_client_goes_to_the_one_whose_call_is_under_way() -> None:
    made, caller = answers(), RecordingAsker()
    with in_flight(made, caller):
        assert made.busy == 1
        assert await made.answer(SAMPLING, {"a": 1}, None) == {"answered": "caller"}
    assert caller.asked == [(SAMPLING, {"a": 1})]
    assert made.busy == 0


async def test_several_calls_of_one_client_are_of_one_client() -> None:
    made = answers()
    with in_flight(made, RecordingAsker("a")), in_flight(made, RecordingAsker("a")):
        assert await made.answer("elicitation/create", {}, None) == {"answered": "a"}


async def test_calls_of_one_party_are_of_one_client_and_the_one_that_waits_is_asked() -> None:
    made = answers()
    askers = [RecordingAsker(name) for name in ("a", "b", "c")]
    for caller in askers:
        caller.party = askers[0].party
    askers[2].is_present = False
    with in_flight(made, askers[0]), in_flight(made, askers[1]), in_flight(made, askers[2]):
        assert await made.answer(SAMPLING, {}, None) == {"answered": "b"}
    askers[0].is_present = askers[1].is_present = False
    with in_flight(made, askers[0]), in_flight(made, askers[1]), in_flight(made, askers[2]):
        assert await made.answer(SAMPLING, {}, None) == {"answered": "c"}


async def test_a_question_within_a_call_goes_to_that_calls_client() -> None:
    made = answers()
    with in_flight(made, RecordingAsker("a")), in_flight(made, RecordingAsker("b")):
        assert await made.answer(SAMPLING, {}, RecordingAsker("c")) == {"answered": "c"}


async def test_a_question_may_say_itself_whose_call_the_child_serves() -> None:
    made, outlet, pending = answers(), RecordingOutlet(), PendingRequests()
    askers = [RecordingAsker(name) for name in ("a", "b")]
    for id_, caller in enumerate(askers):
        pending.add(id_, AwaitedRequest(caller))
    pending.add(2, AwaitedRequest(None))

    async def answer(within: int) -> Payload:
        asked = Asked(RequestWithin("q", SAMPLING, within=within), outlet, pending=pending)
        async with anyio.create_task_group() as tasks, as_child_request(asked, tasks) as question:
            return await made.answer(SAMPLING, {}, None, question)
        raise AssertionError

    with in_flight(made, askers[0]), in_flight(made, askers[1]):
        assert [await answer(0), await answer(1)] == [{"answered": "a"}, {"answered": "b"}]
        with pytest.raises(ExceptionGroup) as caught:
            await answer(2)
        assert "several clients have calls under way" in str(caught.value.exceptions[0])
    pending.forget(1)
    with in_flight(made, askers[0]), pytest.raises(ExceptionGroup) as caught:
        await answer(1)
    assert "the call is over" in str(caught.value.exceptions[0])
    assert len(askers[0].asked) == 1


async def test_a_question_that_could_be_for_several_clients_goes_to_none() -> None:
    made = answers()
    with in_flight(made, RecordingAsker("a")), in_flight(made, RecordingAsker("b")):
        assert "several clients have calls under way" in str(await refusal(made, SAMPLING))
    assert "no client has a call under way" in str(await refusal(made, SAMPLING))


class Held:
    """A question of a child's that waits until it is plain which client it is for."""

    def __init__(self, *names: str) -> None:
        self.made = answers()
        self.askers = [RecordingAsker(name) for name in names]
        self.outcome: Payload | RpcError | None = None

    async def ask(self) -> None:
        try:
            self.outcome = await self.made.answer(SAMPLING, {}, None)
        except RpcError as exc:
            self.outcome = exc

    def is_refused(self) -> bool:
        return isinstance(self.outcome, RpcError) and "several clients" in str(self.outcome)


async def serve(made: ChildCallbacks, caller: RecordingAsker, end: anyio.Event, how: str) -> None:
    """Let a call be under way until it ends as it is to."""
    with suppress(RpcError, GoneError), in_flight(made, caller):
        await end.wait()
        if how == "an error":
            raise RpcError(-1, "no")
        if how == "given up":
            raise GoneError("no answer")


@pytest.mark.parametrize(
    ("how", "goes_on"), [("a result", True), ("an error", True), ("given up", False)]
)
async def test_a_question_waits_until_the_child_has_answered_calls_whose_clients_are_away(
    how: str, *, goes_on: bool
) -> None:
    held, end = Held("away", "here"), anyio.Event()
    away, here = held.askers
    away.is_present = False
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve, held.made, away, end, how)
        await anyio.wait_all_tasks_blocked()
        with in_flight(held.made, here):
            tasks.start_soon(held.ask)
            await anyio.wait_all_tasks_blocked()
            assert held.outcome is None
            assert held.made.preemption.must_leave(away)
            assert not held.made.preemption.must_leave(here)
            end.set()
            await anyio.wait_all_tasks_blocked()
            assert (held.outcome == {"answered": "here"}) is goes_on
            assert held.is_refused() is not goes_on
    assert not away.asked


async def test_a_question_of_a_call_that_ends_meanwhile_goes_to_nobody() -> None:
    held, end = Held("away", "here"), anyio.Event()
    away, here = held.askers
    away.is_present = False
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve, held.made, away, end, "a result")
        await anyio.wait_all_tasks_blocked()
        with in_flight(held.made, here):
            tasks.start_soon(held.ask)
            await anyio.wait_all_tasks_blocked()
        end.set()
    assert held.is_refused()
    assert not away.asked
    assert not here.asked


@pytest.mark.parametrize("presence", [True, False])
async def test_a_question_that_could_be_of_a_call_that_was_given_up_goes_to_no_other_client(
    *, presence: bool
) -> None:
    held = Held("left", "here", "away")
    left, here, away = held.askers
    away.is_present = presence
    with suppress(GoneError), in_flight(held.made, left):
        raise GoneError("no answer")
    with in_flight(held.made, here), in_flight(held.made, away), anyio.fail_after(5):
        await held.ask()
        assert held.is_refused()
    with in_flight(held.made, here):
        await held.ask()
        assert held.is_refused(), "its child may not know yet that it was given up"
    with in_flight(held.made, left):
        await held.ask()
        assert held.outcome == {"answered": "left"}, "whichever of its calls it is of"
    await anyio.sleep(LINGER)
    with in_flight(held.made, here):
        await held.ask()
        assert held.outcome == {"answered": "here"}, "not for ever"


@pytest.mark.parametrize("present", [(), ("a", "b")])
async def test_a_question_does_not_wait_where_it_stays_open_whose_it_is(
    present: tuple[str, ...],
) -> None:
    held = Held("a", "b", "c")
    for caller in held.askers:
        caller.is_present = caller.party in present
    with ExitStack() as calls:
        for caller in held.askers:
            calls.enter_context(in_flight(held.made, caller))
        with anyio.fail_after(5):
            await held.ask()
    assert held.is_refused()


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
