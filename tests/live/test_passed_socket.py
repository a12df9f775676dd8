"""`run --http` on the socket that a service manager passes, as systemd does."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.conftest import PROJECT
from tests.kit.ports import free_port
from tests.kit.warm import ROOTS_HUB
from tests.live.programs import SOON, config_file, connected, environment, program, text_of

pytestmark = pytest.mark.live

ACTIVATE = shutil.which("systemd-socket-activate")
SHOWING = {
    "command": sys.executable,
    "args": [str(Path(__file__).with_name("environment_child.py"))],
    "environment": "all",
}
MANAGER = """
import os, sys
number, count, process, *command = sys.argv[1:]
os.dup2(int(number), 3)
os.environ.update(LISTEN_FDS=count, LISTEN_FDNAMES="hub", LISTEN_PID=process or str(os.getpid()))
os.execv(command[0], command)
"""
"""Does what a service manager does between fork and exec; the process stays the same."""


def passing(passed: socket.socket, *hub: str, count: str = "1", process: str = "") -> list[str]:
    passed.set_inheritable(True)
    number = str(passed.fileno())
    return [sys.executable, "-c", MANAGER, number, count, process, ROOTS_HUB, *hub]


def refused(passed: socket.socket, tmp_path: Path, count: str = "1") -> tuple[int, str]:
    ended = subprocess.run(  # noqa: S603 - the hub
        passing(passed, "run", "--http", "--no-config", count=count),
        cwd=tmp_path,
        env=environment(),
        pass_fds=[passed.fileno()],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SOON,
        check=False,
    )
    return ended.returncode, ended.stderr


async def shown(url: str) -> dict[str, Any]:
    async with connected(url) as client:
        return json.loads(text_of(await client.call_tool("show", {})))


async def test_the_hub_serves_on_the_passed_socket_and_tells_no_server_of_it(
    tmp_path: Path,
) -> None:
    config = config_file(tmp_path, {"showing": SHOWING})
    with closing(socket.create_server(("127.0.0.1", 0))) as passed:
        # The address of --http is that of a hub that nobody passes a socket to.
        command = passing(passed, "run", "--http", "127.0.0.1:1", "--config", config)
        with program(command, cwd=tmp_path, pass_fds=[passed.fileno()]) as hub:
            url = hub.first_line("roots-hub serves ")
            assert url == f"http://127.0.0.1:{passed.getsockname()[1]}/mcp"
            seen = await shown(url)
    assert not [name for name in seen["environment"] if name.startswith("LISTEN_")]


def test_the_next_hub_serves_who_connected_while_there_was_none(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as passed:
        command = passing(passed, "run", "--http", "--no-config")
        health = f"http://127.0.0.1:{passed.getsockname()[1]}/health"
        with program(command, cwd=tmp_path, pass_fds=[passed.fileno()]) as hub:
            hub.first_line("roots-hub serves ")
            assert httpx2.get(health, timeout=SOON).status_code == 200
            hub.end()
        early = socket.create_connection(passed.getsockname(), timeout=SOON)
        with closing(early), program(command, cwd=tmp_path, pass_fds=[passed.fileno()]):
            early.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert early.recv(12) == b"HTTP/1.1 200"


def test_a_socket_that_others_reach_needs_a_token(tmp_path: Path) -> None:
    with closing(socket.create_server(("0.0.0.0", 0))) as passed:  # noqa: S104 - what is refused
        code, errors = refused(passed, tmp_path)
    assert code == 3
    assert "listen: 0.0.0.0 can be reached from other machines, and there is no token" in errors


def test_another_kind_of_socket_is_refused(tmp_path: Path) -> None:
    local = socket.socket(socket.AF_UNIX)
    local.bind(str(tmp_path / "socket"))
    local.listen()
    silent = socket.socket()
    silent.bind(("127.0.0.1", 0))
    datagrams = socket.socket(type=socket.SOCK_DGRAM)
    fix = "\nThe socket unit needs one ListenStream= with a TCP port, and Accept=no."
    with closing(local), closing(silent), closing(datagrams):
        assert f"a socket that is not for TCP{fix}" in refused(local, tmp_path)[1]
        assert f"a socket that is not for TCP{fix}" in refused(datagrams, tmp_path)[1]
        assert f"a socket that does not listen{fix}" in refused(silent, tmp_path)[1]
        code, errors = refused(silent, tmp_path, count="2")
    assert code == 1
    assert f"roots-hub: the service manager passes 2 sockets (LISTEN_FDS), not one{fix}" in errors


def test_a_socket_for_another_process_is_left_alone(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as passed:
        address = f"127.0.0.1:{passed.getsockname()[1]}"
        command = passing(passed, "run", "--http", address, "--no-config", process="1")
        with program(command, cwd=tmp_path, pass_fds=[passed.fileno()]) as hub:
            assert hub.process.wait(SOON) == 1
            assert f"{address}: Address already in use" in hub.errors.read_text()


@pytest.mark.skipif(ACTIVATE is None, reason="needs systemd-socket-activate")
def test_systemd_starts_the_hub_for_its_first_client(tmp_path: Path) -> None:
    assert ACTIVATE is not None
    port = free_port()
    # It empties the environment.
    activate = [ACTIVATE, f"--listen=127.0.0.1:{port}", f"--setenv=PYTHONPATH={PROJECT}"]
    command = [*activate, ROOTS_HUB, "run", "--http", "--no-config"]
    with program(command, cwd=tmp_path) as hub:
        while "Listening on" not in hub.errors.read_text():
            assert hub.process.poll() is None
        reply = httpx2.get(f"http://127.0.0.1:{port}/health", timeout=SOON)
    assert reply.status_code == 200
