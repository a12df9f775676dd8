"""Rows O: an overview of the roots capability."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from structlog.testing import capture_logs

from hub.config.fields import LoadContext
from hub.config.load import load_config
from hub.config.watch import EVERY, Watched
from hub.guard.containment import OUTSIDE
from hub.protocol.constants import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND
from hub.values import Json, JsonObject
from tests.kit.hubs import FakeClient, FlowChild, FlowHub, flow_hub, text_of
from tests.kit.loops import in_time, virtual_time
from tests.kit.trees import plant
from tests.kit.warm import WARM_HUB, ran

WRITE_FILE: JsonObject = {"name": "write_file", "inputSchema": {"type": "object"}}


async def reasons(hub: FlowHub, *uris: str) -> list[str]:
    """Share `uris`, and return why each of them is rejected."""
    client = await hub.connected([{"uri": uri} for uri in uris])
    rejected = (await client.get_roots())["rejected"]
    assert isinstance(rejected, list)
    return [str(entry["reason"]) for entry in rejected if isinstance(entry, dict)]


@pytest.mark.usefixtures("home")
async def test_o01_a_root_has_a_uri_and_perhaps_a_name_and_meta() -> None:
    roots: list[Json] = [
        {"uri": "file:///home/user/project", "_meta": {"example.com/x": 1}, "later": "field"},
        {"uri": "file:///home/user/documents", "name": "Documents"},
        {"uri": "home/user/other"},
    ]
    async with flow_hub() as hub:
        client = await hub.connected(roots)
        report = await client.get_roots()
        assert report["filePaths"] == ["/home/user/project", "/home/user/documents"]
        assert report["roots"] == [
            {"uri": "file:///home/user/project"},
            {"uri": "file:///home/user/documents", "name": "Documents"},
        ]


@pytest.mark.usefixtures("home")
async def test_o01_a_single_file_can_be_a_root_and_matches_only_itself() -> None:
    async with flow_hub() as hub:
        client = await hub.connected([{"uri": "file:///home/user/project/config.json"}])
        assert not await client.is_refused("/home/user/project/config.json")
        assert await client.is_refused("/home/user/project/config.json/x")
        assert await client.is_refused("/home/user/project/src/main.ts")
        assert await client.is_refused("/home/user/project")


@pytest.mark.live
def test_o02_projects_are_found_named_and_not_found_twice(tmp_path: Path) -> None:
    top = plant(
        tmp_path,
        "git/.git/",
        "web/package.json",
        "web/inner/package.json",
        "rust/Cargo.toml",
        "py/pyproject.toml",
        "java/pom.xml",
        "kotlin/build.gradle",
        "code/big.code-workspace",
        "nothing/a.txt",
        "a/b/c/d/e/f/g/package.json",
        "web2/node_modules/dep/package.json",
    )
    done = ran([WARM_HUB, "roots", "detect", "--json", str(top)], timeout=60)
    found = {
        Path(one["path"]).name: (one["name"], one["marker"]) for one in json.loads(done.stdout)
    }
    assert found == {
        "git": ("git", ".git"),
        "web": ("web", "package.json"),
        "rust": ("rust", "Cargo.toml"),
        "py": ("py", "pyproject.toml"),
        "java": ("java", "pom.xml"),
        "kotlin": ("kotlin", "build.gradle"),
        "code": ("big", "big.code-workspace"),
    }


async def test_o02_detection_stands_in_for_a_client_without_roots(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    top = plant(tmp_path, "proj/.git/", "proj/src/deep/a.txt")
    monkeypatch.chdir(top / "proj/src/deep")
    async with flow_hub({"roots": {"detect": True}}) as hub:
        client = await hub.connected(capabilities={})
        report = await client.get_roots()
        assert report["source"] == "detected"
        assert report["roots"] == [{"uri": (top / "proj").as_uri(), "name": "proj"}]


async def test_o05_a_root_that_disappears_grants_nothing_until_it_returns(home: Path) -> None:
    async with flow_hub() as hub:
        client = await hub.connected()
        assert not await client.is_refused("/home/user/documents/readme.txt")
        (home / "home/user/documents").rename(home / "elsewhere")
        assert await client.is_refused("/home/user/documents/readme.txt")
        assert not await client.is_refused("/home/user/project/config.json")
        report = await client.get_roots()
        assert report["filePaths"] == ["/home/user/project"]
        assert report["rejected"] == [
            {"uri": "file:///home/user/documents", "reason": "Path is not accessible"}
        ]
        (home / "elsewhere").rename(home / "home/user/documents")
        assert not await client.is_refused("/home/user/documents/readme.txt")
        assert len(client.asked) == 1


async def test_o05_a_root_that_was_replaced_grants_nothing(home: Path) -> None:
    async with flow_hub() as hub:
        client = await hub.connected()
        assert not await client.is_refused("/home/user/documents/readme.txt")
        (home / "home/user/documents").rename(home / "elsewhere")
        (home / "home/user/documents").symlink_to("/etc")
        assert await client.is_refused("/home/user/documents/passwd")
        (home / "home/user/documents").unlink()
        (home / "elsewhere").rename(home / "home/user/documents")
        assert not await client.is_refused("/home/user/documents/readme.txt")


@pytest.mark.usefixtures("home")
async def test_o06_the_validation_sentences() -> None:
    async with flow_hub() as hub:
        found = await reasons(hub, "https://example.com/x", "file:///etc", "file:///home/nobody")
        assert found == [
            "Only file:// URIs are supported",
            "Path is not safe for sharing",
            "Path is not accessible",
        ]


async def test_o07_unsafe_places_are_not_shared(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(home, "usr/bin/env", "System/x", "home/user/.ssh/id_rsa", "home/user/.aws/credentials")
    monkeypatch.setenv("HOME", "/home/user")
    unsafe = ["/", "/etc", "/usr/bin", "/System", "/home/user/.ssh", "/home/user/.aws"]
    async with flow_hub() as hub:
        found = await reasons(hub, *(f"file://{path}" for path in unsafe))
        assert found == ["Path is not safe for sharing"] * len(unsafe)


async def test_o07_a_place_that_only_starts_alike_is_safe(home: Path) -> None:
    """Bug of the original: `/etcetera` and `/..foo` were unsafe."""
    plant(home, "etcetera/a.txt", "..foo/a.txt", "home/user/.sshd/a.txt")
    async with flow_hub() as hub:
        paths = ["/etcetera", "/..foo", "/home/user/.sshd"]
        client = await hub.connected([{"uri": f"file://{path}"} for path in paths])
        assert (await client.get_roots())["filePaths"] == paths
        for path in paths:
            assert not await client.is_refused(f"{path}/a.txt")


async def test_o07_a_root_of_home_grants_no_keys(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bug of the original: it did."""
    plant(home, "home/user/.ssh/id_rsa", "home/user/a.txt", "home/user/keys => .ssh")
    monkeypatch.setenv("HOME", "/home/user")
    async with flow_hub(environment={"HOME": "/home/user"}) as hub:
        client = await hub.connected([{"uri": "file:///home/user"}])
        assert not await client.is_refused("/home/user/a.txt")
        for path in ("/home/user/.ssh/id_rsa", "~/.ssh/id_rsa", "/home/user/keys/id_rsa"):
            assert await client.is_refused(path), path


