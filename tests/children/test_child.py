from __future__ import annotations

import weakref
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.abc import TaskGroup
from msgspec import Raw
from msgspec.structs import replace
from structlog.testing import capture_logs

from hub.calls.routes import KnownAnswer
from hub.catalog.merge import Listing
from hub.children.callbacks import ChildCallbacks
from hub.children.child import LONGEST_REASON, STALL, Child, Down, Ready, Starting
from hub.children.child_call import MAX_INPUT_ROUNDS, ChildCall
from hub.children.clients import StaleError
from hub.children.handshake import HubDeclaration, ServerHandshake
from hub.children.listing import MAX_LISTED, RELIST_PAUSE
from hub.errors import ChildError
from hub.jsonrpc import messages as wire
from hub.jsonrpc.errors import GoneError, RpcError
from hub.jsonrpc.messages import Notification, Payload, Request
from hub.jsonrpc.peer_conduct import PeerConduct
from hub.paths.resolve import Flavour
from hub.protocol.constants import CLIENT_INFO_META, INTERNAL_ERROR, METHOD_NOT_FOUND
from hub.roots.roots import EMPTY
from hub.specs import RemoteTarget, ServerSpec
from hub.values import Json, JsonObject, SessionKey
from tests.kit.child_calls import AwaitedResult, ChildSlots, call
from tests.kit.fakes import (
    ECHO,
    READ,
    SILENT,
    Answer,
    FakeChild,
    FakeLink,
    RecordingAsker,
    RecordingLessee,
    failure,
    paged,
)
from tests.kit.loops import all_tasks_blocked, virtual_time
from tests.kit.rigs import INFO, admitted, remote, roots_at

SPEC = replace(remote(), start_timeout=5.0, timeout=5.0)
SAMPLING = "sampling/createMessage"


def child_of(
    fake: FakeChild, spec: ServerSpec = SPEC, user: RecordingLessee | None = None
) -> Child:
    notifier = {} if user is None else {SessionKey("a"): user}
    answers = ChildCallbacks(spec, EMPTY, Flavour.POSIX, notifier=lambda: notifier)
    return Child(answers, HubDeclaration(INFO, {}), fake.connect)


@asynccontextmanager
async def owned(
    fake: FakeChild, spec: ServerSpec = SPEC, user: RecordingLessee | None = None
) -> AsyncGenerator[Child]:
    """Keep a child in a task of its own; it is stopped at the end."""
    with anyio.fail_after(2 * STALL):
        async with anyio.create_task_group() as tasks:
            child = child_of(fake, spec, user)
            tasks.start_soon(child.own)
            yield child
            child.stop()


async def error_of(child: Child, caller: RecordingAsker | None = None) -> str:
    with pytest.raises(ChildError) as caught:
        await call(child, admitted(), caller or RecordingAsker())
    return str(caught.value)


class HeldError(dict[str, Json]):
    """An error that can be referred to weakly."""


async def test_what_a_child_said_last_is_not_held_until_it_says_more() -> None:
    fake = FakeChild()
    async with owned(fake) as child:
        await child.ready()
        error = HeldError(code=1, message="nobody waits for this")
        left = weakref.ref(error)
        fake.link.answer(99, wire.Failure(None, error))
        del error
        await all_tasks_blocked()
        assert left() is None


async def test_a_child_is_ready_once_it_is_greeted_and_listed() -> None:
    fake = FakeChild(ECHO, READ)
    async with owned(fake) as child:
        assert isinstance(child.state, Starting)
        ready = await child.ready()
        assert ready.listing == Listing(tools=(ECHO, READ))
        assert ready.handshake.era == "legacy"
        assert child.state == ready
    assert child.state == Down("the hub stopped it")
    assert fake.closed == 1


async def test_a_listing_is_read_to_its_last_page() -> None:
    fake = FakeChild(answers={"tools/list": paged("tools/list", [ECHO], [READ])})
    async with owned(fake) as child:
        assert (await child.ready()).listing.tools == (ECHO, READ)


async def test_half_a_character_in_a_description_does_not_cost_the_list() -> None:
    cut = b'{"tools":[{"name":"echo","description":"cut \\ud83d"}]}'
    async with owned(FakeChild(answers={"tools/list": cut})) as child:
        (tool,) = (await child.ready()).listing.tools
    assert tool == {"name": "echo", "description": "cut \ufffd"}


