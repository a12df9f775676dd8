"""`roots-hub install` and `uninstall`, through the whole command line."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml

from hub.app.machine import this_machine
from hub.cli.main import main
from hub.cli.setup.client_changes import perform, to_install
from hub.config.clients.locations import ClientFile
from hub.config.editing import install_record
from hub.errors import StartError

GIVEN = "ghp_0123456789abcdefABCDEF0123456789"
CURSOR = '{\n  "mcpServers": {\n    "mine": {"command": "x"} // keep me\n  }\n}'


@pytest.fixture(autouse=True)
def home(own_home: Path) -> Path:
    Path("hub.yaml").write_text("version: 1\nservers: {files: {command: x}}\n")
    (own_home / ".cursor").mkdir()
    return own_home


@pytest.fixture
def cursor(home: Path) -> Path:
    path = home / ".cursor" / "mcp.json"
    path.write_text(CURSOR)
    path.chmod(0o640)
    return path


def copies(path: Path) -> list[Path]:
    return sorted(path.parent.glob(f"{path.name}.roots-hub-*"))


def hub_in(path: Path) -> Any:
    import tomllib  # noqa: PLC0415

    text = path.read_text()
    if path.suffix == ".toml":
        return tomllib.loads(text)["mcp_servers"]["roots-hub"]
    raw = json.loads("\n".join(line.partition(" //")[0] for line in text.splitlines()))
    return next(iter(raw.values()))["roots-hub"]


def test_the_hub_is_put_in_shown_and_copied(
    cursor: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["install", "cursor", "--yes"]) == 0
    shown = capsys.readouterr().out
    assert hub_in(cursor)["args"] == ["attach", "--config", str(Path("hub.yaml").absolute())]
    assert Path(hub_in(cursor)["command"]).is_absolute()
    assert '-    "mine": {"command": "x"} // keep me\n' in shown
    assert '+    "mine": {"command": "x"}, // keep me\n' in shown
    assert shown.splitlines()[-1].startswith("Next: `roots-hub doctor` says what is still missing")
    (kept,) = copies(cursor)
    assert kept.read_text() == CURSOR
    assert [stat.S_IMODE(one.stat().st_mode) for one in (cursor, kept)] == [0o640, 0o640]
    assert main(["install", "cursor", "--yes"]) == 0
    assert capsys.readouterr().out == "cursor: nothing to do in ~/.cursor/mcp.json\n"
    assert main(["uninstall", "cursor", "--yes"]) == 0
    assert cursor.read_text() == CURSOR
    assert copies(cursor) == []
    capsys.readouterr()
    assert main(["uninstall", "cursor", "--yes"]) == 0
    assert capsys.readouterr().out == "cursor: nothing to do in ~/.cursor/mcp.json\n"


def test_nothing_is_written_before_it_is_agreed_to(
    cursor: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["install", "cursor"]) == 2
    shown = capsys.readouterr()
    assert '+    "roots-hub": {' in shown.out
    assert shown.err == (
        "roots-hub: nothing was written, as there is no terminal to ask at\n"
        "Run it again with --yes; --dry-run shows what would be written.\n"
    )
    assert main(["install", "cursor", "--dry-run"]) == 0
    assert cursor.read_text() == CURSOR
    assert copies(cursor) == []


def test_the_preview_shows_no_secret(cursor: Path, capsys: pytest.CaptureFixture[str]) -> None:
    env = {"GIT_TOKEN": GIVEN, "URL": "https://me:hidden@x.example"}
    cursor.write_text(json.dumps({"mcpServers": {"git": {"command": "x", "env": env}}}))
    assert main(["install", "cursor", "--dry-run"]) == 0
    assert main(["install", "cursor", "--yes", "--json"]) == 0
    shown = capsys.readouterr().out
    assert "roots-hub" in shown
    assert GIVEN not in shown
    assert "hidden" not in shown


def test_a_link_stays_one_and_its_target_is_changed(cursor: Path, home: Path) -> None:
    target = home / "dotfiles" / "mcp.json"
    target.parent.mkdir()
    cursor.rename(target)
    cursor.symlink_to(target)
    assert main(["install", "cursor", "--yes"]) == 0
    assert cursor.is_symlink()
    assert hub_in(target)
    assert main(["uninstall", "cursor", "--yes"]) == 0
    assert cursor.is_symlink()
    assert target.read_text() == CURSOR


def test_a_file_that_is_missing_is_made_and_goes_again(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["install", "cursor", "--yes"]) == 0
    path = home / ".cursor/mcp.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert main(["uninstall", "cursor", "--yes"]) == 0
    assert "which install had made, is gone" in capsys.readouterr().out
    assert list((home / ".cursor").iterdir()) == []


def test_a_file_made_by_install_stays_once_others_wrote_to_it(home: Path) -> None:
    assert main(["install", "cursor", "--yes"]) == 0
    path = home / ".cursor/mcp.json"
    raw = json.loads(path.read_text())
    raw["mcpServers"]["later"] = {"command": "x"}
    path.write_text(json.dumps(raw))
    assert main(["uninstall", "cursor", "--yes"]) == 0
    assert json.loads(path.read_text()) == {"mcpServers": {"later": {"command": "x"}}}


def test_a_project_gets_a_file_of_its_own(home: Path) -> None:
    assert main(["install", "vscode", "codex", "--project", "--yes"]) == 0
    assert hub_in(Path(".vscode/mcp.json"))["type"] == "stdio"
    assert hub_in(Path(".codex/config.toml"))["args"][0] == "attach"
    assert not (home / ".codex").exists()


@pytest.mark.parametrize(
    ("client", "missing"),
    [("claude-code", "~/.claude.json"), ("vscode", "~/.config/Code"), ("zed", "~/.config/zed")],
)
def test_what_a_client_would_have_made_is_named(
    home: Path, capsys: pytest.CaptureFixture[str], client: str, missing: str
) -> None:
    assert home.is_dir()
    assert main(["install", client, "--yes"]) == 1
    shown = capsys.readouterr().out
    assert f"{client}:\n  it is not installed here: there is no {missing}\n" in shown
    assert "--project" not in shown


def test_a_config_that_is_a_link_to_nothing_is_not_said_to_be_missing(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "hub.yaml").write_text("version: 1\n")
    (home / ".claude.json").symlink_to(home / "gone" / "claude.json")
    assert main(["install", "claude-code", "--yes"]) == 1
    shown = capsys.readouterr().out
    assert "~/.claude.json: is a link to nothing\n  Bring back the file" in shown
    assert "Start the client once" not in shown


def test_a_project_of_a_client_that_was_not_started_yet_can_be_meant(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(".mcp.json").write_text('{"mcpServers": {}}')
    assert main(["install", "claude-code", "--yes"]) == 1
    assert ".mcp.json alone: --project." in capsys.readouterr().out
    assert home.is_dir()


def test_all_means_the_clients_that_are_there(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / ".codex").mkdir()
    assert main(["install", "--all", "--yes", "--json"]) == 0
    assert [one["client"] for one in json.loads(capsys.readouterr().out)] == ["cursor", "codex"]
    assert main(["uninstall", "--all", "--yes"]) == 0
    assert not (home / ".codex/config.toml").exists()


def test_a_client_that_is_not_there_is_said_and_the_others_go_on(
    cursor: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["install", "windsurf", "goose", "cursor", "--yes"]) == 1
    shown = capsys.readouterr().out
    assert "windsurf:\n  it is not installed here: there is no ~/.codeium/windsurf" in shown
    assert "goose:\n  it is not installed here: there is no ~/.config/goose" in shown
    assert hub_in(cursor)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 2, "roots-hub: no client is named"),
        (["cursor", "--name", ""], 2, "roots-hub: --name: is empty"),
        (["cursr"], 2, "roots-hub: cursr: is no client that the hub knows"),
        (["cursor", "--config", "gone.yaml"], 3, "roots-hub: gone.yaml: no such file"),
        (["cursor", "--config", '{"servers": {}}'], 3, "roots-hub: the config: is no file"),
    ],
)
def test_what_cannot_be_meant_is_an_error(
    arguments: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["install", *arguments]) == code
    error, _ = capsys.readouterr().err.splitlines()
    assert error == said


def test_a_config_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    Path("hub.yaml").unlink()
    assert main(["install", "cursor"]) == 3
    error, fix = capsys.readouterr().err.splitlines()
    assert error == "roots-hub: there is no hub.yaml here for the hub to start with"
    assert fix.startswith("Make one by roots-hub import or roots-hub init")


def test_a_config_whose_variables_are_not_set_yet_will_do(cursor: Path) -> None:
    Path("hub.yaml").write_text('version: 1\nservers: {a: {command: x, env: {T: "${UNSET_T}"}}}\n')
    assert main(["install", "cursor", "--yes"]) == 0
    assert hub_in(cursor)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"mcpServers": {', "line 1, column"),
        ('{"mcpServers": []}', "mcpServers: cannot be edited safely"),
        ('{"a": 1, "a": 2}', "duplicate key 'a'"),
        ("[]", "must be a mapping"),
        (b"\xff\xfe{\x00", "is not UTF-8"),
        ('{"mcpServers": {"roots-hub": {"command": "y"}}}', "is another server already"),
    ],
)
def test_a_file_that_cannot_be_changed_stays(
    text: str | bytes, said: str, cursor: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = text if isinstance(text, bytes) else text.encode()
    cursor.write_bytes(content)
    assert main(["install", "cursor", "--yes"]) == 1
    assert said in capsys.readouterr().out
    assert cursor.read_bytes() == content


@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_where_no_file_can_be_is_told(
    home: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    path = home / ".cursor" / "mcp.json"
    path.mkdir()
    assert main([command, "cursor", "--yes"]) == 1
    assert "mcp.json: is a directory\n  Put a file there.\n" in capsys.readouterr().out
    path.rmdir()
    path.symlink_to(path)
    assert main([command, "cursor", "--yes"]) == 1
    assert "mcp.json: Too many levels of symbolic links\n" in capsys.readouterr().out


def test_an_entry_that_was_edited_stays_and_the_difference_is_shown(
    cursor: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["install", "cursor", "--yes"]) == 0
    edited = cursor.read_text().replace('"--config",', '"--root", "/", "--config",')
    cursor.write_text(edited)
    capsys.readouterr()
    for command in ("uninstall", "install"):
        arguments = ["--config", "other.yaml"] if command == "install" else []
        Path("other.yaml").write_text("version: 1\nservers: {files: {command: x}}\n")
        assert main([command, "cursor", "--yes", *arguments]) == 1
        shown = capsys.readouterr().out
        assert "mcpServers.roots-hub was edited since it was installed" in shown
        assert '+    "--root",' in shown
    assert cursor.read_text() == edited


def test_what_others_change_meanwhile_stays(cursor: Path) -> None:
    assert main(["install", "cursor", "--yes"]) == 0
    cursor.write_text(cursor.read_text().replace('"x"', '"changed"'))
    assert main(["uninstall", "cursor", "--yes"]) == 0
    assert cursor.read_text() == CURSOR.replace('"x"', '"changed"')
    assert len(copies(cursor)) == 2


def test_another_config_takes_the_place_of_the_first(cursor: Path) -> None:
    Path("other.yaml").write_text("version: 1\nservers: {files: {command: x}}\n")
    assert main(["install", "cursor", "--yes"]) == 0
    assert main(["install", "cursor", "--yes", "--config", "other.yaml"]) == 0
    assert hub_in(cursor)["args"][2] == str(Path("other.yaml").absolute())
    assert main(["uninstall", "cursor", "--yes"]) == 0
    assert cursor.read_text() == CURSOR


def test_an_entry_of_the_hub_without_a_record_is_taken_out(cursor: Path) -> None:
    assert main(["install", "cursor", "--yes"]) == 0
    (Path(os.environ["XDG_STATE_HOME"]) / "roots-hub/installed.json").unlink()
    assert main(["uninstall", "cursor", "--yes"]) == 0
    assert cursor.read_text() == CURSOR


def test_a_change_between_preview_and_writing_is_noticed(cursor: Path) -> None:
    record = install_record(this_machine(os.environ))
    file = ClientFile("cursor", "user", cursor, ("mcpServers",), "json")
    change = to_install(file, "roots-hub", {"command": "roots-hub"}, record)
    assert change is not None
    theirs = CURSOR.replace('"x"', '"theirs"')
    cursor.write_text(theirs)
    with pytest.raises(StartError, match="another program changed it in the meantime"):
        perform(change, record)
    assert cursor.read_text() == theirs
    assert copies(cursor) == []
    assert record.of(cursor) is None


def test_a_file_that_appears_between_preview_and_writing_is_noticed(home: Path) -> None:
    record = install_record(this_machine(os.environ))
    path = home / ".cursor/mcp.json"
    file = ClientFile("cursor", "user", path, ("mcpServers",), "json")
    change = to_install(file, "roots-hub", {"command": "roots-hub"}, record)
    assert change is not None
    path.write_text("{}")
    with pytest.raises(StartError, match="another program has made it in the meantime"):
        perform(change, record)
    assert path.read_text() == "{}"
    assert record.of(path) is None


def test_a_large_file_is_changed_in_one_place(home: Path) -> None:
    path = home / ".claude.json"
    projects: dict[str, Any] = {
        f"/p/{n}": {"history": ['{"x": "\\"}'] * 20, "mcpServers": {}} for n in range(2000)
    }
    path.write_text(json.dumps({"projects": projects, "mcpServers": {}}, indent=2))
    before = path.read_bytes()
    assert main(["install", "claude-code", "--yes"]) == 0
    added = len(path.read_bytes()) - len(before)
    assert 0 < added < 1000
    assert main(["uninstall", "claude-code", "--yes"]) == 0
    assert path.read_bytes() == before


def test_servers_go_behind_the_hub_and_come_back(
    cursor: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = '{"mcpServers": {"a": {"command": "a"}, "off": {"command": "o", "disabled": true}}}'
    cursor.write_text(own)
    before = Path("hub.yaml").read_text()
    assert main(["install", "cursor", "--replace", "--yes"]) == 0
    shown = capsys.readouterr().out
    assert "cursor: a is behind the hub\n" in shown
    assert '"off"' in cursor.read_text()
    assert '"a"' not in cursor.read_text()
    assert Path("hub.yaml").read_text() == before.replace(
        "{command: x}}", '{command: x}, a: {command: "a"}}'
    )
    assert main(["uninstall", "cursor", "--yes"]) == 0
    assert cursor.read_text() == own
    assert "its own again: a (hub.yaml keeps it, too)" in capsys.readouterr().out


def test_a_server_that_another_file_turns_off_does_not_go_behind_the_hub(
    cursor: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = {"projects": {str(Path.cwd()): {"disabledMcpjsonServers": ["off"]}}}
    (home / ".claude.json").write_text(json.dumps(state))
    entries = {"a": {"command": "a", "dev": True}, "off": {"command": "o"}}
    Path(".mcp.json").write_text(json.dumps({"mcpServers": entries}))
    assert main(["install", "claude-code", "--project", "--replace", "--yes"]) == 0
    shown = capsys.readouterr().out
    assert "claude-code: a is behind the hub\n" in shown
    assert "a: not carried over: dev: it is for developing the server in the editor\n" in shown
    assert "off: turned off there (disabledMcpjsonServers)" in shown
    assert sorted(json.loads(Path(".mcp.json").read_text())["mcpServers"]) == ["off", "roots-hub"]
    assert "off:" not in Path("hub.yaml").read_text()


def test_servers_that_a_client_has_elsewhere_are_told(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The client goes on starting them without the hub."""
    one = {"mcpServers": {"local": {"command": "l"}}}
    (home / ".claude.json").write_text(json.dumps({"projects": {str(Path.cwd()): one}}))
    Path(".mcp.json").write_text('{"mcpServers": {"shared": {"command": "s"}}}')
    assert main(["install", "claude-code", "--replace", "--yes"]) == 0
    shown = capsys.readouterr().out
    assert "stays as it is: local: ~/.claude.json: projects." in shown
    out = "`claude mcp remove --scope local local` takes it out, or the client goes on starting it"
    assert f"is not changed by this; {out} itself\n" in shown
    assert "mcp.json: mcpServers.shared is not changed by this; run this with --project" in shown


