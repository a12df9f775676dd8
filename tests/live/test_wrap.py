"""`roots-hub wrap`: the drop-in before one server that a client's config already has."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kit.warm import WARM_HUB
from tests.live.programs import (
    RECORDER,
    Mode,
    SharedFolders,
    call,
    connected,
    outside,
    report,
    roots_changed,
    text_of,
)


@pytest.fixture(scope="module")
def filesystem(npm_program: Callable[[str], str]) -> str:
    return npm_program("mcp-server-filesystem")


async def test_tools_keep_their_bare_names_and_the_roots_hold(filesystem: str, tree: Path) -> None:
    project, docs = tree / "project", tree / "docs"
    shared = SharedFolders([project])
    async with connected([WARM_HUB, "wrap", "--", filesystem], shared) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert "read_text_file" in names
        assert "get-roots" in names
        assert not [name for name in names if "__" in name]
        inside, secret = str(project / "a.txt"), tree / "private/secret.txt"
        assert await call(client, "read_text_file", path=inside) == "project/a.txt"
        assert await call(client, "read_text_file", path=str(secret)) == outside(secret, project)
        shared.folders = [docs]
        await roots_changed(client)
        assert await call(client, "read_text_file", path=inside) == outside(inside, docs)
        allowed = await call(client, "list_allowed_directories")
        assert allowed == f"Allowed directories:\n{docs}"


async def test_directories_in_its_arguments_are_the_servers_own_ceiling(
    filesystem: str, tree: Path
) -> None:
    project, docs = tree / "project", tree / "docs"
    command = [WARM_HUB, "wrap", "--", filesystem, str(project)]
    async with connected(command, [tree]) as client:
        inside, other = str(project / "a.txt"), str(docs / "b.md")
        assert await call(client, "read_text_file", path=inside) == "project/a.txt"
        assert await call(client, "read_text_file", path=other) == outside(other, project)
        allowed = await call(client, "list_allowed_directories")
        assert allowed == f"Allowed directories:\n{project}"


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_client_without_roots_gets_those_directories(
    mode: Mode, filesystem: str, tree: Path
) -> None:
    project = tree / "project"
    command = [WARM_HUB, "wrap", "--", filesystem, str(project)]
    async with connected(command, mode=mode) as client:
        inside, secret = str(project / "a.txt"), str(tree / "private/secret.txt")
        assert await call(client, "read_text_file", path=inside) == "project/a.txt"
        assert await call(client, "read_text_file", path=secret) == outside(secret, project)
        (server,) = (await report(client))["servers"]
        assert server["effectiveRoots"] == [project.as_uri()]


async def test_where_they_do_not_overlap_the_refusal_names_both(
    filesystem: str, tree: Path
) -> None:
    project, docs = tree / "project", tree / "docs"
    command = [WARM_HUB, "wrap", "--", filesystem, str(project)]
    async with connected(command, [docs]) as client:
        text = await call(client, "read_text_file", path=str(docs / "b.md"))
        assert text.startswith("Access denied: ")
        for part in (str(docs), str(project)):
            assert part in text
        assert "replace" not in text, "what would allow it is for the operator's log"


async def test_a_root_option_stands_in_for_a_client_without_roots(tree: Path) -> None:
    project = tree / "project"
    command = [WARM_HUB, "wrap", "--root", str(project), "--", *RECORDER, "--flag"]
    async with connected(command) as client:
        seen = json.loads(await call(client, "whereabouts"))
        assert seen["argv"] == ["--flag"]
        assert seen["cwd"] == str(project)
        secret = str(tree / "private/secret.txt")
        assert await call(client, "read_file", path=secret) == outside(secret, project)


async def test_a_server_that_dies_during_a_call_is_named_and_its_tools_stay(tree: Path) -> None:
    async with connected([WARM_HUB, "wrap", "--", *RECORDER], [tree / "project"]) as client:
        died = await client.call_tool("exit", {})
        assert died.is_error
        for part in ("recording_child.py", "went away during the call", "exited with code 7"):
            assert part in text_of(died)
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert "pid" in names


async def test_the_next_call_starts_a_server_that_died_again(tree: Path) -> None:
    async with connected([WARM_HUB, "wrap", "--", *RECORDER], [tree / "project"]) as client:
        first = await call(client, "pid")
        assert "the next call starts it again" in text_of(await client.call_tool("exit", {}))
        second = await call(client, "pid")
        assert second.isdecimal()
        assert second != first
