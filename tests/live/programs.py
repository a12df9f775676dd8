"""Starts the hub and other servers as processes, and connects the SDK's client to them."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, cast
from urllib.parse import urlsplit

import anyio
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import (
    CallToolResult,
    ListRootsResult,
    Root,
    RootsListChangedNotification,
    TextContent,
    Tool,
)

from tests.conftest import PROJECT
from tests.kit.warm import WARM_HUB, AnyProcess, popen

RECORDER = [sys.executable, str(Path(__file__).parent / "recording_child.py")]
MARK = "ROOTS_HUB_TEST_MARK"
SOON = 60.0
"""Seconds that a program may take to start or to end."""

Mode = Literal["legacy", "auto", "2026-07-28"]


def environment(**more: str) -> dict[str, str]:
    """Return what programs of the tests run in: nothing of the caller's that the hub would read."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("HUB_")}
    return {**kept, **more}


@dataclass
class Program:
    """A process that prints where it serves; it and its descendants can be told by `mark`."""

    process: AnyProcess
    mark: str
    errors: Path

    def first_line(self, begins: str) -> str:
        """Return what follows `begins` on the first line of stdout that has it."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(begins):
                return line.removeprefix(begins).strip()
        raise AssertionError(f"it ended: {self.errors.read_text()}")

    def end(self) -> int:
        """Ask it to end, and return its exit code."""
        self.process.terminate()
        return self.process.wait(SOON)


@dataclass(frozen=True)
class EraServers:
    """Servers that speak both eras, as entries of a config; each has its name in its URIs."""

    child: str
    socket: str
    urls: Mapping[str, str]

    def launched(self, name: str, era: str, *many: str) -> dict[str, Any]:
        args = ["-I", "-S", self.child, self.socket, name, *many]
        return {"command": sys.executable, "args": args, "era": era}

    def reached(self, name: str, era: str) -> dict[str, Any]:
        return {"url": self.urls[name], "era": era}


@contextmanager
def program(
    arguments: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
) -> Generator[Program]:
    """Run a program until the context ends."""
    mark = secrets.token_hex(8)
    errors = cwd / f"stderr-{mark}.log"
    with errors.open("w") as stderr:
        process = popen(
            arguments,
            cwd=cwd,
            env=environment(**{MARK: mark}, **(env or {})),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            **({"pass_fds": pass_fds} if pass_fds else {}),
        )
    try:
        yield Program(process, mark, errors)
    finally:
        process.terminate()
        try:
            process.wait(SOON)
        finally:
            process.kill()
            process.communicate()


@contextmanager
def http_hub(
    *arguments: str, cwd: Path, env: Mapping[str, str] | None = None, hub: str = WARM_HUB
) -> Generator[str]:
    """Run `roots-hub run --http` on a free port, and yield its URL."""
    argv = [hub, "run", "--http", "127.0.0.1:0", *arguments]
    with program(argv, cwd=cwd, env=env) as running:
        yield running.first_line("roots-hub serves ")


@contextmanager
def era_servers(*remote: str, cwd: Path) -> Generator[EraServers]:
    """Run `era_server.py`, and yield where its servers are; `remote` are those over HTTP."""
    here = Path(__file__).parent
    with TemporaryDirectory() as folder:  # the address of a socket has no room for a long path
        socket = f"{folder}/eras"
        server = [sys.executable, "-m", "tests.live.era_server", socket, *remote]
        with program(server, cwd=cwd, env={"PYTHONPATH": str(PROJECT)}) as running:
            urls = json.loads(running.first_line("serves "))
            yield EraServers(str(here / "era_child.py"), socket, urls)


@contextmanager
def authorization_server(node: str, resource: str, *arguments: str, cwd: Path) -> Generator[str]:
    """Run `authorization_server.mjs` for clients of a resource, and yield its issuer."""
    server = str(Path(__file__).with_name("authorization_server.mjs"))
    cwd.mkdir(exist_ok=True)
    with program([node, server, resource, *arguments], cwd=cwd) as running:
        yield running.first_line("issuer ")


@contextmanager
def login_wanting_hub(
    folder: Path, resource: str, issuer: str, servers: Mapping[str, Any], **keys: Any
) -> Generator[str]:
    """Run a hub that is a remote server which wants tokens of an issuer, and yield its URL."""
    folder.mkdir(exist_ok=True)
    auth = {"resource": resource, "issuers": [{"issuer": issuer}], "scopes": ["mcp:tools"]}
    config = config_file(folder, servers, listen={"auth": auth}, **keys)
    with http_hub("--http", urlsplit(resource).netloc, "--config", config, cwd=folder) as url:
        yield url


def alive(mark: str) -> list[str]:
    """Return the command lines of the processes that carry `mark` in their environment."""
    wanted = f"{MARK}={mark}".encode()
    found: list[str] = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                if wanted in (folder / "environ").read_bytes().split(b"\0"):
                    found.append((folder / "cmdline").read_text().replace("\0", " "))
            except OSError:
                continue
    return found


def config_file(directory: Path, servers: Mapping[str, Any], **keys: Any) -> str:
    """Write a hub.yaml (JSON is YAML), and return its path."""
    file = directory / f"hub-{secrets.token_hex(4)}.yaml"
    file.write_text(json.dumps({"version": 1, **keys, "servers": servers}))
    return str(file)


@dataclass
class SharedFolders:
    """A client's roots: what it answers when it is asked, and how often it was."""

    folders: list[Path]
    asked: int = 0
    names: Mapping[Path, str] = field(default_factory=dict[Path, str])

    async def __call__(self, context: object) -> ListRootsResult:
        self.asked += 1
        return ListRootsResult.model_validate(
            {
                "roots": [
                    Root.model_validate({"uri": folder.as_uri(), "name": self.names.get(folder)})
                    for folder in self.folders
                ]
            }
        )


