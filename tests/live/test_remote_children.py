"""Children behind URLs: SSE and streamable HTTP, of both eras, and a hub behind the hub."""

from __future__ import annotations

import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.kit.ports import free_port
from tests.kit.warm import WARM, WARM_HUB
from tests.live.programs import (
    RECORDER,
    SharedFolders,
    call,
    config_file,
    connected,
    http_hub,
    outside,
    program,
    report,
)

SDK_SERVER = [sys.executable, "-m", "tests.live.sdk_server"]


@contextmanager
def hub_before(tree: Path, server: Mapping[str, Any], **keys: Any) -> Generator[str]:
    """Run a hub before one server, and yield its URL."""
    config = config_file(tree, {"remote": server}, **keys)
    with http_hub("--config", config, cwd=tree) as url:
        yield url


@pytest.fixture(scope="module")
def remotes(tree: Path) -> Generator[Mapping[str, str]]:
    """Run the SDK's servers, which keep nothing of a call, and give their URLs."""
    env = {"PYTHONPATH": str(Path(__file__).parent.parent.parent)}
    with (
        program([*SDK_SERVER, "sse"], cwd=tree, env=env) as sse,
        program([*SDK_SERVER, "http"], cwd=tree, env=env) as http,
    ):
        yield {name: one.first_line("serves ") for name, one in (("sse", sse), ("http", http))}


@pytest.mark.parametrize(
    ("transport", "era", "expected"),
    [
        ("sse", "auto", "legacy"),
        ("http", "auto", "legacy"),
        ("http", "legacy", "legacy"),
        ("http", "modern", "modern"),
    ],
)
async def test_an_sdk_server_behind_a_url(
    transport: str, era: str, expected: str, remotes: Mapping[str, str], tree: Path
) -> None:
    server = {"url": remotes[transport], "transport": transport, "era": era}
    with hub_before(tree, server) as url:
        async with connected(url, [tree / "project"]) as client:
            inside, secret = str(tree / "project/a.txt"), str(tree / "private/secret.txt")
            assert await call(client, "read_file", path=inside) == f"would read {inside}"
            refused = await call(client, "read_file", path=secret)
            assert refused == outside(secret, tree / "project")
            (server,) = (await report(client))["servers"]
            assert (server["era"], server["args"]) == (expected, None)
            assert await call(client, "big", size=500_000) == "x" * 500_000


async def test_sixteen_mebibytes_go_both_ways_over_sse(
    remotes: Mapping[str, str], tree: Path
) -> None:
    """Over streamable HTTP they do in test_eras.py."""
    size = 16 * 2**20
    config = config_file(tree, {"remote": {"url": remotes["sse"], "transport": "sse"}})
    hub = [WARM_HUB, "run", "--stdio", "--config", config]
    async with connected(hub, [tree / "project"]) as client:
        assert await call(client, "length", text="x" * size) == str(size)
        assert await call(client, "big", size=size) == "x" * size


async def test_an_answer_whose_stream_the_server_closes_is_picked_up_again(tree: Path) -> None:
    everything = str(Path(__file__).parent / "everything_server.py")
    project = str(Path(__file__).parent.parent.parent)
    argv = [sys.executable, everything, "http"]
    with program(argv, cwd=tree, env={"PYTHONPATH": project}) as running:
        remote = running.first_line("serves ")
        with hub_before(tree, {"url": remote}) as url:
            async with connected(url, [tree / "project"]) as client:
                assert await call(client, "test_reconnection") == "answered on another stream"


@pytest.mark.parametrize("era", ["auto", "modern"])
async def test_a_hub_behind_the_hub(era: str, tree: Path) -> None:
    with (
        http_hub("--root", str(tree), cwd=tree) as inner,
        hub_before(tree, {"url": inner, "era": era}) as url,
    ):
        async with connected(url, [tree / "project"]) as client:
            inside, secret = str(tree / "project/a.txt"), str(tree / "private/secret.txt")
            assert await call(client, "read_file", path=inside) == "project/a.txt"
            refused = await call(client, "read_file", path=secret)
            assert refused == outside(secret, tree / "project")
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert names.count("get-roots") == 1


async def test_a_hub_behind_the_hub_learns_the_clients_roots(tree: Path) -> None:
    shared = SharedFolders([tree / "project"])
    with (
        http_hub("--root", str(tree), cwd=tree) as inner,
        hub_before(tree, {"url": inner}, names="always") as url,
    ):
        async with connected(url, shared) as client:
            path = str(tree / "project/a.txt")
            assert await call(client, "remote__read_file", path=path) == "project/a.txt"
            below = await client.call_tool("remote__get-roots", {})
            assert below.structured_content is not None
            assert below.structured_content["filePaths"] == [str(tree / "project")]


@pytest.mark.parametrize("era", ["auto", "modern"])
async def test_a_hub_behind_the_hub_over_stdio(era: str, tree: Path) -> None:
    server = {"command": WARM.command(), "args": ["run", "--root", str(tree)], "era": era}
    with hub_before(tree, server) as url:
        async with connected(url, [tree / "docs"]) as client:
            assert await call(client, "read_file", path=str(tree / "docs/b.md")) == "docs/b.md"
            secret = str(tree / "private/secret.txt")
            assert await call(client, "read_file", path=secret) == outside(secret, tree / "docs")


async def test_a_url_where_nobody_listens_is_said(tree: Path) -> None:
    servers = {
        "gone": {"url": f"http://127.0.0.1:{free_port()}/mcp"},
        "files": {"command": RECORDER[0], "args": RECORDER[1:]},
    }
    with http_hub("--config", config_file(tree, servers), cwd=tree) as url:
        async with connected(url, [tree / "docs"]) as client:
            path = str(tree / "docs/b.md")
            assert await call(client, "files__read_file", path=path) == "docs/b.md"
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert not [name for name in names if name.startswith("gone__")]
