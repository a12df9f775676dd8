"""Runs a login in a process of its own: what the hub asks it, and what it answers.

The process has the SDK's OAuth client and the port that the browser comes back to. It gets a line
with a `LoginOrder` on stdin, ends when stdin does, and prints a line for each of its `LoginNews`.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from pathlib import Path
from subprocess import DEVNULL
from typing import Final, TypeAlias

import anyio
import msgspec
from anyio.abc import ByteReceiveStream, Process, TaskGroup
from msgspec import Struct

LIMIT: Final = 330.0
"""Seconds that a login may take: somewhat more than the person at the browser has."""
_PROGRAM: Final = (sys.executable, "-P", "-m", "hub.cli.logins.for_hub")
_MOST: Final = 64 * 1024
"""Bytes of one line."""


class LoginOrder(Struct, frozen=True):
    """What is to be logged in at, as which client; `directory` is where the login is kept."""

    url: str
    directory: str
    in_keyring: bool = False
    client_id: str | None = None
    client_secret: str | None = None
    client_metadata: str | None = None
    issuer: str | None = None
    scopes: tuple[str, ...] = ()
    redirect_port: int | None = None

    def __repr__(self) -> str:
        return "LoginOrder()"  # it may have a secret


class LoginPage(Struct, frozen=True, tag="page"):
    """The address where the person logs in."""

    url: str


class LoginKept(Struct, frozen=True, tag="kept"):
    """The login is kept: it has come to its end."""


class LoginRefused(Struct, frozen=True, tag="refused"):
    """There is no login; the text says why."""

    why: str


LoginNews: TypeAlias = LoginPage | LoginKept | LoginRefused


class LoginRun:
    """A login under way. `page` is known once `begun`; once it is `over`, `failed` says why not.

    `asked` is when somebody was last sent to the page, by a monotonic clock.
    """

    def __init__(self) -> None:
        self.page: str | None = None
        self.failed: str | None = "it has not come to its end"
        self.asked: float | None = None
        self.scope = anyio.CancelScope()
        self.begun = anyio.Event()
        self.over = anyio.Event()

    def cancel(self, why: str) -> None:
        """Give the login up."""
        self.failed = why
        self.scope.cancel()

    def take(self, news: LoginNews) -> None:
        """Process what the process says."""
        match news:
            case LoginPage(url):
                self.page = url
                self.begun.set()
            case LoginKept():
                self.failed = None
            case LoginRefused(why):
                self.failed = why


class LoginRuns:
    """The logins under way, one at a time for each server; `tasks` own their processes.

    They are kept in `directory`.
    """

    def __init__(self, tasks: TaskGroup, environment: Mapping[str, str], directory: Path) -> None:
        self.directory = directory
        self._tasks = tasks
        self._environment = environment
        self._runs: dict[str, LoginRun] = {}

    def under_way(self, url: str) -> LoginRun | None:
        """Return the login under way at a server, or None."""
        return self._runs.get(url)

    def begin(self, order: LoginOrder) -> LoginRun:
        """Begin a login; there must be none under way at its server."""
        run = self._runs[order.url] = LoginRun()
        self._tasks.start_soon(self._perform, order, run)
        return run

    async def _perform(self, order: LoginOrder, run: LoginRun) -> None:
        try:
            with run.scope, anyio.move_on_after(LIMIT):
                await self._run(order, run)
        except Exception as exc:  # noqa: BLE001 - no login may end the hub
            run.failed = f"its process failed ({type(exc).__name__})"
        finally:
            del self._runs[order.url]
            run.begun.set()
            run.over.set()

    async def _run(self, order: LoginOrder, run: LoginRun) -> None:
        process = await anyio.open_process(
            _PROGRAM,
            env=dict(self._environment),
            cwd="/",
            stderr=DEVNULL,
            start_new_session=True,
        )
        try:
            if process.stdin is not None:
                await process.stdin.send(msgspec.json.encode(order) + b"\n")
            if process.stdout is not None:
                async with aclosing(_lines(process.stdout)) as lines:
                    async for line in lines:
                        run.take(msgspec.json.decode(line, type=LoginNews))
        finally:
            with anyio.CancelScope(shield=True):
                await _end(process)


async def _lines(stream: ByteReceiveStream) -> AsyncGenerator[bytes]:
    rest = b""
    async for piece in stream:
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            yield line
        if len(rest) > _MOST:
            raise anyio.BrokenResourceError


async def _end(process: Process) -> None:
    with suppress(ProcessLookupError):
        process.kill()
    await process.aclose()