@pytest.mark.usefixtures("home")
async def test_o08_a_root_for_reading_takes_no_write() -> None:
    """A tool without a hint is one that writes; the row's restriction patterns are `deny`."""
    read_only: JsonObject = {
        "name": "read_file",
        "inputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": True},
    }
    roots: JsonObject = {
        "access": [{"path": "/home/user/documents", "access": "read"}],
        "deny": ["*.secret"],
    }
    async with flow_hub({"roots": roots}, tools=[read_only, WRITE_FILE]) as hub:
        client = await hub.connected()
        inside = "/home/user/documents/readme.txt"
        assert not await client.is_refused(inside)
        refused = text_of(await client.call("write_file", path=inside))
        assert refused.startswith("Access denied: ")
        written = await client.call("write_file", path="/home/user/project/config.json")
        assert "isError" not in written
        assert await client.is_refused("/home/user/project/a.secret")


KEPT = """\
version: 1
roots:
  fallback: [project]  # what clients without roots get
servers:
  files: {command: files-server, args: ["${roots}"]}
  far: {url: "https://example.com/mcp"}
"""
OWN: JsonObject = {"sampling": {}}
"""What a client declares that knows no roots."""


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """Keep roots in a config that a running hub watches."""
    top = plant(tmp_path, "project/a.txt", "docs/b.txt")
    (top / "hub.yaml").write_text(KEPT)
    return top


