"""Clients whose token lacks a scope of one operation: 403 with all that the operation needs."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import anyio
import pytest

from hub.config.models import HubConfig
from hub.protocol.input_requests import ROOTS_KEY
from hub.protocol.listen_filter import LISTEN
from hub.values import Json, JsonObject, object_or_empty
from tests.kit.asgi import Connection
from tests.kit.callers import FORM
from tests.kit.fakes import ECHO, READ, SILENT, FakeChild
from tests.server.http.auth.issuer import NAME, RESOURCE
from tests.server.http.auth.test_authorization import AT, by, credentials
from tests.server.http.auth.test_signed_tokens import Keys
from tests.server.http.test_app import (
    MODERN,
    ROOTS,
    Web,
    asked,
    echo,
    enveloped,
    initialize,
    listen,
    told,
    web,
)

BASE: Final = by(scope="mcp:tools")
READER: Final = by(scope="mcp:tools files:read")
WRITER: Final = by(scope="mcp:tools files:read files:write")
NAMED: Final = {"authorization": "Bearer of ci"}
SERVERS: Final[dict[str, Any]] = {
    "files": {
        "command": "x",
        "scopes": ["files:read"],
        "tools": {"overrides": {"read": {"scopes": ["files:write"]}}},
    }
}
LISTEN_KEYS: Final = {
    "auth": {"resource": RESOURCE, "issuers": [{"issuer": NAME}], "scopes": ["mcp:tools"]}
}
CONFIG: Final[dict[str, Any]] = {"servers": SERVERS, "listen": LISTEN_KEYS}
NOTES: Final[dict[str, Any]] = {
    "resources/list": {"resources": [{"uri": "note://1", "name": "1"}]},
    "resources/templates/list": {"resourceTemplates": []},
    "resources/read": {"contents": []},
    "resources/subscribe": {},
    "prompts/list": {"prompts": [{"name": "greet"}]},
    "prompts/get": {"messages": []},
    "completion/complete": {"completion": {"values": []}},
}
ALL: Final[JsonObject] = {
    "tools": {},
    "resources": {"subscribe": True},
    "prompts": {},
    "completions": {},
}


def other_server() -> dict[str, Any]:
    """Return the servers, with another one that a resource may be of."""
    return {**SERVERS, "other": {"command": "y", "roots": {"args": "none"}}}


def child() -> FakeChild:
    return FakeChild(ECHO, READ, answers=NOTES, capabilities=ALL)


@asynccontextmanager
async def endpoint(**more: Any) -> AsyncGenerator[Web]:
    keys = {**CONFIG, **more}
    async with web(child(), credentials=credentials(Keys("rsa-1")), config=keys) as site:
        yield site


def challenge(scope: str) -> str:
    text = "The operation needs a token with more scopes"
    return (
        f'Bearer realm="roots-hub", error="insufficient_scope", error_description="{text}", '
        f'scope="{scope}", resource_metadata="{AT}"'
    )


def calling(name: str, **arguments: Json) -> JsonObject:
    return {**echo(), "params": {"name": name, "arguments": arguments}}


OPERATIONS: Final[dict[str, JsonObject]] = {
    "tools/call": {"name": "echo", "arguments": {}},
    "resources/read": {"uri": "note://1"},
    "prompts/get": {"name": "greet"},
    "completion/complete": {
        "ref": {"type": "ref/prompt", "name": "greet"},
        "argument": {"name": "a", "value": ""},
    },
}


async def modern(
    site: Web,
    message: JsonObject,
    sent: Mapping[str, str],
    capabilities: JsonObject | None = None,
) -> Connection:
    params: Any = message["params"]
    named = params.get("name", params.get("uri"))
    return await site.modern(
        message, capabilities, **sent, **({} if named is None else {"mcp_name": named})
    )


def is_refused(answer: Connection, scope: str) -> bool:
    """Return whether an operation was refused, with all the scopes that it needs."""
    if answer.status != 403:
        return False
    assert answer.headers["www-authenticate"] == challenge(scope)
    error = answer.json["error"]
    assert error["data"] == {"error": "insufficient_scope", "scope": scope}
    return True


def reached(site: Web) -> list[str]:
    """Return the methods of what the server was sent, but for its lists."""
    lines = [line["method"] for link in site.child.links for line in link.seen if "method" in line]
    return [one for one in lines if one in {*OPERATIONS, "resources/subscribe"}]


@pytest.mark.parametrize("method", OPERATIONS)
async def test_an_operation_that_needs_more_is_refused_before_its_server_starts(
    method: str,
) -> None:
    message: JsonObject = {**asked(method), "params": OPERATIONS[method]}
    async with endpoint() as site:
        key = await site.session(sent=BASE)
        assert is_refused(await site.post(message, key, **BASE), "mcp:tools files:read")
        assert is_refused(await modern(site, message, BASE), "mcp:tools files:read")
        assert not site.child.links
        assert "result" in (await site.post(message, key, **READER)).json
        assert "result" in (await modern(site, message, READER)).json
        assert reached(site) == [method, method]


async def test_a_tool_may_need_more_than_its_server() -> None:
    async with endpoint() as site:
        key = await site.session(sent=READER)
        needed = "mcp:tools files:read files:write"
        assert (await site.post(calling("echo"), key, **READER)).status == 200
        assert is_refused(await site.post(calling("read"), key, **READER), needed)
        assert is_refused(await modern(site, calling("read"), READER), needed)
        assert (await site.post(calling("read"), key, **WRITER)).status == 200
        assert (await modern(site, calling("read"), WRITER)).status == 200


async def test_each_request_counts_by_its_own_token_also_where_its_route_is_cached() -> None:
    async with endpoint() as site:
        key = await site.session(sent=READER)
        for _ in range(2):
            assert (await site.post(echo(), key, **READER)).status == 200
            assert is_refused(await site.post(echo(), key, **BASE), "mcp:tools files:read")
            assert (await modern(site, echo(), READER)).status == 200
            assert is_refused(await modern(site, echo(), BASE), "mcp:tools files:read")
        assert reached(site) == ["tools/call"] * 4


async def test_tokens_of_the_config_have_no_scopes_and_need_none() -> None:
    async with endpoint() as site:
        key = await site.session(sent=NAMED)
        assert (await site.post(calling("read"), key, **NAMED)).status == 200
        assert (await modern(site, calling("read"), NAMED)).status == 200


async def test_lists_and_the_hubs_own_tools_need_the_general_scopes_alone() -> None:
    async with endpoint() as site:
        answer = await site.modern(asked("tools/list"), None, **BASE)
        assert [tool["name"] for tool in answer.json["result"]["tools"]] == [
            "get-roots",
            "echo",
            "read",
        ]
        answer = await modern(site, calling("get-roots"), READER)
        (server,) = answer.json["result"]["structuredContent"]["servers"]
        assert server["scopes"] == {
            "server": ["mcp:tools", "files:read"],
            "tools": {"read": ["mcp:tools", "files:read", "files:write"]},
            "missing": ["files:write"],
        }


async def test_a_call_through_call_tool_needs_the_scopes_of_the_tool() -> None:
    inner: JsonObject = {"serverName": "files", "toolName": "read", "toolArgs": {}}
    needed = "mcp:tools files:read files:write"
    async with endpoint(expose="search") as site:
        key = await site.session(sent=READER)
        for _ in range(2):
            message = calling("call-tool", **inner)
            assert is_refused(await site.post(message, key, **READER), needed)
            assert is_refused(await modern(site, message, READER), needed)
            assert (await site.post(message, key, **WRITER)).status == 200
            assert (await modern(site, message, WRITER)).status == 200
        shown = calling("get-tool", serverName="files", toolName="read")
        assert (await modern(site, shown, BASE)).status == 200


async def test_a_client_is_not_asked_for_roots_by_a_call_that_its_token_does_not_allow() -> None:
    message = calling("read", path="/x/y")
    async with endpoint() as site:
        for _ in range(2):
            first = await modern(site, message, WRITER, ROOTS)
            assert ROOTS_KEY in first.json["result"]["inputRequests"]
            refused = await modern(site, message, READER, ROOTS)
            assert is_refused(refused, "mcp:tools files:read files:write")


async def test_a_client_that_prefers_event_streams_gets_the_status_all_the_same() -> None:
    accept = {"accept": "text/event-stream, application/json"}
    async with endpoint() as site:
        key = await site.session(sent=BASE)
        assert is_refused(await site.post(echo(), key, **BASE, **accept), "mcp:tools files:read")


async def test_a_resource_of_one_of_several_servers_is_refused_once_it_is_known_whose_it_is() -> (
    None
):
    message: JsonObject = {**asked("resources/read"), "params": {"uri": "note://1"}}
    async with endpoint(servers=other_server()) as site:
        key = await site.session(sent=BASE)
        await site.post(asked("resources/list"), key, **BASE)
        assert is_refused(await site.post(message, key, **BASE), "mcp:tools files:read")
        assert is_refused(await modern(site, message, BASE), "mcp:tools files:read")
        assert reached(site) == []
        assert "result" in (await site.post(message, key, **READER)).json


async def test_a_subscription_needs_the_scopes_of_its_server() -> None:
    message: JsonObject = {**asked("resources/subscribe"), "params": {"uri": "note://1"}}
    async with endpoint() as site:
        key = await site.session(sent=BASE)
        assert is_refused(await site.post(message, key, **BASE), "mcp:tools files:read")
        opening = listen(resourceSubscriptions=["note://1"])
        assert is_refused(
            await site.post(
                enveloped(opening), None, **BASE, mcp_protocol_version=MODERN, mcp_method=LISTEN
            ),
            "mcp:tools files:read",
        )
        assert reached(site) == []
        assert (await site.post(message, key, **READER)).status == 200
        stream = site.start(
            "POST",
            None,
            enveloped(opening),
            **READER,
            mcp_protocol_version=MODERN,
            mcp_method=LISTEN,
        )
        with anyio.fail_after(20):
            await stream.began()
        assert stream.status == 200
        stream.disconnect()


async def test_a_changed_config_asks_for_other_scopes_from_the_next_request_on() -> None:
    async with endpoint() as site:
        key = await site.session(sent=READER)
        assert (await site.post(echo(), key, **READER)).status == 200
        assert (await modern(site, echo(), READER)).status == 200
        started = len(site.child.links)
        files = {**SERVERS["files"], "scopes": ["files:all"]}
        made = HubConfig.model_validate({"version": 1, **CONFIG, "servers": {"files": files}})
        await site.hub.take(site.hub.own, made)
        assert is_refused(await site.post(echo(), key, **READER), "mcp:tools files:all")
        assert is_refused(await modern(site, echo(), READER), "mcp:tools files:all")
        assert len(site.child.links) == started, "the servers run on"


def test_all_scopes_of_a_config_are_told() -> None:
    made = HubConfig.model_validate({"version": 1, **CONFIG})
    assert made.scopes == ("mcp:tools", "files:read", "files:write")


async def test_a_new_session_needs_the_general_scopes_alone() -> None:
    async with endpoint() as site:
        assert (await site.post(initialize(), None, **BASE)).status == 200
        assert (await site.post(told(), await site.session(sent=BASE), **BASE)).status == 202


async def test_a_response_that_is_a_stream_by_then_ends_with_an_error_that_says_the_same() -> None:
    message: JsonObject = {**asked("resources/read"), "params": {"uri": "note://1"}}
    async with endpoint(servers=other_server()) as site:
        key = await site.session(ROOTS, sent=BASE)
        read = site.start("POST", key, message, **BASE)
        (wanted,) = await read.heard(1)
        assert wanted["method"] == "roots/list"
        roots: JsonObject = {"jsonrpc": "2.0", "id": wanted["id"], "result": {"roots": []}}
        assert (await site.post(roots, key, **BASE)).status == 202
        with anyio.fail_after(20):
            answer = (await read.over()).events[-1]
        assert read.status == 200
        assert answer["error"]["data"] == {
            "error": "insufficient_scope",
            "scope": "mcp:tools files:read",
        }
        assert reached(site) == []


@pytest.mark.parametrize("names", ["auto", "never"])
async def test_a_retry_counts_by_its_own_token(tmp_path: Path, names: str) -> None:
    """Its state is good for another retry where the name alone tells which server it is of."""
    file = tmp_path / "audit.jsonl"
    servers = {"files": SERVERS["files"]} if names == "auto" else other_server()
    asking = FakeChild(ECHO, answers={"tools/call": SILENT})
    keys = {**CONFIG, "servers": servers, "names": names, "audit": {"file": str(file)}}
    if names == "never":
        keys["servers"] = {**servers, "other": {**servers["other"], "tools": {"deny": ["*"]}}}
    async with web(asking, credentials=credentials(Keys("rsa-1")), config=keys) as site:
        declared: JsonObject = {"elicitation": {"form": {}}}
        first = site.start(
            "POST",
            None,
            enveloped(echo(), declared),
            **READER,
            mcp_protocol_version=MODERN,
            mcp_method="tools/call",
            mcp_name="echo",
        )
        with anyio.fail_after(20):
            while not (called := [one for one in asking.links if one.requests("tools/call")]):
                await anyio.wait_all_tasks_blocked()
            called[0].ask("q", "elicitation/create", FORM)
            result = (await first.over()).json["result"]
        (key,) = result["inputRequests"]
        params: JsonObject = {
            **object_or_empty(echo()["params"]),
            "inputResponses": {key: {"action": "accept", "content": {}}},
            "requestState": result["requestState"],
        }
        retry: JsonObject = {**echo(), "params": params}
        assert is_refused(await modern(site, retry, BASE, declared), "mcp:tools files:read")
        if names == "auto":
            (sent,) = called[0].requests("tools/call")
            called[0].answer(sent["id"], {"content": []})
            assert "content" in (await modern(site, retry, READER, declared)).json["result"]
    records = [json.loads(line) for line in file.read_text().splitlines()]
    told = [(one["verdict"], one["reason"]) for one in records]
    refused = ("refused", "The token lacks the scope files:read")
    assert told == [refused, *([("admitted", None)] if names == "auto" else [])]
