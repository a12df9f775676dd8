"""Calls of modern clients in rounds, through a whole hub whose children are played."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import anyio
import pytest
from msgspec.structs import force_setattr
from structlog.testing import capture_logs

from hub.calls.audit_trail import CallAudit
from hub.calls.judging import JudgingContext
from hub.calls.modern_calls import MAX_KEPT_BYTES, MAX_PARKED_OF_ONE, ParkedCalls
from hub.calls.resolve import Relay
from hub.calls.rounds.askable_call import KEPT, AskableCall, Dialogue
from hub.children.concurrency import PATIENCE
from hub.jsonrpc.messages import Payload
from hub.protocol.constants import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND
from hub.protocol.input_requests import CONSENT_KEY, ROOTS_KEY
from hub.values import Json, JsonObject, object_or_empty
from tests.kit.callers import (
    ACCEPTED,
    ELICITATION,
    EVERYTHING,
    FORM,
    SAMPLING,
    URL,
    ScriptedCaller,
    answered,
    asked,
    asked_again,
    completed,
    question,
    silent,
)
from tests.kit.fakes import ECHO, READ, SILENT, FakeChild
from tests.kit.hubs import text_of
from tests.kit.loops import all_tasks_blocked, virtual_time
from tests.kit.scripted import ScriptedHub, scripted
from tests.kit.trees import plant

pytestmark = pytest.mark.usefixtures("both_ways")

# A child of the handshake era: its call is parked


async def test_a_childs_question_becomes_the_calls_result_and_the_retry_its_answer() -> None:
    child = silent()
    async with scripted(child) as hub:
        caller = ScriptedCaller(hub)
        result = await asked(child, caller)
        key, request = question(result)
        assert request == {"method": ELICITATION, "params": FORM}
        assert not {"ttlMs", "cacheScope"} & set(result)
        id_ = await caller.begin({key: ACCEPTED}, result["requestState"])
        reply = await child.link.reply("q")
        assert reply["result"] == ACCEPTED
        (sent,) = child.link.requests("tools/call")
        child.link.answer(sent["id"], {"content": [], "n": 1})
        answer = await caller.end(id_)
        assert (answer["resultType"], answer["n"]) == ("complete", 1)
        assert len(child.link.requests("tools/call")) == 1


async def test_several_questions_at_once_go_out_together_and_one_call_may_ask_again() -> None:
    child = silent()
    async with scripted(child) as hub:
        caller = ScriptedCaller(hub)
        id_ = await caller.begin()
        link = await child.connected()
        await link.request("tools/call")
        link.ask("one", ELICITATION, FORM)
        link.ask("two", SAMPLING, {"messages": [], "maxTokens": 1})
        first = await caller.end(id_)
        methods = {one["method"]: key for key, one in first["inputRequests"].items()}
        assert set(methods) == {ELICITATION, SAMPLING}
        id_ = await caller.begin({methods[SAMPLING]: {"role": "assistant"}}, first["requestState"])
        assert (await link.reply("two"))["result"] == {"role": "assistant"}
        second = await caller.end(id_)
        assert question(second)[0] == methods[ELICITATION], "what has no answer is asked again"
        id_ = await caller.begin({methods[ELICITATION]: ACCEPTED}, second["requestState"])
        assert (await link.reply("one"))["result"] == ACCEPTED
        link.ask("three", ELICITATION, URL)
        third = await caller.end(id_)
        key, request = question(third)
        assert request["params"] == URL
        assert key not in first["inputRequests"]
        id_ = await caller.begin({key: {"action": "decline"}}, third["requestState"])
        assert (await link.reply("three"))["result"] == {"action": "decline"}
        link.answer(link.requests("tools/call")[0]["id"], {"content": []})
        assert (await caller.end(id_))["resultType"] == "complete"


async def test_a_modern_client_gets_no_id_of_an_elicitation_whose_end_it_is_not_told() -> None:
    child = silent()
    async with scripted(child) as hub:
        caller = ScriptedCaller(hub)
        result = await asked(child, caller, {**URL, "elicitationId": "e1"})
        assert question(result)[1]["params"] == URL
        child.link.notify("notifications/elicitation/complete", {"elicitationId": "e1"})
        key, _ = question(result)
        id_ = await caller.begin({key: {"action": "accept"}}, result["requestState"])
        await child.link.reply("q")
        child.link.answer(child.link.requests("tools/call")[0]["id"], {"content": []})
        await caller.end(id_)
        assert not [line for line in caller.client.received if "method" in line]


UNDECLARED: list[tuple[JsonObject, str, JsonObject]] = [
    ({"sampling": {}}, ELICITATION, FORM),
    ({"elicitation": {}}, SAMPLING, {"messages": []}),
    ({"elicitation": {}}, ELICITATION, URL),
    ({"elicitation": {"url": {}}}, ELICITATION, FORM),
    ({"elicitation": True, "sampling": False}, SAMPLING, {"messages": []}),
    ({}, ELICITATION, FORM),
]


@pytest.mark.parametrize(("capabilities", "method", "params"), UNDECLARED)
async def test_a_client_is_asked_for_nothing_that_it_does_not_declare(
    capabilities: JsonObject, method: str, params: JsonObject
) -> None:
    child = silent()
    async with scripted(child) as hub:
        caller = ScriptedCaller(hub, capabilities)
        id_ = await caller.begin()
        link = await child.connected()
        sent = await link.request("tools/call")
        link.ask("q", method, params)
        assert (await link.reply("q"))["error"]["code"] == METHOD_NOT_FOUND
        link.answer(sent["id"], {"content": []})
        assert (await caller.end(id_))["resultType"] == "complete"


async def test_a_child_is_told_what_the_client_of_the_call_can_be_asked() -> None:
    child = FakeChild(ECHO)
    async with scripted(child) as hub:
        await ScriptedCaller(hub, {"elicitation": {"url": {}}, "extensions": {"x": {}}}).round()
        (handshake,) = child.link.requests("initialize")
        assert handshake["params"]["capabilities"].keys() <= {"elicitation", "roots"}
        assert handshake["params"]["capabilities"]["elicitation"] == {"url": {}}
        await ScriptedCaller(hub, {}).round()
        assert len(child.links) == 2, "who can be asked shares no child with who cannot"


# States that are refused


async def test_a_state_is_taken_once() -> None:
    child = silent()
    async with scripted(child) as hub:
        caller = ScriptedCaller(hub)
        result = await asked(child, caller)
        id_ = await answered(child, caller, result)
        key, _ = question(result)
        error = await caller.refusal({key: ACCEPTED}, result["requestState"])
        assert error["code"] == INVALID_PARAMS
        assert "it was used before" in str(error["message"])
        await completed(child, caller, id_)
        assert (await caller.refusal({key: ACCEPTED}, result["requestState"])) == error


async def test_a_state_that_is_not_for_this_call_is_refused_and_the_call_waits_on() -> None:
    child = silent(ECHO, READ)
    async with scripted(child) as hub:
        caller = ScriptedCaller(hub)
        result = await asked(child, caller)
        state, (key, _) = str(result["requestState"]), question(result)
        other_arguments = ScriptedCaller(hub, arguments={"text": "ho"})
        other_tool = ScriptedCaller(hub, name="read")
        for who, retry in (
            (caller, f"{'B' if state[0] == 'A' else 'A'}{state[1:]}"),
            (caller, state + "A"),
            (caller, state[:-8]),
            (caller, ""),
            (caller, "\u00e9" * 60),
            (caller, 7),
            (caller, {"parked": "x"}),
            (other_arguments, state),
            (other_tool, state),
        ):
            error = await who.refusal({key: ACCEPTED}, cast("Json", retry))
            assert error["code"] == INVALID_PARAMS, retry
            assert "requestState is not valid" in str(error["message"])
        id_ = await caller.begin({key: ACCEPTED}, state)
        assert (await child.link.reply("q"))["result"] == ACCEPTED
        await completed(child, caller, id_)


async def test_a_state_of_another_principal_or_hub_is_refused() -> None:
    child = silent()
    async with scripted(child) as hub, scripted(silent()) as another_hub:
        caller = ScriptedCaller(hub)
        result = await asked(child, caller)
        key, _ = question(result)
        stranger = ScriptedCaller(hub)
        stranger.client = hub.client(principal="somebody else")
        for who in (stranger, ScriptedCaller(another_hub)):
            error = await who.refusal({key: ACCEPTED}, result["requestState"])
            assert error["code"] == INVALID_PARAMS
        colleague = ScriptedCaller(hub)
        id_ = await answered(child, colleague, result)  # on another connection
        await completed(child, colleague, id_)


# What ends a parked call


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return plant(tmp_path, "a/x", "b/x")


def reading(hub: ScriptedHub, top: Path, *roots: str, where: str = "a/x") -> ScriptedCaller:
    """Return a client that calls `read` and shares these folders."""
    return ScriptedCaller(
        hub,
        roots=tuple(top / root for root in roots),
        name="read",
        arguments={"path": f"{top}/{where}"},
    )


async def test_each_round_brings_the_roots_again(top: Path) -> None:
    child = silent(READ)
    async with scripted(child) as hub:
        caller = reading(hub, top, "a")
        result = await asked(child, caller)
        assert result["inputRequests"][ROOTS_KEY] == {"method": "roots/list"}
        id_ = await answered(child, caller, result)
        await completed(child, caller, id_)


async def test_a_retry_without_responses_is_asked_again_and_keeps_its_state(top: Path) -> None:
    child = silent(READ)
    async with scripted(child) as hub:
        caller = reading(hub, top, "a")
        result = await asked(child, caller)
        params = caller.params(None, result["requestState"])
        del params["inputResponses"]
        again = await caller.client.request("tools/call", params)
        assert again["inputRequests"] == {ROOTS_KEY: {"method": "roots/list"}}
        assert again["requestState"] == result["requestState"]
        id_ = await answered(child, caller, result)
        await completed(child, caller, id_)


@pytest.mark.parametrize("roots", [("b",), ()])
async def test_a_retry_whose_roots_no_longer_admit_the_call_is_refused_and_ends_it(
    top: Path, roots: tuple[str, ...]
) -> None:
    child = silent(READ)
    file = top / "audit.jsonl"
    async with scripted(child, config={"audit": {"file": str(file)}}) as hub:
        caller = reading(hub, top, "a")
        result = await asked(child, caller)
        key, _ = question(result)
        moved = reading(hub, top, *roots)
        refused = await moved.round({key: ACCEPTED}, result["requestState"])
        assert refused["isError"] is True
        assert text_of(refused).startswith(f"Access denied: Path '{top}/a/x' is outside")
        cancelled = await child.link.request("notifications/cancelled")
        (sent,) = child.link.requests("tools/call")
        assert cancelled["params"]["requestId"] == sent["id"]
        assert "error" in await child.link.reply("q")
        error = await caller.refusal({key: ACCEPTED}, result["requestState"])
        assert error["code"] == INVALID_PARAMS
    verdicts = [json.loads(line)["verdict"] for line in file.read_text().splitlines()]
    ended = [verdict for verdict in verdicts if verdict != "admitted"]
    assert ended == ["refused"]


@virtual_time
@pytest.mark.parametrize("retried", ["admitted", "refused", "never"])
async def test_a_call_whose_answer_waits_for_its_client_has_one_record(
    top: Path, retried: str
) -> None:
    child = silent(READ)
    file = top / "audit.jsonl"
    async with scripted(child, config={"audit": {"file": str(file)}}) as hub:
        caller = reading(hub, top, "a")
        result = await asked(child, caller)
        child.link.answer(child.link.requests("tools/call")[0]["id"], {"content": []})
        await all_tasks_blocked()
        back = reading(hub, top, "b" if retried == "refused" else "a")
        if retried == "never":
            await anyio.sleep(KEPT + 1)
        else:
            answer = await back.round({question(result)[0]: ACCEPTED}, result["requestState"])
            assert (answer.get("isError") is True) is (retried == "refused")
    records = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(records) == 1 + int(caller.client.by_cached_route), "one of another client before"
    assert records[-1]["verdict"] == ("refused" if retried == "refused" else "admitted")


@virtual_time
@pytest.mark.parametrize("is_back", [False, True])
async def test_a_call_that_its_child_had_before_it_wanted_roots_has_a_record(
    top: Path, *, is_back: bool
) -> None:
    child = silent(ECHO)
    file = top / "audit.jsonl"
    async with scripted(child, config={"audit": {"file": str(file)}}) as hub:
        caller = ScriptedCaller(hub, {**EVERYTHING, "roots": {}})
        result = await asked(child, caller)
        child.link.ask("r", "roots/list", {})
        await child.link.request("notifications/cancelled")
        if is_back:
            again = await caller.round({question(result)[0]: ACCEPTED}, result["requestState"])
            assert again["inputRequests"] == {ROOTS_KEY: {"method": "roots/list"}}
        else:
            await anyio.sleep(KEPT + 1)
    record = json.loads(file.read_text().splitlines()[-1])
    assert (record["verdict"], record["reason"]) == (
        "cancelled",
        "its client is asked for its roots",
    )


async def test_roots_that_have_changed_and_still_admit_the_call_let_it_go_on(top: Path) -> None:
    child = silent(READ)
    async with scripted(child) as hub:
        result = await asked(child, reading(hub, top, "a", "b"))
        caller = reading(hub, top, "a")
        id_ = await answered(child, caller, result)
        await completed(child, caller, id_)
        assert len(child.links) == 1


async def test_a_client_that_cancels_while_a_round_is_under_way_ends_the_call() -> None:
    child = silent()
    async with scripted(child) as hub:
        caller = ScriptedCaller(hub)
        result = await asked(child, caller)
        id_ = await answered(child, caller, result)
        await caller.client.notify("notifications/cancelled", {"requestId": id_})
        cancelled = await child.link.request("notifications/cancelled")
        assert cancelled["params"]["requestId"] == child.link.requests("tools/call")[0]["id"]
        assert not caller.client.is_answered(id_)


async def test_a_question_of_a_call_that_is_cancelled_is_answered_with_an_error() -> None:
    child = silent()
    async with scripted(child) as hub:
        caller = ScriptedCaller(hub)
        result = await asked(child, caller)
        await child.link.request("tools/call")
        child.link.ask("later", ELICITATION, FORM)
        key, _ = question(result)
        id_ = await caller.begin({}, result["requestState"])
        await caller.client.notify("notifications/cancelled", {"requestId": id_})
        for name in ("q", "later"):
            assert (await child.link.reply(name))["error"]["code"] == INTERNAL_ERROR
        assert key


@virtual_time
async def test_a_call_that_nobody_comes_back_for_ends_when_its_time_is_over() -> None:
    child = silent()
    servers = {"files": {"command": "x", "timeout": 0.2}}
    async with scripted(child, config={"servers": servers}) as hub:
        caller = ScriptedCaller(hub)
        result = await asked(child, caller)
        await child.link.request("notifications/cancelled")
        assert (await child.link.reply("q"))["error"]["code"] == INTERNAL_ERROR
        key, _ = question(result)
        late = await caller.round({key: ACCEPTED}, result["requestState"])
        assert late["isError"] is True
        assert "did not answer within 0.2 s" in text_of(late)


async def test_a_state_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    child = silent()
    async with scripted(child) as hub:
        now = [1000.0]
        force_setattr(hub.services.machine, "wall_clock", lambda: now[0])
        caller = ScriptedCaller(hub)
        result = await asked(child, caller)
        key, _ = question(result)
        now[0] += 361
        error = await caller.refusal({key: ACCEPTED}, result["requestState"])
        assert (error["code"], "it has expired" in str(error["message"])) == (INVALID_PARAMS, True)


async def test_a_retry_after_the_child_has_died_says_so() -> None:
    child = silent()
    async with scripted(child) as hub:
        caller = ScriptedCaller(hub)
        result = await asked(child, caller)
        child.link.crash()
        await child.ended()
        key, _ = question(result)
        late = await caller.round({key: ACCEPTED}, result["requestState"])
        assert late["isError"] is True
        assert "server 'files' went away during the call: exited with code 1" in text_of(late)
        error = await ScriptedCaller(hub).refusal({key: ACCEPTED}, result["requestState"])
        assert error["code"] == INVALID_PARAMS


async def test_a_retry_whose_call_is_cancelled_while_it_is_judged_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    find, judge_again, calls = ParkedCalls.find, Relay.judge_again, list[AskableCall]()

    def found(parked: ParkedCalls, key: str | None) -> Dialogue | None:
        dialogue = find(parked, key)
        calls.extend([] if dialogue is None else [dialogue.call])
        return dialogue

    async def judged(relay: Relay, case: JudgingContext, audit: CallAudit) -> Payload | None:
        verdict = await judge_again(relay, case, audit)
        calls[0].cancel("others needed its place")
        return verdict

    monkeypatch.setattr(ParkedCalls, "find", found)
    monkeypatch.setattr(Relay, "judge_again", judged)
    child = silent()
    async with scripted(child) as hub:
        caller = ScriptedCaller(hub)
        result = await asked(child, caller)
        key, _ = question(result)
        error = await caller.refusal({key: ACCEPTED}, result["requestState"])
        assert error["code"] == INVALID_PARAMS
        assert "its call has ended" in str(error["message"])


async def test_a_result_that_came_in_between_is_there_for_the_retry() -> None:
    child = silent()
    async with scripted(child) as hub:
        caller = ScriptedCaller(hub)
        result = await asked(child, caller)
        child.link.notify("notifications/cancelled", {"requestId": "q"})
        child.link.answer(child.link.requests("tools/call")[0]["id"], {"content": [], "n": 2})
        key, _ = question(result)
        assert (await caller.round({key: ACCEPTED}, result["requestState"]))["n"] == 2


@pytest.mark.parametrize("asks", [False, True])
async def test_a_call_whose_result_cannot_be_passed_on_has_failed(
    tmp_path: Path, *, asks: bool
) -> None:
    child = silent()
    file = tmp_path / "audit.jsonl"
    async with scripted(child, config={"audit": {"file": str(file)}}) as hub:
        caller = ScriptedCaller(hub)
        if asks:
            id_ = await answered(child, caller, await asked(child, caller))
        else:
            id_ = await caller.begin()
        sent = await (await child.connected()).request("tools/call")
        child.link.answer(sent["id"], b'{"content":[],"_meta":{},"_meta":{}}')
        error = object_or_empty((await caller.client.end(id_))["error"])
        assert "A key is repeated" in str(error["message"])
    records = [json.loads(line) for line in file.read_text().splitlines()]
    ended = records[-1]
    assert (ended["verdict"], ended["reason"]) == ("failed", error["message"])
    assert {one["verdict"] for one in records[:-1]} <= {"admitted"}, "calls of another client"


@virtual_time
async def test_no_more_calls_are_parked_than_may_be() -> None:
    child = silent()
    roomy: JsonObject = {"command": "x", "share": "roots", "concurrency": MAX_PARKED_OF_ONE + 1}
    async with scripted(child, config={"servers": {"files": roomy}}) as hub:
        caller = ScriptedCaller(hub)
        result = await asked(child, caller)
        for _ in range(MAX_PARKED_OF_ONE - 1):
            await asked_again(child, caller)
        id_ = await caller.begin()
        sent = await child.link.request("tools/call", nth=MAX_PARKED_OF_ONE + 1)
        child.link.ask("more", ELICITATION, FORM)
        error = (await child.link.reply("more"))["error"]
        assert "too many calls wait for their clients' answers" in error["message"]
        child.link.answer(sent["id"], {"content": []})
        assert (await caller.end(id_))["resultType"] == "complete"
        id_ = await answered(child, caller, result)
        await completed(child, caller, id_)
        assert (await asked_again(child, caller))["resultType"] == "input_required"


async def test_kept_answers_have_a_common_bound_in_bytes() -> None:
    child, large = silent(), "x" * (MAX_KEPT_BYTES // 3 + 1)
    async with scripted(child) as hub:
        caller = ScriptedCaller(hub)
        asking = [await asked(child, caller), *[await asked_again(child, caller) for _ in range(2)]]
        for sent in child.link.requests("tools/call"):
            child.link.answer(sent["id"], {"content": [], "x": large})
            await all_tasks_blocked()
        rounds = [({question(one)[0]: ACCEPTED}, one["requestState"]) for one in asking]
        assert "its call has ended" in str((await caller.refusal(*rounds[0]))["message"])
        for late in rounds[1:]:
            assert (await caller.round(*late))["x"] == large


def test_dropped_answers_do_not_fill_the_log() -> None:
    parked, ended = ParkedCalls(), list[None]()
    call = SimpleNamespace(cancel=lambda: None, reply=SimpleNamespace(give=ended.append))
    with capture_logs() as logs:
        for number in range(2000):
            waiting = SimpleNamespace(
                key=str(number), principal="a", kept_size=MAX_KEPT_BYTES + 1, call=call
            )
            one = cast("Dialogue", waiting)
            parked.add(one)
            parked.make_room()
            parked.remove(one)
    assert len(ended) == 2000
    assert 1 < len(logs) < 1000


# Progress and logs


def told(caller: ScriptedCaller) -> list[Json]:
    return [line["params"] for line in caller.client.received if "method" in line]


async def followed(child: FakeChild, caller: ScriptedCaller) -> tuple[int, Json]:
    """Call with a wish for progress; return the request's id, and the token that the child got."""
    id_ = await caller.begin(progressToken="one")
    sent = await (await child.connected()).request("tools/call")
    return id_, sent["params"]["_meta"]["progressToken"]


