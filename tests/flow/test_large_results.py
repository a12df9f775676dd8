"""`max_result`: an error stands in for a result that is too large, and nothing is cut."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from hub.protocol.constants import INTERNAL_ERROR
from hub.values import JsonObject
from tests.kit.fakes import ECHO, FakeChild
from tests.kit.scripted import refusal, scripted
from tests.server.test_modern import envelope
from tests.server.test_stdio import pytestmark as pipes

pytestmark = pipes

LIMIT = 2000
KEYS = {"listen": {"max_result": LIMIT}, "stdio": {"max_result": 9 * LIMIT}}
CALL: JsonObject = {"name": "echo", "arguments": {}}


def content(size: int) -> JsonObject:
    return {"content": [{"type": "text", "text": "x" * size}]}


def child(size: int) -> FakeChild:
    return FakeChild(ECHO, answers={"tools/call": content(size)})


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_result_that_is_too_large_becomes_an_error_that_says_so(era: str) -> None:
    fake = child(LIMIT)
    async with scripted(fake, config=KEYS) as hub:
        client = await hub.greeted() if era == "legacy" else hub.client()
        params: JsonObject = CALL if era == "legacy" else {**CALL, "_meta": envelope(None)}
        with capture_logs() as logs:
            results: list[Any] = [await client.request("tools/call", params) for _ in range(2)]
        for result in results:
            assert result["isError"] is True
            (entry,) = result["content"]
            assert entry["text"].startswith("server 'files' gave a result of 2,")
            assert "at most 2,000" in entry["text"]
            assert "`listen.max_result`" in entry["text"]
        assert len([line for line in logs if line["event"] == "result left out"]) == 2


async def test_a_result_within_the_limit_is_unchanged() -> None:
    async with scripted(child(LIMIT // 2), config=KEYS) as hub:
        client = await hub.greeted()
        assert await client.request("tools/call", CALL) == content(LIMIT // 2)


async def test_each_transport_has_a_limit_of_its_own_and_by_default_none() -> None:
    for config, is_for_one in [(KEYS, True), ({}, False), ({"stdio": KEYS["listen"]}, False)]:
        async with scripted(child(LIMIT), config=config, is_for_one=is_for_one) as hub:
            client = await hub.greeted()
            assert await client.request("tools/call", CALL) == content(LIMIT)


async def test_a_prompt_that_is_too_large_is_an_error_of_the_request() -> None:
    found: JsonObject = {"messages": [{"role": "user", "content": content(LIMIT)}]}
    fake = FakeChild(
        capabilities={"prompts": {}},
        answers={"prompts/list": {"prompts": [{"name": "ask"}]}, "prompts/get": found},
    )
    async with scripted(fake, config=KEYS) as hub:
        error = await refusal(await hub.greeted(), "prompts/get", {"name": "ask"})
        assert error["code"] == INTERNAL_ERROR
        assert "`listen.max_result`" in error["message"]


async def test_a_listing_by_a_meta_tool_that_is_too_large_is_an_error_too() -> None:
    tools: list[JsonObject] = [{**ECHO, "name": f"echo{n}"} for n in range(100)]
    async with scripted(FakeChild(*tools), config={**KEYS, "expose": "search"}) as hub:
        client = await hub.greeted()
        result: Any = await client.request("tools/call", {"name": "list-all-tools"})
        assert result["isError"] is True
        assert result["content"][0]["text"].startswith("the hub gave a result of ")