def edit(top: Path, *arguments: str) -> str:
    """Run `roots-hub roots` on the config, and return what it says."""
    command = [WARM_HUB, "roots", *arguments, "--config", str(top / "hub.yaml")]
    done = ran(command, timeout=60, cwd=top)
    return done.stdout + done.stderr


@asynccontextmanager
async def watching_hub(top: Path) -> AsyncGenerator[FlowHub]:
    context = LoadContext(top, str(top), {})
    watched = Watched.now("hub.yaml", context)
    config = load_config("hub.yaml", context).config
    state = {"XDG_STATE_HOME": str(top / "state")}
    async with flow_hub(loaded=config, watched=watched, environment=state) as hub:
        yield hub


async def until_shared(hub: FlowHub, client: FakeClient, *paths: Path) -> None:
    """Wait until these are the roots in force."""
    with in_time():
        while True:
            moved = anyio.Event()
            unfollow = hub.services.operator.follow(moved.set)
            if (await client.get_roots())["filePaths"] == [str(path) for path in paths]:
                unfollow()
                return
            await moved.wait()
            unfollow()


@virtual_time
async def test_o03_roots_are_added_renamed_removed_and_running_sessions_notice(kept: Path) -> None:
    async with watching_hub(kept) as hub:
        client = await hub.connected(capabilities=OWN)
        await client.request("tools/list", {})
        text = str(kept / "docs/b.txt")
        refused = await client.call("files__read_file", path=text)
        assert text_of(refused).startswith("Access denied: ")
        launched = [child for child in hub.alive if child.plan is not None]
        remote = next(child for child in hub.alive if child.plan is None)
        assert edit(kept, "add", "docs").startswith(f"added {kept}/docs (docs) to ")
        await until_shared(hub, client, kept / "project", kept / "docs")
        admitted = await client.call("files__read_file", path=text)
        assert text_of(admitted) == json.dumps({"path": text})
        # A child that can be told is told, and stays; one that was launched for roots is replaced.
        await remote.until_heard("notifications/roots/list_changed")
        answer = await remote.ask("roots/list")
        assert text_of_roots(answer) == [f"file://{kept}/project", f"file://{kept}/docs"]
        assert [child.ended for child in launched] == [True]
        edit(kept, "rename", "docs", "Papers")
        edit(kept, "remove", "project")
        await until_shared(hub, client, kept / "docs")
        assert (await client.get_roots())["roots"] == [
            {"uri": f"file://{kept}/docs", "name": "Papers"}
        ]
        entry = "{path: ./docs, name: Papers}"
        assert (kept / "hub.yaml").read_text() == KEPT.replace("project", entry)


@virtual_time
async def test_o03_a_client_with_roots_of_its_own_keeps_them(kept: Path) -> None:
    async with watching_hub(kept) as hub:
        client = await hub.connected([{"uri": f"file://{kept}/project"}])
        other = await hub.connected(capabilities=OWN)
        await until_shared(hub, client, kept / "project")
        edit(kept, "add", "docs")
        await until_shared(hub, other, kept / "project", kept / "docs")
        await until_shared(hub, client, kept / "project")
        # But for a ceiling, which holds for all.
        (kept / "hub.yaml").write_text(KEPT.replace("  fallback", "  ceiling: [docs]\n  fallback"))
        await until_shared(hub, client)
        await until_shared(hub, other)


@virtual_time
async def test_o03_a_config_that_breaks_leaves_the_old_roots(kept: Path) -> None:
    async with watching_hub(kept) as hub:
        client = await hub.connected(capabilities=OWN)
        await until_shared(hub, client, kept / "project")
        with capture_logs() as logged:
            (kept / "hub.yaml").write_text(KEPT.replace("fallback", "fallbck"))
            with in_time():
                while hub.services.config_file.state.error is None:  # noqa: ASYNC110 - nothing tells of it
                    await anyio.sleep(EVERY)
        told = [(line.get("where"), line.get("what")) for line in logged]
        assert ("hub.yaml: roots.fallbck", "unknown key") in told
        await until_shared(hub, client, kept / "project")


