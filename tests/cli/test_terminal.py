from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
from pathlib import Path

import pytest
import structlog
from structlog.testing import capture_logs

from hub.cli.terminal import ask_for_inputs, untold

log = structlog.stdlib.get_logger(__name__)

CONFIG = {
    "inputs": [
        {"id": "key", "description": "The API key", "password": True},
        {"id": "host", "type": "promptString", "description": "The host"},
    ],
    "servers": {
        "a": {"command": "true", "env": {"K": "${input:key}", "H": "${input:host}"}},
        "b": {"command": "true"},
    },
}


def until(terminal: int, text: str) -> str:
    """Return what the terminal shows, up to a text."""
    shown = ""
    while text not in shown:
        ready, _, _ = select.select([terminal], [], [], 60)
        assert ready, shown
        shown += os.read(terminal, 4096).decode()
    return shown


@pytest.mark.live
def test_a_check_on_a_terminal_asks_for_inputs(tmp_path: Path) -> None:
    (tmp_path / "mcp.json").write_text(json.dumps(CONFIG))
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "hub", "check", "--config", "mcp.json"]
    check = subprocess.Popen(  # noqa: S603 - the hub itself
        command,
        cwd=tmp_path,
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    assert "The API key (${input:key})" in until(ours, "HUB_INPUT_KEY: ")
    os.write(ours, b"s3cret\n")
    shown = until(ours, "HUB_INPUT_HOST: ")
    assert "The host (${input:host})" in shown
    assert "s3cret" not in shown
    os.write(ours, b"h.example\n")
    said, _ = check.communicate(timeout=60)
    os.close(ours)
    assert said.decode().startswith("2 servers: a, b. The config is fine.\n")
    assert check.returncode == 0


def test_without_a_terminal_nothing_is_asked(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    ask_for_inputs(None)
    ask_for_inputs(str(tmp_path / "none.json"))
    assert capfd.readouterr() == ("", "")


def test_what_the_command_tells_is_not_logged_and_junk_of_a_server_once() -> None:
    with capture_logs() as logged:
        untold("down")
        for event, server in (("junk", "a"), ("junk", "a"), ("junk", "b"), ("down", "a")):
            log.warning(event, server=server, text=str(len(logged)), error=f"no {len(logged)}")
        for name in ("one", "two"):
            log.warning("left out", server="a", name=name)
        for _ in range(2):
            log.warning("root skipped")
            log.info("stderr", server="a", line="waiting")
    told = [(one["event"], one.get("server"), one.get("name")) for one in logged]
    assert told == [
        ("junk", "a", None),
        ("junk", "b", None),
        ("left out", "a", "one"),
        ("left out", "a", "two"),
        *[("root skipped", None, None), ("stderr", "a", None)] * 2,
    ]
