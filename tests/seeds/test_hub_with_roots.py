"""Rows H: an MCP hub with a roots manager."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from hub.config.fields import LoadContext
from hub.config.load import config_source, load_config
from hub.protocol.constants import CLIENT_CAPABILITIES_META, MODERN_VERSIONS, PROTOCOL_VERSION_META
from hub.values import Json, JsonObject
from tests.kit.hubs import READ_FILE, TWO_ROOTS, flow_hub, text_of
from tests.kit.trees import plant

OUTSIDE = (
    "Access denied: Path '/etc/passwd' is outside the allowed roots boundaries. Current roots: "
    '["file:///home/user/project", "file:///home/user/documents"]'
)
ANY_ARGUMENTS: JsonObject = {"name": "tool", "inputSchema": {"type": "object"}}


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("capabilities", "supports", "announces"),
    [
        ({"roots": {"listChanged": True}}, True, True),
        ({"roots": {"listChanged": False}}, True, False),
        ({"roots": {}, "sampling": {}}, True, False),
        ({"sampling": {}}, False, False),
        ({}, False, False),
    ],
)
async def test_h01_detects_the_roots_capability_whatever_the_client(
    capabilities: JsonObject, supports: bool, announces: bool
) -> None:
    """Bug of the original: detection was dead code, so nothing was ever enforced."""
    async with flow_hub() as hub:
        client = await hub.connected(capabilities=capabilities)
        report = await client.get_roots()
        assert (report["supportsRoots"], report["rootsListChanged"]) == (supports, announces)
        assert await client.is_refused("/etc/passwd") is supports


@pytest.mark.usefixtures("home")
async def test_h02_asks_without_params_once_the_client_is_initialised() -> None:
    async with flow_hub() as hub:
        client = hub.client()
        await client.initialize({"roots": {"listChanged": True}})
        assert client.asked == []
        await client.initialized()
        await client.until_asked()
        assert sorted(client.asked[0]) == ["id", "jsonrpc", "method"]


@pytest.mark.usefixtures("home")
async def test_h02_a_call_before_the_answer_waits_for_it() -> None:
    """Bug of the original: calls before the answer were allowed."""
    async with flow_hub() as hub:
        client = await hub.connected(capabilities={"roots": {}}, holds=True)
        params: JsonObject = {"name": "read_file", "arguments": {"path": "/etc/passwd"}}
        call = await client.begin("tools/call", params)
        await client.until_asked()
        assert not client.is_answered(call)
        await client.answer(client.held[0])
        answer = await client.end(call)
        assert answer["result"] == await client.call("read_file", path="/etc/passwd")
        assert hub.child.calls == []


@pytest.mark.usefixtures("home")
async def test_h02_the_time_for_an_answer_is_configurable_and_then_nothing_is_shared() -> None:
    """Bug of the original: ten seconds, hard-coded."""
    async with flow_hub({"roots": {"timeout": 0.05}}) as hub:
        client = await hub.connected(capabilities={"roots": {}}, holds=True)
        assert await client.is_refused("/home/user/project/config.json")


@pytest.mark.usefixtures("home")
async def test_h03_an_older_answer_never_overwrites_a_newer_one() -> None:
    """Bug of the original: it did."""
    async with flow_hub({"roots": {"timeout": 0.2, "debounce": 0}}) as hub:
        client = await hub.connected()
        assert not await client.is_refused("/home/user/project/config.json")
        client.holds = True
        await client.changed()
        await client.until_asked(2)
        first = client.held[0]
        await client.until(
            lambda: any(
                message.get("method") == "notifications/cancelled" for message in client.received
            )
        )
        client.holds = False
        client.roots = [TWO_ROOTS[1]]
        await client.changed()
        await client.until_asked(3)
        assert await client.is_refused("/home/user/project/config.json")
        await client.answer(first, {"roots": [TWO_ROOTS[0]]})
        assert await client.is_refused("/home/user/project/config.json")
        assert not await client.is_refused("/home/user/documents/readme.txt")


@pytest.mark.usefixtures("home")
async def test_h03_an_answer_from_before_a_change_is_not_judged_by() -> None:
    async with flow_hub({"roots": {"debounce": 30}}) as hub:
        client = await hub.connected(holds=True)
        await client.until_asked()
        await client.changed()
        params: JsonObject = {
            "name": "read_file",
            "arguments": {"path": "/home/user/project/config.json"},
        }
        call = await client.begin("tools/call", params)
        await client.answer(client.held[0], {"roots": [TWO_ROOTS[0]]})
        await client.until_asked(2)
        await client.answer(client.held[1], {"roots": [TWO_ROOTS[1]]})
        answer = await client.end(call)
        assert "Access denied: " in json.dumps(answer)


SEARCH: dict[str, Any] = {
    "expose": "search",
    "servers": {"filesystem": {"command": "one"}, "other": {"command": "two"}},
}


def asked_of_the_filesystem(path: str) -> JsonObject:
    """Return the row's literal arguments of `call-tool`."""
    return {"serverName": "filesystem", "toolName": "read_file", "toolArgs": {"path": path}}


