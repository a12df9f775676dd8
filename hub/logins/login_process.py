"""Runs a login in a process of its own: what the hub asks it, and what it answers.

The process has the SDK's OAuth client and, for this machine's user, the port that the browser comes
back to. A principal's browser comes back to the hub, which passes on what it brings. The process
gets a line with a `LoginOrder` on stdin, and maybe one with a `CameBack`; it ends when stdin does,
and prints a line for each of its `LoginNews`.
"""

from __future__ import annotations

import hmac
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, suppress
from pathlib import Path
from subprocess import DEVNULL
from typing import Final, TypeAlias
from urllib.parse import parse_qs, urlsplit

import anyio
import msgspec
from anyio.abc import ByteReceiveStream, Process
from msgspec import Struct

from hub.logins.login import LoginSettings
from hub.system.tasks import TaskStarter

LIMIT: Final = 330.0
"""Seconds that a login may take: somewhat more than the person at the browser has."""
_PROGRAM: Final = (sys.executable, "-P", "-m", "hub.cli.logins.for_hub")
_MOST: Final = 64 * 1024
"""Bytes of one line."""

MOST: Final = 16
"""How many logins of principals may be under way at once: each has a process."""
MOST_OF_ONE: Final = 4
"""How many of them one principal may have."""


class TooManyLoginsError(Exception):
    """No login can begin now; the text says why."""


class LoginOrder(LoginSettings, frozen=True, kw_only=True):
    """A login that is wanted, where it is kept (`directory`), and for whom.

    `owner` is whose login it will be; empty: this machine's user. `redirect` is where the browser
    comes back to, if that is the hub and not a port of the process's own.
    """

    directory: str
    owner: str = ""
    in_keyring: bool = False
    redirect_port: int | None = None