async def test_progress_goes_out_with_the_round_that_is_under_way() -> None:
    child = silent()
    async with scripted(child) as hub:
        caller = ScriptedCaller(hub)
        id_, token = await followed(child, caller)
        child.link.notify("notifications/progress", {"progressToken": token, "progress": 1})
        child.link.ask("q", ELICITATION, FORM)
        result = await caller.end(id_)
        assert told(caller) == [{"progressToken": "one", "progress": 1}]
        id_ = await answered(child, caller, result, progressToken="two")
        child.link.notify("notifications/progress", {"progressToken": token, "progress": 2})
        await completed(child, caller, id_)
        assert told(caller)[1:] == [{"progressToken": "two", "progress": 2}]


async def test_progress_that_comes_with_a_question_goes_out_before_it() -> None:
    child = silent()
    async with scripted(child) as hub:
        caller = ScriptedCaller(hub)
        id_, token = await followed(child, caller)
        child.link.ask("q", ELICITATION, FORM)
        child.link.notify("notifications/progress", {"progressToken": token, "progress": 1})
        question(await caller.end(id_))
        assert told(caller) == [{"progressToken": "one", "progress": 1}]


# More than one thing at once


ONCE: JsonObject = {"action": "accept", "content": {"decision": "allow once"}}


@pytest.mark.parametrize("change", ["nothing", "a link", "the config"])
async def test_a_call_that_needed_consent_is_parked_with_it(top: Path, change: str) -> None:
    child = silent(READ)
    async with scripted(child, config={"guard": {"on_refused": "ask"}}) as hub:
        caller = reading(hub, top, "a", where="b/x")
        first = await caller.round()
        assert set(first["inputRequests"]) == {ROOTS_KEY, CONSENT_KEY}
        id_ = await caller.begin({CONSENT_KEY: ONCE}, first["requestState"])
        link = await child.connected()
        await link.request("tools/call")
        link.ask("q", ELICITATION, FORM)
        second = await caller.end(id_)
        key, _ = question(second)
        assert set(second["inputRequests"]) == {ROOTS_KEY, key}
        if change == "a link":
            (top / "b" / "x").unlink()
            (top / "b" / "x").symlink_to("/etc/hostname")
        elif change == "the config":
            await hub.take(guard={"on_refused": "refuse"})
        if change != "nothing":
            refused = await caller.round({key: ACCEPTED}, second["requestState"])
            assert text_of(refused).startswith("Access denied: ")
            await link.request("notifications/cancelled")
            return
        id_ = await answered(child, caller, second)
        await completed(child, caller, id_)


