"""Rows L: roots for a Lua server."""

from __future__ import annotations

import json

import pytest

from hub.core.values import JsonObject
from tests.flow.hubs import TWO_ROOTS, flow_hub

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
        client = hub.client()
        client.holds = True
        await client.initialize({"roots": {}})
        await client.initialized()
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
    """Descriptions that name the roots come later."""
    async with flow_hub() as hub:
        client = await hub.connected()
        await client.read(PROJECT_FILE)
        assert hub.child.plan is not None
        assert hub.child.plan.cwd == "/home/user/project"


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
