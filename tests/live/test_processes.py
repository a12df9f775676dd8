"""However the hub ends, no process of its children is left: looked up in /proc."""

from __future__ import annotations

import json
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import anyio
import pytest

from tests.kit.warm import ROOTS_HUB, AnyProcess
from tests.live.attaching import until
from tests.live.programs import (
    MARK,
    RECORDER,
    SOON,
    alive,
    call,
    config_file,
    connected,
    environment,
    program,
)

pytestmark = pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are told by /proc")

GRANDPARENT = [
    sys.executable,
    "-c",
    "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)",
    *RECORDER,
]


class Piped:
    """A hub on pipes, spoken to line by line."""

    def __init__(self, process: AnyProcess, mark: str) -> None:
        self.process = process
        self.mark = mark
        assert process.stdin is not None
        assert process.stdout is not None
        self.stdin: IO[str] = process.stdin
        self._stdout: IO[str] = process.stdout

    def ask(self, method: str, params: object) -> object:
        """Send a request, and return its result."""
        request = {"jsonrpc": "2.0", "id": method, "method": method, "params": params}
        self.stdin.write(json.dumps(request) + "\n")
        self.stdin.flush()
        while True:
            answer = json.loads(self._stdout.readline())
            if answer.get("id") == method:
                return answer["result"]

    def begin(self) -> None:
        """Do the handshake, and have all children started."""
        info = {"name": "piped", "version": "1"}
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
        self.ask("initialize", params)
        self.stdin.write('{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        self.ask("tools/list", {})


@contextmanager
def stdio_hub(config: str, cwd: Path) -> Generator[Piped]:
    """Run `roots-hub run --stdio`."""
    mark = secrets.token_hex(8)
    with subprocess.Popen(  # noqa: S603 - ours
        [ROOTS_HUB, "run", "--stdio", "--config", config],
        cwd=cwd,
        env=environment(**{MARK: mark}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            yield Piped(process, mark)
        finally:
            process.kill()


def servers_of(mark: str) -> list[str]:
    """Return what is alive but the hub, which only root sees: it hides its environment."""
    return [line for line in alive(mark) if ROOTS_HUB not in line]


@pytest.fixture(scope="module")
def config(tree: Path, npm_program: Callable[[str], str]) -> str:
    """A filesystem server, one that ignores what it is told, and one with a child of its own."""
    servers = {
        "filesystem": {"command": npm_program("mcp-server-filesystem"), "args": [str(tree)]},
        "stubborn": {"command": RECORDER[0], "args": [*RECORDER[1:], "--stubborn"]},
        "grandparent": {"command": GRANDPARENT[0], "args": GRANDPARENT[1:]},
    }
    return config_file(tree, servers)


@pytest.mark.parametrize("how", ["stdin", "SIGTERM", "SIGINT"])
def test_nothing_is_left_when_a_hub_on_stdio_ends(how: str, config: str, tree: Path) -> None:
    with stdio_hub(config, tree) as hub:
        hub.begin()
        until(lambda: len(servers_of(hub.mark)) >= 4)
        if how == "stdin":
            hub.stdin.close()
        else:
            hub.process.send_signal(signal.Signals[how])
        assert hub.process.wait(SOON) == 0
        assert alive(hub.mark) == []


async def test_nothing_is_left_when_a_hub_on_http_ends(config: str, tree: Path) -> None:
    command = [ROOTS_HUB, "run", "--http", "127.0.0.1:0", "--config", config]
    with program(command, cwd=tree) as hub:
        url = hub.first_line("roots-hub serves ")
        async with connected(url, [tree / "project"]) as client:
            await client.list_tools()
            await anyio.to_thread.run_sync(until, lambda: len(servers_of(hub.mark)) >= 4)
        code = await anyio.to_thread.run_sync(hub.end)
        assert code == 0
        assert alive(hub.mark) == []


async def test_children_of_other_roots_are_ended_when_the_roots_change(tree: Path) -> None:
    servers = {"recorder": {"command": RECORDER[0], "args": RECORDER[1:]}}
    command = [ROOTS_HUB, "run", "--http", "127.0.0.1:0", "--config", config_file(tree, servers)]
    with program(command, cwd=tree) as hub:
        url = hub.first_line("roots-hub serves ")
        async with connected(url, [tree / "project"]) as one:
            first = await call(one, "pid")
            async with connected(url, [tree / "docs"]) as two:
                assert await call(two, "pid") != first
                assert len(servers_of(hub.mark)) == 2
