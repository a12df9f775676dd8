"""A hub lists what its servers offered when they last ran, before it starts them."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError
from mcp.types import ToolListChangedNotification

from tests.kit.trees import files_in, plant
from tests.kit.warm import WARM_HUB, ran
from tests.live.programs import (
    SOON,
    Mode,
    call,
    config_file,
    connected,
    environment,
    http_hub,
    report,
    tools_of,
)

pytestmark = pytest.mark.live
CHILD = str(Path(__file__).parent / "changing_child.py")


class ChangingServers:
    """Servers with the tools that their files name; how often each was started is counted."""

    def __init__(self, top: Path, **tools: str) -> None:
        self.top = plant(top, "root/", "cache/")
        for name, names in tools.items():
            self.offers(name, names)
        servers = {name: self._server(name) for name in tools}
        self.config = config_file(top, servers)
        self.env = {"XDG_CACHE_HOME": str(self.top / "cache")}
        self.command = [WARM_HUB, "run", "--config", self.config]

    @property
    def catalogs(self) -> Path:
        return self.top / "cache/roots-hub/catalogs"

    def _server(self, name: str) -> Mapping[str, Any]:
        files = [str(self.top / f"{name}.{kind}") for kind in ("starts", "tools")]
        return {"command": sys.executable, "args": [CHILD, *files]}

    def offers(self, name: str, tools: str) -> None:
        """Let a server list these tools from its next start on."""
        (self.top / f"{name}.tools").write_text(tools)

    def starts(self, name: str) -> int:
        """Return how often a server was started."""
        file = self.top / f"{name}.starts"
        return len(file.read_text().splitlines()) if file.exists() else 0

    def client(self, mode: Mode = "legacy", **callbacks: Any) -> Any:
        """Connect to a new hub over stdio."""
        roots = [self.top / "root"]
        return connected(self.command, roots, mode=mode, env=self.env, cwd=self.top, **callbacks)

    async def listed(self) -> list[str]:
        """Start a hub, and return what it lists."""
        async with self.client() as client:
            return await names(client)


async def names(client: Client) -> list[str]:
    found = (await client.list_tools()).tools
    return [tool.name for tool in found if tool.name != "get-roots"]


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_the_second_hub_lists_without_starting_a_server(tmp_path: Path, mode: Mode) -> None:
    servers = ChangingServers(tmp_path, a="one", b="two")
    async with servers.client(mode) as client:
        await tools_of(client, "a", "b")
    before = servers.starts("a"), servers.starts("b")
    async with servers.client(mode) as client:
        assert await names(client) == ["a__one", "b__two"]
        assert (servers.starts("a"), servers.starts("b")) == before
        states = {server["name"]: server["state"] for server in (await report(client))["servers"]}
        assert set(states.values()) <= {"cached", "idle"}
        assert await call(client, "b__two") == "two"
        assert servers.starts("a") == before[0]
        assert servers.starts("b") > before[1]


async def test_over_http_a_new_hub_lists_at_once_too(tmp_path: Path) -> None:
    servers = ChangingServers(tmp_path, a="one")
    for _ in range(2):
        with http_hub("--config", servers.config, cwd=tmp_path, env=servers.env) as url:
            async with connected(url, [servers.top / "root"]) as client:
                assert await names(client) == ["one"]
                assert servers.starts("a") == 1


async def test_what_has_changed_is_told_and_listed(tmp_path: Path) -> None:
    servers = ChangingServers(tmp_path, a="one two")
    assert await servers.listed() == ["one", "two"]
    servers.offers("a", "two three")
    changed = anyio.Event()

    async def heard(message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            changed.set()

    async with servers.client(message_handler=heard) as client:
        assert await names(client) == ["one", "two"]
        assert servers.starts("a") == 1
        with pytest.raises(MCPError, match="Unknown tool: one"):
            await client.session.call_tool("one", {})
        with anyio.fail_after(60):
            await changed.wait()
        assert await names(client) == ["two", "three"]
        assert await call(client, "three") == "three"
    assert await servers.listed() == ["two", "three"]
    assert servers.starts("a") == 2


async def test_the_greeting_has_the_instructions_of_servers_that_do_not_run(
    tmp_path: Path,
) -> None:
    servers = ChangingServers(tmp_path, a="one")
    await servers.listed()
    async with servers.client() as client:
        assert client.session.instructions == "Tools: one"
        assert servers.starts("a") == 1


async def test_one_server_of_ten_that_hangs_does_not_keep_the_others_from_the_list(
    tmp_path: Path,
) -> None:
    servers = ChangingServers(tmp_path, hanging="hang", **{f"s{n}": "tool" for n in range(9)})
    expected = [f"s{n}__tool" for n in range(9)]
    for _ in range(2):
        async with servers.client() as client:
            with anyio.fail_after(25):  # the server would have 30 s to start
                assert set(await names(client)) <= set(expected)
            await tools_of(client, *(f"s{n}" for n in range(9)))
    assert await servers.listed() == expected


SPOILED = {
    "empty": b"",
    "nonsense": b"\x00\xff" * 100,
    "a JSON object": b"{}",
    "huge": b"x" * 5_000_000,
}


@pytest.mark.parametrize(
    "how",
    [
        *SPOILED,
        "cut off",
        "flipped",
        "group-writable",
        "a link",
        "a pipe",
        "swapped",
        "a directory",
    ],
)
async def test_a_broken_or_foreign_file_is_ignored_and_written_again(
    tmp_path: Path, how: str
) -> None:
    servers = ChangingServers(tmp_path, a="one")
    await servers.listed()
    files = [servers.catalogs / name for name in files_in(servers.catalogs)]
    contents = [file.read_bytes() for file in files]
    for file, content, other in zip(files, contents, reversed(contents), strict=True):
        spoil(file, content, other, how)
    assert await servers.listed() == ["one"]
    assert servers.starts("a") == 2
    if how != "a directory":  # which the hub does not remove
        assert await servers.listed() == ["one"]
        assert servers.starts("a") == 2


def spoil(file: Path, content: bytes, other: bytes, how: str) -> None:
    """Replace a file of the cache by something that the hub did not write."""
    match how:
        case "cut off":
            file.write_bytes(content[: len(content) // 2])
        case "flipped":
            file.write_bytes(content.replace(b"one", b"two"))
        case "swapped":
            file.write_bytes(other)
        case "group-writable":
            file.chmod(0o660)
        case "a link":
            file.rename(file.with_name("elsewhere" + file.name))
            file.symlink_to(file.with_name("elsewhere" + file.name))
        case "a pipe":
            file.unlink()
            os.mkfifo(file)
        case "a directory":
            file.unlink()
            file.mkdir()
        case _:
            file.write_bytes(SPOILED[how])


async def test_hubs_that_start_at_once_leave_what_the_next_can_use(tmp_path: Path) -> None:
    servers = ChangingServers(tmp_path, a="one", b="two")
    async with anyio.create_task_group() as hubs:
        for _ in range(4):
            hubs.start_soon(servers.listed)
    before = servers.starts("a"), servers.starts("b")
    assert await servers.listed() == ["a__one", "b__two"]
    assert (servers.starts("a"), servers.starts("b")) == before
    assert not [name for name in files_in(servers.catalogs) if name.startswith(".")]


async def test_without_a_place_for_the_cache_all_works_as_without_one(tmp_path: Path) -> None:
    servers = ChangingServers(tmp_path, a="one")
    (servers.top / "cache").rmdir()
    (servers.top / "cache").write_text("a file")
    assert await servers.listed() == ["one"]
    assert await servers.listed() == ["one"]
    assert servers.starts("a") == 2


def test_check_connect_renews_what_is_kept(tmp_path: Path) -> None:
    servers = ChangingServers(tmp_path, a="one")

    def check(*options: str) -> str:
        command = [WARM_HUB, "check", "--config", servers.config, *options]
        env = environment(**servers.env)
        done = ran(command, cwd=tmp_path, env=env, timeout=SOON)
        return done.stdout

    assert "known from an earlier start" not in check("--connect")
    assert "a: known from an earlier start" in check()
    kept = {name: (servers.catalogs / name).read_bytes() for name in files_in(servers.catalogs)}
    servers.offers("a", "two")
    check("--connect")
    assert {*files_in(servers.catalogs)} == kept.keys()
    assert any((servers.catalogs / name).read_bytes() != was for name, was in kept.items())