async def test_a_call_gets_the_childs_result_as_it_came() -> None:
    result = b'{"content":[],"n":1e400,"m":1.10,"x":"\\ud83d","unknown":{"a":[1]}}'
    fake = FakeChild(ECHO, answers={"tools/call": result})
    async with owned(fake) as child:
        caller = RecordingAsker()
        assert await call(child, admitted("echo", {"a": 2**100}), caller) == Raw(result)
        assert (await fake.link.request("tools/call"))["params"] == {
            "name": "echo",
            "arguments": {"a": 2**100},
        }
        assert child.answers.busy == 0


async def test_an_error_of_the_child_is_passed_on_whole() -> None:
    fake = FakeChild(ECHO, answers={"tools/call": failure(-32001, "no")})
    async with owned(fake) as child:
        with pytest.raises(RpcError, match="no"):
            await call(child, admitted(), RecordingAsker())


async def test_64_callers_at_once_get_their_own_answers() -> None:
    fake = FakeChild(ECHO, answers={"tools/call": SILENT})
    results: dict[int, Payload] = {}
    async with owned(fake, replace(SPEC, concurrency=64)) as child:

        async def one(number: int) -> None:
            caller = RecordingAsker(f"client {number % 2}")
            results[number] = await call(child, admitted("echo", {"n": number}), caller)

        async with anyio.create_task_group() as callers:
            for number in range(64):
                callers.start_soon(one, number)
            await (await fake.connected()).request("tools/call", nth=64)
            for line in reversed(fake.link.requests("tools/call")):
                fake.link.answer(line["id"], {"n": line["params"]["arguments"]["n"]})
    assert results == {number: Raw(b'{"n":%d}' % number) for number in range(64)}


async def test_no_more_calls_are_sent_at_once_than_the_operator_wants() -> None:
    fake = FakeChild(ECHO, answers={"tools/call": SILENT})
    spec = replace(SPEC, concurrency=2)
    async with owned(fake, spec) as child, anyio.create_task_group() as callers:
        for number in range(3):
            callers.start_soon(call, child, admitted("echo", {"n": number}), RecordingAsker())
        first = await (await fake.connected()).request("tools/call", nth=2)
        await all_tasks_blocked()
        assert len(fake.link.requests("tools/call")) == 2
        fake.link.answer(first["id"], {})
        await fake.link.request("tools/call", nth=3)
        for line in fake.link.requests("tools/call"):
            fake.link.answer(line["id"], {})


async def test_a_cancelled_call_is_cancelled_at_the_child() -> None:
    fake = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with owned(fake) as child:
        scope = anyio.CancelScope()

        async def calling() -> None:
            with scope:
                await call(child, admitted(), RecordingAsker())

        async with anyio.create_task_group() as callers:
            callers.start_soon(calling)
            await (await fake.connected()).request("tools/call")
            scope.cancel()
        told = await fake.link.request("notifications/cancelled")
        assert told["params"]["requestId"] == fake.link.requests("tools/call")[0]["id"]
        assert child.answers.busy == 0
        assert isinstance(child.state, Ready)


def begun(child: Child, ready: Ready, tasks: TaskGroup) -> ChildCall:
    """Begin a call that no task waits for."""
    assert child.peer is not None
    caller, taker = RecordingAsker(), AwaitedResult(lambda: True)
    one = ChildCall(child, ready, child.peer, admitted().call, caller, None, taker, tasks)
    one.begin()
    return one


async def test_a_child_that_reads_is_told_at_once_of_a_cancelled_call() -> None:
    fake = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with owned(fake) as child, anyio.create_task_group() as tasks:
        ready = await child.ready()
        one = begun(child, ready, tasks)
        one.cancel("enough")
        (sent,) = fake.link.requests("tools/call")
        (told,) = fake.link.requests("notifications/cancelled")
        assert told["params"] == {"requestId": sent["id"], "reason": "enough"}


async def test_a_late_call_is_never_cancelled_before_it_is_sent() -> None:
    fake = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with owned(fake) as child, anyio.create_task_group() as tasks:
        ready = await child.ready()
        fake.is_full = True
        one = begun(child, ready, tasks)
        fake.is_full = False
        one.cancel("enough")
        await fake.link.request("notifications/cancelled")
        methods = [line["method"] for line in fake.link.seen]
        assert methods[-2:] == ["tools/call", "notifications/cancelled"]