@pytest.mark.usefixtures("home")
async def test_h04_a_call_with_a_path_inside_is_forwarded() -> None:
    async with flow_hub(SEARCH) as hub:
        client = await hub.connected()
        asked = asked_of_the_filesystem("/home/user/project/src/main.ts")
        result = await client.call("call-tool", **asked)
        assert json.loads(text_of(result)) == asked["toolArgs"]
        assert hub.child.plan is not None
        assert hub.child.plan.argv[0] == "one"
        assert hub.child.calls == [{"name": "read_file", "arguments": asked["toolArgs"]}]


@pytest.mark.usefixtures("home")
async def test_h04_a_tool_called_by_its_public_name_is_forwarded_too() -> None:
    async with flow_hub({"servers": SEARCH["servers"]}) as hub:
        client = await hub.connected()
        arguments: JsonObject = {"path": "/home/user/project/src/main.ts"}
        result = await client.call("filesystem__read_file", **arguments)
        assert json.loads(text_of(result)) == arguments
        called = [child for child in hub.children if child.calls]
        assert len(called) == 1
        assert called[0].calls[0]["name"] == "read_file"
        assert called[0].calls[0]["arguments"] == arguments


@pytest.mark.usefixtures("home")
async def test_h05_a_call_with_a_path_outside_is_refused_in_one_line_and_not_forwarded() -> None:
    async with flow_hub(SEARCH) as hub:
        client = await hub.connected()
        result = await client.call("call-tool", **asked_of_the_filesystem("/etc/passwd"))
        assert result["isError"] is True
        assert result["content"] == [{"type": "text", "text": OUTSIDE}]
        meta = cast("dict[str, JsonObject]", result["_meta"])
        assert meta["roots-hub/refusal"]["argument"] == "/toolArgs/path"
        assert hub.child.calls == []


@pytest.mark.usefixtures("home")
async def test_h05_a_tool_called_by_its_public_name_is_refused_alike() -> None:
    async with flow_hub() as hub:
        client = await hub.connected()
        result = await client.call("read_file", path="/etc/passwd")
        assert result["isError"] is True
        assert result["content"] == [{"type": "text", "text": OUTSIDE}]
        assert hub.child.calls == []


@pytest.mark.usefixtures("home")
async def test_h05_with_the_guard_off_that_call_would_reach_the_child() -> None:
    async with flow_hub({**SEARCH, "guard": "off"}) as hub:
        client = await hub.connected()
        await client.call("call-tool", **asked_of_the_filesystem("/etc/passwd"))
        assert len(hub.child.calls) == 1


