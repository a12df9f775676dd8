"""A server that keeps something keeps it: through changed roots, and for its own client alone."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from mcp import Client

from tests.kit.trees import plant
from tests.kit.warm import WARM_HUB
from tests.live.programs import (
    SOON,
    Mode,
    SharedFolders,
    call,
    config_file,
    connected,
    http_hub,
    outside,
    report,
    roots_changed,
)

KEEPER = {"command": sys.executable, "args": [str(Path(__file__).parent / "keeping_child.py")]}


@pytest.fixture
def top(tmp_path: Path) -> Path:
    top = plant(tmp_path, "a/f", "a/sub/leak => ../f", "b/f", "b/leak")
    for name in ("a", "b"):
        (top / name / "f").write_text(f"of {name}")
    return top


@asynccontextmanager
async def through(
    transport: str, config: str, roots: SharedFolders, mode: Mode
) -> AsyncGenerator[Client]:
    """Connect a client to a hub of its own."""
    cwd = Path(config).parent
    if transport == "stdio":
        command = [WARM_HUB, "run", "--config", config]
        async with connected(command, roots, mode=mode, cwd=cwd) as client:
            yield client
    else:
        with http_hub("--config", config, cwd=cwd) as url:
            async with connected(url, roots, mode=mode) as client:
                yield client


async def remembered(client: Client, text: str) -> list[str]:
    return json.loads(await call(client, "remember", text=text))


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_server_keeps_its_state_when_a_folder_is_added(top: Path, transport: str) -> None:
    config, shared = config_file(top, {"keeper": KEEPER}), SharedFolders([top / "a"])
    async with through(transport, config, shared, "legacy") as client:
        for number in ("1", "2", "3"):
            await remembered(client, number)
        assert await call(client, "read_file", path=str(top / "b/f")) == outside(
            top / "b/f", top / "a"
        )
        shared.folders = [top / "b", top / "a"]
        await roots_changed(client)
        assert await call(client, "read_file", path=str(top / "b/f")) == "of b"
        assert await remembered(client, "4") == ["1", "2", "3", "4"]
        assert await call(client, "read_file", path="f") == "of a", "it still runs in the first one"
        wanted = [folder.as_uri() for folder in shared.folders]
        with anyio.fail_after(SOON):
            while json.loads(await call(client, "roots")) != wanted:  # noqa: ASYNC110 - only the server knows
                await anyio.sleep(0.01)
        (server,) = (await report(client))["servers"]
        assert server["effectiveRoots"] == wanted


async def test_a_relative_path_is_judged_by_the_directory_that_the_server_runs_in(
    top: Path,
) -> None:
    """A link there counts, whatever has its name below the new first root."""
    config, shared = config_file(top, {"keeper": KEEPER}), SharedFolders([top / "a" / "sub"])
    async with through("stdio", config, shared, "legacy") as client:
        await remembered(client, "1")
        shared.folders = [top / "b", top / "a" / "sub"]
        await roots_changed(client)
        refused = await call(client, "read_file", path="leak")
        assert refused.startswith("Access denied: "), refused
        assert await remembered(client, "2") == ["1", "2"]


async def test_a_server_is_started_anew_when_its_directory_is_taken_away(top: Path) -> None:
    config, shared = config_file(top, {"keeper": KEEPER}), SharedFolders([top / "a"])
    async with through("stdio", config, shared, "legacy") as client:
        await remembered(client, "1")
        shared.folders = [top / "b"]
        await roots_changed(client)
        assert await call(client, "read_file", path="f") == "of b"
        assert await remembered(client, "2") == ["2"]


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_no_client_finds_what_another_left(top: Path, mode: Mode) -> None:
    config = config_file(top, {"keeper": KEEPER})
    with http_hub("--config", config, cwd=top) as url:
        async with (
            connected(url, [top / "a"]) as alice,
            connected(url, [top / "a"], mode=mode) as bob,
        ):
            for number in ("1", "2", "3"):
                await remembered(alice, number)
            assert await remembered(bob, "x") == ["x"]
            assert await remembered(alice, "4") == ["1", "2", "3", "4"]


async def test_clients_share_a_server_whose_operator_says_so(top: Path) -> None:
    config = config_file(top, {"keeper": {**KEEPER, "share": "roots"}})
    with http_hub("--config", config, cwd=top) as url:
        async with connected(url, [top / "a"]) as alice, connected(url, [top / "a"]) as bob:
            await remembered(alice, "1")
            assert await remembered(bob, "x") == ["1", "x"]


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_modern_client_finds_what_it_left_whether_or_not_a_call_names_a_path(
    top: Path, transport: str
) -> None:
    config, shared = config_file(top, {"keeper": KEEPER}), SharedFolders([top / "a"])
    async with through(transport, config, shared, "2026-07-28") as client:
        await remembered(client, "1")
        assert await call(client, "read_file", path=str(top / "a/f")) == "of a"
        assert await remembered(client, "2") == ["1", "2"]


async def test_a_modern_client_over_stdio_keeps_its_server_when_a_folder_is_added(
    top: Path,
) -> None:
    config, shared = config_file(top, {"keeper": KEEPER}), SharedFolders([top / "a"])
    async with through("stdio", config, shared, "2026-07-28") as client:
        await remembered(client, "1")
        shared.folders = [top / "a", top / "b"]
        assert await call(client, "read_file", path=str(top / "b/f")) == "of b"
        assert await remembered(client, "2") == ["1", "2"]


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_client_is_listed_what_its_own_server_has_learnt(top: Path, mode: Mode) -> None:
    config, shared = config_file(top, {"keeper": KEEPER}), SharedFolders([top / "a"])
    async with through("stdio", config, shared, mode) as client:
        assert await call(client, "learn", text="dance") == "learnt"
        with anyio.fail_after(SOON):
            while "dance" not in await names_of(client):  # noqa: ASYNC110 - only the hub knows
                await anyio.sleep(0.01)


async def names_of(client: Client) -> set[str]:
    return {tool.name for tool in (await client.list_tools(cache_mode="bypass")).tools}


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_modern_clients_server_without_paths_outlives_any_change_of_roots(
    top: Path, transport: str
) -> None:
    keeper = {**KEEPER, "args": [*KEEPER["args"], "--no-paths"]}
    config, shared = config_file(top, {"keeper": keeper}), SharedFolders([top / "a"])
    async with through(transport, config, shared, "2026-07-28") as client:
        await remembered(client, "1")
        shared.folders = [top / "b"]
        assert await remembered(client, "2") == ["1", "2"]