async def test_a_call_that_takes_too_long_names_the_server_and_is_cancelled_there() -> None:
    fake = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with owned(fake, replace(SPEC, timeout=0.01)) as child:
        text = "server 'files' did not answer within 0.01 s; the hub cancelled the call"
        assert await error_of(child) == text
        await fake.link.request("notifications/cancelled")
        assert isinstance(child.state, Ready)


async def test_a_child_that_dies_during_a_call_says_which_and_how() -> None:
    fake = FakeChild(ECHO, answers={"tools/call": SILENT})
    errors: list[str] = []
    async with owned(fake) as child:

        async def calling() -> None:
            errors.append(await error_of(child))

        async with anyio.create_task_group() as callers:
            callers.start_soon(calling)
            await (await fake.connected()).request("tools/call")
            fake.link.crash("exited with code 3")
        await fake.ended()
        assert errors == [
            "server 'files' went away during the call: exited with code 3; "
            "the next call starts it again"
        ]
        assert child.state == Down("exited with code 3")
        assert "is not running: exited with code 3" in await error_of(child)


async def test_a_reason_of_any_length_is_kept_and_told_in_short() -> None:
    fake = FakeChild(ECHO)
    with capture_logs() as logs:
        async with owned(fake) as child:
            await child.ready()
            fake.link.crash("E" * 1_000_000)
            await fake.ended()
            assert isinstance(child.state, Down)
            assert len(child.state.reason) < LONGEST_REASON + 100
            assert len(await error_of(child)) < LONGEST_REASON + 300
    assert max(len(repr(line)) for line in logs) < LONGEST_REASON + 500


async def test_who_starts_silently_is_not_waited_for_without_end() -> None:
    fake = FakeChild(answers={"initialize": SILENT})
    async with owned(fake, replace(SPEC, start_timeout=0.01)) as child:
        assert "it did not answer within 0.01 s of its start" in await error_of(child)
    assert fake.closed == 1


class PrintingLink(FakeLink):
    """A connection to a child that prints before it says anything."""

    def __init__(self, child: FakeChild) -> None:
        super().__init__(child, None)
        self.conduct = PeerConduct("files")
        self.conduct.count("stdout is not JSON-RPC", 10)


class PrintingChild(FakeChild):
    @asynccontextmanager
    async def connect(self) -> AsyncGenerator[FakeLink]:
        link = PrintingLink(self)
        try:
            yield link
        finally:
            link.close()


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ({"initialize": SILENT}, "it did not answer within 0.01 s of its start"),
        ({"initialize": {"protocolVersion": "1"}}, "it speaks protocol version '1'"),
    ],
)
async def test_who_waits_for_a_start_that_fails_does_not_wait_until_it_is_cleaned_up(
    answers: dict[str, Answer], reason: str
) -> None:
    fake = FakeChild(answers=answers)
    fake.may_close = anyio.Event()
    async with owned(fake, replace(SPEC, start_timeout=0.01)) as child:
        with anyio.fail_after(5):
            assert reason in await error_of(child)
        assert fake.closed == 0
        fake.may_close.set()
    assert fake.closed == 1


async def test_who_says_no_messages_while_it_starts_is_told_so() -> None:
    fake = PrintingChild(answers={"initialize": SILENT})
    async with owned(fake, replace(SPEC, start_timeout=0.01)) as child:
        said = await error_of(child)
    assert "within 0.01 s of its start (stdout is not JSON-RPC)" in said


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ({"initialize": {"protocolVersion": "1"}}, "it speaks protocol version '1'"),
        ({"initialize": failure(INTERNAL_ERROR, "broken")}, "broken"),
        ({"initialize": b"[]"}, "its result is no object: []"),
    ],
)
async def test_a_child_that_cannot_be_used_says_why(
    answers: dict[str, Answer], reason: str
) -> None:
    async with owned(FakeChild(answers=answers)) as child:
        assert reason in await error_of(child)


