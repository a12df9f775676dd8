from __future__ import annotations

from pathlib import Path
from typing import Literal

import anyio
import pytest
from msgspec.structs import replace

from hub.calls.routes import MAX_ROUTES, SessionRoute
from hub.jsonrpc.messages import Request
from hub.sessions.client import Client
from tests.kit.fakes import ECHO, READ, FakeChild
from tests.kit.rigs import Rig, RigClient, remote, rig
from tests.kit.trees import plant

FILES = remote("files")


def resolved(at: Rig, client: RigClient, name: str = "read") -> SessionRoute | None:
    return at.relay.session_routes.find(client.session, Request(1, "tools/call", {"name": name}))


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return plant(tmp_path, "a/f", "b/f")


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_child_of_either_era_leaves_one(era: Literal["legacy", "modern"]) -> None:
    async with rig(
        {"files": replace(FILES, era="auto")}, {"files": FakeChild(READ, era=era)}
    ) as at:
        client = at.client()
        await client.call("read", {})
        assert resolved(at, client) is not None


async def test_a_modern_client_leaves_none_to_its_session() -> None:
    async with rig({"files": FILES}, {"files": FakeChild(READ)}) as at:
        client = at.client()
        client.session.greeted(Client("modern", "2026-07-28", {}, {}))
        await client.call("read", {})
        assert resolved(at, client) is None


async def test_a_name_that_may_move_is_resolved_again_once_another_list_changes(
    top: Path,
) -> None:
    other = FakeChild(ECHO)
    fakes = {"files": FakeChild(READ), "other": other}
    servers = {"files": FILES, "other": remote("other")}
    async with rig(servers, fakes, names="never") as at:
        client = at.client(top / "a")
        for name in ("read", "echo"):
            await client.call(name, {})
            assert resolved(at, client, name) is not None
        other.answers["tools/list"] = {"tools": [ECHO, {**READ, "title": "mine"}]}
        other.link.notify("notifications/tools/list_changed", {})
        await other.link.request("tools/list", nth=2)
        await anyio.wait_all_tasks_blocked()
        assert resolved(at, client, "read") is None


async def test_a_name_that_says_its_server_stays_where_another_list_changes(top: Path) -> None:
    other = FakeChild(ECHO)
    servers = {"files": FILES, "other": remote("other")}
    async with rig(servers, {"files": FakeChild(READ), "other": other}) as at:
        client = at.client(top / "a")
        for name in ("files__read", "other__echo"):
            await client.call(name, {})
        other.answers["tools/list"] = {"tools": [ECHO, READ]}
        other.link.notify("notifications/tools/list_changed", {})
        await other.link.request("tools/list", nth=2)
        await anyio.wait_all_tasks_blocked()
        assert resolved(at, client, "files__read") is not None
        assert resolved(at, client, "other__echo") is None


async def test_only_so_many_routes_of_a_session_are_cached(top: Path) -> None:
    async with rig({"files": FILES}, {"files": FakeChild(READ, ECHO)}) as at:
        client = at.client(top / "a")
        for name in ("read", "echo"):
            await client.call(name, {})
        kept = resolved(at, client, "echo")
        assert kept is not None
        for number in range(MAX_ROUTES - 1):
            at.relay.session_routes.keep(client.session, f"other {number}", kept.resolved)
        assert resolved(at, client, "read") is None
        assert resolved(at, client, "echo") is not None


async def test_a_prompt_a_resource_and_a_tool_of_one_name_have_routes_of_their_own(
    top: Path,
) -> None:
    fake = FakeChild(
        {**READ, "name": "one"},
        capabilities={"tools": {}, "prompts": {}, "resources": {}},
        answers={
            "prompts/list": {"prompts": [{"name": "one"}]},
            "resources/list": {"resources": [{"uri": "note://one", "name": "one"}]},
            "prompts/get": {"messages": []},
            "resources/read": {"contents": []},
        },
    )
    async with rig({"files": FILES}, {"files": fake}) as at:
        client, routes = at.client(top / "a"), at.relay.session_routes
        requests = [
            Request(1, "tools/call", {"name": "one", "arguments": {}}),
            Request(2, "prompts/get", {"name": "one"}),
            Request(3, "resources/read", {"uri": "note://one"}),
        ]
        for request in requests:
            assert routes.find(client.session, request) is None
            await client.request(client.asked_for(request.method, request.params))
        found = [routes.find(client.session, request) for request in requests]
        assert [one.resolved.to.method for one in found if one is not None] == [
            request.method for request in requests
        ]