async def test_a_question_goes_to_the_call_that_is_waited_for_not_to_one_that_is_parked() -> None:
    child = silent()
    async with scripted(child) as hub:
        caller = ScriptedCaller(hub)
        parked = await asked(child, caller)
        id_ = await caller.begin()
        await child.link.request("tools/call", nth=2)
        child.link.ask("second", ELICITATION, FORM)
        second = await caller.end(id_)
        for name, result in (("second", second), ("q", parked)):
            key, _ = question(result)
            await caller.begin({key: ACCEPTED}, result["requestState"])
            assert (await child.link.reply(name))["result"] == ACCEPTED


async def test_where_nobody_waits_the_question_is_of_the_call_that_was_made_last() -> None:
    child = silent()
    async with scripted(child) as hub:
        caller = ScriptedCaller(hub)
        ids = [await caller.begin() for _ in range(2)]
        await (await child.connected()).request("tools/call", nth=2)
        for name, id_ in zip(("one", "two"), reversed(ids), strict=True):
            child.link.ask(name, ELICITATION, FORM)
            question(await caller.end(id_))
        child.link.ask("three", ELICITATION, FORM)
        await all_tasks_blocked()
        child.link.answer(child.link.requests("tools/call")[1]["id"], {"content": []})
        assert "error" in await child.link.reply("three")


