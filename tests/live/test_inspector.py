"""The MCP Inspector's command line as the client, with the roots of its own config."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.kit.warm import WARM
from tests.live.programs import SOON, config_file, environment, outside


@pytest.fixture(scope="module")
def config(tree: Path, npm_program: Callable[[str], str]) -> str:
    return config_file(tree, {"filesystem": {"command": npm_program("mcp-server-filesystem")}})


class Inspector:
    """The Inspector's command line before one hub; `home` is where it may write."""

    def __init__(self, program: str, home: Path, entry: dict[str, Any]) -> None:
        self._program = program
        self._home = home
        self._entry = entry

    def __call__(self, roots: Sequence[Path], method: str, *arguments: str) -> Any:
        """Run it, and return the JSON that it prints."""
        shared = [{"uri": root.as_uri(), "name": root.name} for root in roots]
        file = self._home / "mcp.json"
        file.write_text(json.dumps({"mcpServers": {"hub": {**self._entry, "roots": shared}}}))
        chosen = ["--config", str(file), "--server", "hub", "--method", method]
        done = subprocess.run(  # noqa: S603 - ours
            [self._program, "--cli", *chosen, *arguments],
            env=environment(HOME=str(self._home)),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SOON,
            check=False,
        )
        assert done.stdout, done.stderr
        return json.loads(done.stdout)


WAYS = ["run", "attach", "http"]


@pytest.fixture
def inspect(
    request: pytest.FixtureRequest, tmp_path: Path, npm_program: Callable[[str], str]
) -> Inspector:
    """Speak to the hub over each transport, and to a shared one."""
    directories = {name: os.environ[name] for name in ("XDG_RUNTIME_DIR", "XDG_STATE_HOME")}
    entry: dict[str, Any] = (
        {"type": "streamable-http", "url": request.getfixturevalue("url")}
        if request.param == "http"
        else {
            "command": WARM.command(),
            "args": [request.param, "--config", request.getfixturevalue("config")],
            "env": directories,  # the Inspector passes next to nothing on
        }
    )
    return Inspector(npm_program("mcp-inspector"), tmp_path, entry)


@pytest.mark.parametrize("inspect", WAYS, indirect=True)
def test_the_inspector_lists_and_calls(inspect: Inspector, tree: Path) -> None:
    project = tree / "project"
    names = [tool["name"] for tool in inspect([project], "tools/list")["tools"]]
    assert "read_text_file" in names
    assert "get-roots" in names
    inside, secret = project / "a.txt", tree / "private/secret.txt"
    call = ("tools/call", "--tool-name", "read_text_file", "--tool-arg")
    read = inspect([project], *call, f"path={inside}")
    assert read["content"] == [{"type": "text", "text": "project/a.txt"}]
    refused = inspect([project], *call, f"path={secret}")
    assert refused["isError"] is True
    assert refused["content"] == [{"type": "text", "text": outside(secret, project)}]


@pytest.mark.parametrize("inspect", ["http"], indirect=True)
def test_the_inspector_shows_the_roots_in_force(inspect: Inspector, tree: Path) -> None:
    roots = [tree / "project", tree / "docs"]
    found = inspect(roots, "tools/call", "--tool-name", "get-roots")["structuredContent"]
    assert found["supportsRoots"] is True
    assert found["filePaths"] == [str(root) for root in roots]
    assert found["source"] == "client"


@pytest.mark.parametrize("inspect", ["attach"], indirect=True)
def test_an_inspector_without_roots_says_that_it_shares_none(
    inspect: Inspector, tree: Path
) -> None:
    call = ("tools/call", "--tool-name", "read_text_file", "--tool-arg")
    inside = tree / "project/a.txt"
    refused = inspect([], *call, f"path={inside}")
    why = "The client shares no folder: its list of roots is empty."
    assert refused["content"] == [{"type": "text", "text": f"{outside(inside)}. {why}"}]
