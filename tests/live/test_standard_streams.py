"""The hub on whatever its standard streams are, on the event loop that users get and without it."""

from __future__ import annotations

import json
import os
import pty
import socket
import subprocess
import sys
import termios
from collections.abc import Generator
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from tests.kit.warm import IS_POSSIBLE, ROOTS_HUB, WARM_HUB, popen
from tests.live.programs import RECORDER, SOON, call, connected, environment, http_hub

WRAP = [ROOTS_HUB, "wrap", "--", *RECORDER]
FORKED = [WARM_HUB, *WRAP[1:]]
"""Where it makes no difference how a hub starts, and it has uvloop as the others have."""
INITIALIZE: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}},
}
CALL: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 2,
    "method": "tools/call",
    "params": {"name": "pid", "arguments": {}},
}
BIG = 6 * 1024 * 1024


@pytest.fixture(params=["uvloop", "asyncio"])
def env(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    if request.param == "uvloop":
        return {"RECORD": str(tmp_path)}
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    for name in ("uvloop", "httptools"):
        (hidden / f"{name}.py").write_text("raise ImportError")
    return {"RECORD": str(tmp_path), "PYTHONPATH": str(hidden)}


def script(*messages: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


def ids(text: bytes) -> list[int]:
    return [json.loads(line)["id"] for line in text.splitlines()]


def run(
    env: dict[str, str],
    asked: bytes | None = None,
    stdin: BinaryIO | int = subprocess.PIPE,
    stdout: BinaryIO | int = subprocess.PIPE,
) -> tuple[int, bytes]:
    """Return the hub's exit code and what it wrote."""
    with popen(FORKED, env=environment(**env), stdin=stdin, stdout=stdout) as hub:
        if asked is not None and hub.stdin is not None:
            hub.stdin.write(asked)
            hub.stdin.close()
        answered = b"" if hub.stdout is None else hub.stdout.read()
        return hub.wait(SOON), answered


def test_pipes(env: dict[str, str]) -> None:
    code, answered = run(env, script(INITIALIZE, CALL))
    assert (code, ids(answered)) == (0, [1, 2])


def test_regular_files(env: dict[str, str], tmp_path: Path) -> None:
    asked, answered = tmp_path / "asked", tmp_path / "answered"
    asked.write_bytes(script(INITIALIZE, CALL))
    with asked.open("rb") as stdin, answered.open("wb") as stdout:
        assert run(env, stdin=stdin, stdout=stdout)[0] == 0
    assert ids(answered.read_bytes()) == [1, 2]


def test_one_socket_for_both_directions(env: dict[str, str]) -> None:
    ours, theirs = socket.socketpair()
    with (
        ours,
        subprocess.Popen(  # noqa: S603 - the hub
            WRAP, env=environment(**env), stdin=theirs.fileno(), stdout=theirs.fileno()
        ) as hub,
        ours.makefile("rb") as heard,
    ):
        theirs.close()
        for asked in (INITIALIZE, CALL):
            ours.sendall(script(asked))
            assert ids(heard.readline()) == [asked["id"]]
        ours.shutdown(socket.SHUT_WR)
        assert hub.wait(SOON) == 0


def test_nothing_at_all(env: dict[str, str]) -> None:
    nothing = subprocess.DEVNULL
    assert run(env, stdin=nothing, stdout=nothing)[0] == 0


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_that_are_closed_count_as_empty(env: dict[str, str], closed: str) -> None:
    """Some starters close them; the next files that a program opens would be taken for them."""
    ended = subprocess.run(  # noqa: S603 - the hub
        ["/bin/sh", "-c", f'exec "$@" {closed}', "sh", *WRAP],
        env=environment(**env),
        input=script(INITIALIZE, CALL),
        capture_output=True,
        timeout=SOON,
        check=False,
    )
    assert ended.returncode == 0
    assert ids(ended.stdout) == ([1, 2] if closed == "2>&-" else [])
    assert b"Traceback" not in ended.stderr
    assert b"Assertion" not in ended.stderr


@pytest.fixture
def terminal() -> Generator[tuple[int, int]]:
    ours, theirs = pty.openpty()
    modes = termios.tcgetattr(theirs)
    modes[3] &= ~termios.ECHO
    termios.tcsetattr(theirs, termios.TCSANOW, modes)
    yield ours, theirs
    os.close(ours)
    os.close(theirs)


def test_a_terminal(env: dict[str, str], terminal: tuple[int, int]) -> None:
    ours, theirs = terminal
    with subprocess.Popen(  # noqa: S603 - the hub
        WRAP, env=environment(**env), stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL
    ) as hub:
        for asked in (INITIALIZE, CALL):
            os.write(ours, script(asked))
            heard = b""
            while not heard.endswith(b"\n"):
                heard += os.read(ours, 65536)
            assert ids(heard) == [asked["id"]]
        os.write(ours, b"\x04")  # the end of the input, as typed
        assert hub.wait(SOON) == 0


async def test_large_messages(env: dict[str, str], tmp_path: Path) -> None:
    large = tmp_path / "large"
    large.write_text("x" * BIG)
    async with connected([*FORKED[:2], "--root", str(tmp_path), *FORKED[2:]], env=env) as client:
        assert len(await call(client, "read_file", path=str(large))) == BIG
        assert await call(client, "whereabouts", text="y" * BIG)


async def test_http(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    with http_hub(cwd=tmp_path, env=env, hub=ROOTS_HUB) as url:
        async with connected(url) as client:
            assert await call(client, "read_file", path=str(tmp_path / "a.txt")) == "a"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a file that is full")
@pytest.mark.parametrize("hub", [ROOTS_HUB, WARM_HUB], ids=["installed", "forked"])
def test_what_cannot_be_written_shows_in_the_exit_code(
    hub: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)  # then it would show before the end
    other = tmp_path / "other"
    with Path("/dev/full").open("w") as full, other.open("w") as file:
        with popen([hub, "no-such-command"], stdout=file, stderr=full) as ended:
            assert ended.wait(SOON) == 120
        assert other.read_text() == ""
        with popen([hub, "--version"], stdout=full, stderr=file) as ended:
            assert ended.wait(SOON) == 120
    assert "No space left on device" in other.read_text()


@pytest.mark.skipif(not IS_POSSIBLE, reason="no hub is forked here")
def test_ctrl_c_does_not_end_what_hubs_are_forked_from(tmp_path: Path) -> None:
    """The tests end it, and with it all that it has forked; who is interrupted may go on."""
    with popen([WARM_HUB, "run"], cwd=tmp_path, stdin=subprocess.PIPE) as hub:
        group = os.getpgid(hub.pid)
        assert hub.stdin is not None
        hub.stdin.close()
    assert group != os.getpgrp()


def test_what_stands_in_for_no_uvloop_does(env: dict[str, str]) -> None:
    code = "import uvloop"
    ended = subprocess.run(  # noqa: S603 - this Python
        [sys.executable, "-c", code], env=environment(**env), stderr=subprocess.DEVNULL, check=False
    )
    assert (ended.returncode == 0) is ("PYTHONPATH" not in env)