@virtual_time
async def test_a_question_that_could_be_for_several_clients_waits_until_one_is_left() -> None:
    child = silent()
    async with scripted(child) as hub:
        one, other = ScriptedCaller(hub), ScriptedCaller(hub)
        ids = [await one.begin(), await other.begin()]
        link = await child.connected()
        sent = [await link.request("tools/call", nth=nth) for nth in (1, 2)]
        link.ask("q", ELICITATION, FORM)
        await all_tasks_blocked()
        link.answer(sent[0]["id"], {"content": []})
        assert (await one.end(ids[0]))["resultType"] == "complete"
        key, _ = question(result := await other.end(ids[1]))
        id_ = await other.begin({key: ACCEPTED}, result["requestState"])
        assert (await link.reply("q"))["result"] == ACCEPTED
        link.answer(sent[1]["id"], {"content": []})
        assert (await other.end(id_))["resultType"] == "complete"


async def test_of_calls_that_ask_one_is_sent_after_the_other() -> None:
    child = silent()
    async with scripted(child) as hub:
        one, other = ScriptedCaller(hub), ScriptedCaller(hub)
        await other.client.get_known(other.params())
        result = await asked(child, one)
        id_ = await other.begin()
        await all_tasks_blocked()
        assert len(child.link.requests("tools/call")) == 1
        await completed(child, one, await answered(child, one, result))
        sent = await child.link.request("tools/call", nth=2)
        child.link.answer(sent["id"], {"content": []})
        assert (await other.end(id_))["resultType"] == "complete"


