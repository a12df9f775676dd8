from __future__ import annotations

import errno
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hub.cli.check.trials import confinement_report
from hub.cli.main import main
from hub.confinement import landlock
from hub.confinement.confined_launch import this_kernel
from hub.system.machine import Kernel
from tests.kit.confinement import RefusingLibc, needs_landlock

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has Landlock")


def config(directory: Path, **confine: object) -> str:
    file = directory / "hub.yaml"
    server = {"command": "/bin/sh", "confine": confine}
    file.write_text(json.dumps({"version": 1, "servers": {"files": server}}))
    return str(file)


@needs_landlock
def test_this_machine_is_tried() -> None:
    lines, fine = confinement_report(this_kernel())
    assert fine
    assert lines[0].startswith("Landlock ABI ")
    assert lines[-1].startswith("Tried: ")


@pytest.fixture
def old_kernel(libc: Callable[[object], None]) -> str:
    """Let this machine's kernel have no Landlock; returns how the hub says that."""
    libc(RefusingLibc(errno.ENOSYS))
    return "this kernel has no Landlock: use Linux 5.13 or newer, built with SECURITY_LANDLOCK"


@needs_linux
def test_a_machine_that_cannot_says_why(
    old_kernel: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("HUB_CONFIG", raising=False)
    assert main(["check", "--confine"]) == 1
    assert capsys.readouterr().out == f"This machine cannot confine servers: {old_kernel}.\n"


@pytest.mark.parametrize(
    ("stdout", "stderr", "says"),
    [
        ("granted\nsecret\n", "", "a file that was not granted could be read"),
        ("", "roots-hub cannot confine this process: why\n", "cannot confine this process: why"),
        ("granted\n", "", "it printed nothing"),
    ],
)
def test_a_trial_that_fails_is_a_failure(stdout: str, stderr: str, says: str) -> None:
    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 0, stdout, stderr)

    lines, fine = confinement_report(Kernel(2, ""), run)
    assert not fine
    assert says in lines[-1]
    assert any("truncating" in line for line in lines)


@needs_landlock
def test_system_calls_that_are_not_filtered_are_a_failure() -> None:
    lines, fine = confinement_report(Kernel(landlock.abi(), "", "this kernel is too old"))
    assert not fine
    assert "System calls are NOT filtered: this kernel is too old." in lines


def test_a_trial_that_cannot_be_run_is_one_too() -> None:
    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        raise OSError("no processes left")

    assert confinement_report(Kernel(7, ""), run) == (
        [
            "Landlock ABI 7: servers can be confined.",
            "seccomp: system calls that affect other processes or the machine are refused.",
            "A trial FAILED: no processes left",
        ],
        False,
    )


@pytest.mark.live
@needs_landlock
def test_with_a_config_its_servers_are_checked_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "--confine", "--config", config(tmp_path, mode="require")]) == 0
    assert "The config is fine." in capsys.readouterr().out


@needs_linux
def test_a_server_that_must_be_confined_and_cannot_be_fails_the_check(
    tmp_path: Path, old_kernel: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "--config", config(tmp_path, mode="require")]) == 3
    said = f"servers.files.confine: is require, but confining fails: {old_kernel}"
    assert said in capsys.readouterr().err


def test_the_plan_shows_the_grants(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = config(tmp_path, mode="auto", read=[str(tmp_path / "models")])
    assert main(["plan", "--config", file, "--root", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    for line in (
        "  write  (private HOME)",
        f"  write  {tmp_path}",
        f"  read   {tmp_path}/models",
        "  read   /usr",
    ):
        assert line in shown.splitlines()
    assert main(["plan", "--config", file, "--root", str(tmp_path), "--json"]) == 0
    (planned,) = json.loads(capsys.readouterr().out)
    assert str(tmp_path) in planned["grants"]["write"]


def test_the_plan_of_a_server_that_is_not_confined_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "--config", config(tmp_path, mode="off")]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert "  confinement off" in shown
    assert not [line for line in shown if line.startswith("  read")]


def test_the_plan_of_a_command_that_is_not_there_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = Path(config(tmp_path, mode="auto"))
    file.write_text(file.read_text().replace("/bin/sh", "no-such-command"))
    assert main(["plan", "--config", str(file)]) == 0
    assert "no command 'no-such-command'" in capsys.readouterr().out
