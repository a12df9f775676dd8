"""Rows L: roots for a Lua server."""

from __future__ import annotations

import json

import pytest

from hub.values import JsonObject
from tests.kit.hubs import READ_FILE, TWO_ROOTS, FakeClient, flow_hub

PROJECT_FILE = "/home/user/project/config.json"
DOCUMENT = "/home/user/documents/readme.txt"


@pytest.mark.usefixtures("home")
async def test_l01_a_change_invalidates_the_sending_session_only() -> None:
    async with flow_hub({"roots": {"debounce": 0}}) as hub:
        one, two = await hub.connected([TWO_ROOTS[0]]), await hub.connected([TWO_ROOTS[0]])
        assert not await one.is_refused(PROJECT_FILE)
        assert not await two.is_refused(PROJECT_FILE)
        one.roots = two.roots = [TWO_ROOTS[1]]
        await one.changed()
        assert await one.is_refused(PROJECT_FILE)
        assert not await two.is_refused(PROJECT_FILE)
        assert (len(one.asked), len(two.asked)) == (2, 1)


@pytest.mark.usefixtures("home")
async def test_l01_sessions_with_different_roots_use_different_children() -> None:
    async with flow_hub() as hub:
        one, two = await hub.connected([TWO_ROOTS[0]]), await hub.connected([TWO_ROOTS[1]])
        three = await hub.connected([TWO_ROOTS[0]])
        assert not await one.is_refused(PROJECT_FILE)
        assert not await two.is_refused(DOCUMENT)
        assert not await three.is_refused(PROJECT_FILE)
        assert await one.is_refused(DOCUMENT)
        assert await two.is_refused(PROJECT_FILE)
        assert [child.calls[0]["arguments"] for child in hub.children] == [
            {"path": PROJECT_FILE},
            {"path": DOCUMENT},
        ]
        assert len(hub.children[0].calls) == 2


@pytest.mark.usefixtures("home")
async def test_l02_inside_outside_and_not_known_yet() -> None:
    async with flow_hub() as hub:
        client = await hub.connected(capabilities={"roots": {}}, holds=True)
        calls = [
            await client.begin("tools/call", {"name": "read_file", "arguments": {"path": path}})
            for path in (PROJECT_FILE, "/etc/passwd")
        ]
        await client.until_asked()
        await client.request("ping", {})
        assert not any(client.is_answered(call) for call in calls)
        await client.answer(client.held[0])
        inside, outside = [await client.end(call) for call in calls]
        assert "Access denied: " not in json.dumps(inside)
        assert "Access denied: " in json.dumps(outside)


@pytest.mark.usefixtures("home")
async def test_l03_a_notification_gets_no_response_and_the_question_has_no_params() -> None:
    async with flow_hub({"roots": {"debounce": 0}}) as hub:
        client = await hub.connected()
        for method in (
            "notifications/roots/list_changed",
            "roots/list_changed",
            "notifications/unknown",
            "notifications/cancelled",
        ):
            await client.notify(method)
        await client.read(PROJECT_FILE)
        for asked in client.asked:
            assert sorted(asked) == ["id", "jsonrpc", "method"]
        answered = [message["id"] for message in client.received if "method" not in message]
        assert answered == [1, 2]


@pytest.mark.usefixtures("home")
async def test_l04_the_default_working_directory_is_the_first_root() -> None:
    async with flow_hub() as hub:
        client = await hub.connected()
        await client.read(PROJECT_FILE)
        assert hub.child.plan is not None
        assert hub.child.plan.cwd == "/home/user/project"


COUNT: JsonObject = {"name": "count", "description": "Counts.", "inputSchema": {"type": "object"}}
DESCRIBED = {"files": {"command": "files-server", "describe_roots": True}}


async def descriptions(client: FakeClient) -> dict[str, str]:
    listed = (await client.request("tools/list", {}))["tools"]
    assert isinstance(listed, list)
    tools = [tool for tool in listed if isinstance(tool, dict)]
    return {str(tool["name"]): str(tool["description"]) for tool in tools}


@pytest.mark.usefixtures("home")
async def test_l04_descriptions_of_tools_that_take_paths_name_the_current_roots() -> None:
    async with flow_hub({"servers": DESCRIBED}, tools=(READ_FILE, COUNT)) as hub:
        client, other = await hub.connected(), await hub.connected([TWO_ROOTS[1]])
        told = await descriptions(client)
        inside = "Paths must be inside: /home/user/project, /home/user/documents"
        assert told["read_file"] == f"Reads a file.\n{inside}"
        assert told["count"] == "Counts."
        told = await descriptions(other)
        assert told["read_file"] == "Reads a file.\nPaths must be inside: /home/user/documents"
        assert (await descriptions(client))["read_file"].endswith(inside)


@pytest.mark.usefixtures("home")
async def test_l04_a_session_lists_again_when_its_own_roots_change() -> None:
    changed = "notifications/tools/list_changed"
    async with flow_hub({"servers": DESCRIBED}) as hub:
        client, other = await hub.connected(), await hub.connected()
        await descriptions(client)
        await descriptions(other)
        client.roots = [TWO_ROOTS[0]]
        await client.changed()
        await client.until(lambda: any(one.get("method") == changed for one in client.received))
        told = await descriptions(client)
        assert told["read_file"].endswith("Paths must be inside: /home/user/project")
        assert not any(one.get("method") == changed for one in other.received)


@pytest.mark.usefixtures("home")
async def test_l04_nothing_is_added_where_nobody_asked_for_it() -> None:
    async with flow_hub() as hub:
        client = await hub.connected()
        assert (await descriptions(client))["read_file"] == "Reads a file."
        client.roots = [TWO_ROOTS[0]]
        await client.changed()
        assert await client.is_refused("/home/user/documents/readme.txt")
        assert not any("tools/list_changed" in str(one.get("method")) for one in client.received)


@pytest.mark.usefixtures("home")
async def test_l05_the_hub_advertises_nothing_for_roots() -> None:
    async with flow_hub() as hub:
        result = await hub.client().initialize({"roots": {"listChanged": True}})
        capabilities = result["capabilities"]
        assert isinstance(capabilities, dict)
        assert sorted(capabilities) == ["completions", "logging", "prompts", "resources", "tools"]
        assert "roots" not in json.dumps(capabilities)


@pytest.mark.usefixtures("home")
async def test_l03_an_answer_to_no_question_is_ignored() -> None:
    async with flow_hub() as hub:
        client = await hub.connected()
        stray: JsonObject = {"id": 4711}
        await client.answer(stray, {"roots": [{"uri": "file:///etc"}]})
        assert not await client.is_refused(PROJECT_FILE)
