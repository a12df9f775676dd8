"""Calls that detach from their requests; tests/calls/test_modern_calls.py has whole rounds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import anyio
import pytest
from msgspec.structs import force_setattr

from hub.calls.rounds.askable_call import AskableCall
from hub.jsonrpc import messages
from hub.jsonrpc.messages import Request, Response, as_object
from hub.protocol.constants import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    LOG_LEVEL_META,
    RESOURCE_NOT_FOUND,
)
from hub.protocol.input_requests import ROOTS_KEY, URL_NEEDED
from hub.values import JsonObject, object_or_empty
from tests.kit.callers import (
    ACCEPTED,
    ELICITATION,
    EVERYTHING,
    FORM,
    URL,
    CachedRouteCaller,
    ScriptedCaller,
    answered,
    asked,
    completed,
    question,
    silent,
)
from tests.kit.fakes import ECHO, READ, SILENT, FakeChild, RecordingSink, failure
from tests.kit.loops import all_tasks_blocked
from tests.kit.scripted import ScriptedHub, scripted
from tests.kit.trees import plant

NEEDS_URL = messages.Failure(
    None, {"code": URL_NEEDED, "message": "go there", "data": {"elicitations": [URL]}}
)


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return plant(tmp_path, "a/f")


async def known(
    hub: ScriptedHub, child: FakeChild, roots: tuple[Path, ...] | None = None
) -> CachedRouteCaller:
    """Return a client whose tool has been called, and whose last call is over."""
    caller = CachedRouteCaller(hub, roots=roots)
    id_ = await caller.begin()
    child.link.answer((await child.link.request("tools/call"))["id"], {"content": []})
    await caller.end(id_)
    child.link.seen.clear()
    return caller


async def test_a_call_that_is_asked_nothing_stays_on_its_way() -> None:
    child = silent()
    async with scripted(child) as hub:
        caller = await known(hub, child)
        id_ = await caller.begin()
        child.link.answer((await child.link.request("tools/call"))["id"], {"content": [], "n": 1})
        assert (await caller.end(id_))["n"] == 1
        assert caller.client.detoured == []


async def test_an_error_has_the_code_that_the_era_knows_it_by() -> None:
    child = silent()
    async with scripted(child) as hub:
        caller = await known(hub, child)
        child.answers["tools/call"] = failure(RESOURCE_NOT_FOUND, "gone")
        assert await caller.refusal() == {"code": INVALID_PARAMS, "message": "gone"}
        assert caller.client.detoured == []


async def test_a_question_answers_the_request_and_the_child_sees_one_call(
    tmp_path: Path,
) -> None:
    child, file = silent(), tmp_path / "audit.jsonl"
    async with scripted(child, config={"audit": {"file": str(file)}}) as hub:
        caller = await known(hub, child)
        result = await asked(child, caller)
        assert caller.client.detoured == []
        key, _ = question(result)
        id_ = await caller.begin({key: ACCEPTED}, result["requestState"])
        assert (await child.link.reply("q"))["result"] == ACCEPTED
        (sent,) = child.link.requests("tools/call")
        child.link.answer(sent["id"], {"content": [], "n": 2})
        answer = await caller.end(id_)
        assert (answer["resultType"], answer["n"]) == ("complete", 2)
    verdicts = [json.loads(line)["verdict"] for line in file.read_text().splitlines()]
    assert verdicts == ["admitted"] * 3, "two calls before it, and itself, once"


async def test_the_error_that_ends_a_call_after_its_questions_is_the_retrys() -> None:
    child = silent()
    async with scripted(child) as hub:
        caller = await known(hub, child)
        result = await asked(child, caller)
        child.link.answer(child.link.requests("tools/call")[0]["id"], failure(-32000, "no luck"))
        key, _ = question(result)
        error = await caller.refusal({key: ACCEPTED}, result["requestState"])
        assert (error["code"], error["message"]) == (-32000, "no luck")


async def test_a_detached_call_can_be_cancelled_once() -> None:
    child = silent()
    async with scripted(child) as hub:
        caller, reply = await known(hub, child), RecordingSink()
        request = Request("r", "tools/call", caller.params())
        connection = caller.client.connection
        in_flight = connection.dispatcher.take(request, connection.route_for(request), reply)
        assert isinstance(in_flight, AskableCall)
        assert in_flight.is_present
        child.link.ask("q", ELICITATION, FORM)
        asking = await reply.next()
        assert question(asking)[1]["params"]["message"] == "Which?"
        assert not in_flight.is_present
        assert connection.peer.backlog.accepts("r"), "its request is answered"
        in_flight.cancel("enough")
        in_flight.cancel("again")
        told = await child.link.request("notifications/cancelled")
        assert told["params"]["reason"] == "enough"
        assert (await child.link.reply("q"))["error"]["code"] == INTERNAL_ERROR
        assert len(reply.answers) == 1


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_child_that_says_within_which_call_it_asks_may_ask_again(
    era: Literal["legacy", "modern"],
) -> None:
    child = FakeChild(ECHO, era=era, answers={"tools/call": SILENT})
    config = {"servers": {"files": {"command": "x", "era": era, "share": "roots"}}}
    async with scripted(child, config=config) as hub:
        caller, reply = await known(hub, child), RecordingSink()
        connection, request = caller.client.connection, Request("r", "tools/call", caller.params())
        in_flight = connection.dispatcher.take(request, connection.route_for(request), reply)
        assert isinstance(in_flight, AskableCall)
        sent = await child.link.request("tools/call")
        waiter = in_flight.route.resolved.peer.pending.get(sent["id"])
        assert waiter is not None
        assert waiter.request_owner is in_flight
        child.link.ask("q", ELICITATION, FORM)
        await reply.next()
        assert waiter.request_owner is in_flight


async def test_a_call_stays_judged_by_the_kept_roots_that_it_was_judged_by(top: Path) -> None:
    child = silent(READ)
    async with scripted(child, config={"roots": {"reuse": 60}}) as hub:
        now = [1000.0]
        force_setattr(hub.services.machine, "clock", lambda: now[0])
        capabilities: JsonObject = {**EVERYTHING, "roots": {}}
        path: JsonObject = {"path": str(top / "a" / "f")}
        caller = ScriptedCaller(hub, capabilities, roots=(top / "a",), name="read", arguments=path)
        for nth in (1, 2):
            id_ = await caller.begin()
            link = await child.connected()
            link.answer((await link.request("tools/call", nth=nth))["id"], {"content": []})
            await caller.end(id_)
            caller.roots = None
        caller.client.by_cached_route = True
        id_ = await caller.begin()
        sent = await child.link.request("tools/call", nth=3)
        now[0] += 61
        child.link.ask("q", ELICITATION, FORM)
        result = await caller.end(id_)
        assert caller.client.detoured == []
        assert ROOTS_KEY in result["inputRequests"]
        caller.roots = (top / "a",)
        id_ = await caller.begin({question(result)[0]: ACCEPTED}, result["requestState"])
        assert (await child.link.reply("q"))["result"] == ACCEPTED
        child.link.answer(sent["id"], {"content": []})
        assert "isError" not in await caller.end(id_)


async def test_questions_that_come_together_are_asked_together() -> None:
    child = silent()
    async with scripted(child) as hub:
        caller, reply = await known(hub, child), RecordingSink()
        connection = caller.client.connection
        for id_ in ("one", "two"):
            request = Request(id_, "tools/call", caller.params())
            assert (
                connection.dispatcher.take(request, connection.route_for(request), reply)
                is not None
            )
        await child.link.request("tools/call", nth=2)
        for name in ("first", "second"):
            child.link.ask(name, ELICITATION, FORM)
        asking = await reply.next()
        assert [answer.id for answer in reply.answers if answer] == ["two"]
        assert len(object_or_empty(asking["inputRequests"])) == 2


async def test_clients_that_go_one_way_are_still_two() -> None:
    child, replies = silent(), [RecordingSink(), RecordingSink()]
    async with scripted(child) as hub, anyio.create_task_group() as tasks:
        caller = await known(hub, child)
        open_connection, params = hub.open_connection, caller.params()
        register = caller.client.connection.peer.backlog
        for id_, reply in zip(("one", "two"), replies, strict=True):
            request = Request(id_, "tools/call", params)
            route = open_connection.route_for("test", request, ())
            dispatcher = open_connection.dispatcher(register, tasks)
            assert dispatcher.take(request, route, reply) is not None
        one, two = [await child.link.request("tools/call", nth=nth) for nth in (1, 2)]
        child.link.ask("q", ELICITATION, FORM)
        await all_tasks_blocked()
        assert [reply.answers for reply in replies] == [[], []]
        child.link.answer(one["id"], {"content": []})
        await replies[1].signals.until(lambda: bool(replies[1].answers))
        (asking,) = replies[1].answers
        assert isinstance(asking, Response)
        assert as_object(asking.result)["resultType"] == "input_required"
        child.link.answer(two["id"], {"content": []})


async def test_who_takes_only_one_kind_of_question_is_asked_no_other() -> None:
    child = silent()
    async with scripted(child) as hub:
        caller = CachedRouteCaller(hub, {"sampling": {}})
        id_ = await caller.begin()
        link = await child.connected()
        sent = await link.request("tools/call")
        link.ask("q", ELICITATION, FORM)
        assert "error" in await link.reply("q")
        link.answer(sent["id"], {"content": []})
        assert (await caller.end(id_))["resultType"] == "complete"
        assert caller.client.detoured == []


async def test_a_child_that_wants_roots_after_its_question_has_the_call_made_again(
    tmp_path: Path,
) -> None:
    child = silent()
    async with scripted(child) as hub:
        caller = CachedRouteCaller(hub, {**EVERYTHING, "roots": {}})
        result = await asked(child, caller)
        assert set(result["inputRequests"]) == {question(result)[0]}, "no path, no roots"
        key, _ = question(result)
        id_ = await caller.begin({key: ACCEPTED}, result["requestState"])
        await child.link.reply("q")
        child.link.ask("r", "roots/list", {})
        again = await caller.end(id_)
        assert again["inputRequests"] == {ROOTS_KEY: {"method": "roots/list"}}
        assert await child.link.request("notifications/cancelled")


async def test_two_clients_that_can_be_asked_other_things_go_no_common_way() -> None:
    child = FakeChild(ECHO, READ)
    async with scripted(child) as hub:
        one = CachedRouteCaller(hub, {"sampling": {}})
        await one.round()
        params: JsonObject = CachedRouteCaller(hub, {"elicitation": {}}).params()
        assert one.client.connection.route_for(Request(1, "tools/call", params)) is None
        assert one.client.connection.route_for(Request(1, "tools/call", one.params())) is not None


@pytest.mark.long
@pytest.mark.parametrize(("size", "kept"), [(1, 256), (1_000_000, 4)])
async def test_of_what_is_told_while_the_client_is_away_the_newest_is_kept(
    size: int, kept: int
) -> None:
    child = silent()
    async with scripted(child) as hub:
        caller = ScriptedCaller(hub)
        level: JsonObject = {LOG_LEVEL_META: "debug"}
        result = await asked(child, caller)
        for number in range(300):
            told: JsonObject = {"level": "info", "data": f"{number:{size}}"}
            child.link.notify("notifications/message", told)
        await all_tasks_blocked()
        id_ = await answered(child, caller, result, **level)
        await completed(child, caller, id_)
        told_of = [object_or_empty(one.get("params")) for one in caller.client.received]
        numbers = [int(str(one["data"])) for one in told_of if one]
        assert numbers == [*range(300 - kept, 300)]
