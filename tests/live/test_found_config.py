"""`roots-hub run` beside a hub.yaml: what starts, what does not, and what a person is told."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.kit.terminal import Terminal, at_terminal
from tests.kit.warm import ROOTS_HUB, WARM_HUB, ran
from tests.live.programs import connected, environment, outside

ASKED = "Trust this file as it is now, and start them? [y/N] "
WAITS = "roots-hub waits for an MCP client on stdin, which is this terminal."


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a cloned repository, whose config starts a program."""
    project = tmp_path / "project"
    project.mkdir()
    write(project, "touch started; cat")
    return project


def write(project: Path, script: str) -> None:
    config = {"version": 1, "servers": {"evil": {"command": "sh", "args": ["-c", script]}}}
    (project / "hub.yaml").write_text(json.dumps(config))


def env(project: Path) -> dict[str, str]:
    return environment(XDG_STATE_HOME=str(project.parent / "state"), COLUMNS="200")


def without_terminal(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [WARM_HUB, "run", *arguments]
    return ran(command, timeout=60, cwd=project, env=env(project))


@pytest.mark.parametrize(
    "arguments", [(), ("--stdio",), ("--http", "127.0.0.1:0"), ("--root", ".")]
)
def test_a_config_that_nobody_trusted_starts_nothing(
    arguments: tuple[str, ...], project: Path
) -> None:
    done = without_terminal(project, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"roots-hub: {project}/hub.yaml: was not trusted yet, so nothing was started (it names "
        "commands to run)\nRead it, then name it: --config hub.yaml. Without it: --no-config "
        "serves the files.\n"
    )
    assert sorted(path.name for path in project.iterdir()) == ["hub.yaml"]


def test_a_config_that_is_named_is_served_and_one_that_is_not_wanted_is_not(project: Path) -> None:
    named = without_terminal(project, "--config", "hub.yaml")
    assert named.returncode == 0
    assert "serving" in named.stderr
    assert "config=hub.yaml" in named.stderr
    assert "servers=evil" in named.stderr
    unwanted = without_terminal(project, "--no-config")
    assert unwanted.returncode == 0
    assert "servers='the embedded file server'" in unwanted.stderr
    assert f"folder='{project} (nothing outside it" in unwanted.stderr
    assert "rights='read and write'" in unwanted.stderr


def answered(terminal: Terminal, answer: str) -> None:
    terminal.until(ASKED)
    terminal.type(f"{answer}\n")


def test_a_terminal_is_asked_once_and_again_after_a_change(project: Path) -> None:
    command = [WARM_HUB, "run"]
    with at_terminal(command, cwd=project, env=env(project)) as terminal:
        answered(terminal, "n")
        assert terminal.end() == 2
        assert "  evil: sh -c 'touch started; cat'\n" in terminal.shown
        assert "--config hub.yaml" in terminal.shown
    with at_terminal(command, cwd=project, env=env(project)) as terminal:
        answered(terminal, "y")
        terminal.until(WAITS)
    with at_terminal(command, cwd=project, env=env(project)) as terminal:
        terminal.until(WAITS)
        assert ASKED not in terminal.shown
    assert without_terminal(project).returncode == 0
    write(project, "touch worse; cat")
    assert "has changed since you trusted it" in without_terminal(project).stderr
    with at_terminal(command, cwd=project, env=env(project)) as terminal:
        answered(terminal, "y")
        terminal.until(WAITS)
    assert without_terminal(project).returncode == 0


def test_the_question_names_the_commands_for_secrets_and_runs_none(project: Path) -> None:
    issuer = "https://i.example"
    auth = {"client_id": "x", "client_secret": "${cmd:touch most}", "issuer": issuer}
    config = {
        "version": 1,
        "listen": {"token": "${cmd:touch ran}"},
        "servers": {
            "a": {"command": "cat", "env": {"A": "${cmd:touch ran too}", "B": "${file:x}"}},
            "b": {"url": "https://h.example/", "headers": {"A": "Bearer ${cmd:touch more}"}},
            "c": {"url": "https://h.example/", "auth": auth},
        },
    }
    (project / "hub.yaml").write_text(json.dumps(config))
    command = [WARM_HUB, "run", "--http", "127.0.0.1:0"]
    with at_terminal(command, cwd=project, env=env(project)) as terminal:
        answered(terminal, "n")
        assert terminal.end() == 2
    _, _, shown = terminal.shown.replace("\r", "").partition(
        "It runs these commands for secrets:\n"
    )
    assert shown.startswith(
        "  listen: ${cmd:touch ran}\n  a: ${cmd:touch ran too}\n  b: ${cmd:touch more}\n"
        "  c: ${cmd:touch most}\nTrust this"
    )
    assert sorted(path.name for path in project.iterdir()) == ["hub.yaml"]


def test_a_person_at_a_terminal_is_told_whom_it_waits_for(tmp_path: Path) -> None:
    with at_terminal([ROOTS_HUB, "run"], cwd=tmp_path, env=env(tmp_path)) as terminal:
        terminal.until("Ctrl-C ends it.")
        (line,) = [line for line in terminal.shown.splitlines() if "mcpServers" in line]
        entry = json.loads(line)["mcpServers"]["roots-hub"]
        assert entry == {"command": "roots-hub", "args": ["run", "--root", str(tmp_path)]}
        assert "roots-hub run --http" in terminal.shown
        terminal.type("\x03")
        assert terminal.end() == 0


async def test_a_client_that_starts_it_as_told_is_served(tmp_path: Path) -> None:
    command = [ROOTS_HUB, "run", "--root", str(tmp_path)]
    async with connected(command, cwd=Path("/"), env=env(tmp_path)) as client:
        result = await client.call_tool("read_file", {"path": "/etc/passwd"})
        assert result.content[0].model_dump()["text"] == outside("/etc/passwd", tmp_path)
