"""`roots-hub init`, `import` and `install` in an empty home: from nothing to a guarded call."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.kit.pages import README, blocks, shown_in
from tests.kit.terminal import at_terminal
from tests.kit.warm import ROOTS_HUB, WARM_HUB, ran
from tests.live.programs import SOON, call, connected, environment, outside


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return an empty home directory with a project in it."""
    home = tmp_path.resolve() / "home"
    (home / "project").mkdir(parents=True)
    (home / "project/a.txt").write_text("inside")
    (home / "secret.txt").write_text("outside")
    return home


def env(home: Path, **more: str) -> dict[str, str]:
    kept = {
        name: value
        for name, value in environment().items()
        if not name.startswith(("XDG_", "CODEX_", "CLAUDE_"))
        # Shared hubs are ended with the tests by what is in there.
        or name == "XDG_RUNTIME_DIR"
    }
    return {**kept, "HOME": str(home), "COLUMNS": "200", **more}


def run(home: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    command = [WARM_HUB, *arguments]
    return ran(command, timeout=SOON, cwd=home / "project", env=env(home, **more))


def entry_in(home: Path, client: str) -> dict[str, Any]:
    if client == "codex":
        config = tomllib.loads((home / ".codex/config.toml").read_text())
        return config["mcp_servers"]["roots-hub"]
    file = {"claude-code": ".claude.json", "cursor": ".cursor/mcp.json"}.get(client)
    config = json.loads((home / (file or ".config/Code/User/mcp.json")).read_text())
    return next(iter(config.values()))["roots-hub"]


@pytest.mark.parametrize("client", ["claude-code", "cursor", "vscode", "codex"])
async def test_two_commands_lead_to_a_guarded_call(home: Path, client: str) -> None:
    for folder in (".claude", ".cursor", ".config/Code/User", ".codex"):
        (home / folder).mkdir(parents=True)
    # Without npx on the PATH the hub's own file server serves, which needs no download.
    path = str(home / "bin")
    ran = run(home, "init", PATH=path)
    assert (ran.returncode, ran.stderr) == (0, "")
    ran = run(home, "install", client, "--yes", PATH=path)
    assert (ran.returncode, ran.stderr) == (0, "")
    entry = entry_in(home, client)
    project = home / "project"
    command = [entry["command"], *entry["args"]]
    async with connected(command, [project], cwd=home, env=env(home)) as them:
        tools = [tool.name for tool in (await them.list_tools()).tools]
        read = next(name for name in tools if name.startswith("read"))
        assert "inside" in await call(them, read, path=str(project / "a.txt"))
        secret = home / "secret.txt"
        assert await call(them, read, path=str(secret)) == outside(secret, project)


def test_the_readmes_commands_move_a_clients_servers_behind_the_hub(home: Path) -> None:
    (block,) = [one for one in blocks(README) if "roots-hub import" in one.text]
    server = {"command": sys.executable, "args": ["-P", "-m", "hub.file_server.server"]}
    before = json.dumps({"mcpServers": {"mine": server}}, indent=2)
    for file in (".claude.json", ".cursor/mcp.json"):
        (home / file).parent.mkdir(exist_ok=True)
        (home / file).write_text(before)
    for shown in shown_in(block):
        asks = ["--yes"] if shown.command.startswith("roots-hub install") else []
        ran = run(home, *shlex.split(shown.command)[1:], *asks)
        assert ran.returncode == 0, f"{shown.command}\n{ran.stdout}{ran.stderr}"
    for client, file in (("claude-code", ".claude.json"), ("cursor", ".cursor/mcp.json")):
        assert entry_in(home, client)["args"][0] == "attach"
        assert "mine" not in (home / file).read_text()
    assert "mine" in (home / "project/hub.yaml").read_text()
    assert run(home, "uninstall", "claude-code", "cursor", "--yes").returncode == 0
    assert [(home / one).read_text() for one in (".claude.json", ".cursor/mcp.json")] == [
        before
    ] * 2


def test_a_terminal_is_asked_before_a_file_changes(home: Path) -> None:
    (home / ".cursor").mkdir()
    file = home / ".cursor/mcp.json"
    before = '{"mcpServers": {"mine": {"command": "x"}}} // keep\n'
    file.write_text(before)
    assert run(home, "import").returncode == 0
    for answer, is_there in (("n", False), ("y", True)):
        command = [WARM_HUB, "install", "cursor"]
        with at_terminal(command, cwd=home / "project", env=env(home)) as terminal:
            assert '"roots-hub": {' in terminal.until("Change this file? [y/N] ")
            assert file.read_text() == before
            terminal.type(f"{answer}\n")
            assert terminal.end() == (0 if is_there else 1)
    assert '"roots-hub"' in file.read_text()
    assert run(home, "uninstall", "cursor", "--yes").returncode == 0
    assert file.read_text() == before
    assert [one.name for one in (home / ".cursor").iterdir()] == ["mcp.json"]


def test_init_asks_on_a_terminal(home: Path) -> None:
    (home / "project/data").mkdir()
    (home / ".cursor").mkdir()
    (home / ".cursor/mcp.json").write_text('{"mcpServers": {"mine": {"command": "sh"}}}')
    with at_terminal([ROOTS_HUB, "init"], cwd=home / "project", env=env(home)) as terminal:
        terminal.until("Which folders, for clients that share none? (several: with spaces) [.] ")
        terminal.type("data\n")
        terminal.until("(several: with spaces) [files] ")
        terminal.type("none\n")
        terminal.until("Add the servers of your clients as well: mine? [y/N] ")
        terminal.type("y\n")
        terminal.type("n\n")
        assert terminal.end() == 0
        assert "Wrote hub.yaml: mine." in terminal.shown
    checked = run(home, "check", "--config", "hub.yaml")
    assert (checked.returncode, checked.stderr) == (0, "")
    assert "1 server: mine. The config is fine." in checked.stdout
