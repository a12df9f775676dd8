"""A hub.yaml with three servers: npm's filesystem and everything, PyPI's git."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kit.warm import WARM_HUB
from tests.live.programs import (
    Target,
    call,
    config_file,
    connected,
    http_hub,
    outside,
    report_once_started,
    tools_of,
)


def git(directory: Path, *arguments: str) -> None:
    """Run git with an identity of its own."""
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.com"]
    subprocess.run(["git", *identity, *arguments], cwd=directory, check=True, capture_output=True)  # noqa: S603, S607 - ours


@pytest.fixture(scope="module")
def config(tree: Path, npm_program: Callable[[str], str]) -> str:
    for name in ("project", "private"):
        git(tree / name, "init", "--quiet")
        git(tree / name, "add", ".")
        git(tree / name, "commit", "--quiet", "-m", f"first of {name}")
    (tree / "project/new.txt").write_text("new")
    servers = {
        "filesystem": {"command": npm_program("mcp-server-filesystem"), "args": ["${roots}"]},
        "everything": {"command": npm_program("mcp-server-everything")},
        "git": {"command": sys.executable, "args": ["-m", "mcp_server_git"]},
    }
    return config_file(tree, servers, roots={"ceiling": [str(tree / "project")]})


@pytest.fixture(params=["stdio", "http"])
def target(request: pytest.FixtureRequest, url: str, config: str) -> Target:
    return url if request.param == "http" else [WARM_HUB, "run", "--config", config]


async def test_names_are_merged_and_get_roots_shows_the_servers(target: Target, tree: Path) -> None:
    async with connected(target, [tree]) as client:
        names = [one.name for one in await tools_of(client, "filesystem", "everything", "git")]
        assert {"get-roots", "filesystem__read_text_file", "git__git_status"} < {*names}
        assert len(names) == len(set(names))
        assert all(name == "get-roots" or "__" in name for name in names)
        prompts = [prompt.name for prompt in (await client.list_prompts()).prompts]
        assert "everything__simple-prompt" in prompts
        assert await call(client, "everything__echo", message="x") == "Echo: x"
        found = await report_once_started(client)
        assert found["ceiling"] == [str(tree / "project")]
        assert [server["name"] for server in found["servers"]] == [
            "filesystem",
            "everything",
            "git",
        ]
        for server in found["servers"]:
            assert server["state"] == "ready"
            assert server["era"] == "legacy"
            assert server["effectiveRoots"] == [(tree / "project").as_uri()]
        assert found["servers"][0]["args"][1:] == [str(tree / "project")]


async def test_git_works_inside_and_is_refused_outside(target: Target, tree: Path) -> None:
    project, private = tree / "project", tree / "private"
    async with connected(target, [tree]) as client:
        assert "new.txt" in await call(client, "git__git_status", repo_path=str(project))
        log = await call(client, "git__git_log", repo_path=str(project))
        assert "first of project" in log
        for tool in ("git__git_status", "git__git_log"):
            refused = await call(client, tool, repo_path=str(private))
            assert refused == outside(private, project)
        escaping = ["new.txt", "../private/secret.txt"]
        refused = await call(client, "git__git_add", repo_path=str(project), files=escaping)
        assert refused == outside(escaping[1], project)
        assert "Untracked" in await call(client, "git__git_status", repo_path=str(project))


async def test_the_ceiling_holds_for_every_server(target: Target, tree: Path) -> None:
    async with connected(target, [tree]) as client:
        secret = tree / "docs/b.md"
        refused = await call(client, "filesystem__read_text_file", path=str(secret))
        assert refused == outside(secret, tree / "project")


async def test_a_failing_and_a_silent_server_disturb_no_other(
    tree: Path, npm_program: Callable[[str], str]
) -> None:
    servers = {
        "missing": {"command": "no-such-command-anywhere"},
        "silent": {"command": sys.executable, "args": ["-c", "input(); input(); input()"]},
        "crashing": {"command": sys.executable, "args": ["-c", "import sys; sys.exit('oh no')"]},
        "filesystem": {"command": npm_program("mcp-server-filesystem")},
    }
    with http_hub("--config", config_file(tree, servers), cwd=tree) as url:
        async with connected(url, [tree / "project"]) as client:
            path = str(tree / "project/a.txt")
            text = await call(client, "filesystem__read_text_file", path=path)
            assert text == "project/a.txt"
