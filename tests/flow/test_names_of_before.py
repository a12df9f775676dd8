"""A config gets a second server, or loses one: the names that clients know still work."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hub.config.fields import LoadContext
from hub.config.watch import Watched
from hub.values import JsonObject
from tests.kit.fakes import READ, Answer, FakeChild, Script
from tests.kit.scripted import ROOTS, ScriptedHub, scripted
from tests.kit.trees import plant

PROMPTS: Mapping[str, Answer | Script] = {
    "prompts/list": {"prompts": [{"name": "ask"}]},
    "prompts/get": {"messages": []},
}


def a_server() -> FakeChild:
    return FakeChild(READ, capabilities={"tools": {}, "prompts": {}}, answers=PROMPTS)


@asynccontextmanager
async def started(top: Path, *names: str) -> AsyncGenerator[ScriptedHub]:
    """Start a hub, again and again with the same config file, before servers of these names."""
    watched = Watched(str(top / "hub.yaml"), LoadContext(top), None)
    async with scripted(
        {name: a_server() for name in names},
        config={"audit": {"file": str(top / "audit.jsonl")}},
        watched=watched,
        environment={"XDG_STATE_HOME": str(top / "state")},
    ) as hub:
        yield hub


def audited(top: Path) -> list[Any]:
    return [json.loads(line) for line in (top / "audit.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("order", [["files", "git"], ["git", "files"]])
async def test_a_call_by_its_old_name_goes_the_way_of_the_new_one(
    tmp_path: Path, order: list[str]
) -> None:
    top = plant(tmp_path, "root/a.txt", "b.txt")
    async with started(top, "files") as hub:
        client = await hub.greeted()
        listed: Any = await client.request("tools/list", {})
        name = listed["tools"][-1]["name"]
    async with started(top, *order) as hub:
        client = await hub.greeted(ROOTS, [{"uri": (top / "root").as_uri()}])
        listed = await client.request("tools/list", {})
        shown = [tool["name"] for tool in listed["tools"]]
        assert shown == ["get-roots", *(f"{server}__{name}" for server in order)]
        for called in (name, f"files__{name}"):
            for _ in range(2):  # and the route that is kept after the first time
                done = await client.call(called, path=f"{top}/root/a.txt")
                assert "isError" not in done
                refused: Any = await client.call(called, path=f"{top}/b.txt")
                assert refused["content"][0]["text"].startswith("Access denied: ")
        got: Any = await client.end(await client.begin("prompts/get", {"name": "ask"}))
        assert "error" not in got
        calls = hub.children["files"].link.requests("tools/call")
        assert {call["params"]["name"] for call in calls} == {name}
        assert len(calls) == 4
        assert hub.children["git"].link.requests("tools/call") == []
    lines = audited(top)
    assert {(line["server"], line["tool"]) for line in lines} == {("files", name), ("files", "ask")}
    assert len(lines) == 9


@pytest.mark.parametrize("was_first", [True, False])
async def test_a_server_that_is_left_alone_is_called_by_its_names_with_a_prefix(
    tmp_path: Path, *, was_first: bool
) -> None:
    top = plant(tmp_path, "root/a.txt", "b.txt")
    if was_first:
        async with started(top, "files"):
            pass
    async with started(top, "files", "git"):
        pass
    async with started(top, "files") as hub:
        client = await hub.greeted(ROOTS, [{"uri": (top / "root").as_uri()}])
        name = str(READ["name"])
        listed: Any = await client.request("tools/list", {})
        assert [tool["name"] for tool in listed["tools"]] == ["get-roots", name]
        for called in (f"files__{name}", name):
            assert "isError" not in await client.call(called, path=f"{top}/root/a.txt")
            refused: Any = await client.call(called, path=f"{top}/b.txt")
            assert refused["content"][0]["text"].startswith("Access denied: ")
        prompt = await client.begin("prompts/get", {"name": "files__ask"})
        got: Any = await client.end(prompt)
        assert "error" not in got
        gone: Any = await client.end(await client.begin("tools/call", {"name": f"git__{name}"}))
        assert gone["error"]["message"] == f"Unknown tool: git__{name}"
    assert {(line["server"], line["tool"]) for line in audited(top)} >= {("files", name)}


async def test_no_other_server_is_called_by_the_names_of_one_that_is_gone(tmp_path: Path) -> None:
    async with started(tmp_path, "files"):
        pass
    async with started(tmp_path, "files", "git"):
        pass
    for names in (["git"], ["git", "web"]):
        async with started(tmp_path, *names) as hub:
            client = await hub.greeted()
            params: JsonObject = {"name": str(READ["name"]), "arguments": {"path": "x"}}
            answer: Any = await client.end(await client.begin("tools/call", params))
            assert answer["error"]["message"] == f"Unknown tool: {READ['name']}"
            assert "isError" not in await client.call(f"git__{READ['name']}", path="x")
