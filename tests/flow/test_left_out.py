"""A server of the config that cannot be used: the others run, and clients hear why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from hub.config.fields import LoadContext
from hub.config.load import load_config
from hub.errors import ChildError
from tests.kit.fakes import ECHO, READ, FakeChild
from tests.kit.hubs import FakeClient, flow_hub, text_of
from tests.kit.scripted import scripted

ENTRIES: dict[str, Any] = {
    "good": {"command": "files-server"},
    "bad": {"command": "x", "env": {"KEY": "${env:NOPE}"}},
    "etc": {"command": "npx", "args": ["@modelcontextprotocol/server-filesystem", "/etc"]},
}
WHY = (
    "x.json: mcpServers.bad.env.KEY: the variable NOPE is not set. "
    "Set the variable NOPE for the hub, or write its value here."
)


def loaded(tmp_path: Path, **keys: Any) -> Any:
    (tmp_path / "x.json").write_text(json.dumps({"mcpServers": ENTRIES}), encoding="utf-8")
    config = load_config("x.json", LoadContext(tmp_path)).config
    return config.model_copy(update=keys)


async def trouble_of(client: FakeClient, tool: str, **arguments: Any) -> str:
    result = await client.call(tool, **arguments)
    assert result["isError"] is True
    return text_of(result)


async def test_get_roots_shows_it_as_down_and_the_others_run(tmp_path: Path) -> None:
    with capture_logs() as logs:
        async with flow_hub(loaded=loaded(tmp_path)) as hub:
            client = await hub.connected()
            assert "isError" not in await client.call("good__read_file")
            servers = cast("list[dict[str, Any]]", (await client.get_roots())["servers"])
    assert [(server["name"], server["state"]) for server in servers] == [
        ("good", "ready"),
        ("bad", "down"),
        ("etc", "down"),
    ]
    assert servers[1]["reason"] == f"left out: {WHY}"
    assert "mcpServers.etc.args[1]: /etc: Path is not safe" in servers[2]["reason"]
    said = [(one["server"], one["log_level"]) for one in logs if one["event"] == "server LEFT OUT"]
    assert said == [("bad", "error"), ("etc", "error")]


async def test_a_call_to_it_says_why_it_fails(tmp_path: Path) -> None:
    async with flow_hub(loaded=loaded(tmp_path)) as hub:
        client = await hub.connected()
        said = f"server 'bad' is left out of this hub: {WHY}"
        assert await trouble_of(client, "bad__read_file", path="/x") == said
        assert len(hub.children) <= 1


async def test_without_prefixes_an_unknown_tool_may_be_one_of_its(tmp_path: Path) -> None:
    async with flow_hub(loaded=loaded(tmp_path, names="never")) as hub:
        client = await hub.connected()
        assert "server 'bad' is left out" in await trouble_of(client, "other")


async def test_without_prefixes_it_may_be_one_of_a_server_that_does_not_start() -> None:
    children = {"good": FakeChild(READ), "bad": FakeChild(ECHO)}
    children["bad"].refuses_to_open = ChildError("no command")
    async with scripted(children, config={"names": "never"}) as hub:
        client = await hub.greeted()
        assert "server 'bad' is not running: no command" in await trouble_of(client, "echo")
        assert "isError" not in await client.call("read")


async def test_searching_clients_hear_of_it_too(tmp_path: Path) -> None:
    async with flow_hub(loaded=loaded(tmp_path, expose="search")) as hub:
        client = await hub.connected()
        servers = json.loads(text_of(await client.call("list-servers")))["servers"]
        assert {server["serverName"]: server["state"] for server in servers} == {
            "bad": "down",
            "etc": "down",
            "good": "idle",
        }
        assert WHY in next(one["trouble"] for one in servers if one["serverName"] == "bad")
        call: dict[str, Any] = {"serverName": "bad", "toolName": "x", "toolArgs": {}}
        assert WHY in await trouble_of(client, "call-tool", **call)
        assert WHY in text_of(await client.call("list-all-tools-in-server", serverName="bad"))


@pytest.mark.parametrize("directory", ["/", "/usr/.."])
async def test_a_directory_with_all_files_leaves_the_decision_to_the_client(
    tmp_path: Path, directory: str
) -> None:
    args = ["@modelcontextprotocol/server-filesystem", directory]
    async with flow_hub({"servers": {"files": {"command": "npx", "args": args}}}) as hub:
        (tmp_path / "a").mkdir()
        client = await hub.connected([{"uri": f"file://{tmp_path}/a"}])
        servers = cast("list[dict[str, Any]]", (await client.get_roots())["servers"])
        assert servers[0]["effectiveRoots"] == [f"file://{tmp_path}/a"]
        assert not await client.is_refused(f"{tmp_path}/a/x")
        assert await client.is_refused("/etc/passwd")