async def test_a_child_without_one_of_its_lists_has_the_others() -> None:
    fake = FakeChild(
        ECHO,
        capabilities={"tools": {}, "prompts": {}},
        answers={"prompts/list": failure(INTERNAL_ERROR, "broken")},
    )
    async with owned(fake) as child:
        assert (await child.ready()).listing == Listing(tools=(ECHO,))


async def test_a_start_that_takes_too_long_is_not_cancelled_at_the_child() -> None:
    fake = FakeChild(answers={"initialize": SILENT})
    async with owned(fake, replace(SPEC, start_timeout=0.01)) as child:
        await error_of(child)
    assert [line["method"] for line in fake.link.seen] == ["initialize"]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ChildError("there is no command"), "there is no command"),
        (GoneError("gone"), "gone"),
        (OSError("the network is down"), "OSError: the network is down"),
    ],
)
async def test_a_child_that_cannot_be_opened_says_why(error: Exception, reason: str) -> None:
    fake = FakeChild()
    fake.refuses_to_open = error
    with capture_logs() as logs:
        async with owned(fake) as child:
            assert reason in await error_of(child)
    assert [entry["reason"] for entry in logs if entry["event"] == "down"] == [reason]


@virtual_time
@pytest.mark.parametrize("silent", ["initialize", "tools/list"])
async def test_a_start_is_given_up_as_soon_as_the_child_is_stopped(silent: str) -> None:
    fake = FakeChild(capabilities={"tools": {}}, answers={silent: SILENT})
    began = anyio.current_time()
    async with owned(fake) as child:
        await (await fake.connected()).request(silent)
        child.stop()
        assert "the hub stopped it" in await error_of(child)
    assert (fake.closed, anyio.current_time()) == (1, began)


async def test_a_child_that_is_stopped_before_it_is_opened_does_not_start() -> None:
    fake = FakeChild(ECHO)
    async with owned(fake) as child:
        child.stop()
    assert child.state == Down("the hub stopped it")
    assert [line for link in fake.links for line in link.seen] == []


async def test_a_child_that_is_stopped_is_not_reported_as_down() -> None:
    with capture_logs() as logs:
        async with owned(FakeChild()) as child:
            await child.ready()
    assert [entry["event"] for entry in logs] == ["ready"]


async def test_calls_of_a_child_that_is_stopped_fail() -> None:
    fake = FakeChild(ECHO, answers={"tools/call": SILENT})
    errors: list[str] = []
    async with anyio.create_task_group() as callers, owned(fake) as child:

        async def calling() -> None:
            errors.append(await error_of(child))

        callers.start_soon(calling)
        await (await fake.connected()).request("tools/call")
    assert "the hub stopped it" in errors[0]


class BreakingLessee(RecordingLessee):
    """A user of a child that breaks down when it is told something."""

    async def told(self, spec: ServerSpec, notification: Notification) -> None:
        raise LookupError("nobody foresaw it")


async def test_calls_fail_at_once_where_what_nobody_foresaw_ends_their_child() -> None:
    fake = FakeChild(ECHO, answers={"tools/call": SILENT})
    fake.may_close = may_close = anyio.Event()
    user = BreakingLessee()
    async with anyio.create_task_group() as callers, owned(fake, user=user) as child:

        async def calling() -> None:
            assert "went away during the call" in await error_of(child)
            may_close.set()

        callers.start_soon(calling)
        await (await fake.connected()).request("tools/call")
        fake.link.notify("notifications/message", {"level": "info", "data": "x"})
        await may_close.wait()


async def test_a_child_that_is_not_there_yet_cannot_be_asked() -> None:
    child = child_of(FakeChild())
    with pytest.raises(ChildError, match="server 'files' is not running"):
        await child.request("tools/call", {}, None)
    async with anyio.create_task_group() as tasks:
        child.share(roots_at("/"), tasks)
    assert child.answers.roots == roots_at("/")


async def test_progress_goes_to_the_caller_alone() -> None:
    fake = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with owned(fake) as child:
        watching, other = RecordingAsker("a", progress=True), RecordingAsker("b")
        async with anyio.create_task_group() as callers:
            callers.start_soon(call, child, admitted(), watching)
            callers.start_soon(call, child, admitted(), other)
            await (await fake.connected()).request("tools/call", nth=2)
            lines = fake.link.requests("tools/call")
            tokens = [line["params"].get("_meta", {}).get("progressToken") for line in lines]
            assert [token is None for token in tokens] == [False, True]
            for token in (tokens[0], lines[1]["id"], "unknown"):
                fake.link.notify("notifications/progress", {"progressToken": token, "progress": 1})
            for line in lines:
                fake.link.answer(line["id"], {})
    assert len(watching.reports) == 1
    assert other.reports == other.told == watching.told == []


