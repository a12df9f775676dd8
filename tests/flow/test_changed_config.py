"""A running hub takes over a changed config: what changed counts for each call not sent yet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import anyio
import anyio.lowlevel
import pytest
from structlog.testing import capture_logs

from hub.config.fields import LoadContext
from hub.config.load import load_config
from hub.config.models import HubConfig
from hub.config.watch import Watched
from hub.errors import ConfigError
from hub.sessions.operator import ConfigState
from hub.values import Json, JsonObject
from tests.kit.fakes import SILENT
from tests.kit.hubs import FakeClient, FlowHub, flow_hub, text_of
from tests.kit.loops import virtual_time
from tests.kit.trees import plant

LISTS_CHANGED = "notifications/tools/list_changed"


def changed(**keys: Any) -> HubConfig:
    return HubConfig.model_validate({"version": 1, "servers": {"files": FILES}, **keys})


FILES: dict[str, Any] = {"command": "files-server", "share": "roots"}


async def take(hub: FlowHub, **keys: Any) -> None:
    await hub.running.take(hub.running.own, changed(**keys))


async def tools_of(client: FakeClient) -> list[str]:
    listed: Any = (await client.request("tools/list", {}))["tools"]
    return [tool["name"] for tool in listed]


def told(client: FakeClient) -> int:
    return sum(message.get("method") == LISTS_CHANGED for message in client.received)


@virtual_time
async def test_the_same_config_has_no_client_list_anew(tmp_path: Path) -> None:
    profiles: JsonObject = {"all": {}}
    async with flow_hub({"profiles": profiles}) as hub:
        client = await hub.connected()
        await client.call("read_file")
        await take(hub, profiles=profiles)
        await anyio.sleep(60)
        assert told(client) == 0
        assert "isError" not in await client.call("read_file")
        assert len(hub.children) == 1
        await take(hub, profiles=profiles, names="always")
        await client.until(lambda: told(client) > 0)


async def test_an_added_server_is_listed_and_called(tmp_path: Path) -> None:
    async with flow_hub() as hub:
        client = await hub.connected()
        assert await tools_of(client) == ["get-roots", "read_file"]
        await take(hub, servers={"files": FILES, "more": FILES})
        await client.until(lambda: told(client) > 0)
        assert await tools_of(client) == ["get-roots", "files__read_file", "more__read_file"]
        assert "isError" not in await client.call("more__read_file")


async def test_a_removed_server_is_gone_and_its_child_ends() -> None:
    async with flow_hub({"servers": {"files": FILES, "more": FILES}, "names": "always"}) as hub:
        client = await hub.connected()
        await client.call("files__read_file")
        await client.call("more__read_file")
        kept, gone = hub.children
        await take(hub, names="always")
        await client.until(lambda: told(client) > 0)
        assert await tools_of(client) == ["get-roots", "files__read_file"]
        with anyio.fail_after(20):
            while not gone.ended:
                await anyio.lowlevel.checkpoint()
        assert not kept.ended
        answer = await client.end(
            await client.begin("tools/call", {"name": "more__read_file", "arguments": {}})
        )
        assert "error" in answer
        await client.call("files__read_file")
        assert len(hub.children) == 2, "an unchanged server keeps its child"


async def test_the_last_server_may_go_and_another_may_come() -> None:
    async with flow_hub() as hub:
        client = await hub.connected()
        await client.call("read_file")
        await take(hub, servers={})
        await client.until(lambda: told(client) > 0)
        assert await tools_of(client) == ["get-roots"]
        await take(hub, servers={"files": FILES})
        await client.until(lambda: told(client) > 1)
        assert "isError" not in await client.call("read_file")


async def test_a_changed_server_is_replaced_and_its_call_finishes_at_the_old_child() -> None:
    async with flow_hub() as hub:
        client = await hub.connected()
        await client.call("read_file")
        (old,) = hub.children
        old.fake.answers["tools/call"] = SILENT
        slow = await client.begin("tools/call", {"name": "read_file", "arguments": {}})
        sent = await old.fake.link.request("tools/call", nth=2)
        await take(hub, servers={"files": {**FILES, "args": ["--more"]}})
        await client.until(lambda: told(client) > 0)
        await client.call("read_file")
        assert [child.plan.argv[1:] for child in hub.children if child.plan] == [(), ("--more",)]
        old.fake.link.answer(sent["id"], {"content": [{"type": "text", "text": "late"}]})
        assert text_of(cast("JsonObject", (await client.end(slow))["result"])) == "late"


@pytest.mark.parametrize(
    "more",
    [{"concurrency": 1}, {"timeout": 7}, {"idle_stop": 3}, {"tools": {"deny": ["write_*"]}}],
)
async def test_other_limits_and_policy_replace_no_child(more: dict[str, Any]) -> None:
    async with flow_hub() as hub:
        client = await hub.connected()
        await client.call("read_file")
        await take(hub, servers={"files": {**FILES, **more}})
        await client.call("read_file")
        assert len(hub.children) == 1


async def test_a_stricter_policy_counts_for_the_next_call_on_a_cached_route(tmp_path: Path) -> None:
    top = plant(tmp_path, "in/secret.env", "in/f")
    path = str(top / "in/secret.env")
    async with flow_hub(given=[str(top / "in")]) as hub:
        client = await hub.connected([], capabilities={})
        for _ in range(3):
            assert not await client.is_refused(path)
        await take(hub, roots={"deny": ["*.env"]})
        assert await client.is_refused(path)
        assert not await client.is_refused(str(top / "in/f"))
        await take(hub, guard="off")
        assert not await client.is_refused(path)


async def test_roots_and_guard_change_together(tmp_path: Path) -> None:
    top = plant(tmp_path, "a/f", "b/f")
    config = {"roots": {"fallback": [str(top / "a")]}, "servers": {"files": FILES}}
    async with flow_hub(config) as hub:
        client = await hub.connected([], capabilities={})
        assert not await client.is_refused(str(top / "a/f"))
        await take(hub, roots={"fallback": [str(top / "b")]})
        assert await client.is_refused(str(top / "a/f"))
        assert not await client.is_refused(str(top / "b/f"))


async def test_roots_of_the_command_line_stay_before_those_of_the_config(tmp_path: Path) -> None:
    top = plant(tmp_path, "a/f", "b/f")
    async with flow_hub(given=[str(top / "a")]) as hub:
        client = await hub.connected([], capabilities={})
        with capture_logs() as logged:
            await take(hub, roots={"fallback": [str(top / "b")]})
        assert not await client.is_refused(str(top / "a/f"))
        assert await client.is_refused(str(top / "b/f"))
    (said,) = [line for line in logged if line["event"] == "roots.fallback has no effect"]
    assert said["before_it"] == "--root"


async def test_an_empty_list_of_roots_grants_nothing(tmp_path: Path) -> None:
    top = plant(tmp_path, "a/f")
    config = {"roots": {"fallback": [str(top / "a")]}, "servers": {"files": FILES}}
    async with flow_hub(config) as hub:
        client = await hub.connected([], capabilities={})
        assert not await client.is_refused(str(top / "a/f"))
        await take(hub, roots={"fallback": []})
        assert await client.is_refused(str(top / "a/f"))
        await take(hub, roots={"when_missing": "allow"})
        assert not await client.is_refused(str(top / "a/f"))


async def test_a_hidden_tool_is_neither_listed_nor_called() -> None:
    async with flow_hub() as hub:
        client = await hub.connected()
        await client.call("read_file")
        await take(hub, servers={"files": {**FILES, "tools": {"deny": ["read_*"]}}})
        assert await tools_of(client) == ["get-roots"]
        call = await client.begin("tools/call", {"name": "read_file", "arguments": {}})
        assert "error" in await client.end(call)


async def test_the_search_tools_come_and_go() -> None:
    async with flow_hub() as hub:
        client = await hub.connected()
        assert await tools_of(client) == ["get-roots", "read_file"]
        await take(hub, expose="search")
        assert "call-tool" in await tools_of(client)
        assert "read_file" not in await tools_of(client)
        await take(hub)
        assert await tools_of(client) == ["get-roots", "read_file"]


async def test_the_largest_result_changes() -> None:
    async with flow_hub() as hub:
        client = await hub.connected()
        assert "isError" not in await client.call("read_file", text="x" * 3000)
        await take(hub, listen={"max_result": 2048})
        result = await client.call("read_file", text="x" * 3000)
        assert result["isError"] is True
        assert "listen.max_result" in text_of(result)


async def test_a_config_that_cannot_be_used_changes_nothing(tmp_path: Path) -> None:
    async with flow_hub() as hub:
        client = await hub.connected()
        server = {"command": "npx", "args": ["@modelcontextprotocol/server-filesystem", "/etc"]}
        with pytest.raises(ConfigError):
            await take(hub, servers={"other": server})
        assert await tools_of(client) == ["get-roots", "read_file"]
        assert "isError" not in await client.call("read_file")
        assert told(client) == 0


@pytest.mark.long
async def test_many_changes_fail_no_call_and_leave_nothing() -> None:
    async with flow_hub() as hub:
        client = await hub.connected()
        for number in range(200):
            await take(hub, servers={"files": FILES, f"s{number}": FILES}, names="always")
            assert "isError" not in await client.call("files__read_file")
        assert len(hub.children) == 1
        assert {slot.spec.name for slot in client.connection.session.slots} <= {"files", "s199"}


async def test_who_lets_clients_in_is_asked_first_and_may_refuse_the_change() -> None:
    async with flow_hub() as hub:
        client = await hub.connected()
        heard: list[str] = []

        def follow(config: HubConfig) -> None:
            heard.append(config.names)
            if config.names == "always":
                raise ConfigError("listen", "nobody is let in", "Set a token.")

        hub.running.follow(follow)
        with pytest.raises(ConfigError):
            await take(hub, names="always")
        assert await tools_of(client) == ["get-roots", "read_file"]
        await take(hub, names="never")
        assert heard == ["always", "never"]


@virtual_time
async def test_a_changed_file_is_taken_over(tmp_path: Path) -> None:
    """What goes before the config stays before it, and that is told."""
    top = plant(tmp_path, "conf/", "a/f", "b/f")
    file = top / "conf/hub.yaml"

    def write(**keys: Any) -> None:
        raw = {"version": 1, "servers": {"files": FILES}, **keys}
        file.write_text(json.dumps(raw))

    write()
    context = LoadContext(top, str(top))
    watched = Watched.now("conf/hub.yaml", context)
    loaded = load_config("conf/hub.yaml", context).config
    with capture_logs() as logged:
        async with flow_hub(loaded=loaded, watched=watched, given=[str(top / "a")]) as hub:
            client = await hub.connected([], capabilities={})
            assert not await client.is_refused(str(top / "a/f"))
            write(roots={"deny": ["f"], "fallback": [str(top / "b")]})
            await client.until(lambda: told(client) > 0)
            assert await client.is_refused(str(top / "a/f"))
            assert hub.services.config_file.state == ConfigState("conf/hub.yaml")
    events = {str(line["event"]): line for line in logged}
    assert events["config reloaded"]["keys"] == ["roots.fallback", "roots.deny"]
    assert events["roots.fallback has no effect"]["before_it"] == "--root"


@pytest.mark.parametrize("after", [{"files": FILES}, {}])
async def test_tools_lose_the_sentence_on_roots_with_the_setting_or_with_their_server(
    tmp_path: Path, after: dict[str, Any]
) -> None:
    described = {"files": {**FILES, "describe_roots": True}}
    async with flow_hub({"servers": described}) as hub:
        client = await hub.connected([{"uri": tmp_path.as_uri()}])
        other = await hub.connected([{"uri": tmp_path.as_uri()}])
        assert str(tmp_path) in json.dumps(await client.request("tools/list", {}))
        with capture_logs() as logs:
            await take(hub, servers=after)
            await client.until(lambda: told(client) > 0)
        assert not [one for one in logs if one["log_level"] == "error"]
        assert str(tmp_path) not in json.dumps(await client.request("tools/list", {}))
        await other.request("ping", {})


async def test_roots_that_became_unsafe_are_in_force_for_no_open_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = plant(tmp_path, "home/.ssh/id", "home/project/f") / "home"
    roots: list[Json] = [{"uri": (shared / name).as_uri()} for name in (".ssh", "project")]
    monkeypatch.setenv("HOME", str(shared))
    async with flow_hub({"roots": {"allow_unsafe": True}}) as hub:
        client = await hub.connected(roots)
        assert not await client.is_refused(str(shared / ".ssh/id"))
        await take(hub)
        assert await client.is_refused(str(shared / ".ssh/id"))
        told_of = await client.get_roots()
        assert told_of["filePaths"] == [str(shared / "project")]
        assert "not safe" in json.dumps(told_of)
        assert not await client.is_refused(str(shared / "project/f"))


async def test_roots_that_are_no_longer_unsafe_are_in_force_for_open_sessions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = plant(tmp_path, "home/.ssh/id", "home/project/f", "home/link => .ssh") / "home"
    roots: list[Json] = [{"uri": (shared / name).as_uri()} for name in ("link", "project")]
    monkeypatch.setenv("HOME", str(shared))
    async with flow_hub() as hub:
        client = await hub.connected(roots)
        assert await client.is_refused(str(shared / ".ssh/id"))
        # The link was announced when it led to `.ssh`: it means no other place later.
        (shared / "link").unlink()
        (shared / "link").symlink_to("/usr")
        await take(hub, roots={"allow_unsafe": True})
        told_of = await client.get_roots()
        assert told_of["filePaths"] == [str(shared / ".ssh"), str(shared / "project")]
        assert "not safe" not in json.dumps(told_of)
        assert not await client.is_refused(str(shared / ".ssh/id"))
        assert await client.is_refused("/usr/bin")
