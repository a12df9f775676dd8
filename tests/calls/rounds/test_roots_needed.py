"""When a modern client is asked for its roots: where they can change what becomes of a request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hub.jsonrpc.exact_json import RequestId
from hub.jsonrpc.messages import Request
from hub.protocol.constants import INVALID_PARAMS, MISSING_CLIENT_CAPABILITY
from hub.protocol.input_requests import ROOTS_KEY
from hub.values import Json, JsonObject
from tests.kit.fakes import ECHO, READ, SILENT, Answer, FakeChild
from tests.kit.hubs import FakeClient, text_of
from tests.kit.scripted import ScriptedHub, refusal, scripted
from tests.kit.trees import plant
from tests.kit.worlds import views_of_disk
from tests.server.test_modern import envelope, is_refused, with_roots

SHELL: JsonObject = {
    "name": "shell",
    "inputSchema": {"type": "object", "properties": {"command": {"type": "string"}}},
}
ROOTS: JsonObject = {"roots": {}}


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return plant(tmp_path, "a/x", "b/x")


async def call(
    client: FakeClient, tool: str, arguments: JsonObject, responses: Json = None, **meta: Json
) -> JsonObject:
    params: JsonObject = {"name": tool, "arguments": arguments, "_meta": envelope(**meta)}
    if responses is not None:
        params["inputResponses"] = responses
    return await client.request("tools/call", params)


def is_asked(result: JsonObject) -> bool:
    return result.get("resultType") == "input_required"


async def listed(client: FakeClient) -> list[Any]:
    tools: Any = (await client.request("tools/list", {"_meta": envelope()}))["tools"]
    return [tool["name"] for tool in tools]


# Calls that name no path


@pytest.mark.parametrize("fallback", [False, True])
async def test_a_call_that_names_no_path_is_not_asked_for_roots(
    top: Path, *, fallback: bool
) -> None:
    child = FakeChild(ECHO, READ)
    async with scripted(child, given=[str(top / "a")] if fallback else []) as hub:
        client = hub.client()
        result = await call(client, "echo", {"text": "hi"})
        assert result["structuredContent"] == {"text": "hi"}
        assert "read" in await listed(client)
        assert not is_asked(await call(hub.client(), "echo", {"text": "again"}))
        plans = [link.plan.roots.paths for link in child.links if link.plan is not None]
        assert plans == [()], "one child that knows no roots serves lists and calls"


async def test_a_call_that_names_a_path_is_asked(top: Path) -> None:
    child = FakeChild(ECHO, READ)
    async with scripted(child) as hub:
        client, before = hub.client(), views_of_disk()
        assert is_asked(await call(client, "echo", {"text": "file:///x"}))
        await listed(client)
        every: list[JsonObject] = [{"text": "file:///x"}, {"other": f"{top}/a/x"}, {"path": "x"}]
        for arguments in every:
            assert is_asked(await call(client, "echo", arguments)), arguments
        assert views_of_disk() == before, "what is remembered of the need has no view of the disk"
        shared = with_roots((top / "a").as_uri())
        result = await call(client, "echo", {"text": "file:///etc/passwd"}, shared)
        assert is_refused(result)
        assert child.link.requests("tools/call") == []


@pytest.mark.parametrize("tool", ["read", "shell"])
async def test_a_tool_that_works_in_its_directory_by_default_is_asked_for_it(tool: str) -> None:
    async with scripted(FakeChild(READ, SHELL)) as hub:
        assert is_asked(await call(hub.client(), tool, {}))
        assert is_asked(await call(hub.client(), "shell", {"command": "ls"}))


async def test_nothing_is_asked_where_the_guard_is_off(top: Path) -> None:
    async with scripted(FakeChild(READ), config={"guard": "off"}) as hub:
        assert not is_asked(await call(hub.client(), "read", {"path": f"{top}/a/x"}))


async def test_roots_that_came_all_the_same_are_taken(top: Path) -> None:
    child = FakeChild(ECHO)
    async with scripted(child) as hub:
        await call(hub.client(), "echo", {"text": "hi"}, with_roots((top / "a").as_uri()))
        plan = child.link.plan
        assert plan is not None
        assert plan.roots.paths == (f"{top}/a",)


async def test_an_unknown_tool_is_no_reason_to_ask() -> None:
    async with scripted(FakeChild(ECHO)) as hub:
        params: JsonObject = {"name": "nonsense", "_meta": envelope()}
        assert (await refusal(hub.client(), "tools/call", params))["code"] == INVALID_PARAMS


async def test_resources_that_are_no_files_are_read_without_roots(top: Path) -> None:
    uri = (top / "a/x").as_uri()
    child = FakeChild(
        answers={
            "resources/list": {"resources": [{"uri": "memo://x/y", "name": "y"}]},
            "resources/templates/list": {"resourceTemplates": []},
            "resources/read": {"contents": []},
        },
        capabilities={"resources": {}},
    )
    async with scripted(child) as hub:
        client = hub.client()
        for name, asked in ((uri, True), ("memo://x/y", False), (uri, True)):
            result = await client.request("resources/read", {"uri": name, "_meta": envelope()})
            assert is_asked(result) is asked
        assert len(child.links) == 1


async def test_prompts_are_asked_for_by_their_arguments() -> None:
    declared: JsonObject = {"name": "p", "arguments": [{"name": "file"}, {"name": "arg1"}]}
    prompts: JsonObject = {"prompts": [declared]}
    got: JsonObject = {"messages": []}
    child = FakeChild(
        answers={"prompts/list": prompts, "prompts/get": got}, capabilities={"prompts": {}}
    )
    async with scripted(child) as hub:
        client = hub.client()
        params: JsonObject = {"name": "p", "_meta": envelope()}
        assert not is_asked(await client.request("prompts/get", params))
        params["arguments"] = {"arg1": "some value"}
        assert not is_asked(await client.request("prompts/get", params))
        params["arguments"] = {"file": "/etc/passwd"}
        assert is_asked(await client.request("prompts/get", params))


# Servers whose children depend on roots


@pytest.mark.parametrize(
    "server", [{"args": ["${roots}"]}, {"cwd": "${root}"}, {"roots": {"args": "append"}}]
)
async def test_calls_of_a_server_that_is_launched_for_roots_are_asked(
    server: dict[str, Any],
) -> None:
    child = FakeChild(ECHO)
    async with scripted(child, config={"servers": {"files": {"command": "x", **server}}}) as hub:
        assert is_asked(await call(hub.client(), "echo", {"text": "hi"}))
        assert child.links == []


async def test_the_question_is_for_the_server_that_is_called() -> None:
    children = {"a": FakeChild(ECHO), "b": FakeChild(ECHO)}
    servers = {"a": {"command": "x", "cwd": "${root}"}, "b": {"command": "x"}}
    async with scripted(children, config={"servers": servers}) as hub:
        assert not is_asked(await call(hub.client(), "b__echo", {"text": "hi"}))
        assert is_asked(await call(hub.client(), "a__echo", {"text": "hi"}))
        assert children["a"].links == []


# Children that ask


def asking(**changes: Any) -> FakeChild:
    """Return a legacy child whose tool asks for roots, and answers with what it was answered."""

    def begin(request: Request) -> Answer:
        child.link.ask(f"of {request.id}", "roots/list", {})
        return SILENT

    child = FakeChild(ECHO, **changes)
    child.answers["tools/call"] = begin
    return child


async def answered(child: FakeChild, nth: int = 1) -> Any:
    """End the nth call that reached the newest child with what it was told of roots."""
    link = child.link
    id_: RequestId = (await link.request("tools/call", nth=nth))["id"]
    reply = await link.reply(f"of {id_}")
    link.answer(id_, {"content": [{"type": "text", "text": str(reply.get("result"))}]})
    return reply


async def learned(hub: ScriptedHub, child: FakeChild, top: Path) -> str:
    """Call with roots; returns what the child learned of them."""
    client = hub.client()
    params: JsonObject = {"name": "echo", "arguments": {}, "_meta": envelope()}
    params["inputResponses"] = with_roots((top / "a").as_uri())
    begun = await client.begin("tools/call", params)
    await child.connected(2)
    await answered(child)
    result: Any = (await client.end(begun))["result"]
    return text_of(result)


async def test_a_call_whose_child_asks_for_roots_comes_again_with_them(top: Path) -> None:
    child = asking()
    async with scripted(child) as hub:
        assert is_asked(await call(hub.client(), "echo", {}))
        first = child.links[0]
        (sent,) = first.requests("tools/call")
        cancelled = await first.request("notifications/cancelled")
        assert cancelled["params"]["requestId"] == sent["id"]
        assert "error" in await first.reply(f"of {sent['id']}")
        assert (top / "a").as_uri() in await learned(hub, child, top)
        assert is_asked(await call(hub.client(), "echo", {})), "it is known by now to ask"
        assert len(first.requests("tools/call")) == 1


async def test_a_modern_child_that_asks_for_roots_gets_the_clients(top: Path) -> None:
    def begin(request: Request) -> Answer:
        found: Any = request.params.get("inputResponses")
        if found is None:
            wanted: JsonObject = {"r": {"method": "roots/list"}}
            return {"resultType": "input_required", "inputRequests": wanted, "requestState": "s"}
        return {"content": [{"type": "text", "text": str(found["r"]["roots"])}]}

    child = FakeChild(ECHO, era="modern", answers={"tools/call": begin})
    async with scripted(child) as hub:
        asked = await call(hub.client(), "echo", {})
        assert asked["inputRequests"] == {ROOTS_KEY: {"method": "roots/list"}}
        retry: JsonObject = {
            "name": "echo",
            "arguments": {},
            "inputResponses": with_roots((top / "a").as_uri()),
            "requestState": asked["requestState"],
            "_meta": envelope(),
        }
        result = await hub.client().request("tools/call", retry)
        assert (top / "a").as_uri() in text_of(result)
        again = await call(hub.client(), "echo", {})
        assert "requestState" in again, "nobody is asked beforehand"


async def test_a_child_that_asks_is_told_so_where_the_call_is_not_known(top: Path) -> None:
    child = asking()
    async with scripted(child) as hub:
        child.answers["tools/call"] = SILENT
        client = hub.client()
        params: JsonObject = {"name": "echo", "arguments": {}, "_meta": envelope()}
        begun = [await client.begin("tools/call", params) for _ in range(2)]
        await child.connected()
        sent = [await child.link.request("tools/call", nth=nth) for nth in (1, 2)]
        child.link.ask("q", "roots/list", {})
        assert "not known" in (await child.link.reply("q"))["error"]["message"]
        for line in sent:
            child.link.answer(line["id"], {"content": []})
        for id_ in begun:
            assert "error" not in await client.end(id_)
        assert is_asked(await call(client, "echo", {}))


async def test_a_child_that_asks_of_its_own_accord_is_shown_its_private_directory() -> None:
    child = FakeChild(ECHO)
    async with scripted(child) as hub:
        await call(hub.client(), "echo", {})
        child.link.ask("q", "roots/list", {})
        reply = await child.link.reply("q")
        assert reply["result"] == {"roots": [{"uri": "file:///private"}]}


async def test_a_child_that_is_not_answered_roots_is_not_told_of_any(top: Path) -> None:
    server = {"command": "x", "roots": {"answer": False}}
    child = FakeChild(ECHO)
    async with scripted(child, config={"servers": {"files": server}}) as hub:
        await call(hub.client(), "echo", {})
        (greeted,) = child.link.requests("initialize")
        assert "roots" not in greeted["params"]["capabilities"]


# Clients without roots


DENY: dict[str, Any] = {"roots": {"when_missing": "deny"}}


async def test_a_client_without_roots_is_told_where_they_are_indispensable(top: Path) -> None:
    child = FakeChild(ECHO, READ)
    async with scripted(child, config=DENY) as hub:
        client = hub.client()
        params: JsonObject = {"name": "read", "arguments": {"path": f"{top}/a/x"}}
        error = await refusal(client, "tools/call", {**params, "_meta": envelope(None)})
        assert error["code"] == MISSING_CLIENT_CAPABILITY
        assert error["data"] == {"requiredCapabilities": ROOTS}
        assert not is_asked(await call(client, "echo", {"text": "hi"}, roots=None))
        assert is_refused(await call(client, "read", {"path": "a\0b"}, roots=None))


async def test_a_fallback_stands_in_for_the_roots_of_a_client_without_any(top: Path) -> None:
    async with scripted(FakeChild(READ), config=DENY, given=[str(top / "a")]) as hub:
        client = hub.client()
        assert not is_refused(await call(client, "read", {"path": f"{top}/a/x"}, roots=None))
        assert is_refused(await call(client, "read", {"path": f"{top}/b/x"}, roots=None))


@pytest.mark.parametrize("mode", ["report", {"on_refused": "ask"}])
async def test_what_is_not_refused_for_good_needs_no_capability(top: Path, mode: Any) -> None:
    async with scripted(FakeChild(READ), config={**DENY, "guard": mode}) as hub:
        result = await call(hub.client(), "read", {"path": f"{top}/a/x"}, roots=None)
        assert is_refused(result) is (mode != "report")


async def test_a_legacy_client_is_refused_as_ever(top: Path) -> None:
    async with scripted(FakeChild(READ), config=DENY) as hub:
        client = await hub.greeted()
        assert is_refused(await client.call("read", path=f"{top}/a/x"))


async def test_a_name_of_no_server_is_no_reason_to_ask_either() -> None:
    async with scripted({"a": FakeChild(ECHO), "b": FakeChild(ECHO)}) as hub:
        params: JsonObject = {"name": "c__echo", "arguments": {"path": "/x"}, "_meta": envelope()}
        assert (await refusal(hub.client(), "tools/call", params))["code"] == INVALID_PARAMS


async def test_looking_for_tools_needs_no_roots_and_calling_them_as_ever(top: Path) -> None:
    async with scripted(FakeChild(ECHO, READ), config={"expose": "search"}) as hub:
        client = hub.client()
        found = await call(client, "find-tools", {"pattern": "echo"})
        assert not is_asked(found)
        inner: JsonObject = {"serverName": "files", "toolName": "echo", "toolArgs": {}}
        assert not is_asked(await call(client, "call-tool", inner))
        inner = {**inner, "toolName": "read", "toolArgs": {"path": "/x"}}
        assert is_asked(await call(client, "call-tool", inner))


async def test_a_child_for_all_knows_no_roots_that_it_could_depend_on(top: Path) -> None:
    child = asking()
    server = {"command": "x", "share": "all"}
    async with scripted(child, config={"servers": {"files": server}}) as hub:
        for nth in (1, 2):
            client = hub.client()
            params: JsonObject = {"name": "echo", "arguments": {}, "_meta": envelope()}
            begun = await client.begin("tools/call", params)
            await child.connected()
            await answered(child, nth)
            result: Any = (await client.end(begun))["result"]
            assert not is_asked(result)