async def test_what_a_child_asks_is_answered_within_the_call() -> None:
    fake = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with owned(fake) as child:
        caller = RecordingAsker()
        async with anyio.create_task_group() as callers:
            callers.start_soon(call, child, admitted(), caller)
            asked = await (await fake.connected()).request("tools/call")
            fake.link.ask("s1", SAMPLING, {"messages": []})
            assert (await fake.link.reply("s1"))["result"] == {"answered": "caller"}
            fake.link.ask(1, "no/such", {})
            assert (await fake.link.reply(1))["error"]["code"] == METHOD_NOT_FOUND
            fake.link.answer(asked["id"], {})
    assert caller.asked == [(SAMPLING, {"messages": []})]


async def test_what_a_child_says_is_heard_by_who_uses_it() -> None:
    fake, user = FakeChild(ECHO), RecordingLessee()
    async with owned(fake, user=user) as child:
        await child.ready()
        fake.link.notify("notifications/message", {"level": "info", "unknown": 1})
        await user.signals.until(lambda: bool(user.heard))
        assert user.heard[0].params == Raw(b'{"level":"info","unknown":1}')


async def test_who_uses_a_child_is_told_when_it_comes() -> None:
    user = RecordingLessee()
    async with owned(FakeChild(ECHO), user=user):
        await user.signals.until(lambda: bool(user.arrivals))
    assert user.arrivals == ["files"]


async def test_a_list_that_changed_is_read_again_before_anybody_is_told() -> None:
    fake, user = FakeChild(ECHO), RecordingLessee()
    async with owned(fake, user=user) as child:
        await child.ready()
        fake.answers["tools/list"] = {"tools": [READ]}
        fake.link.notify("notifications/tools/list_changed", {})
        await user.signals.until(lambda: bool(user.heard))
        assert user.heard[0].method == "notifications/tools/list_changed"
        assert (await child.ready()).listing.tools == (READ,)


@virtual_time
async def test_lists_that_change_all_the_time_are_read_now_and_then() -> None:
    fake, user = FakeChild(ECHO), RecordingLessee()
    async with owned(fake, user=user) as child:
        await child.ready()
        for number in range(50):
            fake.answers["tools/list"] = {"tools": [{**READ, "name": f"tool{number}"}]}
            fake.link.notify("notifications/tools/list_changed", {})
            await user.signals.until(lambda: bool(user.heard))
        await all_tasks_blocked()
        assert len(fake.link.requests("tools/list")) == 2, "once at its start, and once since"
        assert len(user.heard) == 1
        await anyio.sleep(2 * RELIST_PAUSE)
        assert len(fake.link.requests("tools/list")) == 3, "and once for all that came meanwhile"
        assert len(user.heard) == 2


@virtual_time
async def test_of_a_list_that_only_may_have_changed_nobody_is_told_if_it_has_not() -> None:
    fake, user = FakeChild(ECHO), RecordingLessee()
    async with owned(fake, user=user) as child:
        await child.ready()
        for nth, tool in enumerate((ECHO, READ), 2):
            fake.answers["tools/list"] = {"tools": [tool]}
            child.lists.note_change({"notifications/tools/list_changed"}, is_told=False)
            await fake.link.request("tools/list", nth=nth)
            await all_tasks_blocked()
            assert len(user.heard) == (tool is READ)
            await anyio.sleep(2 * RELIST_PAUSE)


@virtual_time
@pytest.mark.parametrize("broken", [failure(INTERNAL_ERROR, "no"), b"[]", b'"x"'])
async def test_the_last_known_list_stays_where_it_cannot_be_read_again(broken: Answer) -> None:
    fake, user = FakeChild(ECHO), RecordingLessee()
    async with owned(fake, user=user) as child:
        await child.ready()
        fake.answers["tools/list"] = broken
        fake.link.notify("notifications/tools/list_changed", {})
        await fake.link.request("tools/list", nth=2)
        await all_tasks_blocked()
        assert (await child.ready()).listing.tools == (ECHO,)
        user.heard.clear()
        fake.answers["tools/list"] = {"tools": [READ]}
        fake.link.notify("notifications/tools/list_changed", {})
        await user.signals.until(lambda: bool(user.heard))
        assert (await child.ready()).listing.tools == (READ,)