Target = str | Sequence[str]
"""A URL, or a command line."""


@asynccontextmanager
async def connected(
    target: Target,
    roots: SharedFolders | Iterable[Path] | None = None,
    *,
    mode: Mode = "legacy",
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    **callbacks: Any,
) -> AsyncGenerator[Client]:
    """Connect the SDK's client to a URL, or to a command over stdio."""
    shared = (
        SharedFolders(list(roots))
        if roots is not None and not isinstance(roots, SharedFolders)
        else roots
    )
    if isinstance(target, str):
        server: Any = target
    else:
        server = stdio_client(
            StdioServerParameters(
                command=target[0], args=list(target[1:]), cwd=cwd, env=environment(**(env or {}))
            )
        )
    async with Client(server, list_roots_callback=shared, mode=mode, **callbacks) as client:
        yield client


def text_of(result: CallToolResult) -> str:
    """Return the first text of a tool's result."""
    content = result.content[0]
    assert isinstance(content, TextContent)
    return content.text


async def call(client: Client, tool: str, **arguments: Any) -> str:
    """Call a tool, and return the first text of its result."""
    return text_of(await client.call_tool(tool, arguments))


async def report(client: Client) -> dict[str, Any]:
    """Return what `get-roots` says."""
    return cast("dict[str, Any]", json.loads(await call(client, "get-roots")))


async def report_once_started(client: Client) -> dict[str, Any]:
    """Return what `get-roots` says once no server starts: their tools may be known before that."""
    with anyio.fail_after(SOON):
        while True:
            found = await report(client)
            if all(server["state"] != "starting" for server in found["servers"]):
                return found
            await anyio.sleep(0.1)


async def tools_of(client: Client, *servers: str) -> list[Tool]:
    """Return all tools once each of these servers has some: a list may lack one that is slow."""
    with anyio.fail_after(SOON):
        while True:
            tools = (await client.list_tools(cache_mode="bypass")).tools
            if {*servers} <= {tool.name.partition("__")[0] for tool in tools}:
                return tools
            await anyio.sleep(0.1)


def outside(path: str | Path, *roots: Path) -> str:
    """Return the text of a refusal."""
    uris = json.dumps([root.as_uri() for root in roots])
    return (
        f"Access denied: Path '{path}' is outside the allowed roots boundaries. "
        f"Current roots: {uris}"
    )


async def roots_changed(client: Client) -> None:
    """Send what a client sends when its roots have changed."""
    await client.session.send_notification(RootsListChangedNotification())
