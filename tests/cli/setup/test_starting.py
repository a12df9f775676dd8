"""`roots-hub init`, through the whole command line."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from hub.cli.main import main
from hub.config.fields import LoadContext
from hub.config.load import load_config
from tests.kit.terminal import at_terminal


@pytest.fixture(autouse=True)
def home(own_home: Path) -> Path:
    return own_home


def written() -> dict[str, Any]:
    return yaml.safe_load(Path("hub.yaml").read_text())


def test_without_a_terminal_the_usual_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init"]) == 0
    assert capsys.readouterr().out.startswith("Wrote hub.yaml: files.\n")
    config = load_config("hub.yaml", LoadContext(Path.cwd(), "/h", {})).config
    assert [one.path for one in config.roots.fallback] == [str(Path.cwd())]
    assert list(config.servers) == ["files"]
    assert Path("hub.yaml").read_text().count("#") > 5


def test_options_say_what_goes_in(home: Path) -> None:
    Path("data").mkdir()
    (home / ".cursor").mkdir()
    (home / ".cursor/mcp.json").write_text('{"mcpServers": {"mine": {"command": "m"}}}')
    options = ["--server", "git", "--server", "time", "--confine", "auto", "--import"]
    assert main(["init", "--folder", "data", "--folder", "~/code", *options]) == 0
    assert written()["roots"] == {"fallback": ["data", "~/code"]}
    servers = written()["servers"]
    assert list(servers) == ["git", "time", "mine"]
    assert {one["confine"] for one in servers.values()} == {"auto"}


def test_folders_are_relative_to_the_config(home: Path) -> None:
    (home / "conf").mkdir()
    assert main(["init", "--output", "../../conf/hub.yaml"]) == 0
    text = (home / "conf/hub.yaml").read_text()
    assert yaml.safe_load(text)["roots"]["fallback"] == ["../code/work"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--server", "gti"], 2, "roots-hub: gti: is no server that init knows"),
        (["--folder", ""], 1, "roots-hub: --folder: is no folder"),
        (["--folder", "gone"], 1, "roots-hub: gone: is no folder"),
        (["--folder", "~no-such-user/x"], 1, "roots-hub: ~no-such-user/x: is no folder"),
    ],
)
def test_a_wrong_option_is_an_error(
    arguments: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", *arguments]) == code
    error, _ = capsys.readouterr().err.splitlines()
    assert error == said
    assert not Path("hub.yaml").exists()


def answering(command: list[str], question: str, typed: str) -> tuple[int, str]:
    """Run a command at a terminal; return its exit code, and what is shown after the question."""
    program = [sys.executable, "-m", "hub", *command]
    with at_terminal(program, cwd=Path.cwd(), env=os.environ) as terminal:
        before = terminal.until(question)
        terminal.type(f"{typed}\n")
        code = terminal.end()
        return code, terminal.shown.removeprefix(before)


@pytest.mark.live
def test_a_quote_that_is_not_closed_is_an_error() -> None:
    code, shown = answering(["init"], "Which folders", "it's mine")
    *_, error, fix = shown.splitlines()
    assert (code, error) == (2, "roots-hub: it's mine: a quote is not closed")
    assert fix == "Close it, or write a \\ before it."
    assert not Path("hub.yaml").exists()


def test_a_config_that_is_there_stays(capsys: pytest.CaptureFixture[str]) -> None:
    Path("hub.yaml").write_text("mine\n")
    assert main(["init"]) == 2
    assert "is there already, so nothing was written" in capsys.readouterr().err
    assert Path("hub.yaml").read_text() == "mine\n"


def test_a_dry_run_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "--dry-run", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["written"] is False
    assert yaml.safe_load(told["text"])["version"] == 1
    assert not Path("hub.yaml").exists()


def test_where_there_is_no_npx_the_hubs_own_file_server_stands_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["init"]) == 0
    assert written()["servers"]["files"]["args"] == [
        "-P",
        "-m",
        "hub.file_server.server",
        "${roots}",
    ]


@pytest.mark.live
@pytest.mark.parametrize("options", [[], ["--json"]])
@pytest.mark.parametrize("command", ["init", "import"])
def test_a_config_that_is_not_to_be_replaced_is_not_said_to_be_written(
    home: Path, command: str, options: list[str]
) -> None:
    (home / ".cursor").mkdir()
    (home / ".cursor/mcp.json").write_text('{"mcpServers": {"a": {"command": "x"}}}')
    Path("hub.yaml").write_text("mine")
    said = ["--folder", ".", "--server", "files"] if command == "init" else []
    code, shown = answering([command, *said, *options], "[y/N]", "no\nno\nno")  # to each question
    assert code == 1
    assert Path("hub.yaml").read_text() == "mine"
    assert "Wrote" not in shown
    assert not options or json.loads(shown[shown.index("{") :])["written"] is False


@pytest.mark.parametrize("command", ["init", "import"])
def test_names_of_configs_cannot_control_the_terminal(
    home: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    (home / ".cursor").mkdir()
    (home / ".cursor/mcp.json").write_text('{"mcpServers": {"a": {"command": "x"}}}')
    said: list[str] = []
    for _ in range(2):  # the second one keeps a copy of the first
        assert main([command, "--yes", "--force", "--output", "a\x1b[2Jb.yaml"]) == 0
        said += capsys.readouterr().out.splitlines()
    assert all(map(str.isprintable, said))
    assert any(line.startswith("The file from before is kept as ") for line in said)