async def test_lists_that_are_too_large_together_are_not_used() -> None:
    fake = FakeChild(ECHO)
    async with owned(fake) as child:
        await child.ready()
        half: JsonObject = {**READ, "description": "x" * (MAX_LISTED // 2)}
        fake.answers["tools/list"] = {"tools": [half], "nextCursor": "2"}
        with capture_logs() as logs:
            fake.link.notify("notifications/tools/list_changed", {})
            await fake.link.request("tools/list", nth=3)
            await anyio.wait_all_tasks_blocked()
        assert [entry["error"] for entry in logs] == ["its lists have over 33554432 bytes"]
        assert (await child.ready()).listing.tools == (ECHO,)


async def test_a_list_that_is_not_answered_stays_as_it_was_known() -> None:
    fake = FakeChild(ECHO)
    async with owned(fake) as child:
        await child.ready()
        child.follow(replace(SPEC, start_timeout=0.01))
        fake.answers["tools/list"] = SILENT
        with capture_logs() as logs:
            fake.link.notify("notifications/tools/list_changed", {})
            await fake.link.request("notifications/cancelled")
            await all_tasks_blocked()
        assert [entry["event"] for entry in logs] == ["listing failed"]
        assert (await child.ready()).listing.tools == (ECHO,)


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"a":"\\ud83d"}}',
        b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":[]}}',
        b'{"jsonrpc":"2.0","method":"notifications/message","params":null}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}',
        b'{"jsonrpc":"2.0","id":99,"result":{}}',
        b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700}}',
    ],
)
async def test_an_odd_message_does_not_end_a_child(line: bytes) -> None:
    fake = FakeChild(ECHO)
    async with owned(fake) as child:
        await child.ready()
        fake.link.say(line)
        assert await call(child, admitted(), RecordingAsker())


async def test_a_request_without_paths_can_be_forwarded() -> None:
    fake = FakeChild(ECHO, answers={"logging/setLevel": {}})
    async with owned(fake) as child:
        assert await child.forward("logging/setLevel", {"level": "info"}) == Raw(b"{}")
        assert (await fake.link.request("logging/setLevel"))["params"] == {"level": "info"}


async def test_a_child_with_other_roots_is_told_and_asks_for_them(tmp_path: object) -> None:
    fake = FakeChild(ECHO)
    async with anyio.create_task_group() as tasks, owned(fake) as child:
        await child.ready()
        child.share(roots_at(tmp_path), tasks)
        await fake.link.request("notifications/roots/list_changed")
        fake.link.ask("r", "roots/list", {})
        reply = await fake.link.reply("r")
        assert reply["result"] == {
            "roots": [{"uri": f"file://{tmp_path}", "name": str(tmp_path).rpartition("/")[2]}]
        }


async def test_a_child_is_told_of_roots_that_changed_while_it_started(tmp_path: object) -> None:
    fake = FakeChild(ECHO, answers={"tools/list": SILENT})
    async with anyio.create_task_group() as tasks, owned(fake) as child:
        listed = await (await fake.connected()).request("tools/list")
        fake.link.ask("r", "roots/list", {})
        await fake.link.reply("r")
        child.share(roots_at(tmp_path), tasks)
        fake.link.answer(listed["id"], {"tools": [ECHO]})
        await child.ready()
        await fake.link.request("notifications/roots/list_changed")
        fake.link.ask("again", "roots/list", {})
        (root,) = (await fake.link.reply("again"))["result"]["roots"]
        assert root["uri"] == f"file://{tmp_path}"


def asking(times: int, *, state: Json = "s") -> FakeChild:
    """Return a modern child whose tool asks for input so many times before it answers."""

    def answer(request: Request) -> Answer:
        nonlocal left
        left -= 1
        if left < 0:
            return {"resultType": "complete", "content": [], "got": request.params}
        asked: JsonObject = {
            "resultType": "input_required",
            "inputRequests": {"a": {"method": SAMPLING, "params": {"n": left}}},
        }
        return asked if state is None else {**asked, "requestState": state}

    left = times
    return FakeChild(ECHO, era="modern", answers={"tools/call": answer})