REFUSED_ARGUMENTS: dict[str, JsonObject] = {
    "path": {"path": "/etc/passwd"},
    "file": {"file": "/etc/passwd"},
    "filepath": {"filepath": "/etc/passwd"},
    "filename": {"filename": "/etc/passwd"},
    "directory": {"directory": "/etc"},
    "folder": {"folder": "/etc"},
    "a key with such a word": {"targetFilePath": "/etc/passwd"},
    "a value that starts with /": {"anything": "/etc/passwd"},
    "a value with file://": {"anything": "see file:///etc/passwd"},
    "bug: an array": {"paths": ["/home/user/project/config.json", "/etc/passwd"]},
    "bug: a nested object": {"options": {"where": {"path": "/etc/passwd"}}},
    "bug: cwd": {"cwd": "/etc"},
    "bug: dest": {"dest": "../../../etc/passwd"},
    "bug: ~": {"path": "~/.ssh/id_rsa"},
}
BENIGN_ARGUMENTS: dict[str, JsonObject] = {
    "bug: profile": {"profile": "/default"},
    "bug: fileType": {"fileType": "/image"},
    "bug: xpath": {"xpath": "//div[@id='a']"},
    "bug: a comment": {"comment": "// not a path"},
    "no path at all": {"text": "hello"},
}


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("arguments", REFUSED_ARGUMENTS.values(), ids=REFUSED_ARGUMENTS.keys())
async def test_h06_what_names_a_path_is_judged(arguments: dict[str, Any]) -> None:
    async with flow_hub(tools=[ANY_ARGUMENTS], environment={"HOME": "/home/user"}) as hub:
        client = await hub.connected()
        assert text_of(await client.call("tool", **arguments)).startswith("Access denied: ")
        assert hub.child.calls == []


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("arguments", REFUSED_ARGUMENTS.values(), ids=REFUSED_ARGUMENTS.keys())
async def test_h06_with_the_guard_off_those_calls_would_reach_the_child(
    arguments: dict[str, Any],
) -> None:
    async with flow_hub({"guard": "off"}, tools=[ANY_ARGUMENTS]) as hub:
        client = await hub.connected()
        await client.call("tool", **arguments)
        assert hub.child.calls[0]["arguments"] == arguments


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("arguments", BENIGN_ARGUMENTS.values(), ids=BENIGN_ARGUMENTS.keys())
async def test_h06_what_names_no_path_is_left_alone(arguments: dict[str, Any]) -> None:
    async with flow_hub(tools=[ANY_ARGUMENTS]) as hub:
        client = await hub.connected()
        await client.call("tool", **arguments)
        assert hub.child.calls[0]["arguments"] == arguments


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("path", "refused"),
    [
        ("/home/user/project/src/main.ts", False),
        ("file:///home/user/project/config.json", False),
        ("/home/user/documents/readme.txt", False),
        ("/home/user/other/file.txt", True),
        ("file:///tmp/temp.txt", True),
        ("/etc/passwd", True),
        pytest.param("/home/user/project-evil/x", True, id="bug: a prefix"),
        pytest.param("/home/user/project/../../../etc/passwd", True, id="bug: dots"),
    ],
)
async def test_h07_containment(path: str, refused: bool) -> None:
    async with flow_hub() as hub:
        client = await hub.connected()
        assert await client.is_refused(path) is refused
        assert len(hub.child.calls) == (0 if refused else 1)


async def test_h08_encoded_local_and_upper_case_uris_are_roots(home: Path) -> None:
    """Bug of the original: they were not."""
    plant(home, "home/user/my docs/a.txt")
    roots: list[Json] = [
        {"uri": "file:///home/user/my%20docs"},
        {"uri": "file://localhost/home/user/project"},
        {"uri": "FILE:///home/user/documents"},
    ]
    async with flow_hub() as hub:
        client = await hub.connected(roots)
        report = await client.get_roots()
        folders = ["/home/user/my docs", "/home/user/project", "/home/user/documents"]
        assert report["filePaths"] == folders
        assert not await client.is_refused("/home/user/my docs/a.txt")
        assert not await client.is_refused("file:///home/user/my%20docs/a.txt")
        assert not await client.is_refused("/home/user/project/config.json")
        assert not await client.is_refused("/home/user/documents/readme.txt")
        assert await client.is_refused("/home/user/my%20docs/../../../etc/passwd")


@pytest.mark.usefixtures("home")
async def test_h09_without_the_capability_any_path_is_allowed_and_that_can_be_seen() -> None:
    async with flow_hub() as hub:
        client = await hub.connected(capabilities={})
        assert json.loads(await client.read("/any/path")) == {"path": "/any/path"}
        assert (await client.get_roots())["enforcing"] is False
        assert client.asked == []


async def test_h10_file_paths_are_those_of_the_file_uris(home: Path) -> None:
    plant(home, "home/user/docs/")
    uris = ["file:///home/user/project", "https://example.com/api", "file:///home/user/docs"]
    async with flow_hub() as hub:
        client = await hub.connected([{"uri": uri} for uri in uris])
        report = await client.get_roots()
        assert report["filePaths"] == ["/home/user/project", "/home/user/docs"]


FOLDERS = ("/home/user/project", "/home/user/documents")


