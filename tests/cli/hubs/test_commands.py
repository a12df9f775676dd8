"""What `status` shows, and whom `stop` ends, where a hub does not answer."""

import json
import os
import socket
import sys
from argparse import Namespace
from collections.abc import Generator
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import cast

import pytest

from hub.app.hub import Hub
from hub.app.machine import Setting, this_machine
from hub.attach.frames import ANSWER, frame
from hub.cli.hubs.commands import lines_of
from hub.cli.hubs.shared_hub import ViewOfEach
from hub.cli.main import main
from hub.values import Json, JsonObject

HUB: JsonObject = {
    "serves": "/home/u/hub.yaml",
    "pid": 10,
    "version": "1.0",
    "uptime": 7300.2,
    "memory": 48_123_456,
    "log": "/state/hub.log",
    "clients": [{"pid": 11, "directory": "/home/u/a"}],
    "children": [
        {
            "server": "files",
            "state": "ready",
            "pid": 12,
            "users": 2,
            "memory": 9_000_000,
            "uptime": 61,
            "roots": ["/home/u/a", "/home/u/b"],
        },
        {"server": "remote", "state": "idle", "users": 0, "roots": []},
    ],
}


def test_a_hub_is_shown_with_its_clients_and_servers() -> None:
    assert (
        "\n".join(lines_of(HUB))
        == """/home/u/hub.yaml
  process 10, roots-hub 1.0, up 2 h, 48.1 MB
  log: /state/hub.log
  clients: 1
    process 11 in /home/u/a
  servers: 2
    SERVER  STATE  PID  USERS  MEMORY  UP     ROOTS
    files   ready  12   2      9.0 MB  1 min  /home/u/a, /home/u/b
    remote  idle   -    0      -       -      -"""
    )


def test_servers_that_are_down_are_shown_with_the_reason() -> None:
    down: list[Json] = [{"server": "git", "error": "it ended (exit code 1)\x1b[2J"}]
    assert lines_of({"serves": "x", "down": down})[5:] == [
        "  servers that are down: 1",
        r"    git: it ended (exit code 1)\x1b[2J",
    ]


def test_folders_of_clients_cannot_control_the_terminal() -> None:
    clients: list[Json] = [{"pid": 11, "directory": "/a\x1b[2J"}]
    children: list[Json] = [{"server": "s", "roots": ["/b\n\x1b[31m"]}]
    lines = lines_of({"serves": "/c\u202e.yaml", "clients": clients, "children": children})
    assert lines[0] == r"/c\u202e.yaml"
    assert r"    process 11 in /a\x1b[2J" in lines
    assert lines[-1].endswith(r"/b\n\x1b[31m")


def test_what_a_hub_does_not_say_is_a_dash() -> None:
    lines = lines_of({"serves": "x"})
    assert lines[2:] == ["  log: its stderr", "  clients: 0", "  servers: 0"]


def test_a_hub_that_serves_its_own_clients_is_not_shown_without_any() -> None:
    assert lines_of({**HUB, "clients": None})[3:5] == [
        "  clients: not counted, as `run` started it",
        "  servers: 2",
    ]


def test_the_limits_of_principals_are_shown_with_what_is_used() -> None:
    limits: JsonObject = {
        "calls_per_minute": {"limit": 600, "used": 12},
        "calls_per_second": {"limit": 5.0, "used": 0},
    }
    said: JsonObject = {"serves": "x", "principals": [{"principal": "anna", "limits": limits}]}
    assert lines_of(said)[5:] == [
        "  principals with limits: 1",
        "    PRINCIPAL  USED",
        "    anna       calls_per_minute 12 of 600, calls_per_second 0 of 5",
    ]


def test_calls_of_a_burst_are_shown_beside_what_may_come_at_once() -> None:
    limits: JsonObject = {"calls_per_second": {"limit": 20.0, "burst": 50, "used": 31}}
    said: JsonObject = {"serves": "x", "principals": [{"principal": "anna", "limits": limits}]}
    assert lines_of(said)[-1] == "    anna       calls_per_second 31 of 50 at once"


