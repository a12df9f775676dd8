from __future__ import annotations

from collections.abc import Sequence

import pytest

from hub.protocol.constants import HEADER_MISMATCH
from hub.values import Json, JsonObject
from tests.kit.fakes import FakeChild
from tests.kit.hubs import FakeClient
from tests.kit.scripted import refusal, scripted
from tests.server.test_modern import envelope

REGION: JsonObject = {"type": "string", "x-mcp-header": "Region"}
WRONG: JsonObject = {"type": "number", "x-mcp-header": "N"}
Pairs = Sequence[tuple[str, str]]


def tool(name: str, **properties: Json) -> JsonObject:
    return {"name": name, "inputSchema": {"type": "object", "properties": properties}}


def call(arguments: JsonObject, name: str = "query") -> JsonObject:
    return {"name": name, "arguments": arguments, "_meta": envelope(None)}


def over_http(client: FakeClient, *headers: tuple[str, str]) -> FakeClient:
    client.connection.modern.headers = headers
    return client


@pytest.mark.parametrize(
    ("headers", "arguments"),
    [
        ([("mcp-param-region", "eu")], {"region": "eu"}),
        ([("mcp-param-region", "=?base64?w6Q=?=")], {"region": "ä"}),
        ([("mcp-param-other", "x")], {}),
        ([], {"region": None}),
        ([], {"region": ["eu"]}),
    ],
)
async def test_headers_that_fit_let_a_call_through(headers: Pairs, arguments: JsonObject) -> None:
    async with scripted(FakeChild(tool("query", region=REGION))) as hub:
        client = over_http(hub.client(), *headers)
        assert "isError" not in await client.request("tools/call", call(arguments))


@pytest.mark.parametrize(
    ("headers", "arguments"),
    [
        ([("mcp-param-region", "us")], {"region": "eu"}),
        ([("mcp-param-region", "us")], {}),
        ([], {"region": "eu"}),
        ([("mcp-param-region", "=?base64?!?=")], {"region": "eu"}),
        ([("mcp-param-region", "eu"), ("mcp-param-region", "eu")], {"region": "eu"}),
    ],
)
async def test_headers_that_do_not_keep_it_from_its_child(
    headers: Pairs, arguments: JsonObject
) -> None:
    child = FakeChild(tool("query", region=REGION))
    async with scripted(child) as hub:
        client = over_http(hub.client(), *headers)
        error = await refusal(client, "tools/call", call(arguments))
        assert error["code"] == HEADER_MISMATCH
        assert error["message"].startswith("Header mismatch: Mcp-Param-Region")
        assert child.link.requests("tools/call") == []


async def test_over_a_pipe_there_are_no_headers() -> None:
    async with scripted(FakeChild(tool("query", region=REGION))) as hub:
        assert "isError" not in await hub.client().request("tools/call", call({"region": "eu"}))


async def test_a_tool_that_marks_wrongly_and_others_have_no_headers() -> None:
    async with scripted(FakeChild(tool("query", n=WRONG), tool("plain"))) as hub:
        client = over_http(hub.client())
        assert "isError" not in await client.request("tools/call", call({"n": 1}))
        assert "isError" not in await client.request("tools/call", call({}, "plain"))
