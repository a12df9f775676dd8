"""Clients of `roots-hub attach` as a program sees them: its process, its ends, and the hub."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from tests.kit.warm import ROOTS_HUB, WARM_HUB, AnyProcess, popen, ran
from tests.live.programs import SOON, environment

as_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0,
    reason="only root looks into the hub's process: it is hidden from others",
)
INSTALLED = (ROOTS_HUB, "attach")
RUNNING_CHILD = {
    "command": sys.executable,
    "args": [str(Path(__file__).with_name("running_child.py"))],
    "environment": "all",
}
"""A server that runs any command for its client."""


class AttachedClient:
    """A client that started `roots-hub attach`, and speaks to whatever is at the other end."""

    def __init__(self, process: AnyProcess, stdin: IO[bytes], stdout: IO[bytes]) -> None:
        self.process = process
        self.stdin = stdin
        self.stdout = stdout
        self._ids = 0

    def tell(self, method: str, **params: Any) -> None:
        self._write({"method": method, "params": params})

    def begin(self, method: str, **params: Any) -> int:
        """Send a request, and return its id."""
        self._ids += 1
        self._write({"id": self._ids, "method": method, "params": params})
        return self._ids

    def _write(self, message: Mapping[str, Any]) -> None:
        self.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.stdin.flush()

    def ask(self, method: str, **params: Any) -> Any:
        """Send a request, and return its result."""
        number = self.begin(method, **params)
        while True:
            line = self.stdout.readline()
            assert line, f"the hub has closed stdout; {self.errors()}"
            answer = json.loads(line)
            if answer.get("id") == number and "method" not in answer:
                return answer.get("result", answer)

    def open(self) -> None:
        """Do the handshake."""
        self.ask(
            "initialize",
            protocolVersion="2025-11-25",
            capabilities={},
            clientInfo={"name": "attached", "version": "1"},
        )
        self.tell("notifications/initialized")

    def tools(self) -> list[str]:
        return [tool["name"] for tool in self.ask("tools/list")["tools"]]

    def call(self, name: str, **arguments: Any) -> str:
        """Call a tool, and return the first text of its result."""
        return self.ask("tools/call", name=name, arguments=arguments)["content"][0]["text"]

    def errors(self) -> str:
        """Return all that its process wrote to stderr; it must end."""
        assert self.process.stderr is not None
        return self.process.stderr.read().decode()

    def end(self) -> int:
        """Close stdin, and return the exit code."""
        self.stdin.close()
        return self.process.wait(SOON)


@contextmanager
def attached(
    *arguments: str,
    cwd: Path,
    command: Sequence[str] = (WARM_HUB, "attach"),
    on_sockets: bool = False,
    env: Mapping[str, str] | None = None,
) -> Generator[AttachedClient]:
    """Run a command that attaches, on pipes or on sockets; it is killed at the end."""
    pairs = _sockets() if on_sockets else None
    process = popen(
        [*command, *arguments],
        cwd=cwd,
        env=environment(**(env or {})),
        stdin=subprocess.PIPE if pairs is None else pairs[1][0],
        stdout=subprocess.PIPE if pairs is None else pairs[1][1],
        stderr=subprocess.PIPE,
    )
    if pairs is None:
        stdin, stdout = process.stdin, process.stdout
    else:
        ours, theirs = pairs
        stdin, stdout = os.fdopen(ours[0], "wb"), os.fdopen(ours[1], "rb")
        for one in theirs:
            os.close(one)
    assert stdin is not None
    assert stdout is not None
    try:
        yield AttachedClient(process, stdin, stdout)
    finally:
        process.kill()
        process.wait(SOON)
        for file in (stdin, stdout, process.stderr):
            try:
                file.close()  # pyright: ignore[reportOptionalMemberAccess] - a pipe
            except BrokenPipeError:
                continue


def _sockets() -> tuple[tuple[int, int], tuple[int, int]]:
    """Return a client's ends of two socket pairs, as Node makes them, and the process's ends."""
    (stdin, their_stdin), (stdout, their_stdout) = socket.socketpair(), socket.socketpair()
    return (stdin.detach(), stdout.detach()), (their_stdin.detach(), their_stdout.detach())


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run `roots-hub` with these arguments to its end."""
    return ran([WARM_HUB, *arguments], cwd=cwd, env=environment(), timeout=2 * SOON)


def hubs(config: str, cwd: Path) -> list[dict[str, Any]]:
    """Return what `status` says of the hubs of a config."""
    done = run("status", "--json", "--config", config, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["hubs"]


def until(is_so: Callable[[], object]) -> None:
    """Return once something is so."""
    deadline = time.monotonic() + SOON
    while not is_so():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def shared_hubs(config: str) -> list[int]:
    """Return the processes that run a shared hub for a config."""
    found: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if config.encode() in words and any(one.endswith(b"shared_hub.py") for one in words):
                found[int(folder.name)] = parent
    # What a hub forks has its command line until it is another program.
    return [pid for pid, parent in found.items() if parent not in found]