def test_the_limits_of_a_profile_are_shown_with_its_name() -> None:
    limits: JsonObject = {"in_flight": {"limit": 4, "used": 1}}
    rows: list[Json] = [
        {"principal": "anna", "profile": profile, "limits": limits} for profile in (None, "few")
    ]
    assert lines_of({"serves": "x", "principals": rows})[5:] == [
        "  principals with limits: 1",
        "    PRINCIPAL    USED",
        "    anna         in_flight 1 of 4",
        "    anna in few  in_flight 1 of 4",
    ]


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[list[str]]:
    """Let one hub answer, and another one not; return what the first is asked."""
    if sys.platform == "win32":
        pytest.skip("sockets of Unix")
    runtime = tmp_path / "roots-hub"
    runtime.mkdir(mode=0o700)
    tmp_path.chmod(0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    asked: list[str] = []
    hub, silent = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    monkeypatch.chdir(runtime)  # the address of a socket has no room for a long path
    silent.bind("abc-abc.sock")  # no connection can be made to it
    hub.bind("def-def.sock")
    monkeypatch.chdir(tmp_path)
    hub.listen()
    with hub, silent:
        Thread(target=_answer, args=(hub, asked), daemon=True).start()
        yield asked


def _answer(hub: socket.socket, asked: list[str]) -> None:
    status: JsonObject = {"serves": "/home/u/hub.yaml", "version": "1.0", "pid": os.getpid()}
    status["lines"] = ["hub.yaml has \x1b[2Jnothing new."]
    while True:
        try:
            connection, _ = hub.accept()
        except OSError:
            return
        with connection:
            asked.append(connection.recv(65536).decode("utf-8", "replace"))
            connection.sendall(frame(ANSWER, json.dumps(status).encode()))


def test_a_hub_is_shown_though_another_one_does_not_answer(
    two: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["status"]) == 1
    shown = capsys.readouterr()
    assert shown.out.startswith("/home/u/hub.yaml\n")
    what, fix = shown.err.splitlines()
    assert what.startswith("roots-hub: the hub abc-abc in ")
    assert fix == "Try again. If that does not help, `roots-hub doctor` says what does."
    assert main(["status", "--json"]) == 1
    assert len(json.loads(capsys.readouterr().out)["hubs"]) == 1


def test_a_hub_is_found_that_was_started_with_another_runtime_directory(
    two: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "roots-hub/abc-abc.sock").unlink()
    (tmp_path / "other").mkdir(mode=0o700)
    paths = [str(tmp_path / "other/roots-hub"), str(tmp_path / "roots-hub")]

    def runtime_paths(_: object) -> list[str]:
        return paths

    monkeypatch.setattr("hub.attach.runtime_directory.runtime_paths", runtime_paths)
    assert main(["status"]) == 0
    assert capsys.readouterr().out.startswith("/home/u/hub.yaml\n")
    assert main(["reload"]) == 0


def test_a_hub_is_stopped_by_name_though_another_one_does_not_answer(
    two: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["stop"]) == 1  # it may be the other one that is meant
    assert not any("stop" in one for one in two)
    assert main(["stop", "--config", "/home/u/hub.yaml"]) == 0
    assert capsys.readouterr().out == f"stopped: /home/u/hub.yaml (process {os.getpid()})\n"
    assert main(["stop", "--config", "/home/u/other.yaml"]) == 1
    assert "the hub abc-abc" in capsys.readouterr().err
    assert main(["stop", "--all"]) == 1
    said = capsys.readouterr()
    assert said.out.startswith("stopped: /home/u/hub.yaml")
    assert "the hub abc-abc" in said.err
    assert sum("stop" in one for one in two) == 2


def test_the_config_in_the_environment_is_the_one_that_is_meant(
    two: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "roots-hub/abc-abc.sock").unlink()
    for config, which in (("/home/u/other.yaml", " for /home/u/other.yaml"), ('{"a": "key"}', "")):
        monkeypatch.setenv("HUB_CONFIG", config)
        for command in ("reload", "stop"):
            assert main([command]) == 1
            assert f"no hub is running{which}\n" in capsys.readouterr().err
    assert main(["status"]) == 0  # shows all
    assert not any("stop" in one for one in two)
    monkeypatch.setenv("HUB_CONFIG", "/home/u/hub.yaml")
    assert main(["stop"]) == 0


@pytest.mark.parametrize("named", [[], ["--config", "/home/u/hub.yaml"]])
def test_all_hubs_of_a_config_are_meant_as_after_an_update(
    two: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], named: list[str]
) -> None:
    older = tmp_path / "roots-hub/abc-abc.sock"
    older.unlink()
    older.hardlink_to(tmp_path / "roots-hub/def-def.sock")
    assert main(["reload", *named]) == 0
    assert capsys.readouterr().out.count("/home/u/hub.yaml:\n") == 2
    assert main(["stop", *named]) == 0
    assert capsys.readouterr().out.count("stopped: /home/u/hub.yaml") == 2


def test_a_hub_of_the_user_who_runs_the_tests_is_not_stopped(
    two: list[str],
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "roots-hub/abc-abc.sock").unlink()
    with TemporaryDirectory() as directory:
        assert not Path(directory).is_relative_to(tmp_path_factory.getbasetemp())
        users = Path(directory, "roots-hub")
        (tmp_path / "roots-hub").rename(users)

        def runtime_paths(_: object) -> list[str]:
            return [str(users)]

        monkeypatch.setattr("hub.attach.runtime_directory.runtime_paths", runtime_paths)
        assert main(["stop", "--all"]) == 0
    assert not two
    assert capsys.readouterr().out == "no hub is running\n"


def test_a_reload_names_the_file_in_full_as_its_hub_may_have_been_started_elsewhere(
    two: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reload", "--config", "/home/u/hub.yaml"]) == 0
    assert capsys.readouterr().out == "/home/u/hub.yaml:\nhub.yaml has \\x1b[2Jnothing new.\n"
    assert any("reload" in one for one in two)


async def test_a_hub_of_a_command_that_serves_nobody_says_that_it_has_no_config() -> None:
    hub = cast("Hub", None)  # without clients nothing is asked of it
    served = ViewOfEach(hub, this_machine({}), Setting(), Namespace(config=None))
    assert (await served.reload()).lines() == [
        "Nothing was taken over: the config that was in force stays.",
        "there is no config file",
        "Start the hub with --config.",
    ]


async def test_a_reload_without_clients_reads_the_file_and_says_that_it_is_for_the_next(
    tmp_path: Path,
) -> None:
    config = tmp_path / "hub.yaml"
    hub = cast("Hub", None)  # as above
    served = ViewOfEach(hub, this_machine({}), Setting(), Namespace(config=str(config)))
    config.write_text("version: 1\nservers: {a: {command: x}}\n")
    report = await served.reload()
    assert report.error is None
    assert report.lines() == [f"No client is there: the next one gets {config} as it is then."]
    config.write_text("version: 1\nservers: {a: {comand: x}}\n")
    assert "servers.a.comand: unknown key" in ((await served.reload()).error or "")