@pytest.mark.usefixtures("home")
async def test_h11_roots_become_arguments_of_a_filesystem_server_alone() -> None:
    """Bugs of the original: matched `profile-svc`, dropped script paths and option values."""
    servers: dict[str, Any] = {
        "filesystem": {"command": "fs", "args": ["--read-only"]},
        "my-filesystem": {"command": "fs"},
        "profile-svc": {"command": "profiles", "args": ["--verbose"]},
        "script-filesystem": {"command": "node", "args": ["/opt/fs.js", "--log", "/var/log/fs"]},
    }
    before = json.dumps(servers)
    async with flow_hub({"servers": servers}) as hub:
        client = await hub.connected()
        await client.request("tools/list", {})
        plans = [child.plan.argv for child in hub.children if child.plan is not None]
        assert sorted(plans) == [
            ("fs", "--read-only", *FOLDERS),
            ("fs", *FOLDERS),
            ("node", "/opt/fs.js", "--log", "/var/log/fs", *FOLDERS),
            ("profiles", "--verbose"),
        ]
    assert json.dumps(servers) == before


@pytest.mark.usefixtures("home")
async def test_h11_a_server_behind_a_url_gets_no_arguments() -> None:
    servers = {"filesystem": {"url": "http://127.0.0.1:1/mcp"}}
    async with flow_hub({"servers": servers}) as hub:
        client = await hub.connected()
        await client.request("tools/list", {})
        assert hub.child.plan is None


@pytest.mark.usefixtures("home")
async def test_h11_other_roots_mean_another_process() -> None:
    """Bug of the original: no restart on change."""
    servers = {"filesystem": {"command": "fs"}}
    async with flow_hub({"servers": servers, "roots": {"debounce": 0}}) as hub:
        client = await hub.connected()
        await client.read("/home/user/project/config.json")
        client.roots = [TWO_ROOTS[1]]
        await client.changed()
        await client.read("/home/user/documents/readme.txt")
        plans = [child.plan.argv for child in hub.children if child.plan is not None]
        assert plans == [("fs", *FOLDERS), ("fs", FOLDERS[1])]
        assert hub.children[0].ended


@pytest.mark.usefixtures("home")
async def test_h12_get_roots_answers_the_seeds_fields_first_and_in_their_order() -> None:
    expected = (
        '{"supportsRoots":true,"rootsListChanged":true,"rootsCount":2,"roots":[{"uri":'
        '"file:///home/user/project","name":"Project Directory"},{"uri":'
        '"file:///home/user/documents","name":"Documents"}],"filePaths":'
        '["/home/user/project","/home/user/documents"]'
    )
    async with flow_hub() as hub:
        client = await hub.connected()
        result = await client.call("get-roots")
        assert text_of(result).startswith(expected + ",")
        assert json.loads(text_of(result)) == result["structuredContent"]


MCP_SERVERS: dict[str, Any] = {
    "mcpServers": {
        "broken": {"command": "broken"},
        "files": {"command": "files-server", "args": ["--fast"]},
        "remote": {"url": "http://127.0.0.1:1/mcp"},
    }
}


@pytest.mark.usefixtures("home")
async def test_h13_meta_tools_stand_in_for_the_tools() -> None:
    async with flow_hub(SEARCH) as hub:
        client = await hub.connected()
        tools = cast("list[JsonObject]", (await client.request("tools/list", {}))["tools"])
        assert [tool["name"] for tool in tools] == [
            "list-servers",
            "list-all-tools",
            "list-all-tools-in-server",
            "find-tools",
            "find-tools-in-server",
            "get-tool",
            "call-tool",
            "get-roots",
        ]
        read = {"toolName": "read_file", "description": "Reads a file."}
        both = [{"serverName": name, "tools": [read]} for name in ("filesystem", "other")]

        async def answer(name: str, **arguments: str) -> Json:
            result = await client.call(name, **arguments)
            assert json.loads(text_of(result)) == result["structuredContent"]
            return result["structuredContent"]

        assert await answer("list-all-tools") == {"servers": both}
        assert await answer("find-tools", pattern="read*file") == {"servers": both}
        of_one = {"servers": both[:1]}
        assert await answer("list-all-tools-in-server", serverName="filesystem") == of_one
        found = await answer("find-tools-in-server", serverName="filesystem", pattern="reads")
        assert found == of_one
        tool = await answer("get-tool", serverName="other", toolName="read_file")
        assert tool == {"serverName": "other", "tool": READ_FILE}
        assert await answer("list-servers") == {
            "servers": [
                {"serverName": name, "state": "ready", "tools": 1}
                for name in ("filesystem", "other")
            ]
        }
        assert (await client.get_roots())["rootsCount"] == 2