class CameBack(Struct, frozen=True):
    """What the browser has brought back to the hub: the query of the address."""

    query: str

    def __repr__(self) -> str:
        return "CameBack()"  # it has a code


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
    """A login that is wanted, or under way once it has an `order`.

    `page` is known once it has `begun`; once it is `over`, `failed` says why there is no login, if
    there is none. `asked` is when somebody was last sent to the page, by a monotonic clock.
    `browser` is the mark of the browser that has shown that it is the owner's; empty: none has.
    `patience` ends the wait for an order. `is_found`: a call has found a login of the owner's.
    """

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.order: LoginOrder | None = None
        self.ordered = anyio.Event()
        self.browser = ""
        self._answer: CameBack | None = None
        self._answered = anyio.Event()
        self.page: str | None = None
        self.failed: str | None = "nobody has gone on to it"
        self.asked: float | None = None
        self.scope = anyio.CancelScope()
        self.patience = anyio.CancelScope()
        self.begun = anyio.Event()
        self.over = anyio.Event()
        self.is_found = False

    def want(self) -> None:
        """Give its person `LIMIT` from now on to go on to it."""
        self.patience.deadline = anyio.current_time() + LIMIT

    def begin(self, order: LoginOrder) -> None:
        """Let the login begin."""
        self.failed = "it has not come to its end"
        self.order = order
        self.ordered.set()

    def cancel(self, why: str) -> None:
        """Give the login up."""
        self.failed = why
        self.scope.cancel()

    @property
    def state(self) -> str:
        """The `state` by which the browser's way back is known; empty without a page."""
        query = parse_qs(urlsplit(self.page or "").query)
        return query.get("state", [""])[-1]

    def come_back(self, query: str) -> bool:
        """Take what the browser has brought back; return whether it is the first time."""
        if self._answer is not None:
            return False
        self._answer = CameBack(query)
        self._answered.set()
        return True

    async def came_back(self) -> CameBack:
        """Return what the browser brings back, once it has."""
        await self._answered.wait()
        if self._answer is None:
            raise TypeError("the answer is set before the event")
        return self._answer

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
    """The logins that are wanted, one at a time for each server and owner; `tasks` own them.

    They are kept in `directory`; `kept` is told the server and the owner of each.
    """

    def __init__(self, tasks: TaskStarter, environment: Mapping[str, str], directory: Path) -> None:
        self.directory = directory
        self.kept: Callable[[str, str], None] = lambda _url, _owner: None
        self._tasks = tasks
        self._environment = environment
        self._runs: dict[tuple[str, str], LoginRun] = {}

    def under_way(self, url: str, owner: str = "") -> LoginRun | None:
        """Return the login of an owner that is wanted or under way at a server, or None."""
        return self._runs.get((url, owner))

    def found(self, url: str, owner: str) -> None:
        """Tell `kept` that a call has found a login while one is under way.

        Its process may have kept it, and not said so yet.
        """
        run = self._runs.get((url, owner))
        if run is not None and not run.is_found:
            run.is_found = True
            self.kept(url, owner)

    def expecting(self, state: str, redirect: str) -> LoginRun | None:
        """Return the login whose browser comes back to `redirect` with this `state`, or None."""
        found = None
        for run in self._runs.values():
            if run.order is None or run.order.redirect != redirect:
                continue
            is_its = hmac.compare_digest(run.state.encode(), state.encode())
            if is_its and state:
                found = run
        return found

    def wanted(self, url: str, owner: str) -> LoginRun:
        """Return the login of an owner at a server; it begins when its person goes on to it.

        Until then it has no process, and counts for none of the limits.
        """
        run = self._runs.get((url, owner))
        if run is None or run.scope.cancel_called:  # who gave that one up may want another
            run = self._runs[url, owner] = LoginRun(owner)
            run.want()
            self._tasks.start_soon(self._perform, url, run)
        return run

    def begin(self, order: LoginOrder) -> LoginRun:
        """Return the owner's login under way at a server; begin it if there is none.

        Raises: TooManyLoginsError.
        """
        run = self.wanted(order.url, order.owner)
        if run.order is None:
            self._check_places(order.owner)
            run.begin(order)
        return run

    def _check_places(self, owner: str) -> None:
        of_principals = [run.owner for run in self._runs.values() if run.owner and run.order]
        own = of_principals.count(owner)
        if owner and (own >= MOST_OF_ONE or len(of_principals) >= MOST):
            how_many = f"{own} logins of yours" if own >= MOST_OF_ONE else f"{MOST} logins"
            raise TooManyLoginsError(f"{how_many} are under way; try again in some minutes")

    async def _perform(self, url: str, run: LoginRun) -> None:
        try:
            with run.scope:
                with run.patience:
                    await run.ordered.wait()
                with anyio.move_on_after(LIMIT):
                    if run.order is not None:
                        await self._run(run.order, run)
        except Exception as exc:  # noqa: BLE001 - no login may end the hub
            run.failed = f"its process failed ({type(exc).__name__})"
        finally:
            if self._runs.get((url, run.owner)) is run:
                del self._runs[url, run.owner]
            if run.failed is None:
                self.kept(url, run.owner)
            run.begun.set()
            run.over.set()

    async def _run(self, order: LoginOrder, run: LoginRun) -> None:
        process = await anyio.open_process(
            _PROGRAM, env=dict(self._environment), cwd="/", stderr=DEVNULL, start_new_session=True
        )
        try:
            if process.stdin is not None:
                await process.stdin.send(msgspec.json.encode(order) + b"\n")
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_pass_on, run, process)
                if process.stdout is not None:
                    async with aclosing(_lines(process.stdout)) as lines:
                        async for line in lines:
                            news = msgspec.json.decode(line, type=LoginNews)
                            run.take(news)
                            if not isinstance(news, LoginPage):
                                break  # the rest is the end of the process
                tasks.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await _end(process)


async def _pass_on(run: LoginRun, process: Process) -> None:
    """Pass what the browser brings back on to the process."""
    answer = await run.came_back()
    if process.stdin is not None:
        with suppress(anyio.BrokenResourceError):  # it has ended: that is told on stdout
            await process.stdin.send(msgspec.json.encode(answer) + b"\n")


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