async def gone(child: FakeChild) -> str:
    """Wait until the first question is answered, end its call, and return what was said."""
    error = (await child.link.reply("q"))["error"]
    child.link.answer(child.link.requests("tools/call")[0]["id"], {"content": [], "n": "given up"})
    return str(error["message"])


@virtual_time
async def test_a_call_that_its_client_has_left_gives_its_slot_to_one_that_waits() -> None:
    child = silent()
    servers = {"files": {"command": "x", "concurrency": 1}}
    async with scripted(child, config={"servers": servers}) as hub:
        caller = ScriptedCaller(hub)
        result = await asked(child, caller)
        id_ = await caller.begin()
        assert await gone(child) == "the client has not come back for 60 s, and others wait"
        sent = await child.link.request("tools/call", nth=2)
        child.link.answer(sent["id"], {"content": []})
        assert (await caller.end(id_))["resultType"] == "complete"
        key, _ = question(result)
        late = await caller.round({key: ACCEPTED}, result["requestState"])
        assert late["n"] == "given up", "the server's own word"


@virtual_time
async def test_a_call_that_its_client_has_left_lets_the_child_ask_others() -> None:
    child = silent()
    async with scripted(child) as hub:
        left, other = ScriptedCaller(hub), ScriptedCaller(hub)
        await other.client.get_known(other.params())
        await asked(child, left)
        id_ = await other.begin()
        await gone(child)
        await child.link.request("tools/call", nth=2)
        child.link.ask("second", ELICITATION, FORM)
        key, _ = question(result := await other.end(id_))
        id_ = await other.begin({key: ACCEPTED}, result["requestState"])
        assert (await child.link.reply("second"))["result"] == ACCEPTED
        child.link.answer(child.link.requests("tools/call")[1]["id"], {"content": []})
        assert (await other.end(id_))["resultType"] == "complete"