@pytest.mark.usefixtures("home")
async def test_h13_resources_are_shown_as_ever() -> None:
    resource: JsonObject = {"uri": "file:///home/user/project/config.json", "name": "config"}
    async with flow_hub({"expose": "search"}, resources=[resource]) as hub:
        client = await hub.connected()
        assert (await client.request("resources/list", {}))["resources"] == [resource]
        await client.request("resources/read", {"uri": resource["uri"]})
        assert len(hub.child.calls) == 1


@pytest.mark.usefixtures("home")
async def test_h13_a_modern_client_calls_tools_alike() -> None:
    envelope: JsonObject = {
        PROTOCOL_VERSION_META: MODERN_VERSIONS[-1],
        CLIENT_CAPABILITIES_META: {"roots": {}},
    }
    shared: JsonObject = {"roots-hub/roots": {"roots": list[Json](TWO_ROOTS)}}
    async with flow_hub(SEARCH) as hub:
        client = hub.client()

        async def call(path: str, **more: Json) -> JsonObject:
            asked = asked_of_the_filesystem(path)
            params: JsonObject = {"name": "call-tool", "arguments": asked, "_meta": envelope}
            return await client.request("tools/call", {**params, **more})

        inside = "/home/user/project/src/main.ts"
        assert (await call(inside))["resultType"] == "input_required"
        result = await call(inside, inputResponses=shared)
        assert json.loads(text_of(result)) == {"path": inside}
        refused = await call("/etc/passwd", inputResponses=shared)
        assert text_of(refused) == OUTSIDE
        assert len(hub.child.calls) == 1


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("how", ["--config", "HUB_CONFIG"])
async def test_h14_mcp_servers_json_is_a_config_and_one_failed_child_stops_no_other(
    how: str, tmp_path: Path
) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps(MCP_SERVERS))
    inline = {"HUB_CONFIG": json.dumps(MCP_SERVERS)}
    source = config_source(str(file), inline) if how == "--config" else config_source(None, inline)
    assert source is not None
    config = load_config(source, LoadContext(tmp_path)).config
    async with flow_hub(loaded=config) as hub:
        hub.broken = {"broken"}
        client = await hub.connected()
        listed = await client.request("tools/list", {})
        names = [tool["name"] for tool in cast("list[JsonObject]", listed["tools"])]
        assert names == ["get-roots", "files__read_file", "remote__read_file"]
        plans = [child.plan and child.plan.argv for child in hub.children]
        assert sorted(plans, key=str) == [("files-server", "--fast"), None]
        result = await client.call("files__read_file", path="/home/user/project/config.json")
        assert "isError" not in result


@pytest.mark.usefixtures("home")
async def test_h15_clients_and_deployments_without_roots_need_no_change(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"files": {"command": "files", "args": ["-v"]}}}))
    config = load_config(str(file), LoadContext(tmp_path)).config
    async with flow_hub(loaded=config) as hub:
        client = await hub.connected(capabilities={})
        arguments: JsonObject = {"path": "/etc/passwd", "nested": [{"x": "../.."}]}
        result = await client.call("read_file", **arguments)
        assert json.loads(text_of(result)) == arguments
        assert hub.child.calls == [{"name": "read_file", "arguments": arguments}]
        assert hub.child.plan is not None
        assert hub.child.plan.argv == ("files", "-v")
        assert [message for message in client.received if "method" in message] == []


@pytest.mark.usefixtures("home")
async def test_h16_nested_arguments_resources_and_patterns_are_checked() -> None:
    """What the original named as future work, but for the audit log, which comes later."""
    resource: JsonObject = {"uri": "file:///etc/passwd", "name": "passwd"}
    denying = {"roots": {"deny": ["**/.env"]}}
    async with flow_hub(denying, tools=[ANY_ARGUMENTS], resources=[resource]) as hub:
        client = await hub.connected()
        nested = await client.call("tool", edits=[{"file": {"path": "/etc/passwd"}}])
        assert text_of(nested).startswith("Access denied: ")
        answer = await client.end(await client.begin("resources/read", {"uri": resource["uri"]}))
        assert "Access denied: " in json.dumps(answer["error"])
        denied = await client.call("tool", path="/home/user/project/src/.env")
        assert text_of(denied).startswith("Access denied: ")
        assert hub.child.calls == []
