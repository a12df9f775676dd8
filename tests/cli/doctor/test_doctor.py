"""`roots-hub doctor`: seeded faults are named with what mends them, and nothing else is."""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from hub.cli.main import main
from hub.system.machine import Kernel


def quiet(*_: object, **__: object) -> None:
    """Leave the logs to pytest."""


class Place(Struct):
    """A user's home and project, in which all is well."""

    home: Path
    project: Path
    state: Path
    bin: Path
    patch: pytest.MonkeyPatch

    def program(self, name: str, script: str = "exit 0") -> None:
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def config(self, **servers: Any) -> None:
        raw = {"version": 1, "roots": {"fallback": ["."]}, "servers": servers}
        self.write(json.dumps(raw))

    def write(self, text: str) -> None:
        path = self.project / "hub.yaml"
        path.write_text(text)
        path.chmod(0o600)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    top = tmp_path.resolve()
    made = Place(top / "home", top / "home/work", top / "state", top / "bin", monkeypatch)
    for folder in (made.project, made.bin, made.home / ".cursor", made.home / ".codex"):
        folder.mkdir(parents=True)
    for variable in ("HUB_CONFIG", "XDG_CONFIG_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(made.home))
    monkeypatch.setenv("XDG_STATE_HOME", str(made.state))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setenv("PATH", str(made.bin))
    monkeypatch.chdir(made.project)
    monkeypatch.setattr("hub.system.log.configure_logs", quiet)
    made.program("npx")
    made.program("uvx")
    made.program("roots-hub")
    made.program("node", "echo v22.1.0")
    made.config(files={"command": "npx", "args": ["-y", "x"]}, git={"command": "uvx"})
    return made


def doctor(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[dict[str, str]]]:
    capsys.readouterr()
    code = main(["doctor", "--json", *arguments])
    shown = capsys.readouterr().out  # with the log, which has no other place in these tests
    return code, json.loads(shown[shown.rfind("\n[") + 1 :])


def test_where_all_is_well_nothing_is_found(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    assert doctor(capsys) == (0, [])
    assert main(["install", "--all", "--yes"]) == 0
    (place.home / ".npm").mkdir()
    assert doctor(capsys) == (0, [])
    assert main(["doctor"]) == 0
    shown = capsys.readouterr().out
    assert shown.endswith("clients with the hub: cursor, codex.\nNo problem was found.\n")


def token(end: int) -> str:
    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    return f"{part({'alg': 'none'})}.{part({'exp': end})}.x"


def no_config(place: Place) -> None:
    (place.project / "hub.yaml").unlink()


def no_yaml(place: Place) -> None:
    place.write("version: 1\nservers: [\n")


def unknown_key(place: Place) -> None:
    place.write("version: 1\nserver: {a: {command: npx}}\nservers: {a: {command: npx}}\n")


def unset_variable(place: Place) -> None:
    place.config(a={"command": "npx"}, b={"command": "npx", "env": {"K": "${UNSET_KEY}"}})


def no_npx(place: Place) -> None:
    (place.bin / "npx").unlink()


def no_uvx(place: Place) -> None:
    (place.bin / "uvx").unlink()


def misspelt_program(place: Place) -> None:
    place.config(a={"command": "npxx"})


def old_node(place: Place) -> None:
    place.program("node", "echo v16.20.2")


def broken_node(place: Place) -> None:
    place.program("node", "exit 127")


def no_folder(place: Place) -> None:
    place.write('version: 1\nroots: {fallback: ["./gone dir"]}\nservers: {a: {command: npx}}\n')


def no_audit_folder(place: Place) -> None:
    place.write("version: 1\naudit: {file: gone/audit.jsonl}\nservers: {a: {command: npx}}\n")


def config_others_write(place: Place) -> None:
    (place.project / "hub.yaml").chmod(0o666)


def secrets_others_read(place: Place) -> None:
    place.config(a={"command": "npx", "env": {"GIT_TOKEN": "abc"}})
    (place.project / "hub.yaml").chmod(0o644)


def expired_token(place: Place) -> None:
    place.config(a={"url": "https://x.example", "headers": {"A": f"Bearer {token(1_000_000)}"}})


def broken_client(place: Place) -> None:
    (place.home / ".cursor/mcp.json").write_text('{"mcpServers": {')


def moved_program(place: Place) -> None:
    entry = {"command": "/gone/roots-hub", "args": ["run", "--config", f"{place.project}/hub.yaml"]}
    (place.home / ".cursor/mcp.json").write_text(json.dumps({"mcpServers": {"roots-hub": entry}}))


def program_off_the_path(place: Place) -> None:
    (place.bin / "roots-hub").unlink()
    entry = {"command": "roots-hub", "args": ["run"]}
    (place.home / ".cursor/mcp.json").write_text(json.dumps({"mcpServers": {"hub": entry}}))


def moved_config(place: Place) -> None:
    entry = {"command": str(place.bin / "roots-hub"), "args": ["run", "--config", "/gone/hub.yaml"]}
    (place.home / ".cursor/mcp.json").write_text(json.dumps({"mcpServers": {"roots-hub": entry}}))


def state_others_write(place: Place) -> None:
    (place.state / "roots-hub").mkdir(parents=True)
    (place.state / "roots-hub").chmod(0o777)


def state_is_a_file(place: Place) -> None:
    place.state.mkdir()
    (place.state / "roots-hub").write_text("")


def cache_is_a_file(place: Place) -> None:
    (place.home / ".npm").write_text("")


def no_landlock(place: Place) -> None:
    def kernel() -> Kernel:
        return Kernel(why_not="it is too old")

    place.patch.setattr("hub.cli.doctor.config_checks.this_kernel", kernel)
    place.config(a={"command": "npx", "confine": "require"})


@pytest.mark.parametrize(
    ("seed", "what", "fix"),
    [
        (no_config, "there is no hub.yaml here", "roots-hub init"),
        (no_yaml, "hub.yaml: line ", "roots-hub check --config "),
        (unknown_key, "server: unknown key", "roots-hub check --config "),
        (unset_variable, "b is left out: ", "export UNSET_KEY=..."),
        (no_npx, "there is no program 'npx'", "Install Node.js"),
        (no_uvx, "there is no program 'uvx'", "curl -LsSf https://astral.sh/uv/install.sh | sh"),
        (misspelt_program, "there is no program 'npxx'", "Did you mean npx?"),
        (old_node, "is version v16.20.2", "nvm install 22"),
        (broken_node, "does not start", "nvm install 22"),
        (no_folder, "roots.fallback: there is no folder ", "mkdir -p '"),
        (no_audit_folder, "audit.file: there is no folder ", "mkdir -p "),
        (config_others_write, "other users may write it", "chmod go-w "),
        (secrets_others_read, "other users may read it", "chmod 600 "),
        (expired_token, "the token in headers.A has expired", "Get a new token"),
        (broken_client, "cursor: ", "Close every"),
        (moved_program, "there is no program /gone/roots-hub", "roots-hub install cursor"),
        (program_off_the_path, "roots-hub is not on the PATH", "roots-hub install cursor"),
        (moved_config, "its config /gone/hub.yaml is gone", "roots-hub install cursor"),
        (state_others_write, "so the hub ignores what is in it", "chmod 700 "),
        (state_is_a_file, "is a file, so the hub can keep nothing there", "rm "),
        (cache_is_a_file, "is no directory", "rm "),
        (no_landlock, "this kernel cannot confine: it is too old", "roots-hub check --confine"),
    ],
)
def test_a_fault_is_named_with_what_mends_it(
    seed: Callable[[Place], None],
    what: str,
    fix: str,
    place: Place,
    capsys: pytest.CaptureFixture[str],
) -> None:
    seed(place)
    code, found = doctor(capsys)
    assert code == 1
    (one,) = found
    assert what in one["what"]
    assert fix in one["fix"]


def test_a_port_that_another_program_has_is_named(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.settimeout(5)
        port = other.getsockname()[1]
        place.write(f"version: 1\nlisten: {{port: {port}}}\nservers: {{a: {{command: npx}}}}\n")
        code, (found,) = doctor(capsys)
        assert code == 1
        assert found["what"] == f"listen.port: another program has port {port} of 127.0.0.1"
    assert doctor(capsys) == (0, [])


def test_a_server_that_does_not_start_is_named_with_its_last_words(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    code = "import sys; print('no key was given', file=sys.stderr); sys.exit(3)"
    place.config(a={"command": sys.executable, "args": ["-c", code]})
    place.patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    assert doctor(capsys) == (0, [])
    code_, (found,) = doctor(capsys, "--connect")
    assert code_ == 1
    assert found["what"].startswith("server 'a' is not running: exited with code 3")
    assert found["what"].endswith("it said: no key was given")
    assert found["fix"].startswith("roots-hub plan --config ")


def test_a_hub_that_was_taken_out_by_hand_is_a_warning(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["install", "cursor", "--yes"]) == 0
    (place.home / ".cursor/mcp.json").unlink()
    code, (found,) = doctor(capsys)
    assert (code, found["level"]) == (0, "warning")
    assert found["fix"] == "roots-hub install cursor, or roots-hub uninstall cursor"


def test_a_hub_that_serves_has_its_port(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    place.write(f"version: 1\nlisten: {{port: {port}}}\nservers: {{a: {{command: npx}}}}\n")
    running = subprocess.Popen(
        [sys.executable, "-m", "hub", "run", "--http", "--config", "hub.yaml"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert running.stdout is not None
        assert "roots-hub serves" in running.stdout.readline()
        assert doctor(capsys) == (0, [])
    finally:
        running.terminate()
        running.communicate(timeout=20)
