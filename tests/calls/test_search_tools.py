"""With `expose: search`: the meta tools' answers, and calls that go the way of any other call."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import anyio
import jsonschema
import pytest
from msgspec import Raw

from hub.catalog.merge import Offer, ToolText
from hub.catalog.search_tools import META_TOOLS
from hub.errors import ChildError, RouteError
from hub.guard.keys.vocabulary import Kind
from hub.guard.policy import Mode, Policy, ToolPolicy
from hub.jsonrpc.messages import as_object
from hub.values import Json, JsonObject
from tests.kit.fakes import ECHO, READ, SILENT, FakeChild
from tests.kit.hubs import text_of
from tests.kit.loops import all_tasks_blocked, virtual_time
from tests.kit.rigs import Rig, RigClient, launched, remote, rig, roots_at
from tests.kit.trees import plant

SAMPLING = "sampling/createMessage"
DROP: JsonObject = {"name": "drop", "description": "Drops everything.\nReally."}
META_NAMES = [tool["name"] for tool in META_TOOLS]


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return plant(tmp_path, "a/f", "b/f")


searching = partial(rig, expose="search")
"""Keeps a hub that shows its clients the meta tools."""


@asynccontextmanager
async def three(**changes: object) -> AsyncGenerator[Rig]:
    """Keep a hub with two servers that answer and one that does not start."""
    broken = FakeChild()
    broken.refuses_to_open = ChildError("no such command")
    fakes = {"files": FakeChild(READ, ECHO), "db": FakeChild(DROP), "gone": broken}
    specs = {"files": remote("files", **changes), "db": remote("db"), "gone": remote("gone")}
    async with searching(specs, fakes) as at:
        yield at


async def answer(client: RigClient, name: str, **arguments: Json) -> Any:
    """Return what a meta tool answers, after comparing its three forms."""
    result = await client.call(name, arguments)
    assert "isError" not in result, result
    assert json.loads(text_of(result)) == result["structuredContent"]
    tool = next(one for one in META_TOOLS if one["name"] == name)
    jsonschema.validate(result["structuredContent"], cast("Any", tool["outputSchema"]))
    return result["structuredContent"]


async def refusal(client: RigClient, name: str, **arguments: Json) -> str:
    """Return what a model is told that made a mistake."""
    result = await client.call(name, arguments)
    assert result["isError"] is True
    return text_of(result)


def tools_in(found: Any) -> dict[str, list[str]]:
    return {
        one["serverName"]: [tool["toolName"] for tool in one["tools"]] for one in found["servers"]
    }


async def test_clients_are_shown_the_meta_tools_and_no_child_is_started_for_that() -> None:
    fake = FakeChild(READ)
    async with searching({"files": remote()}, {"files": fake}) as at:
        client = at.client()
        asked = client.asked_for("tools/list", {})
        page = as_object(await at.relay.listings.page(client.session, asked))
        names = [tool["name"] for tool in cast("list[JsonObject]", page["tools"])]
        assert names == [*META_NAMES, "get-roots"]
        assert fake.links == []


async def test_servers_are_listed_with_what_is_known_without_waiting_for_them() -> None:
    async with three() as at:
        client = at.client()
        entries = [{"serverName": name, "state": "idle"} for name in ("files", "db", "gone")]
        assert await answer(client, "list-servers") == {"servers": entries}
        assert (await client.call("get-roots"))["structuredContent"]
        await answer(client, "list-all-tools")
        first, second, third = (await answer(client, "list-servers"))["servers"]
        assert first == {"serverName": "files", "state": "ready", "tools": 2}
        assert second == {"serverName": "db", "state": "ready", "tools": 1}
        assert (third["state"], "no such command" in third["trouble"]) == ("down", True)


async def test_all_tools_are_listed_by_server_and_a_server_that_fell_is_named() -> None:
    async with three() as at:
        found = await answer(at.client(), "list-all-tools")
        assert tools_in(found) == {"files": ["read", "echo"], "db": ["drop"], "gone": []}
        assert found["servers"][1]["tools"] == [
            {"toolName": "drop", "description": "Drops everything."}
        ]
        assert "no such command" in found["servers"][2]["trouble"]
        assert "hint" not in found


async def test_the_tools_of_one_server_are_listed_without_starting_others() -> None:
    async with three() as at:
        client = at.client()
        found = await answer(client, "list-all-tools-in-server", serverName="db")
        assert tools_in(found) == {"db": ["drop"]}
        states = [one["state"] for one in (await answer(client, "list-servers"))["servers"]]
        assert states == ["idle", "ready", "idle"]


async def test_tools_are_found_by_words_in_all_servers_or_in_one() -> None:
    async with three() as at:
        client = at.client()
        found = await answer(client, "find-tools", pattern="READ|everything")
        assert tools_in(found) == {"files": ["read"], "db": ["drop"], "gone": []}
        found = await answer(client, "find-tools", pattern="everything", searchIn="name")
        assert tools_in(found) == {"gone": []}
        assert found["hint"].startswith("Nothing found. Words separated by spaces")
        found = await answer(
            client, "find-tools-in-server", serverName="files", pattern="E", caseSensitive=True
        )
        assert tools_in(found) == {}
        found = await answer(client, "find-tools-in-server", serverName="files", pattern="e*")
        assert tools_in(found) == {"files": ["read", "echo"]}


@virtual_time
async def test_one_child_that_hangs_does_not_keep_the_others_from_being_found() -> None:
    fakes = {"a": FakeChild(answers={"initialize": SILENT}), "b": FakeChild(ECHO)}
    async with searching({name: remote(name) for name in fakes}, fakes) as at:
        found = await answer(at.client(), "find-tools", pattern="echo")
        assert tools_in(found) == {"a": [], "b": ["echo"]}
        assert found["servers"][0]["trouble"] == "server 'a' is not running: it is starting"


async def test_a_server_without_a_launch_plan_is_named() -> None:
    spec = launched("files", "${NOT_SET}")
    async with searching({"files": spec}, {"files": FakeChild(ECHO)}) as at:
        found = await answer(at.client(), "list-all-tools")
        assert found["servers"][0]["trouble"] == "it cannot be started"


async def test_a_tool_is_shown_in_full_under_its_own_name_as_the_operator_describes_it() -> None:
    offer = Offer(texts={"read": ToolText(description="Mine.")})
    async with three(offer=offer) as at:
        found = await answer(at.client(), "get-tool", serverName="files", toolName="read")
        assert found == {"serverName": "files", "tool": {**READ, "description": "Mine."}}


async def test_what_is_not_there_is_an_error_that_a_model_can_correct() -> None:
    async with three() as at:
        client = at.client()
        for name in ("get-tool", "call-tool"):
            said = await refusal(client, name, serverName="files", toolName="raed")
            assert said == "Unknown tool 'raed' of server 'files' (did you mean 'read'?)"
            said = await refusal(client, name, serverName="file", toolName="read")
            assert said == "Unknown server 'file' (did you mean 'files'?)"
            said = await refusal(client, name, serverName="gone", toolName="x")
            assert "server 'gone' is not running: no such command" in said
            assert "no such command" in said
        said = await refusal(client, "find-tools", pattern="x" * 201)
        assert said == "The pattern is too long: at most 200 characters"
        said = await refusal(client, "call-tool", serverName="files", toolName="read", path="/a")
        assert said.startswith("call-tool does not take 'path'")
        said = await refusal(client, "list-all-tools-in-server", serverName="gone")
        assert "no such command" in said


@pytest.mark.parametrize("name", ["read", "files__read", "list_servers"])
async def test_a_childs_tool_has_no_public_name(name: str) -> None:
    fake = FakeChild(READ)
    async with searching({"files": remote()}, {"files": fake}) as at:
        with pytest.raises(RouteError, match=f"Unknown tool: {name} \\(find-tools and call-tool"):
            await at.client().call(name, {})
        assert fake.links == []


async def test_a_denied_tool_can_neither_be_found_nor_called() -> None:
    async with three(offer=Offer(deny=("re*",))) as at:
        client = at.client()
        assert tools_in(await answer(client, "list-all-tools"))["files"] == ["echo"]
        assert tools_in(await answer(client, "find-tools", pattern="read")) == {"gone": []}
        for name in ("get-tool", "call-tool"):
            said = await refusal(client, name, serverName="files", toolName="read")
            assert said == ("Unknown tool 'read' of server 'files' (find-tools shows its tools)")


# Calls


async def called(client: RigClient, arguments: JsonObject, **params: Json) -> JsonObject:
    """Call `read` of `files` by `call-tool`."""
    about: JsonObject = {"serverName": "files", "toolName": "read", "toolArgs": arguments}
    return await client.call("call-tool", about, **params)


async def test_a_call_inside_the_roots_reaches_the_child_as_it_is(top: Path) -> None:
    fake = FakeChild(READ)
    async with searching({"files": remote()}, {"files": fake}) as at:
        client = at.client(top / "a")
        arguments: JsonObject = {"path": f"{top}/a/f", "n": 2**100, "unknown": {"x": [None]}}
        result = await called(client, arguments, more={"kept": True})
        assert result["structuredContent"] == arguments
        sent = (await fake.link.request("tools/call"))["params"]
        assert sent == {"name": "read", "arguments": arguments, "more": {"kept": True}}
        await client.call("call-tool", {"serverName": "files", "toolName": "read"})
        sent = (await fake.link.request("tools/call", nth=2))["params"]
        assert sent == {"name": "read"}
        assert [(one.server, one.tool, one.verdict) for one in at.audit.records] == [
            ("files", "read", "admitted")
        ] * 2


async def test_a_childs_result_goes_back_byte_for_byte(top: Path) -> None:
    raw = b'{"content":[],"isError":true,"n":1e400,"m":1.10,"x":"\\ud83d","_meta":{"a":1},"?":[]}'
    fake = FakeChild(READ, answers={"tools/call": raw})
    about: JsonObject = {"serverName": "files", "toolName": "read", "toolArgs": {}}
    async with searching({"files": remote()}, {"files": fake}) as at:
        client = at.client(top / "a")
        found = await at.relay.call(client.session, client.asked("call-tool", about))
        assert found == Raw(raw)


async def test_a_call_outside_the_roots_is_refused_with_a_pointer_into_the_clients_own_arguments(
    top: Path,
) -> None:
    fake = FakeChild(READ)
    async with searching({"files": remote()}, {"files": fake}) as at:
        client = at.client(top / "a")
        result = await called(client, {"path": f"{top}/b/f"})
        assert result["isError"] is True
        assert text_of(result) == (
            f"Access denied: Path '{top}/b/f' is outside the allowed roots boundaries. "
            f'Current roots: ["file://{top}/a"]'
        )
        details = cast("Any", result["_meta"])["roots-hub/refusal"]
        assert details["argument"] == "/toolArgs/path"
        assert fake.link.requests("tools/call") == []
        # For the operator, whose overrides are written so: a pointer into the tool's arguments.
        (record,) = at.audit.records
        assert (record.tool, record.pointer, record.verdict) == ("read", "/path", "refused")
        assert client.session.refusals.recent[0]["argument"] == "/path"


async def test_the_same_call_does_harm_with_the_guard_off(top: Path) -> None:
    fake = FakeChild(READ)
    spec = remote(policy=Policy(mode=Mode.OFF))
    async with searching({"files": spec}, {"files": fake}) as at:
        assert "isError" not in await called(at.client(top / "a"), {"path": f"{top}/b/f"})


async def test_the_overrides_of_the_inner_tool_hold(top: Path) -> None:
    fake = FakeChild(READ)
    own = {"read": ToolPolicy(Policy(), {"/path": Kind.IGNORE, "/note": Kind.PATH})}
    async with searching({"files": remote(tool_policies=own)}, {"files": fake}) as at:
        client = at.client(top / "a")
        assert "isError" not in await called(client, {"path": f"{top}/b/f"})
        assert (await called(client, {"note": f"{top}/b/f"}))["isError"] is True


async def test_what_looks_like_a_path_beside_the_inner_arguments_reaches_nobody(top: Path) -> None:
    fake = FakeChild(READ)
    async with searching({"files": remote()}, {"files": fake}) as at:
        client = at.client(top / "a")
        about: JsonObject = {"serverName": "files", "toolName": "read", "path": f"{top}/b/f"}
        assert (await client.call("call-tool", about))["isError"] is True
        assert all(not link.requests("tools/call") for link in fake.links)


async def test_a_directory_of_the_operator_bounds_a_call(top: Path) -> None:
    spec = remote(ceiling=roots_at(top / "a"))
    async with searching({"files": spec}, {"files": FakeChild(READ)}) as at:
        assert (await called(at.client(), {"path": f"{top}/b/f"}))["isError"] is True


async def test_progress_questions_and_cancelling_work_as_in_any_call() -> None:
    fake = FakeChild(READ, answers={"tools/call": SILENT})
    async with searching({"files": remote()}, {"files": fake}) as at:
        client = at.client(capabilities={"sampling": {}})
        client.answers[SAMPLING] = {"role": "assistant"}
        async with anyio.create_task_group() as calls:
            about: JsonObject = {"serverName": "files", "toolName": "read"}
            asked = client.asked("call-tool", about, _meta={"progressToken": "mine", "x": 1})
            calls.start_soon(client.request, asked)
            sent = await (await fake.connected()).request("tools/call")
            assert sent["params"]["_meta"]["x"] == 1
            token = sent["params"]["_meta"]["progressToken"]
            fake.link.notify("notifications/progress", {"progressToken": token, "progress": 1})
            fake.link.ask("s", SAMPLING, {"messages": []})
            assert (await fake.link.reply("s"))["result"] == {"role": "assistant"}
            calls.cancel_scope.cancel()
        (report,) = client.outlet.notified("notifications/progress")
        assert cast("JsonObject", report.params)["progressToken"] == "mine"
        told = await fake.link.request("notifications/cancelled")
        assert told["params"]["requestId"] == fake.link.requests("tools/call")[0]["id"]
        assert [record.verdict for record in at.audit.records] == ["cancelled"]


@virtual_time
async def test_a_call_to_a_server_that_starts_slowly_waits_for_it_and_for_no_other() -> None:
    """Nobody else's answer is held up by that, so the time that listings allow does not count."""
    fakes = {name: FakeChild(READ, answers={"initialize": SILENT}) for name in ("files", "other")}
    handshake = FakeChild().answers["initialize"]
    async with searching({name: remote(name) for name in fakes}, fakes) as at:
        client = at.client()
        results: list[JsonObject] = []

        async def call() -> None:
            results.append(await called(client, {}))

        async with anyio.create_task_group() as calls:
            calls.start_soon(call)
            asked = await (await fakes["files"].connected()).request("initialize")
            await all_tasks_blocked()
            assert results == []
            assert not callable(handshake)
            fakes["files"].link.answer(asked["id"], handshake)
        assert "isError" not in results[0]
        assert fakes["other"].links == []


async def test_a_tool_tells_of_the_roots_where_the_operator_wants_it(top: Path) -> None:
    fakes = {"files": FakeChild(READ, ECHO), "db": FakeChild(READ)}
    specs = {"files": remote("files", describe_roots=True), "db": remote("db")}
    async with searching(specs, fakes) as at:
        client = at.client(top / "a")

        async def description(server: str, tool: str) -> Json:
            found = await answer(client, "get-tool", serverName=server, toolName=tool)
            return found["tool"].get("description")

        assert await description("files", "read") == f"Paths must be inside: {top}/a"
        assert await description("files", "echo") is None
        assert await description("db", "read") is None
