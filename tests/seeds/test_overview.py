"""Rows O: an overview of the roots capability."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from hub.core.values import Json, JsonObject
from tests.conftest import PROJECT
from tests.flow.hubs import FlowHub, flow_hub, text_of
from tests.trees import plant

ROOTS_HUB = str(PROJECT / ".venv/bin/roots-hub")
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
    command = [ROOTS_HUB, "roots", "detect", "--json", str(top)]
    done = subprocess.run(command, capture_output=True, check=True)  # noqa: S603 - ours
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
