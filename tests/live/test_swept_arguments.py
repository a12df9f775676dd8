"""Every text that real servers take, in every spelling of what lies outside: none reads or writes.

The servers have no limit of their own: the filesystem server is allowed the whole disk.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from tests.kit.warm import WARM_HUB
from tests.live.programs import SOON, Target, config_file, connected, http_hub, tools_of

PLANTED = "planted outside of the roots"
SPELLINGS = (
    *("{out}", "{out}/secret.txt", "../out/secret.txt", "sub/../../out/secret.txt", "link"),
    *("link/secret.txt", "file://{out}/secret.txt", "..%2fout%2fsecret.txt", "--output={out}/new"),
    *("a.txt,{out}/secret.txt", "{{a.txt,{out}/secret.txt}}", "../out/*", "~+/../out/secret.txt"),
    *("/proc/self/root{out}/secret.txt", "HEAD:../out/secret.txt", "{out}/new", "link/new"),
)
TEXT: dict[str, Any] = {"type": "string"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository that is a root, with a link out of it to a folder with a secret."""
    for folder in ("project/sub", "out"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "project/a.txt").write_text("inside")
    (tmp_path / "project/link").symlink_to("../out")
    (tmp_path / "out/secret.txt").write_text(PLANTED)
    for folder, message in (("project", "first"), ("out", PLANTED)):
        identity = ["-c", "user.name=test", "-c", "user.email=test@example.com"]
        for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", message]):
            git = ["git", *identity, *words]
            subprocess.run(git, cwd=tmp_path / folder, check=True)  # noqa: S603 - ours
    return tmp_path / "project"


def filled(schema: dict[str, Any], value: str) -> Any:
    """Return what a schema takes, with `value` for each text."""
    if schema.get("type") == "object":
        return {key: filled(one, value) for key, one in schema.get("properties", {}).items()}
    if schema.get("type") == "array":
        return [filled(schema.get("items", TEXT), value)]
    return {"integer": 1, "number": 1, "boolean": True}.get(schema.get("type", ""), value)


def swept(schema: dict[str, Any], value: str) -> Iterator[dict[str, Any]]:
    """Yield arguments of a tool with `value` in one of them, and harmless words in the others."""
    members: dict[str, dict[str, Any]] = schema.get("properties", {})
    harmless = {key: filled(members[key], "sub") for key in schema.get("required", [])}
    for key, member in members.items():
        if filled(member, value) != filled(member, "sub"):
            yield {**harmless, key: filled(member, value)}
            yield {**harmless, key: [value]}
            yield {**harmless, key: json.dumps({"path": value})}


async def sweep(client: Client, out: Path) -> tuple[int, int]:
    """Call each tool in each such way. Return how often, and how many of these were refused."""
    calls = refused = 0
    for tool in await tools_of(client, "files", "git"):
        for spelling in SPELLINGS:
            for arguments in swept(tool.input_schema, spelling.format(out=out)):
                result = await client.call_tool(tool.name, arguments)
                told = result.model_dump_json()
                assert PLANTED not in told, (tool.name, arguments)
                calls, refused = calls + 1, refused + ("Access denied" in told)
    return calls, refused


@pytest.fixture(params=["stdio", "http"])
def target(
    request: pytest.FixtureRequest, project: Path, npm_program: Callable[[str], str]
) -> Iterator[Target]:
    everywhere = {"args": ["/"], "roots": {"args": "none", "answer": False}, "cwd": str(project)}
    servers = {
        "files": {"command": npm_program("mcp-server-filesystem"), **everywhere},
        "git": {"command": sys.executable, "args": ["-m", "mcp_server_git"]},
    }
    config = config_file(project.parent, servers)
    if request.param == "stdio":
        yield [WARM_HUB, "run", "--config", config]
        return
    with http_hub("--config", config, cwd=project.parent) as url:
        yield url


async def test_no_spelling_of_what_lies_outside_reads_or_writes_it(
    target: Target, project: Path
) -> None:
    out = project.parent / "out"
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    with anyio.fail_after(3 * SOON):
        async with connected(target, [project]) as client:
            calls, refused = await sweep(client, out)
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before
    assert calls > 1000
    assert refused > calls * 2 / 3, "many are about paths"
