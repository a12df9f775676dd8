"""What a client reports on the way to its answer reaches the child that asked, and only that."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from hub.protocol.input_requests import SAMPLING
from hub.values import Json, JsonObject
from tests.flow.test_asked_within_calls import AskedClient
from tests.kit.fakes import ECHO, SILENT, FakeChild, FakeLink
from tests.kit.loops import all_tasks_blocked
from tests.kit.scripted import scripted
from tests.kit.talks import Transport, Way, talking
from tests.server.test_stdio import pytestmark as pipes

pytestmark = pipes

PROGRESS = "notifications/progress"
SAMPLED: JsonObject = {"role": "assistant", "content": {"type": "text", "text": "hi"}}

both_transports = pytest.mark.parametrize("transport", ["stdio", "http"])
both_ways = pytest.mark.parametrize("route", ["resolved", "cached"])


def token_of(question: Any) -> Json:
    return question["params"]["_meta"]["progressToken"]


def reports(link: FakeLink) -> list[Any]:
    return [line["params"] for line in link.requests(PROGRESS)]


@both_transports
@both_ways
async def test_reports_reach_the_child_under_its_own_token_before_the_answer(
    transport: Transport, route: Way
) -> None:
    async with talking(transport, route) as talk:
        asked = await talk.asked("q", progressToken="the child's", more=1)
        assert asked["params"]["_meta"] == {"progressToken": token_of(asked), "more": 1}
        assert token_of(asked) != "the child's"
        report: JsonObject = {"progress": 0.5, "total": 1, "message": "\U0001f600", "x": [2**70]}
        for number in (1, 2):
            await talk.tell(PROGRESS, {"progressToken": token_of(asked), **report, "n": number})
        await talk.reply(asked, SAMPLED)
        assert (await talk.link.reply("q"))["result"] == SAMPLED
        own: JsonObject = {"progressToken": "the child's", **report}
        assert reports(talk.link) == [{**own, "n": 1}, {**own, "n": 2}]
        assert [line.get("method") for line in talk.link.seen[-3:]] == [PROGRESS, PROGRESS, None]


@both_ways
async def test_a_report_after_the_answer_is_dropped(route: Way) -> None:
    async with talking("stdio", route) as talk:
        asked = await talk.asked("q", progressToken=1)
        await talk.reply(asked, SAMPLED)
        await talk.link.reply("q")
        await talk.tell(PROGRESS, {"progressToken": token_of(asked), "progress": 1})
        again = await talk.asked("again")
        assert again["id"] != asked["id"]
        assert reports(talk.link) == []


@both_transports
async def test_who_asks_without_a_token_hears_no_reports(transport: Transport) -> None:
    async with talking(transport, "resolved") as talk:
        asked = await talk.asked("q")
        assert "_meta" not in asked["params"]
        await talk.tell(PROGRESS, {"progressToken": asked["id"], "progress": 1})
        await talk.reply(asked, SAMPLED)
        await talk.link.reply("q")
        assert reports(talk.link) == []


@pytest.mark.parametrize("token", [None, 1.0, True, [1], {"a": 1}])
async def test_what_is_no_token_reaches_no_client(token: Any) -> None:
    async with talking("stdio", "resolved") as talk:
        asked = await talk.asked("q", progressToken=token, more=1)
        assert asked["params"]["_meta"] == {"more": 1}


async def test_equal_tokens_of_two_children_are_not_confused() -> None:
    children = {name: FakeChild(ECHO) for name in ("one", "two")}
    async with scripted(children) as hub:
        for child in children.values():
            child.answers["tools/call"] = SILENT
        client = AskedClient(await hub.greeted({"sampling": {}}))
        questions: dict[str, JsonObject] = {}
        for name, child in children.items():
            await client.client.begin("tools/call", {"name": f"{name}__echo", "arguments": {}})
            link = await child.connected()
            await link.request("tools/call")
            meta: JsonObject = {"progressToken": 1}
            link.ask(1, SAMPLING, {"messages": [], "of": name, "_meta": meta})
            questions[name] = await client.next()
        tokens = {name: token_of(asked) for name, asked in questions.items()}
        assert tokens["one"] != tokens["two"]
        for name in ("two", "one"):
            report: JsonObject = {"progressToken": tokens[name], "progress": 1, "of": name}
            await client.client.notify(PROGRESS, report)
            await client.client.reply(questions[name], SAMPLED)
            await children[name].link.reply(1)
        for name, child in children.items():
            assert reports(child.link) == [{"progressToken": 1, "progress": 1, "of": name}]


async def test_a_client_reports_on_its_own_questions_alone() -> None:
    child = FakeChild(ECHO)
    async with scripted(child) as hub:
        child.answers["tools/call"] = SILENT
        client, other = AskedClient(await hub.greeted({"sampling": {}})), await hub.greeted()
        await client.client.begin("tools/call", {"name": "echo", "arguments": {}})
        link = await child.connected()
        await link.request("tools/call")
        link.ask("q", SAMPLING, {"messages": [], "_meta": {"progressToken": 1}})
        asked = await client.next()
        await other.notify(PROGRESS, {"progressToken": token_of(asked), "progress": 1})
        await client.client.reply(asked, SAMPLED)
        await link.reply("q")
        assert reports(link) == []


async def test_roots_are_answered_by_the_hub_which_reports_nothing() -> None:
    async with talking("stdio", "resolved") as talk:
        talk.link.ask("r", "roots/list", {"_meta": {"progressToken": 1}})
        assert "result" in await talk.link.reply("r")
        await talk.tell(PROGRESS, {"progressToken": 1, "progress": 1})
        await all_tasks_blocked()
        assert reports(talk.link) == []


async def test_a_child_that_does_not_read_holds_up_no_client() -> None:
    async with talking("stdio", "resolved") as talk:
        asked = await talk.asked("q", progressToken=1)
        held, send = anyio.Event(), talk.link.send

        async def stuck(message: Any) -> None:
            await held.wait()
            await send(message)

        talk.link.send = stuck
        for number in range(3):
            await talk.tell(PROGRESS, {"progressToken": token_of(asked), "progress": number})
        await talk.line.say({"jsonrpc": "2.0", "id": "p", "method": "ping"})
        assert (await talk.line.heard())["id"] == "p"
        held.set()
        await talk.reply(asked, SAMPLED)
        await talk.link.reply("q")
        assert [report["progress"] for report in reports(talk.link)] == [0, 1, 2]
