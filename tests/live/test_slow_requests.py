from __future__ import annotations

import http.client
import json
import os
import re
import select
import shutil
import socket
import threading
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.kit.warm import ROOTS_HUB
from tests.live.attaching import until
from tests.live.half_requests import KINDS, posted, session, unfinished
from tests.live.programs import SOON, Program, program

pytestmark = pytest.mark.live

FILES = 256
COUNT = 80 * len(KINDS)
LOST = 5
"""How many of 50 new connections may be closed before their request is there."""
MB = 1024 * 1024


def address_in(hub: Program) -> tuple[str, int]:
    host, _, port = hub.first_line("roots-hub serves http://").split("/")[0].rpartition(":")
    return host, int(port)


def limited(folder: Path) -> list[str]:
    """Return the command of a hub that may open few files."""
    command = f'ulimit -n {FILES}; exec "$0" run --http 127.0.0.1:0 --root "$1"'
    return ["/bin/sh", "-c", command, ROOTS_HUB, str(folder)]


class Called:
    """A client with a session that calls a tool."""

    def __init__(self, address: tuple[str, int], path: Path) -> None:
        self.address = address
        self.key = session(address)
        call = {"name": "get_file_info", "arguments": {"path": str(path)}}
        request = posted({"id": 2, "method": "tools/call", "params": call}, Mcp_Session_Id=self.key)
        head, _, self.body = request.partition(b"\r\n\r\n")
        self.fields = dict(line.split(": ") for line in head.decode().split("\r\n")[1:])
        self.kept = self.connection()

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(*self.address, timeout=60)

    def close(self) -> None:
        self.kept.close()

    def is_served(self) -> bool:
        """Return whether a call on a new connection is answered; False if it was closed before.

        Others from this address open new ones all the while, and the oldest that has sent nothing
        yet goes: a client that was not on a processor for some milliseconds may be that.
        """
        with closing(self.connection()) as fresh:
            try:
                self.call(fresh)
            except (BrokenPipeError, ConnectionResetError, http.client.RemoteDisconnected):
                return False
        return True

    def call(self, connection: http.client.HTTPConnection) -> None:
        connection.request("POST", "/mcp", self.body, self.fields)
        answer = connection.getresponse()
        text = answer.read()
        assert answer.status == 200, text
        assert json.loads(text)["result"]["isError"] is False


def memory_of(pid: int) -> int:
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def test_a_client_is_served_beside_many_that_finish_nothing(tmp_path: Path) -> None:
    large = tmp_path / "large.txt"
    large.write_text("x" * (128 * 1024))
    with (
        program(limited(tmp_path), cwd=tmp_path) as hub,
        closing(Called(address_in(hub), large)) as client,
    ):
        client.call(client.kept)
        before = memory_of(hub.process.pid)
        where = f"{client.address[0]}:{client.address[1]}"
        with unfinished(where, COUNT, str(large)) as others:
            lost = sum(not client.is_served() for _ in range(50))
            assert lost <= LOST
            # What was kept may have been idle for too long by now, and is connected again then.
            client.kept.close()
            for _ in range(50):
                client.call(client.kept)
            if os.geteuid() == 0:  # from others the hub hides its files
                assert len(os.listdir(f"/proc/{hub.process.pid}/fd")) < FILES  # noqa: PTH208 - no names
            during = memory_of(hub.process.pid)
            assert int(others.communicate()[0]) > 0
        assert during - before < 64 * MB
        log = hub.errors.read_text().splitlines()
        assert any("others need its place" in line for line in log)
        assert len(log) < 50


def test_large_messages_have_one_bound_and_their_memory_goes_back(tmp_path: Path) -> None:
    with (
        program([ROOTS_HUB, "run", "--http", "127.0.0.1:0"], cwd=tmp_path) as hub,
        closing(Called(address_in(hub), tmp_path)) as client,
    ):
        client.call(client.kept)
        before = memory_of(hub.process.pid)
        size = 30 * MB
        head = re.sub(rb"Content-Length: \d+", b"Content-Length: %d" % size, posted({}))
        halves = [socket.create_connection(client.address) for _ in range(10)]
        for half in halves:
            half.settimeout(SOON)
        senders = [threading.Thread(target=_send, args=(half, head, size)) for half in halves]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join(SOON)
        until(lambda: len(answered(halves)) >= 6)  # an address alone has half of the room
        refused = answered(halves)
        assert len(refused) == 6
        answer = refused[0].recv(4096)
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: " in answer.lower()
        with closing(client.connection()) as fresh:
            client.call(fresh)
        assert memory_of(hub.process.pid) - before < 200 * MB
        for half in halves:
            half.close()
        until(lambda: memory_of(hub.process.pid) - before <= 16 * MB)
        assert "request refused: 503" in hub.errors.read_text()


def _send(half: socket.socket, head: bytes, size: int) -> None:
    """Send all of a request but its last byte, unless it is refused before."""
    body = head.partition(b"\r\n\r\n")[0] + b"\r\n\r\n" + b" " * (size - 1)
    try:
        half.sendall(body)
    except OSError:
        return


def answered(halves: list[socket.socket]) -> list[socket.socket]:
    """Return those on which there is something to read."""
    found: list[socket.socket] = []
    for half in select.select(halves, [], [], 0)[0]:
        with suppress(OSError):
            if half.recv(1, socket.MSG_PEEK):
                found.append(half)
    return found


def test_without_processes_the_hub_says_what_is_missing(tmp_path: Path) -> None:
    if shutil.which("setpriv") is None:
        pytest.skip("needs setpriv and prlimit: install util-linux")
    bound = ["prlimit", "--nproc=1:1", ROOTS_HUB, "run"]
    if os.getuid() == 0:
        # Root is not bound by it: somebody else who may read the tests' files is.
        may = "+dac_override,+dac_read_search"
        other = ["--reuid=65534", "--clear-groups", f"--inh-caps={may}", f"--ambient-caps={may}"]
        bound = ["setpriv", *other, *bound]
    with program(bound, cwd=tmp_path) as hub:
        assert hub.process.wait(60) == 1
        lines = hub.errors.read_text().splitlines()
        assert len(lines) == 2, lines
        assert "ulimit -u" in lines[1]
