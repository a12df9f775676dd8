"""Who takes a request back may say why: the other side hears it in the same words."""

from __future__ import annotations

from typing import Any

import pytest

from hub.jsonrpc.requests import MAX_REASON, UNSAID
from hub.values import Json, JsonObject
from tests.kit.callers import ScriptedCaller, answered, asked, silent
from tests.kit.fakes import ECHO, SILENT, FakeChild
from tests.kit.scripted import scripted
from tests.kit.talks import CALL, Transport, Way, talking
from tests.server.test_modern import envelope
from tests.server.test_stdio import pytestmark as pipes

pytestmark = pipes

CANCELLED = "notifications/cancelled"
WHY = 'enough: "1.0"\n\u2028 \U0001f600'

both_transports = pytest.mark.parametrize("transport", ["stdio", "http"])
both_ways = pytest.mark.parametrize("route", ["resolved", "cached"])


@both_transports
@both_ways
async def test_a_child_hears_why_its_client_takes_a_call_back(
    transport: Transport, route: Way
) -> None:
    async with talking(transport, route) as talk:
        await talk.tell(CANCELLED, {"requestId": CALL, "reason": WHY})
        told = await talk.link.request(CANCELLED)
        assert told["params"] == {"requestId": talk.call["id"], "reason": WHY}


@both_transports
@both_ways
async def test_a_client_hears_why_a_child_takes_a_question_back(
    transport: Transport, route: Way
) -> None:
    async with talking(transport, route) as talk:
        asked = await talk.asked("q")
        talk.link.notify(CANCELLED, {"requestId": "q", "reason": WHY})
        told = await talk.line.heard()
        assert told["method"] == CANCELLED
        assert told["params"] == {"requestId": asked["id"], "reason": WHY}


@both_ways
@pytest.mark.parametrize(
    ("said", "heard"),
    [
        ({}, UNSAID),
        ({"reason": None}, UNSAID),
        ({"reason": 5}, UNSAID),
        ({"reason": ["enough"]}, UNSAID),
        ({"reason": ""}, ""),
        ({"reason": "\U0001f600" * (MAX_REASON + 1)}, "\U0001f600" * MAX_REASON),
    ],
)
async def test_what_is_no_reason_is_one_in_our_words_and_a_long_one_is_cut(
    route: Way, said: dict[str, Json], heard: str
) -> None:
    async with talking("stdio", route) as talk:
        asked = await talk.asked("q")
        talk.link.notify(CANCELLED, {"requestId": "q", **said})
        told = await talk.line.heard()
        assert told["params"] == {"requestId": asked["id"], "reason": heard}
        await talk.tell(CANCELLED, {"requestId": CALL, **said})
        told = await talk.link.request(CANCELLED)
        assert told["params"] == {"requestId": talk.call["id"], "reason": heard}


@both_ways
async def test_the_reason_of_one_call_is_not_anothers(route: Way) -> None:
    async with talking("stdio", route) as talk:
        await talk.line.call(CALL + 1)
        other = await talk.link.request("tools/call", nth=2 + (route == "cached"))
        for id_, reason in ((CALL + 1, "second"), (CALL, "first")):
            await talk.tell(CANCELLED, {"requestId": id_, "reason": reason})
        await talk.link.request(CANCELLED, nth=2)
        told: dict[Any, Any] = {
            one["params"]["requestId"]: one["params"]["reason"]
            for one in talk.link.requests(CANCELLED)
        }
        assert told.pop(other["id"]) == "second"
        assert list(told.values()) == ["first"]


@pytest.mark.parametrize("route", ["resolved", "cached"])
async def test_a_modern_child_hears_a_modern_client(route: Way) -> None:
    child = FakeChild(ECHO, era="modern")
    params: JsonObject = {"name": "echo", "arguments": {}, "_meta": envelope(None)}
    async with scripted(child) as hub:
        client = hub.client()
        if route == "cached":
            await client.request("tools/call", params)
        child.answers["tools/call"] = SILENT
        id_ = await client.begin("tools/call", params)
        link = await child.connected()
        call = await link.request("tools/call", nth=1 + (route == "cached"))
        await client.notify(CANCELLED, {"requestId": id_, "reason": WHY})
        told = await link.request(CANCELLED)
        assert told["params"] == {"requestId": call["id"], "reason": WHY}


async def test_a_call_that_takes_several_rounds_is_taken_back_for_the_reason_of_the_last() -> None:
    child = silent()
    async with scripted(child) as hub:
        caller = ScriptedCaller(hub)
        id_ = await answered(child, caller, await asked(child, caller))
        await caller.client.notify(CANCELLED, {"requestId": id_, "reason": WHY})
        told = await child.link.request(CANCELLED)
        assert told["params"]["reason"] == WHY
