"""What servers call their tools, as clients are shown it: nothing hidden, nothing in two places."""

from __future__ import annotations

from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from hub.protocol.constants import INVALID_PARAMS
from hub.values import JsonObject
from tests.kit.fakes import ECHO, FakeChild
from tests.kit.hubs import FakeClient
from tests.kit.scripted import scripted

HIDDEN: JsonObject = {**ECHO, "name": "echo\x1b[2J\u202e", "description": "Says\x1b[8m it\u200b."}


async def listed(client: FakeClient) -> list[Any]:
    return cast("Any", await client.request("tools/list", {}))["tools"]


@pytest.mark.parametrize("servers", [["one"], ["one", "two"]])
async def test_a_tool_whose_name_hides_something_is_shown_legible_and_can_be_called(
    servers: list[str],
) -> None:
    children = {name: FakeChild({**HIDDEN}) for name in servers}
    async with scripted(children) as hub:
        client = await hub.greeted()
        tools = await listed(client)
        (shown,) = [tool for tool in tools if tool["name"].startswith(("echo", "one__echo"))]
        assert shown["name"].isascii()
        assert shown["name"].isprintable()
        assert shown["description"] == "Says\\x1b[8m it\\u200b."
        for _ in range(2):  # and the way that is kept after the first time
            answer = await client.call(shown["name"], text="hi")
            assert "isError" not in answer
        (sent, _) = cast("Any", children["one"].link.requests("tools/call"))
        assert sent["params"]["name"] == HIDDEN["name"]


async def test_a_name_that_two_servers_have_is_left_out_alone_and_its_call_says_why() -> None:
    children = {
        "one": FakeChild(ECHO, {**ECHO, "name": "own"}),
        "two": FakeChild(ECHO, {**ECHO, "name": "other"}),
    }
    with capture_logs() as logs:
        async with scripted(children, config={"names": "never"}) as hub:
            client = await hub.greeted()
            for _ in range(2):
                tools = await listed(client)
                assert [tool["name"] for tool in tools] == ["get-roots", "own", "other"]
            answer = await client.end(await client.begin("tools/call", {"name": "echo"}))
            error = cast("Any", answer["error"])
            assert "isError" not in await client.call("own", text="hi")
    assert error["code"] == INVALID_PARAMS
    assert "'echo' is left out: one and two have one with this name" in error["message"]
    assert "Set names: auto" in error["message"]
    (said,) = [entry for entry in logs if entry["event"] == "LEFT OUT"]
    assert said["servers"] == ["one", "two"]
