"""Where a config may refer to secrets, and when their values are read."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from hub.config.carrying import carried
from hub.config.clients.locations import ClientFile, discover
from hub.config.fields import LoadContext, is_unread, written_of
from hub.config.listening.listen import has_unread
from hub.config.load import Loaded, load_config
from hub.config.models import RemoteServer, StdioServer
from hub.errors import ConfigError
from hub.launch.templates import CommandSecret, FileSecret, KeyringSecret

TOKEN = "t0ken-0f-the-test"  # noqa: S105 - no secret


def load(top: Path, config: dict[str, Any], *, file: str = "hub.yaml", **context: Any) -> Loaded:
    (top / file).write_text(json.dumps(config))
    environment = {"KEY": "k3y", "PATH": os.environ["PATH"]}
    return load_config(str(top / file), LoadContext(top, "/home/u", environment, **context))


def served(server: dict[str, Any]) -> dict[str, Any]:
    return {"version": 1, "servers": {"s": server, "other": {"command": "true"}}}


def listening(listen: dict[str, Any]) -> dict[str, Any]:
    return {"version": 1, "listen": listen, "servers": {"s": {"command": "true"}}}


def test_env_and_headers_refer_to_secrets_that_are_not_read(tmp_path: Path) -> None:
    env = {"A": "${file:none}", "B": "x ${cmd:no-such-command a}", "C": "${keyring:s/u}"}
    config = load(tmp_path, served({"command": "x", "env": env})).config
    server = config.servers["s"]
    assert isinstance(server, StdioServer)
    references = [text.references for text in server.env.values()]
    assert references == [
        (FileSecret(str(tmp_path / "none")),),
        (CommandSecret("no-such-command a", str(tmp_path)),),
        (KeyringSecret("s", "u"),),
    ]
    headers = {"Authorization": "Bearer ${KEY}${file:~/t}", "X": "${env:KEY}"}
    config = load(tmp_path, served({"url": "https://h.example/", "headers": headers})).config
    remote = config.servers["s"]
    assert isinstance(remote, RemoteServer)
    assert remote.headers["Authorization"].parts == ("Bearer ", "k3y", FileSecret("/home/u/t"))
    assert remote.headers["X"].plain == "k3y"
    assert "k3y" not in repr(config)


@pytest.mark.parametrize("reference", ["${file:/x}", "${cmd:pass x}", "${keyring:s/u}"])
@pytest.mark.parametrize(
    ("server", "key", "said"),
    [
        ({"command": "x", "args": ["--t={}"]}, "args[0]", ("all users of the machine", "`env`")),
        ({"command": "{}"}, "command", ("all users of the machine", "`env`")),
        ({"url": "https://h.example/?t={}"}, "url", ("shown in logs", "`headers`")),
        ({"command": "x", "cwd": "{}"}, "cwd", ("no secret can be here", "`env` and `headers`")),
        (
            {"command": "x", "confine": {"mode": "auto", "read": ["{}"]}},
            "confine.read[0]",
            ("no secret can be here", "`env` and `headers`"),
        ),
    ],
)
def test_elsewhere_a_secret_is_refused_with_the_reason(
    tmp_path: Path, reference: str, server: dict[str, Any], key: str, said: tuple[str, str]
) -> None:
    why, fix = said
    text = json.dumps(server).replace("{}", reference)
    with pytest.raises(ConfigError) as raised:
        load(tmp_path, served(json.loads(text)))
    (fault,) = raised.value.faults
    assert f"servers.s.{key}: " in fault.said
    assert why in fault.said
    assert fix in fault.fix


def test_a_clients_own_config_runs_no_commands(tmp_path: Path) -> None:
    servers = {
        "s": {"command": "true", "env": {"A": "${cmd:touch ran}"}},
        "t": {"command": "true", "env": {"A": "${file:token}"}},
        "u": {"url": "https://h.example/", "headers": {"A": "${cmd:touch ran}"}},
    }
    config = load(tmp_path, {"mcpServers": servers}, file="mcp.json", reads_secrets=True).config
    assert [*config.servers] == ["t"]
    (fault,) = config.left_out[0].faults
    assert "mcpServers.s.env.A: ${cmd:...} works in a hub.yaml alone" in fault.said
    assert fault.fix == "Put its output into a variable, or move the server to a hub.yaml."
    assert [one.name for one in config.left_out] == ["s", "u"]


def test_import_carries_over_no_command_of_a_clients_config(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    servers = {"s": {"command": "true", "env": {"A": "${cmd:touch ran}"}}}
    file.write_text(json.dumps({"mcpServers": servers}))
    context = LoadContext(tmp_path, "/home/u", {})
    client_file = ClientFile("cursor", "user", file, ("mcpServers",), "json")
    found = carried(discover([client_file], context).servers, context)
    assert found.servers == ()
    (left,) = found.left
    assert "${cmd:...} works in a hub.yaml alone" in left.why


def test_a_file_for_listen_is_read_when_the_config_is(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    (tmp_path / "token").chmod(0o600)
    loaded = load(
        tmp_path, listening({"token": "${file:token}", "keys": ["${file:token}${file:token}"]})
    )
    token = loaded.config.listen.token
    assert token is not None
    assert token.get_secret_value() == TOKEN
    assert loaded.config.listen.keys[0].get_secret_value() == TOKEN * 2
    assert loaded.warnings == ()
    (tmp_path / "token").chmod(0o604)
    (warning,) = load(tmp_path, listening({"token": "${file:token}${file:token}"})).warnings
    assert f"listen: {tmp_path}/token is open to other users (mode 0604)" in warning


def test_a_command_for_listen_is_run_only_to_serve(tmp_path: Path) -> None:
    command = f"sh -c 'echo ran >> ran; echo {TOKEN}{TOKEN}'"
    config = listening({"token": f"${{cmd:{command}}}", "keys": [f"${{cmd:{command}}}"]})
    listen = load(tmp_path, config).config.listen
    assert not (tmp_path / "ran").exists()
    assert listen.token is not None
    assert has_unread(listen)
    assert is_unread(listen.token)
    assert written_of(listen.token) == f"${{cmd:{command}}}"
    # No client can send it, whatever uses it by mistake.
    assert listen.token.get_secret_value().startswith("\0")
    listen = load(tmp_path, config, reads_secrets=True).config.listen
    assert (tmp_path / "ran").read_text() == "ran\nran\n"
    assert listen.token is not None
    assert listen.token.get_secret_value() == TOKEN * 2
    assert not has_unread(listen)


@pytest.mark.parametrize(
    ("listen", "why"),
    [
        ({"token": "${file:none}"}, "listen.token: there is no file"),
        ({"token": "${cmd:sh -c 'echo s3cret; exit 4'}"}, "listen.token: the command 'sh' failed"),
        ({"keys": ["${cmd:echo s3cret}"]}, r"listen.keys[0]: is too short for a key"),
    ],
)
def test_a_secret_that_the_hub_itself_needs_is_an_error(
    tmp_path: Path, listen: dict[str, Any], why: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        load(tmp_path, listening(listen), reads_secrets=True)
    assert why in raised.value.faults[0].said
    assert raised.value.faults[0].fix
    assert "s3cret" not in str(raised.value).replace("echo s3cret", "")
