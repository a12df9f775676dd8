from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path

import pytest
from msgspec.structs import replace

from hub.cli.logins import command
from hub.errors import ConfigError, StartError
from hub.logins.login_files import LoginFiles
from tests.logins.test_login_files import LOGIN, URL

CONFIG = f"""\
version: 1
servers:
  far: {{url: "{URL}", auth: oauth}}
  open: {{url: "https://open.example.com/mcp"}}
  local: {{command: x}}
  unset: {{url: "https://open.example.com/${{NOT_SET}}", auth: oauth}}
"""


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LoginFiles:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("HUB_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hub.yaml").write_text(CONFIG)
    return LoginFiles(tmp_path / "state/roots-hub")


def run(*arguments: str, config: str = "hub.yaml") -> int:
    parser = ArgumentParser()
    command.register(parser.add_subparsers(required=True))
    options = parser.parse_args([*arguments, "--config", config])
    code: int = options.perform(options)
    return code


def test_it_is_shown_who_is_logged_in(
    files: LoginFiles, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("login") == 0
    assert capsys.readouterr().out == (
        "far  nobody is logged in: roots-hub login far --config hub.yaml\n"
    )
    files.write(URL, LOGIN)
    assert run("login") == 0
    assert capsys.readouterr().out == f"far  logged in by {LOGIN.issuer}\n"
    assert run("login", "--json") == 0
    shown = capsys.readouterr().out
    assert json.loads(shown)[0]["server"] == "far"
    files.write(URL, replace(LOGIN, issuer="https://login.example.com/\x1b[2J"))
    assert run("login") == 0
    assert capsys.readouterr().out == "far  logged in by https://login.example.com/\\x1b[2J\n"
    assert "s3cret" not in shown


def test_a_config_that_is_the_text_itself_is_not_repeated(
    files: LoginFiles, capsys: pytest.CaptureFixture[str]
) -> None:
    text = json.dumps({"version": 1, "servers": {"far": {"url": URL, "auth": "oauth"}}})
    assert run("login", config=text) == 0
    assert capsys.readouterr().out == (
        "far  nobody is logged in: roots-hub login far --config ...\n"
    )


def test_a_login_is_forgotten(files: LoginFiles, capsys: pytest.CaptureFixture[str]) -> None:
    files.write(URL, LOGIN)
    assert run("logout", "far") == 0
    assert files.read(URL) is None
    assert run("logout", "far") == 0
    assert "Nobody was logged in" in capsys.readouterr().err


def test_what_keeps_a_login_from_being_read_is_told_with_a_remedy_for_it(
    files: LoginFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.write(URL, LOGIN)
    for path in (tmp_path / "state/roots-hub/logins").iterdir():
        path.chmod(0o644)
    with pytest.raises(StartError, match="other users may access it") as told:
        run("login")
    assert "its owner's alone" in told.value.fix
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "hub.yaml"))
    for what in (("login",), ("login", "far"), ("logout", "far")):
        with pytest.raises(StartError, match=r"Not a directory|File exists") as told:
            run(*what)
        assert "XDG_STATE_HOME" in told.value.fix


@pytest.mark.parametrize("what", ["login", "logout"])
@pytest.mark.parametrize(
    ("server", "why"),
    [
        ("open", "has no `auth`"),
        ("local", "is a command: only a `url` has logins"),
        ("none", "there is no such server"),
        ("unset", "the variable NOT_SET is not set"),
    ],
)
def test_a_server_without_a_login_is_told(what: str, server: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        run(what, server)


def test_logins_of_clients_over_http_are_shown_and_ended_each_alone(
    files: LoginFiles, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files.write(URL, LOGIN)
    for owner in ("anna", "https://login.example.com bob\x1b[2J"):
        LoginFiles(tmp_path / "state/roots-hub", owner).write(URL, replace(LOGIN, is_over=True))
    assert run("login") == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == f"far  logged in by {LOGIN.issuer}"
    assert sorted(shown[1:]) == [
        "far  anna: the login has ended",
        "far  https://login.example.com bob\\x1b[2J: the login has ended",
    ]
    assert run("login", "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["principal"] for row in rows].count(None) == 1
    assert run("logout", "far", "--as", "anna") == 0
    assert "The login of anna at far is forgotten here." in capsys.readouterr().err
    assert run("logout", "far", "--as", "anna") == 0
    assert capsys.readouterr().err == "There was no login of anna at far.\n"
    assert files.read(URL) == LOGIN
    assert len(files.of_principals(URL)) == 1
