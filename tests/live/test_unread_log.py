"""The hub's log goes to a pipe whose reader has stopped reading: it is the log alone that waits."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import anyio
import httpx2
import pytest

from tests.kit.warm import WARM_HUB, AnyProcess, popen
from tests.live.programs import RECORDER, SOON, config_file, environment

CALLS = 2000
HTTP_CALLS = 200
"""Over HTTP each takes longer, and the pipe is full after a few."""
SMALL = 4096
"""Bytes that the pipe holds: full long before the calls are through."""


@contextmanager
def hub(tree: Path, *arguments: str) -> Generator[tuple[AnyProcess, int]]:
    """Run the hub with a log that nobody reads; yields it, and the end where it could be read."""
    servers = {"recorder": {"command": RECORDER[0], "args": RECORDER[1:]}}
    config = config_file(tree, servers, roots={"fallback": [str(tree / "project")]})
    unread, stderr = os.pipe()
    fcntl.fcntl(stderr, fcntl.F_SETPIPE_SZ, SMALL)
    with popen(
        [WARM_HUB, "run", *arguments, "--config", config],
        cwd=tree,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
    ) as process:
        os.close(stderr)
        try:
            yield process, unread
        finally:
            process.kill()
            os.close(unread)


def message(method: str, id_: int | None = None, **params: Any) -> dict[str, Any]:
    named = {} if id_ is None else {"id": id_}
    return {"jsonrpc": "2.0", **named, "method": method, "params": params}


def initialize() -> dict[str, Any]:
    info = {"name": "unread", "version": "1"}
    return message("initialize", 1, protocolVersion="2025-11-25", capabilities={}, clientInfo=info)


def refused_call(id_: int) -> dict[str, Any]:
    return message("tools/call", id_, name="read_file", arguments={"path": "/etc/passwd"})


def is_refused(answer: dict[str, Any]) -> bool:
    return str(answer["result"]["content"][0]["text"]).startswith("Access denied: ")


def is_full(pipe: int) -> bool:
    """Return whether nothing more can be written to a pipe of the small size."""
    waiting = bytearray(4)
    fcntl.ioctl(pipe, FIONREAD, waiting)
    return int.from_bytes(waiting, "little") > SMALL // 2


FIONREAD = 0x541B
pytestmark = pytest.mark.skipif(
    not hasattr(fcntl, "F_SETPIPE_SZ"), reason="the size of a pipe is set on Linux alone"
)


def ask(stdin: IO[bytes], stdout: IO[bytes], asked: dict[str, Any]) -> dict[str, Any]:
    stdin.write(json.dumps(asked).encode() + b"\n")
    stdin.flush()
    return json.loads(stdout.readline())


@pytest.mark.parametrize("how", ["stdin", "SIGTERM", "SIGINT"])
def test_a_log_that_nobody_reads_does_not_stop_a_hub_on_stdio(how: str, tree: Path) -> None:
    with hub(tree, "--stdio") as (process, unread):
        stdin, stdout = process.stdin, process.stdout
        assert stdin is not None
        assert stdout is not None
        ask(stdin, stdout, initialize())
        stdin.write(json.dumps(message("notifications/initialized")).encode() + b"\n")
        for number in range(CALLS):
            assert is_refused(ask(stdin, stdout, refused_call(number)))
        assert is_full(unread)
        assert ask(stdin, stdout, message("ping", 7))["result"] == {}
        if how == "stdin":
            stdin.close()
        else:
            process.send_signal(signal.Signals[how])
        assert process.wait(SOON) == 0


async def test_a_log_that_nobody_reads_does_not_stop_a_hub_on_http(tree: Path) -> None:
    with hub(tree, "--http", "127.0.0.1:0") as (process, unread):
        assert process.stdout is not None
        url = process.stdout.readline().decode().removeprefix("roots-hub serves ").strip()
        headers = {"accept": "application/json, text/event-stream"}
        async with httpx2.AsyncClient(base_url=url, headers=headers, timeout=SOON) as http:
            begun = await http.post("", json=initialize())
            http.headers["mcp-session-id"] = begun.headers["mcp-session-id"]
            await http.post("", json=message("notifications/initialized"))
            for number in range(HTTP_CALLS):
                answer = await http.post("", json=refused_call(number))
                assert is_refused(answer.json())
            assert is_full(unread)
            answer = await http.post("", json=message("ping", 7))
            assert answer.json()["result"] == {}
        process.terminate()
        assert await anyio.to_thread.run_sync(process.wait, SOON) == 0
