"""`roots-hub import`, through the whole command line, in a home directory of its own."""

from __future__ import annotations

import json
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from hub.cli.main import main
from tests.kit.trees import Renamed

GIVEN = "ghp_0123456789abcdefABCDEF0123456789"


def write(path: Path, config: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(config if isinstance(config, str) else json.dumps(config))
    return path


def servers(**entries: Any) -> dict[str, Any]:
    return {"mcpServers": entries}


@pytest.fixture(autouse=True)
def home(own_home: Path) -> Path:
    return own_home


def text() -> str:
    return Path("hub.yaml").read_text()


def test_a_server_found_twice_is_one_and_a_name_taken_twice_is_two(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    same = {"command": "npx", "args": ["-y", "files"]}
    write(home / ".cursor/mcp.json", servers(files=same))
    write(home / ".claude.json", servers(papers={**same, "type": "stdio", "env": {}}))
    write(home / ".gemini/settings.json", servers(files={"command": "other"}, hub=HUB))
    assert main(["import"]) == 0
    shown = capsys.readouterr().out
    assert list(loaded()) == ["papers", "files"]
    assert "the same as papers" in shown
    assert "left out: the hub itself" in shown
    write(home / ".codeium/windsurf/mcp_config.json", servers(papers={"command": "third"}))
    assert main(["import", "--force"]) == 0
    shown = capsys.readouterr().out
    assert list(loaded()) == ["papers", "papers-windsurf", "files"]
    assert shown.count("papers-windsurf") == 1, "its row of the table says it"


HUB = {"command": "/opt/bin/roots-hub", "args": ["run", "--config", "/x/hub.yaml"]}


def loaded() -> dict[str, Any]:
    import yaml  # noqa: PLC0415 - as a user would look

    return yaml.safe_load(text())["servers"]


def test_a_server_behind_wrap_is_taken_without_it(home: Path) -> None:
    wrapped = {"command": "roots-hub", "args": ["wrap", "--root", "/x", "--", "npx", "files"]}
    write(home / ".cursor/mcp.json", servers(files=wrapped))
    assert main(["import"]) == 0
    assert loaded() == {"files": {"command": "npx", "args": ["files"]}}


def test_servers_of_the_project_around_the_directory_count(home: Path) -> None:
    project = str(Path.cwd().parent)
    local = {"projects": {project: servers(local={"command": "./run"}), "/else": servers(no=HUB)}}
    write(home / ".claude.json", local)
    write(Path(".mcp.json"), servers(shared={"command": "tools/run"}))
    write(Path(".vscode/mcp.json"), {"servers": {"editor": {"url": "https://e.example/mcp"}}})
    assert main(["import"]) == 0
    assert loaded() == {
        "local": {"command": f"{project}/run"},
        "shared": {"command": f"{Path.cwd()}/tools/run"},
        "editor": {"url": "https://e.example/mcp"},
    }


def test_a_broken_file_is_named_and_the_others_are_read(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(home / ".gemini/settings.json", '{"mcpServers": {')
    write(home / ".codex/config.toml", "[mcp_servers.x\n")
    write(home / ".cursor/mcp.json", servers(a={"command": "x"}, b={"args": []}, c=7))
    assert main(["import"]) == 0
    shown = capsys.readouterr().out
    assert "gemini: ~/.gemini/settings.json cannot be read:" in shown
    assert "codex: ~/.codex/config.toml cannot be read:" in shown
    assert "left out: has neither a command nor a url" in shown
    assert "left out: must be a mapping" in shown
    assert list(loaded()) == ["a"]


def test_secrets_are_named_and_only_copied_when_that_is_said(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(home / ".cursor/mcp.json", servers(git={"command": "x", "env": {"GIT_TOKEN": GIVEN}}))
    assert main(["import"]) == 0
    shown = capsys.readouterr().out
    assert GIVEN not in shown + text()
    where = f"{home}/.cursor/mcp.json: mcpServers.git.env.GIT_TOKEN"
    assert f"  export GIT_TOKEN=...  # git: the value in {where}\n" in shown
    assert loaded()["git"]["env"] == {"GIT_TOKEN": "${GIT_TOKEN}"}
    assert main(["import", "--with-secrets", "--output", "own.yaml"]) == 0
    assert GIVEN not in capsys.readouterr().out
    assert GIVEN in Path("own.yaml").read_text()
    assert stat.S_IMODE(Path("own.yaml").stat().st_mode) == 0o600


def test_no_two_secrets_share_a_variable(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SET_TOKEN", "another value")
    env = {"API_TOKEN": "one", "SET_TOKEN": "mine"}
    write(home / ".cursor/mcp.json", servers(a={"command": "a", "env": env}))
    write(home / ".claude.json", servers(b={"command": "b", "env": {"API_TOKEN": "two"}}))
    assert main(["import"]) == 0
    assert {name: one["env"] for name, one in loaded().items()} == {
        "b": {"API_TOKEN": "${API_TOKEN}"},
        "a": {"API_TOKEN": "${A_API_TOKEN}", "SET_TOKEN": "${A_SET_TOKEN}"},
    }


def test_a_config_that_is_there_is_kept_unless_force_is_said(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(home / ".cursor/mcp.json", servers(a={"command": "x"}))
    write(Path("hub.yaml"), "mine\n")
    assert main(["import"]) == 2
    error, fix = capsys.readouterr().err.splitlines()
    assert error == "roots-hub: hub.yaml: is there already, so nothing was written"
    assert fix.startswith("Say --force to replace it (a copy is kept)")
    assert text() == "mine\n"
    assert main(["import", "nobody"]) == 2  # what is meant first: with --force it would fail again
    assert "nobody: is no client that the hub knows" in capsys.readouterr().err
    assert main(["import", "--force"]) == 0
    (kept,) = Path().glob("hub.yaml.*")
    assert kept.read_text() == "mine\n"


@pytest.mark.parametrize(
    ("arguments", "error", "fix"),
    [
        (["--output", "."], "--output .: is a directory", "Name a file in it: --output hub.yaml"),
        (["--output", "no/"], "--output no: is a directory", "Name a file in it: --output no/hub."),
        (["--output", ""], "--output: is empty", "Name a file in it: --output hub.yaml"),
        (["--output", "no/x.yaml"], "--output no/x.yaml: no is no directory", "Make it, or name "),
        (["--output", "loop"], "--output loop: is a link to nothing", "Remove it, or name a file."),
        (["--from", "."], "--from .: is a directory", "Name a client's config that exists."),
        (["--from", "hub.yaml"], "--output hub.yaml: is what --from names", "Name another one: "),
        (
            ["--from", "hub.yaml", "--output", "x.yaml"],
            "hub.yaml: no MCP servers were found in it",
            "Name a client's config. The hub reads a hub.yaml as it is: --config FILE.",
        ),
    ],
)
def test_a_place_that_will_not_do_is_told_with_one_that_will(
    arguments: list[str], error: str, fix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write(Path("hub.yaml"), "version: 1\nservers: {mine: {command: m}}\n")
    Path("loop").symlink_to("loop")
    assert main(["import", *arguments]) in {1, 2}
    out, err = capsys.readouterr()
    told, advice = err.splitlines()
    assert out == ""
    assert told.startswith(f"roots-hub: {error}")
    assert advice.startswith(fix)
    assert sorted(one.name for one in Path().iterdir()) == ["hub.yaml", "loop"]


def test_a_config_that_others_can_read_has_no_secret_at_any_time(
    home: Path, renamed: Sequence[Renamed]
) -> None:
    write(home / ".cursor/mcp.json", servers(git={"command": "x", "env": {"GIT_TOKEN": GIVEN}}))
    write(Path("hub.yaml"), "version: 1\nservers: {mine: {command: m}}\n")
    Path("hub.yaml").chmod(0o644)
    secret = ["--with-secrets", "--yes"]
    assert main(["install", "cursor", "--replace", "--config", "hub.yaml", *secret]) == 0
    assert GIVEN in text()
    Path("hub.yaml").chmod(0o644)
    (home / ".claude.json").write_text(
        json.dumps(servers(a={"command": "a", "env": {"A_TOKEN": GIVEN}}))
    )
    assert main(["import", "claude-code", *secret]) == 0
    assert GIVEN in text()
    assert {one.mode for one in renamed if GIVEN.encode() in one.content} == {0o600}


def test_nothing_is_written_on_a_dry_run(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(home / ".cursor/mcp.json", servers(a={"command": "x"}))
    assert main(["import", "--dry-run"]) == 0
    assert 'command: "x"' in capsys.readouterr().out
    assert list(Path().iterdir()) == []


def test_where_nothing_is_found_that_is_said(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import"]) == 1
    assert capsys.readouterr().err.startswith("roots-hub: no MCP servers were found in the configs")
    write(home / ".cursor/mcp.json", servers(a={"command": "x", "disabled": True}))
    assert main(["import"]) == 1
    assert capsys.readouterr().err.startswith("roots-hub: no server that was found can be used")
    assert not Path("hub.yaml").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["cursr"], 2, "roots-hub: cursr: is no client that the hub knows"),
        (["--from", "gone.json"], 1, "roots-hub: --from gone.json: no such file"),
    ],
)
def test_a_wrong_name_is_an_error(
    arguments: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", *arguments]) == code
    error, _ = capsys.readouterr().err.splitlines()
    assert error == said


def test_only_the_clients_and_files_that_are_named_are_read(home: Path) -> None:
    write(home / ".cursor/mcp.json", servers(a={"command": "a"}))
    write(home / ".claude.json", servers(b={"command": "b"}))
    write(Path("there/.cursor/mcp.json"), servers(c={"command": "./c"}))
    assert main(["import", "cursor"]) == 0
    assert list(loaded()) == ["a"]
    assert main(["import", "--force", "--from", "there/.cursor/mcp.json"]) == 0
    assert loaded() == {"c": {"command": f"{Path.cwd()}/there/c"}}


def test_names_that_are_no_plain_text_get_into_the_file(home: Path) -> None:
    entries = {
        "a: b": {"command": "x"},
        "# c\n": {"command": "y", "env": {"\x7fü: ": "\x01${X:-}"}},
    }
    write(home / ".cursor/mcp.json", servers(**entries, **{"n" * 70: {"command": "z"}, "": HUB}))
    assert main(["import"]) == 0
    assert list(loaded()) == ["a: b", "# c", "n" * 64]
    assert loaded()["# c"]["env"] == {"\x7fü: ": "\x01${X:-}"}


def test_keys_of_logins_and_helpers_have_the_reason_of_their_own(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = "https://mcp.example.com/mcp"
    entries = servers(a={"url": url, "auth": {}}, b={"url": f"{url}/b", "headersHelper": "/h"})
    write(home / ".cursor/mcp.json", entries)
    assert main(["import"]) == 0
    shown = capsys.readouterr().out
    assert "a: auth: logins are not taken over: say `auth: oauth`, then `roots-hub login`" in shown
    assert "b: headersHelper: the hub starts no program for headers" in shown


def test_what_codex_says_of_single_tools_is_not_dropped_silently(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / ".codex").mkdir()
    (home / ".codex/config.toml").write_text(
        '[mcp_servers.a]\ncommand = "x"\n[mcp_servers.a.tools.b]\napproval_mode = "approve"\n'
    )
    assert main(["import"]) == 0
    assert "a: tools: what is said of single tools (what" in capsys.readouterr().out


def test_only_the_servers_that_gemini_allows_are_taken(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entries = servers(a={"command": "a"}, b={"command": "b"}, c={"command": "c"})
    settings = {**entries, "mcp": {"allowed": ["a", "b"], "excluded": ["b"]}}
    write(home / ".gemini/settings.json", settings)
    assert main(["import"]) == 0
    assert list(loaded()) == ["a"]
    shown = capsys.readouterr().out
    assert "left out: turned off there (mcp.excluded)" in shown
    assert "left out: turned off there (mcp.allowed)" in shown