MODERN = replace(SPEC, era="modern")


async def test_a_modern_child_gets_an_envelope_with_each_request() -> None:
    fake = FakeChild(ECHO, era="modern")
    async with owned(fake, MODERN) as child:
        await call(child, admitted(), RecordingAsker())
        for method in ("tools/list", "tools/call"):
            sent = (await fake.link.request(method))["params"]
            assert sent["_meta"][CLIENT_INFO_META] == INFO


async def test_a_modern_child_that_asks_for_input_gets_it_and_its_state_back() -> None:
    fake, caller = asking(1), RecordingAsker()
    async with owned(fake, MODERN) as child:
        result = await call(child, admitted("echo", {"x": 1}), caller)
    assert b'"complete"' in bytes(result if isinstance(result, Raw) else b"")
    first, second = fake.link.requests("tools/call")
    assert "inputResponses" not in first["params"]
    assert second["params"]["arguments"] == {"x": 1}
    assert second["params"]["inputResponses"] == {"a": {"answered": "caller"}}
    assert second["params"]["requestState"] == "s"
    assert second["id"] != first["id"]
    assert caller.asked == [(SAMPLING, {"n": 0})]


async def test_a_modern_child_that_keeps_no_state_gets_none() -> None:
    fake = asking(1, state=None)
    async with owned(fake, MODERN) as child:
        await call(child, admitted(), RecordingAsker())
    assert "requestState" not in fake.link.requests("tools/call")[1]["params"]


async def test_a_child_that_asks_for_input_without_end_is_given_up() -> None:
    fake = asking(1000)
    async with owned(fake, MODERN) as child:
        assert "asked for input" in await error_of(child)
    assert len(fake.link.requests("tools/call")) == MAX_INPUT_ROUNDS


@pytest.mark.parametrize("requests", [None, {}, "x", {"a": "not a request"}])
async def test_a_modern_child_that_asks_for_nothing_sensible_does_not_end(requests: Json) -> None:
    result: JsonObject = {"resultType": "input_required", "inputRequests": requests}
    fake = FakeChild(ECHO, era="modern", answers={"tools/call": result})
    async with owned(fake, MODERN) as child:
        with pytest.raises((ChildError, RpcError)):
            await call(child, admitted(), RecordingAsker())
        assert isinstance(child.state, Ready)


async def test_an_answer_that_was_lost_is_the_trouble_of_its_own_call() -> None:
    fake = FakeChild(ECHO, answers={"tools/call": wire.lost(0, "it broke")})
    async with owned(fake) as child:
        assert await error_of(child) == (
            "server 'files' gave no answer: it broke; the server still runs and gets the next call"
        )
        assert isinstance(child.state, Ready)


@virtual_time
async def test_a_child_that_asks_on_and_reads_nothing_is_ended() -> None:
    fake = FakeChild(ECHO)
    async with owned(fake) as child:
        await child.ready()
        fake.is_stuck = True
        for number in range(70):
            fake.link.ask(f"p{number}", "ping", {})
        await anyio.sleep(STALL + 1)
        assert child.state == Down("it read no answer for 30 s, and asked on")
        assert fake.closed == 1


async def test_a_request_of_a_child_that_cannot_be_taken_is_answered() -> None:
    fake = FakeChild(ECHO)
    async with owned(fake) as child:
        await child.ready()
        assert child.peer is not None
        child.peer.backlog.add("one", KnownAnswer(Raw(b"{}")))
        fake.link.ask("one", "ping", {})
        reply = await fake.link.reply("one")
        assert reply["error"]["message"] == "A request with this id is under way"