@virtual_time
async def test_a_call_that_its_client_has_left_waits_on_where_nobody_needs_its_place() -> None:
    child = silent()
    async with scripted(child) as hub:
        caller = ScriptedCaller(hub)
        result = await asked(child, caller)
        await anyio.sleep(3 * PATIENCE)
        id_ = await answered(child, caller, result)
        await completed(child, caller, id_)


@pytest.mark.parametrize(
    ("method", "params", "listed"),
    [
        ("prompts/get", {"name": "p"}, {"prompts/list": {"prompts": [{"name": "p"}]}}),
        (
            "resources/read",
            {"uri": "demo://x"},
            {
                "resources/list": {"resources": [{"uri": "demo://x", "name": "x"}]},
                "resources/templates/list": {"resourceTemplates": []},
            },
        ),
    ],
)
async def test_prompts_and_resources_take_rounds_too(
    method: str, params: JsonObject, listed: JsonObject
) -> None:
    capabilities: JsonObject = {"tools": {}, "prompts": {}, "resources": {}}
    lists = {name: object_or_empty(answer) for name, answer in listed.items()}
    child = FakeChild(ECHO, capabilities=capabilities, answers={method: SILENT, **lists})
    async with scripted(child) as hub:
        caller = ScriptedCaller(hub)
        meta = caller.params()["_meta"]
        id_ = await caller.client.begin(method, {**params, "_meta": meta})
        link = await child.connected()
        sent = await link.request(method)
        link.ask("q", SAMPLING, {"messages": []})
        result = await caller.end(id_)
        key, _ = question(result)
        retry: JsonObject = {
            "inputResponses": {key: {"role": "assistant"}},
            "requestState": result["requestState"],
        }
        id_ = await caller.client.begin(method, {**params, "_meta": meta, **retry})
        assert (await link.reply("q"))["result"] == {"role": "assistant"}
        link.answer(sent["id"], {"messages": [], "contents": []})
        assert (await caller.end(id_))["resultType"] == "complete"


async def test_a_hub_that_ends_leaves_no_call_behind() -> None:
    child = silent()
    async with scripted(child) as hub:
        await asked(child, ScriptedCaller(hub))
    assert child.closed == 1
    assert child.link.requests("notifications/cancelled")
