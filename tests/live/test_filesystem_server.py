"""Through the hub to npm's server-filesystem, which nobody here wrote: over stdio and over HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from tests.kit.warm import WARM_HUB
from tests.live.programs import (
    RECORDER,
    Mode,
    SharedFolders,
    Target,
    call,
    config_file,
    connected,
    http_hub,
    outside,
    report,
    roots_changed,
    tools_of,
)


@pytest.fixture(scope="module")
def config(tree: Path, npm_program: Callable[[str], str]) -> str:
    """A config with the filesystem server and one that records."""
    (tree / "records").mkdir()
    servers = {
        "filesystem": {"command": npm_program("mcp-server-filesystem")},
        "recorder": {
            "command": RECORDER[0],
            "args": RECORDER[1:],
            "env": {"RECORD": str(tree / "records")},
            "share": "roots",
        },
    }
    return config_file(tree, servers)


@pytest.fixture(params=["stdio", "http"])
def target(request: pytest.FixtureRequest, url: str, config: str) -> Target:
    """Each test once over each transport."""
    return url if request.param == "http" else [WARM_HUB, "run", "--config", config]


async def test_its_tools_are_listed_as_it_describes_them(
    target: Target, tree: Path, npm_program: Callable[[str], str]
) -> None:
    project = tree / "project"
    async with connected([npm_program("mcp-server-filesystem"), str(project)]) as direct:
        own = (await direct.list_tools()).tools
    async with connected(target, [project]) as client:
        listed = {tool.name: tool for tool in await tools_of(client, "filesystem", "recorder")}
    for tool in own:
        through = listed.pop(f"filesystem__{tool.name}")
        assert through.model_dump() == {**tool.model_dump(), "name": through.name}
    recorders = ["exit", "pid", "read_file", "whereabouts"]
    assert sorted(listed) == ["get-roots", *(f"recorder__{name}" for name in recorders)]


async def test_a_path_inside_is_read_and_one_outside_is_refused(target: Target, tree: Path) -> None:
    project = tree / "project"
    async with connected(target, [project]) as client:
        for path in (project / "a.txt", Path("src/a.py")):
            read = await call(client, "filesystem__read_text_file", path=str(path))
            assert read == str((project / path).relative_to(tree))
        for path in (
            tree / "private/secret.txt",
            project / "link/secret.txt",
            tree / "project2/x.txt",
            Path("/etc/passwd"),
        ):
            result = await client.call_tool("filesystem__read_text_file", {"path": str(path)})
            assert result.is_error
            assert await call(client, "filesystem__read_text_file", path=str(path)) == outside(
                path, project
            )


def recorded(tree: Path) -> list[str]:
    """Return the methods and params of all requests that recording children got."""
    lines = [
        json.loads(line)
        for file in (tree / "records").iterdir()
        for line in file.read_text().splitlines()
    ]
    return [json.dumps(line.get("params")) for line in lines if line.get("method") == "tools/call"]


async def test_of_a_refused_call_the_child_sees_nothing(target: Target, tree: Path) -> None:
    project, secret = tree / "project", tree / "private/secret.txt"
    for file in (tree / "records").iterdir():
        file.unlink()
    async with connected(target, [project]) as client:
        inside = str(project / "README.md")
        assert await call(client, "recorder__read_file", path=inside) == "project/README.md"
        refused = await call(client, "recorder__read_file", path=str(secret))
        assert refused == outside(secret, project)
        assert recorded(tree) == [json.dumps({"name": "read_file", "arguments": {"path": inside}})]


async def test_the_refused_call_would_have_done_harm(tree: Path) -> None:
    secret = tree / "private/secret.txt"
    async with connected(RECORDER, [tree / "project"]) as client:
        assert await call(client, "read_file", path=str(secret)) == "private/secret.txt"


async def test_other_roots_in_the_middle_of_a_session(target: Target, tree: Path) -> None:
    project, docs = tree / "project", tree / "docs"
    shared = SharedFolders([project])
    async with connected(target, shared) as client:
        allowed = await call(client, "filesystem__list_allowed_directories")
        assert allowed == f"Allowed directories:\n{project}"
        old, new = str(project / "a.txt"), str(docs / "b.md")
        assert await call(client, "filesystem__read_text_file", path=old) == "project/a.txt"
        assert await call(client, "filesystem__read_text_file", path=new) == outside(new, project)
        shared.folders = [docs]
        await roots_changed(client)
        assert await call(client, "filesystem__read_text_file", path=new) == "docs/b.md"
        assert await call(client, "filesystem__read_text_file", path=old) == outside(old, docs)
        allowed = await call(client, "filesystem__list_allowed_directories")
        assert allowed == f"Allowed directories:\n{docs}"
        assert shared.asked == 2


async def test_two_clients_with_different_roots_at_the_same_time(url: str, tree: Path) -> None:
    project, docs = tree / "project", tree / "docs"
    files = {project: project / "a.txt", docs: docs / "b.md"}
    pids: dict[Path, str] = {}
    both_are_here = anyio.Event()

    async def client_of(root: Path, other: Path) -> None:
        async with connected(url, [root]) as client:
            pids[root] = await call(client, "recorder__pid")
            if len(pids) == 2:
                both_are_here.set()
            await both_are_here.wait()
            for _ in range(3):
                own, foreign = str(files[root]), str(files[other])
                text = await call(client, "filesystem__read_text_file", path=own)
                assert text == str(files[root].relative_to(tree))
                text = await call(client, "filesystem__read_text_file", path=foreign)
                assert text == outside(foreign, root)
            assert (await report(client))["filePaths"] == [str(root)]
            assert await call(client, "recorder__pid") == pids[root]

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client_of, project, docs)
            tasks.start_soon(client_of, docs, project)
    assert pids[project] != pids[docs]


async def test_many_clients_at_once_each_read_their_own(url: str, tree: Path) -> None:
    folders = [tree / f"many/{number}" for number in range(4)]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / "own.txt").write_text(folder.name)
    wrong: list[str] = []

    async def client_of(own: Path, other: Path) -> None:
        async with connected(url, [own]) as client:
            for folder, expected in (
                (own, own.name),
                (other, outside(other / "own.txt", own)),
                (own, own.name),
            ):
                path = str(folder / "own.txt")
                text = await call(client, "filesystem__read_text_file", path=path)
                wrong.extend([text] if text != expected else [])

    with anyio.fail_after(90):
        async with anyio.create_task_group() as tasks:
            for own, other in zip(folders, [*folders[1:], folders[0]], strict=True):
                tasks.start_soon(client_of, own, other)
    assert wrong == []


async def test_two_clients_with_the_same_roots_share_a_child(url: str, tree: Path) -> None:
    async with (
        connected(url, [tree / "project"]) as one,
        connected(url, [tree / "project"]) as two,
    ):
        assert await call(one, "recorder__pid") == await call(two, "recorder__pid")


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_client_without_roots_is_judged_by_the_operators(
    mode: Mode, config: str, tree: Path
) -> None:
    project, secret = tree / "project", tree / "private/secret.txt"
    command = [WARM_HUB, "run", "--config", config, "--root", str(project)]
    async with connected(command, mode=mode) as client:
        assert len(await tools_of(client, "filesystem", "recorder")) > 10
        inside = str(project / "a.txt")
        assert await call(client, "filesystem__read_text_file", path=inside) == "project/a.txt"
        refused = await call(client, "filesystem__read_text_file", path=str(secret))
        assert refused == outside(secret, project)


async def test_a_modern_client_over_http(config: str, tree: Path) -> None:
    with http_hub("--config", config, "--root", str(tree / "docs"), cwd=tree) as served:
        async with connected(served, mode="2026-07-28") as client:
            assert client.protocol_version == "2026-07-28"
            await tools_of(client, "filesystem", "recorder")
            inside, secret = str(tree / "docs/b.md"), tree / "private/secret.txt"
            assert await call(client, "filesystem__read_text_file", path=inside) == "docs/b.md"
            refused = await call(client, "filesystem__read_text_file", path=str(secret))
            assert refused == outside(secret, tree / "docs")


async def test_a_modern_clients_own_roots_hold(target: Target, tree: Path) -> None:
    project, secret = tree / "project", tree / "private/secret.txt"
    async with connected(target, [project], mode="2026-07-28") as client:
        inside = str(project / "a.txt")
        assert await call(client, "filesystem__read_text_file", path=inside) == "project/a.txt"
        refused = await call(client, "filesystem__read_text_file", path=str(secret))
        assert refused == outside(secret, project)
        assert (await report(client))["source"] == "client"


async def test_a_client_without_roots_and_no_fallback_is_let_pass_and_told_so(
    target: Target, tree: Path
) -> None:
    async with connected(target) as client:
        secret = str(tree / "private/secret.txt")
        assert await call(client, "recorder__read_file", path=secret) == "private/secret.txt"
        assert (await report(client))["enforcing"] is False


async def test_what_the_child_is_launched_with(target: Target, tree: Path) -> None:
    project, docs = tree / "project", tree / "docs"
    async with connected(target, [project, docs]) as client:
        seen = json.loads(await call(client, "recorder__whereabouts"))
        assert seen["argv"] == []
        assert seen["cwd"] == str(project)
        assert seen["MCP_ROOTS_PATHS"] == f"{project}\n{docs}"
        servers = {server["name"]: server for server in (await report(client))["servers"]}
        assert servers["recorder"]["state"] == "ready"
        assert servers["filesystem"]["args"][1:] == [str(project), str(docs)]


@pytest.mark.parametrize("is_whole_disk", [False, True])
async def test_a_relative_path_is_not_read_from_a_directory_around_the_roots(
    tree: Path, npm_program: Callable[[str], str], tmp_path: Path, is_whole_disk: bool
) -> None:
    """The guard reads it from the roots: so has the server to do, from its first call on."""
    named = Path("/") if is_whole_disk else tree
    files = {
        "command": npm_program("mcp-server-filesystem"),
        "args": [str(named)],
        "roots": {"answer": False},
    }
    run = [WARM_HUB, "run", "--config", config_file(tmp_path, {"filesystem": files})]
    secret = (tree / "private/secret.txt").relative_to(named)
    async with connected(run, [tree / "project"]) as client:
        assert "ENOENT" in await call(client, "read_text_file", path=str(secret))
        assert await call(client, "read_text_file", path="a.txt") == "project/a.txt"
        assert str(tree / "project") in await call(client, "list_allowed_directories")


@pytest.mark.parametrize("share", ["roots", "all"])
async def test_a_relative_path_is_judged_from_the_directories_that_a_server_keeps(
    tree: Path, npm_program: Callable[[str], str], tmp_path: Path, share: str
) -> None:
    files = {
        "command": npm_program("mcp-server-filesystem"),
        "args": [str(tree)],
        "roots": {"args": "none", "answer": False},
        "share": share,
    }
    run = [WARM_HUB, "run", "--config", config_file(tmp_path, {"filesystem": files})]
    project = tree / "project"
    async with connected(run, [project]) as client:
        path = "private/secret.txt"
        assert await call(client, "read_text_file", path=path) == outside(path, project)
        assert await call(client, "read_text_file", path="project/a.txt") == "project/a.txt"


@pytest.mark.parametrize("spelled", ["PATH", "PATH/link/..", "--"])
async def test_a_relative_path_is_judged_from_a_servers_directories_wherever_it_runs(
    tree: Path, npm_program: Callable[[str], str], tmp_path: Path, spelled: str
) -> None:
    """It reads one from the first of its directories, whatever its `cwd` and the roots are."""
    project, private = tree / "project", tree / "private"
    own = (
        [spelled.replace("PATH", str(private)), str(project)]
        if spelled != "--"
        else ["../private", "."]
    )
    files = {
        "command": npm_program("mcp-server-filesystem"),
        "args": own,
        "cwd": str(project),
        "roots": {"args": "none", "answer": False},
    }
    run = [WARM_HUB, "run", "--config", config_file(tmp_path, {"filesystem": files})]
    async with connected(run, [project]) as client:
        for path in ("secret.txt", "a.txt"):
            assert await call(client, "read_text_file", path=path) == outside(path, project)
        path = str(project / "a.txt")
        assert await call(client, "read_text_file", path=path) == "project/a.txt"


async def test_a_relative_path_is_looked_for_in_the_folders_that_any_server_is_given(
    tree: Path, tmp_path: Path
) -> None:
    project, private = tree / "project", tree / "private"
    records = tmp_path / "records"
    records.mkdir()
    vault = {
        "command": RECORDER[0],
        "args": [*RECORDER[1:], str(private)],
        "env": {"RECORD": str(records)},
    }
    run = [WARM_HUB, "run", "--config", config_file(tmp_path, {"vault": vault})]
    async with connected(run, [project]) as client:
        path = "secret.txt"
        assert await call(client, "read_file", path=path) == outside(path, project)
        assert await call(client, "read_file", path="a.txt") == "project/a.txt"