def test_the_servers_of_a_file_that_is_not_changed_do_not_go_behind_the_hub(
    cursor: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    windsurf = home / ".codeium/windsurf/mcp_config.json"
    windsurf.parent.mkdir(parents=True)
    windsurf.write_text('{"mcpServers": {"b": {"command": "b"}, "roots-hub": {"command": "y"}}}')
    before = windsurf.read_text()
    cursor.write_text(CURSOR.replace('"x"', '"m"'))
    assert main(["install", "windsurf", "cursor", "--replace", "--yes"]) == 1
    out = capsys.readouterr().out
    assert "windsurf: nothing can be done in ~/.codeium" in out
    assert "windsurf: b is behind the hub" not in out
    assert windsurf.read_text() == before
    assert list(yaml.safe_load(Path("hub.yaml").read_text())["servers"]) == ["files", "mine"]


@pytest.mark.parametrize(
    ("entry", "fix"),
    [
        ({"command": "y"}, "Choose another name: --name NAME."),
        (
            {"command": "roots-hub", "args": ["run"]},
            "Take it out (roots-hub uninstall cursor --project --name 'my hub'), or choose "
            "another name: --name NAME.",
        ),
    ],
)
def test_what_makes_room_for_the_hub_is_named_where_its_name_is_taken(
    entry: dict[str, Any], fix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(".cursor").mkdir()
    Path(".cursor/mcp.json").write_text(json.dumps({"mcpServers": {"my hub": entry}}))
    there = ["cursor", "--project", "--name", "my hub", "--yes"]
    assert main(["install", *there]) == 1
    assert f"\n  {fix}\n" in capsys.readouterr().out
    assert main(["uninstall", *there]) == 0
    is_out = "my hub" not in Path(".cursor/mcp.json").read_text()
    assert is_out is fix.startswith("Take it out")


def test_the_first_of_two_that_make_a_file_is_remembered(home: Path) -> None:
    path = home / ".cursor/new.json"
    file = ClientFile("cursor", "user", path, ("mcpServers",), "json")
    record = install_record(this_machine(os.environ))
    changes = [to_install(file, "roots-hub", {"command": one}, record) for one in ("x", "y")]
    first, second = (one for one in changes if one is not None)
    perform(first, record)
    with pytest.raises(StartError, match="has made it in the meantime"):
        perform(second, record)
    assert record.of(path) == first.made


def test_a_server_whose_secret_would_be_lost_stays(
    cursor: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    own = {"mcpServers": {"git": {"command": "x", "env": {"GIT_TOKEN": GIVEN}}}}
    cursor.write_text(json.dumps(own))
    assert main(["install", "cursor", "--replace", "--yes"]) == 0
    assert "git: its secret is not copied; set GIT_TOKEN to it, or" in capsys.readouterr().out
    assert GIVEN in cursor.read_text()
    assert "git" not in Path("hub.yaml").read_text()
    assert main(["uninstall", "cursor", "--yes"]) == 0
    monkeypatch.setenv("GIT_TOKEN", GIVEN)
    assert main(["install", "cursor", "--replace", "--yes"]) == 0
    assert GIVEN not in cursor.read_text() + Path("hub.yaml").read_text()
    assert "${GIT_TOKEN}" in Path("hub.yaml").read_text()


def test_a_server_whose_client_asks_for_a_value_stays_until_the_hub_has_it(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = home / ".config" / "Code" / "User" / "mcp.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"servers": {"mem": {"command": "x", "args": ["${input:tok}"]}}}))
    install = ["install", "vscode", "--replace", "--yes"]
    assert main([*install, "--with-secrets"]) == 0
    told = "stays as it is: mem: its client asks for a value; set HUB_INPUT_TOK for the hub\n"
    assert told in capsys.readouterr().out
    assert "${input:tok}" in path.read_text()
    monkeypatch.setenv("HUB_INPUT_TOK", "given")
    assert main(install) == 0
    assert "${input:tok}" not in path.read_text()


def test_no_command_of_claude_takes_out_what_another_client_has_elsewhere(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = home / ".config" / "Code" / "User"
    code.mkdir(parents=True)
    (code / "mcp.json").write_text('{"servers": {"here": {"command": "h"}}}')
    (code / "settings.json").write_text('{"mcp": {"servers": {"old": {"command": "o"}}}}')
    assert main(["install", "vscode", "--replace", "--yes"]) == 0
    shown = capsys.readouterr().out
    assert "settings.json: mcp.servers.old is not changed by this; take it out by hand, or" in shown
    assert "claude mcp remove" not in shown


def test_servers_that_were_imported_before_are_not_added_again(
    cursor: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = {"mcpServers": {"git": {"command": "x", "env": {"GIT_TOKEN": GIVEN}}}}
    cursor.write_text(json.dumps(own))
    assert main(["import", "--force"]) == 0
    before = Path("hub.yaml").read_text()
    monkeypatch.setenv("GIT_TOKEN", GIVEN)
    assert main(["install", "cursor", "--replace", "--yes"]) == 0
    assert Path("hub.yaml").read_text() == before
    assert list(json.loads(cursor.read_text())["mcpServers"]) == ["roots-hub"]


def test_servers_go_into_a_hub_that_has_none_yet(
    cursor: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cursor.write_text('{"mcpServers": {}}')
    empty = "version: 1\n# none yet\nservers: {}\n"
    Path("hub.yaml").write_text(empty)
    assert main(["install", "cursor", "--replace", "--yes"]) == 3
    error = capsys.readouterr().err.splitlines()[0]
    assert error.endswith("hub.yaml: no servers, and none to move into it")
    assert [cursor.read_text(), Path("hub.yaml").read_text()] == ['{"mcpServers": {}}', empty]
    cursor.write_text('{"mcpServers": {"a": {"command": "a"}}}')
    assert main(["install", "cursor", "--replace", "--yes"]) == 0
    made = 'version: 1\n# none yet\nservers:\n  a:\n    command: "a"\n'
    assert Path("hub.yaml").read_text() == made
    assert list(json.loads(cursor.read_text())["mcpServers"]) == ["roots-hub"]


def test_nothing_is_installed_where_there_is_no_config_and_no_server_for_one(
    cursor: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("hub.yaml").unlink()
    secret = {"git": {"command": "x", "env": {"GIT_TOKEN": GIVEN}}}
    for own, fix in (
        ({}, "Make one: roots-hub init."),
        (secret, "git: its secret is not copied; set GIT_TOKEN to it, or --with-secrets"),
    ):
        before = json.dumps({"mcpServers": own})
        cursor.write_text(before)
        assert main(["install", "cursor", "--replace", "--yes"]) == 3
        error, told = capsys.readouterr().err.splitlines()
        assert error.endswith("hub.yaml: is not there, and no server can be moved into it")
        assert told == fix
        assert (cursor.read_text(), Path("hub.yaml").exists()) == (before, False)


def test_a_client_that_cannot_be_changed_is_told_of_though_there_is_no_config(
    cursor: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("hub.yaml").unlink()
    cursor.write_text("{")
    assert main(["install", "cursor", "--replace", "--yes"]) == 1
    assert "cursor: nothing can be done in ~/.cursor/mcp.json:\n  " in capsys.readouterr().out


def test_no_servers_are_moved_into_another_programs_config(
    cursor: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(".mcp.json").write_text(CURSOR)
    assert main(["install", "cursor", "--replace", "--yes", "--config", ".mcp.json"]) == 3
    error, fix = capsys.readouterr().err.splitlines()
    assert error == "roots-hub: .mcp.json: is not a hub.yaml, so no servers can be moved into it"
    assert fix == "Make one: roots-hub import --from .mcp.json"
    assert [cursor.read_text(), Path(".mcp.json").read_text()] == [CURSOR, CURSOR]


def test_nothing_changes_where_it_cannot_be_recorded(
    cursor: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(os.environ["XDG_STATE_HOME"]).write_text("in the way")
    assert main(["install", "cursor", "--yes"]) == 1
    error = capsys.readouterr().err
    assert "installed.json: " in error.splitlines()[-2]
    assert error.splitlines()[-1].startswith("  Make it writable, on a disk with room")
    assert cursor.read_text() == CURSOR
    assert copies(cursor) == []


@pytest.mark.parametrize("is_there", [True, False])
def test_servers_stay_where_they_are_if_no_client_can_be_changed(
    cursor: Path, capsys: pytest.CaptureFixture[str], is_there: bool
) -> None:
    Path(os.environ["XDG_STATE_HOME"]).write_text("in the way")
    if not is_there:
        Path("hub.yaml").unlink()
    before = Path("hub.yaml").read_text() if is_there else None
    files = sorted(Path().iterdir())
    assert main(["install", "cursor", "--replace", "--yes"]) == 1
    assert "is behind the hub" not in capsys.readouterr().out
    assert sorted(Path().iterdir()) == files
    assert before == (Path("hub.yaml").read_text() if is_there else None)
    assert main(["install", "cursor", "--replace", "--yes", "--json"]) == 1
    (one,) = json.loads(capsys.readouterr().out)
    assert (one["changed"], one["moved"]) == (False, [])
    assert "without it nothing can be taken out again" in one["error"]


def test_another_name_is_used_and_found_again(
    cursor: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["install", "cursor", "--yes", "--name", "guarded"]) == 0
    assert "guarded is in ~/.cursor/mcp.json" in capsys.readouterr().out
    assert main(["uninstall", "cursor", "--yes"]) == 0
    assert "guarded is out of ~/.cursor/mcp.json" in capsys.readouterr().out
    assert cursor.read_text() == CURSOR


def test_replacing_makes_a_config_where_there_is_none(cursor: Path) -> None:
    Path("hub.yaml").unlink()
    assert main(["install", "cursor", "--replace", "--yes"]) == 0
    assert 'command: "x"' in Path("hub.yaml").read_text()
    assert main(["check"]) in {0, 1, 3}
    assert list(hub_in(cursor)) == ["command", "args"]