async def test_o03_what_is_not_safe_is_not_kept(kept: Path) -> None:
    assert "Path is not safe for sharing" in edit(kept, "add", "/etc")
    assert "there is no such file or directory" in edit(kept, "add", "nowhere")
    assert (kept / "hub.yaml").read_text() == KEPT


def text_of_roots(answer: JsonObject) -> list[str]:
    result = answer["result"]
    assert isinstance(result, dict)
    roots = result["roots"]
    assert isinstance(roots, list)
    return [str(root["uri"]) for root in roots if isinstance(root, dict)]


REMOTE: JsonObject = {"url": "http://127.0.0.1:9/mcp"}


async def test_o04_a_change_notifies_every_child_and_a_slow_one_holds_up_no_other(
    home: Path,
) -> None:
    """A remote child is told of a change; one of three reads nothing."""
    changed = "notifications/roots/list_changed"
    servers = {"slow": REMOTE, "one": {**REMOTE}, "two": {**REMOTE}}
    plant(home, "home/user/project/config.json", "home/user/documents/readme.txt")
    async with flow_hub({"servers": servers}) as hub:
        client = await hub.connected([{"uri": "file:///home/user/project"}])
        slow, one, two = [await child_of(hub, client, server) for server in servers]
        slow.fake.is_stuck = True
        client.roots = [{"uri": "file:///home/user/documents"}]
        await client.changed()
        for child in (one, two):
            await child.until_heard(changed)
            assert text_of_roots(await child.ask("roots/list")) == ["file:///home/user/documents"]
        admitted = await client.call("one__read_file", path="/home/user/documents/readme.txt")
        assert not text_of(admitted).startswith("Access denied: ")
        assert slow.heard(changed) == 0


async def child_of(hub: FlowHub, client: FakeClient, server: str) -> FlowChild:
    """Call a server, which connects the hub to it, and return its child."""
    await client.call(f"{server}__read_file", path="/home/user/project/config.json")
    return next(child for child in reversed(hub.children) if child.calls)


@pytest.mark.usefixtures("home")
async def test_o09_protocol_errors_have_their_code_and_their_reason() -> None:
    async with flow_hub(resources=({"uri": "memo:///a", "name": "a"},)) as hub:
        client = await hub.connected()

        async def error(method: str, params: JsonObject) -> dict[str, Any]:
            answer = await client.end(await client.begin(method, params))
            return cast("dict[str, Any]", answer["error"])

        assert (await error("no/such", {}))["code"] == METHOD_NOT_FOUND
        refused = await error("resources/read", {"uri": "file:///etc/passwd"})
        assert refused["code"] == INVALID_PARAMS
        assert refused["data"]["roots-hub/refusal"]["reason"] == OUTSIDE
        await client.request("resources/read", {"uri": "memo:///a"})
        hub.broken.add("files")
        hub.child.die()
        gone = await error("resources/read", {"uri": "memo:///a"})
        assert gone["code"] == INTERNAL_ERROR
        assert "files" in gone["message"]


async def test_o10_a_call_is_written_down_with_what_its_user_said(
    home: Path, tmp_path: Path
) -> None:
    """Consent and audit of one call; `get-roots` says what the kernel holds a server to."""
    plant(home, "srv/other/x")
    config = {"audit": {"file": str(tmp_path / "audit.jsonl")}, "guard": {"on_refused": "ask"}}
    async with flow_hub(config) as hub:
        client = await hub.connected(capabilities={"roots": {}, "elicitation": {}})
        arguments: JsonObject = {"name": "read_file", "arguments": {"path": "/srv/other/x"}}
        for decision in ("refuse", "allow once"):
            id_ = await client.begin("tools/call", arguments)
            await client.until(lambda: bool(questions(client)))
            answer: JsonObject = {"action": "accept", "content": {"decision": decision}}
            await client.answer(questions(client).pop(), answer)
            assert ("isError" in str(await client.end(id_))) is (decision == "refuse")
            client.received.clear()
        report = await client.get_roots()
    lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    said = [(line["verdict"], line["consent"]) for line in lines if line["tool"] == "read_file"]
    assert said == [("refused", "refused"), ("admitted", "once")]
    assert [server["confinement"] for server in cast("list[Any]", report["servers"])] == ["off"]


def questions(client: FakeClient) -> list[JsonObject]:
    return [one for one in client.received if one.get("method") == "elicitation/create"]
