"""Configs in the shapes that projects publish: imported, and the hub put in and taken out."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hub.cli.main import main
from hub.config.carrying import carried
from hub.config.clients.locations import ClientFile, UserPlace, client_file, discover
from hub.config.fields import LoadContext
from hub.config.load import load_config
from hub.config.models import RemoteServer, StdioServer

CONFIGS = sorted((Path(__file__).parent / "configs").iterdir())
MARK = "s3cr3t"
"""What every secret in the configs has in it."""
LEFT_OUT = {
    "windsurf-24-disabled.json": {"off"},
    "zed-28-remote-and-extension.json": {"pdf"},
    "codex-31-bearer-and-tools.toml": {"old"},
    "gemini-36-allowed.json": {"dropped"},
    "goose-37-user.yaml": {"developer"},
    "goose-39-keyring.yaml": {"off"},
    "opencode-41-local-and-remote.json": {"off"},
}
"""The servers that cannot be carried over: turned off, built in, or an editor's extension."""


@pytest.fixture(autouse=True)
def home(own_home: Path) -> Path:
    return own_home


def name_of(config: Path) -> str:
    return config.name


def placed(config: Path, home: Path) -> ClientFile:
    """Put a config where its client has it."""
    client = next(one for one in CLIENT_NAMES if config.name.startswith(f"{one}-"))
    place = UserPlace(home, {}, sys.platform, Path.cwd())
    file = client_file(client, "user", place)
    assert file is not None
    path = file.path.with_name("settings.json") if "settings" in config.name else file.path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(config.read_bytes())
    path.chmod(0o640)
    section = ("mcp", "servers") if path != file.path else file.section
    return ClientFile(client, "user", path, section, file.form)


CLIENT_NAMES = (
    *("claude-desktop", "claude-code", "cursor", "vscode", "windsurf", "zed", "codex", "gemini"),
    *("goose", "opencode"),
)


def filled(server: StdioServer | RemoteServer, environment: Mapping[str, str]) -> object:
    """Return what a server is started or reached with."""
    if isinstance(server, RemoteServer):
        headers = {name: one.plain for name, one in server.headers.items()}
        return server.url, headers, server.transport, server.tools
    template = server.template("x")
    roots = ["/root"]
    return (
        template.command.fill(environment.get, roots),
        [text for one in template.args for text in one.elements(environment.get, roots)],
        {name: one.fill(environment.get, roots) for name, one in template.env},
        server.tools,
    )


class AnyEnvironment(dict[str, str]):
    """An environment in which every variable is set."""

    def get(self, key: str, default: Any = None) -> Any:
        return super().get(key, f"value-of-{key}" if default is None else default)


def test_there_are_forty_two() -> None:
    assert len(CONFIGS) == 42


@pytest.mark.parametrize("config", CONFIGS, ids=name_of)
def test_all_servers_are_imported_and_no_secret(
    config: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = placed(config, home)
    assert main(["import"]) == 0
    shown = capsys.readouterr().out
    text = Path("hub.yaml").read_text()
    assert MARK not in text + shown
    assert main(["import", "--json", "--force"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["broken"] == []
    assert {one["name"] for one in told["leftOut"]} == LEFT_OUT.get(config.name, set())
    found = discover([file], LoadContext(Path.cwd(), str(home), {})).servers
    assert len(found) == len(told["servers"]) + len(told["leftOut"]) > 0
    environment = AnyEnvironment(os.environ)
    loaded = load_config("hub.yaml", LoadContext(Path.cwd(), str(home), environment)).config
    assert loaded.left_out == ()
    assert list(loaded.servers) == [one["name"] for one in told["servers"]]


@pytest.mark.parametrize("config", CONFIGS, ids=name_of)
def test_the_servers_mean_the_same(config: Path, home: Path) -> None:
    file = placed(config, home)
    environment = AnyEnvironment(os.environ)
    context = LoadContext(Path.cwd(), str(home), environment)
    assert main(["import"]) == 0
    made = carried(
        discover([file], context).servers, LoadContext(Path.cwd(), str(home), os.environ)
    )
    environment |= {
        need.name: need.value for one in made.servers for need in one.needs if need.value
    }
    ours = load_config("hub.yaml", context).config.servers
    theirs = load_config(str(file.path), context).config.servers
    for one in made.servers:
        name = one.sources[0].name
        if "C:" in str(theirs[name]):  # no path of this machine
            continue
        assert filled(ours[one.name], environment) == filled(theirs[name], environment), name


@pytest.mark.parametrize("replace", [False, True], ids=["beside", "replace"])
@pytest.mark.parametrize("config", CONFIGS, ids=name_of)
def test_install_and_uninstall_leave_no_byte_changed(
    config: Path, home: Path, monkeypatch: pytest.MonkeyPatch, *, replace: bool
) -> None:
    monkeypatch.setenv("HUB_INPUT_TRACKER_TOKEN", "given")
    file = placed(config, home)
    if "settings" in config.name and file.client == "vscode":
        file.path.rename(file.path.with_name("mcp.json"))
    client_place = UserPlace(home, {}, sys.platform, Path.cwd())
    own = client_file(file.client, "user", client_place)
    assert own is not None
    before = tree(home)
    Path("hub.yaml").write_text("version: 1\nservers: {x: {command: x}}\n")
    more = ["--replace", "--with-secrets"] if replace else []
    assert main(["install", file.client, "--yes", *more]) == 0
    assert own.path.read_bytes() != config.read_bytes()
    if replace:
        again = discover([own], LoadContext(Path.cwd(), str(home), {})).servers
        left = {one.name for one in again} - {"roots-hub"}
        assert left == LEFT_OUT.get(config.name, set())
    assert main(["uninstall", file.client, "--yes"]) == 0
    for kept in Path().glob("hub.yaml*"):
        kept.unlink()
    assert tree(home) == before


def tree(top: Path) -> dict[str, tuple[int, bytes]]:
    """Return the mode and content of all files."""
    return {
        str(path): (path.stat().st_mode, path.read_bytes())
        for path in top.rglob("*")
        if path.is_file()
    }
