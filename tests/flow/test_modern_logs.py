"""A modern client reads what its own call logs, from the level on that it names."""

from __future__ import annotations

from typing import Any, cast

import pytest

from hub.jsonrpc.messages import Request
from hub.protocol.constants import INVALID_PARAMS, LOG_LEVEL_META
from hub.values import Json, JsonObject
from tests.kit.fakes import ECHO, SILENT, Answer, FakeChild
from tests.kit.scripted import refusal, scripted
from tests.server.test_modern import envelope

LOGS: JsonObject = {"tools": {}, "logging": {}}
MESSAGE = "notifications/message"


def talkative(**changes: Any) -> FakeChild:
    """Return a child that logs on two levels during each call."""

    def logged(request: Request) -> Answer:
        for level in ("info", "error"):
            child.link.notify(MESSAGE, {"level": level, "data": request.params.get("name")})
        return {"content": []}

    child = FakeChild(ECHO, capabilities=LOGS, **changes)
    child.answers.update({"logging/setLevel": {}, "tools/call": logged})
    return child


def params(level: Json = None) -> JsonObject:
    named: JsonObject = {} if level is None else {LOG_LEVEL_META: level}
    return {"name": "echo", "arguments": {}, "_meta": envelope(None, **named)}


def logs(received: list[JsonObject]) -> list[Any]:
    return [
        cast("JsonObject", line["params"])["level"]
        for line in received
        if line.get("method") == MESSAGE
    ]


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_logs_come_before_the_answer_and_from_the_level_on(era: str) -> None:
    child = talkative(era=era)
    async with scripted(child) as hub:
        client = hub.client()
        await client.request("tools/call", params("warning"))
        assert [line.get("method") for line in client.received] == [MESSAGE, None]
        assert logs(client.received) == ["error"]
        await client.request("tools/call", params("info"))
        assert logs(client.received) == ["error", "info", "error"]


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_nothing_is_logged_to_who_does_not_ask_for_it(era: str) -> None:
    child = talkative(era=era)
    async with scripted(child) as hub:
        client, other = hub.client(), hub.client()
        await client.request("tools/call", params("debug"))
        await other.request("tools/call", params())
        child.link.notify(MESSAGE, {"level": "error", "data": "of nobody's call"})
        await client.request("tools/call", params())
        assert logs(client.received) == ["info", "error"]
        assert logs(other.received) == []


async def test_a_legacy_child_is_told_the_level_before_the_call() -> None:
    child = talkative()
    async with scripted(child) as hub:
        for level in ("error", "info", "warning"):
            await hub.client().request("tools/call", params(level))
        told = [line for line in child.link.seen if line["method"].startswith(("tools/c", "log"))]
        assert [(line["method"], line["params"].get("level")) for line in told] == [
            ("logging/setLevel", "error"),
            ("tools/call", None),
            ("logging/setLevel", "info"),
            ("tools/call", None),
            ("tools/call", None),
        ]
        assert all(LOG_LEVEL_META not in line["params"].get("_meta", {}) for line in told)


async def test_a_modern_child_is_told_the_level_with_the_call() -> None:
    child = talkative(era="modern")
    async with scripted(child) as hub:
        await hub.client().request("tools/call", params("error"))
        await hub.client().request("tools/call", params())
        legacy = await hub.greeted()
        await legacy.call("echo")
        await legacy.request("logging/setLevel", {"level": "notice"})
        await legacy.call("echo")
        said = [line["params"]["_meta"] for line in child.link.requests("tools/call")]
        assert [meta.get(LOG_LEVEL_META) for meta in said] == ["error", None, None, "notice"]
        assert child.link.requests("logging/setLevel") == []
        assert logs(legacy.received)[-1] == "error"


@pytest.mark.parametrize("level", ["loud", "", 7, [], {}])
async def test_an_unknown_level_is_refused(level: Json) -> None:
    child = FakeChild(ECHO)
    async with scripted(child) as hub:
        error = await refusal(hub.client(), "tools/call", params(level))
        assert (error["code"], "warning, error, critical" in error["message"]) == (
            INVALID_PARAMS,
            True,
        )
        assert child.links == []


async def test_who_names_no_level_is_not_flooded_because_others_want_more() -> None:
    child = talkative()
    child.answers["tools/call"] = SILENT
    async with scripted(child) as hub:
        legacy, client = await hub.greeted(), hub.client()
        await legacy.request("tools/list", {})
        await client.begin("tools/call", params("debug"))
        await child.link.request("tools/call")
        for level in ("debug", "error"):
            child.link.notify(MESSAGE, {"level": level, "data": 1})
        await legacy.until(lambda: logs(legacy.received) == ["error"])
        await client.until(lambda: logs(client.received) == ["debug", "error"])