async def test_a_call_whose_verdict_no_longer_holds_when_it_is_its_turn_is_not_sent() -> None:
    fake = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with owned(fake, replace(SPEC, concurrency=1)) as child:
        now = ["old"]

        def is_still_valid() -> bool:
            return now == ["old"]

        async with anyio.create_task_group() as calls:
            calls.start_soon(call, child, admitted(), RecordingAsker())
            sent = await (await fake.connected()).request("tools/call")

            async def second() -> None:
                with pytest.raises(StaleError):
                    await call(child, admitted(), RecordingAsker(), is_still_valid)
                assert len(fake.link.requests("tools/call")) == 1

            calls.start_soon(second)
            await all_tasks_blocked()
            now[:] = ["new"]
            fake.link.answer(sent["id"], {})
        fake.answers["tools/call"] = {}
        assert not child.answers.busy
        now[:] = ["old"]
        await call(child, admitted(), RecordingAsker(), is_still_valid)


async def test_a_call_that_waits_too_long_for_its_turn_is_not_sent() -> None:
    fake = FakeChild(ECHO)
    async with owned(fake, replace(SPEC, concurrency=1, timeout=0.01)) as child:
        await child.ready()
        assert ChildSlots(child.answers).take()
        assert "was not called: its only slot was taken" in await error_of(child)
        assert fake.link.requests("tools/call") == []
        assert child.answers.busy == 1


async def test_a_call_whose_child_goes_before_its_turn_is_looked_up_again() -> None:
    fake = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with (
        owned(fake, replace(SPEC, concurrency=1)) as child,
        anyio.create_task_group() as calls,
    ):

        async def lost() -> None:
            assert "went away during the call" in await error_of(child)

        async def waiting() -> None:
            with pytest.raises(StaleError):
                await call(child, admitted(), RecordingAsker())

        calls.start_soon(lost)
        await (await fake.connected()).request("tools/call")
        calls.start_soon(waiting)
        await all_tasks_blocked()
        fake.link.crash()


@pytest.mark.parametrize(
    "url", ["https://example.com/mcp?key=s3cret", "https://me:s3cret@example.com/mcp#s3cret"]
)
async def test_what_a_transport_says_of_an_address_keeps_its_secrets(url: str) -> None:
    fake = FakeChild(ECHO)
    fake.refuses_to_open = OSError(f"no way to {url}: refused")
    async with owned(fake, replace(SPEC, target=RemoteTarget(url))) as child:
        with pytest.raises(ChildError) as caught:
            await child.ready()
    assert "OSError: no way to https://example.com/mcp: refused" in str(caught.value)
    assert "s3cret" not in str(caught.value)


@virtual_time
async def test_a_shorter_timeout_counts_for_a_call_that_waits_until_the_child_may_ask() -> None:
    fake = FakeChild(ECHO, answers={"tools/call": SILENT})
    errors = list[str]()
    async with owned(fake, spec=replace(SPEC, timeout=3600)) as child:
        await child.ready()
        child.answers.line.is_active = True
        child.follow(replace(SPEC, timeout=0.01))

        async def calling(party: str) -> None:
            errors.append(await error_of(child, RecordingAsker(party)))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(calling, "a")
            tasks.start_soon(calling, "b")
    assert any("was not called" in error for error in errors)


async def test_a_call_that_waited_until_the_child_may_ask_goes_behind_those_in_the_queue() -> None:
    fake = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with (
        owned(fake, replace(SPEC, concurrency=1)) as child,
        anyio.create_task_group() as calls,
    ):
        await child.ready()
        child.answers.line.is_active = True
        child.answers.habits.asked("asks")
        child.answers.habits.finished("quiet")
        for party, tool in (("a", "asks"), ("b", "asks"), ("c", "quiet"), ("c", "quiet")):
            calls.start_soon(call, child, admitted(tool), RecordingAsker(party))
            await all_tasks_blocked()
        for nth, tool in enumerate(("asks", "quiet", "asks", "quiet"), 1):
            await fake.link.request("tools/call", nth=nth)
            sent = fake.link.requests("tools/call")[-1]
            assert sent["params"]["name"] == tool
            fake.link.answer(sent["id"], {})


GREETING = ServerHandshake("legacy", "2025-11-25", {}, {}, "", {})


def test_states_are_equal_that_say_the_same() -> None:
    assert Starting() == Starting()
    assert Down("gone") == Down("gone") != Down("killed")
    listed = Ready(GREETING, Listing(tools=({"name": "echo"},)))
    assert listed == Ready(GREETING, Listing(tools=({"name": "echo"},)))
    assert listed != Ready(GREETING, Listing())
