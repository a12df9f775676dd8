"""Tasks and threads that serve different clients.

Neither a failure in a task nor its end reaches the others. Slow work waits in a fair queue for a
thread; what may hang has a thread of its own.
"""

from __future__ import annotations

import asyncio  # noqa: TID251 - a thread wakes the loop
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial, wraps
from threading import Thread
from typing import Any, Generic, NoReturn, Protocol, TypeVar, TypeVarTuple, final
from weakref import WeakValueDictionary

import anyio
import structlog
from anyio import CapacityLimiter, Event, Lock, to_thread
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint_if_cancelled

Args = TypeVarTuple("Args")

log = structlog.stdlib.get_logger(__name__)


class TaskStarter(Protocol):
    """Starts tasks: a task group, or `IndependentTasks`."""

    def start_soon(
        self, func: Callable[[*Args], Coroutine[Any, Any, object]], *args: *Args
    ) -> object:
        """Start a task, as `TaskGroup.start_soon` does."""
        ...


@final
class IndependentTasks:
    """Starts tasks in a group that many clients share.

    An exception that a task raises would cancel the whole group: it is logged instead.
    """

    def __init__(self, tasks: TaskGroup) -> None:
        self._tasks = tasks

    def start_soon(
        self, func: Callable[[*Args], Coroutine[Any, Any, object]], *args: *Args
    ) -> None:
        """Start a task whose failure ends no other."""
        self._tasks.start_soon(_logging, func, args)


class TasksUntilClosed:
    """Starts tasks with `tasks`; `close` cancels those that still run, and none starts after it."""

    def __init__(self, tasks: TaskStarter) -> None:
        self._tasks = tasks
        self._scopes: set[anyio.CancelScope] = set()
        self._is_closed = False

    def start_soon(
        self, func: Callable[[*Args], Coroutine[Any, Any, object]], *args: *Args
    ) -> None:
        """Start a task, unless they are closed."""
        if self._is_closed:
            return
        scope = anyio.CancelScope()
        self._scopes.add(scope)

        @wraps(func)  # for the log, where it fails
        async def until_closed() -> None:
            try:
                with scope:
                    if not scope.cancel_called:
                        await func(*args)
            finally:
                self._scopes.discard(scope)

        self._tasks.start_soon(until_closed)

    def close(self) -> None:
        """Cancel the tasks that run."""
        self._is_closed = True
        for scope in self._scopes:
            scope.cancel()


async def _logging(
    func: Callable[..., Coroutine[Any, Any, object]], args: tuple[object, ...]
) -> None:
    try:
        await func(*args)
    except Exception:
        log.exception("a task failed", task=getattr(func, "__qualname__", repr(func)))


Result = TypeVar("Result")


GIVES_WAY = 0.0005
"""Seconds after which the thread yields to the loop (switch interval). Python's default: 5 ms."""


class FairWorker:
    """A worker thread that runs one job at a time. Each party has at most one job in the queue.

    So the event loop gets at least half of the interpreter's time, and no party, which a key tells
    from others, waits for all the jobs of another one.
    """

    def __init__(self) -> None:
        self._turn = CapacityLimiter(1)
        self._lines: WeakValueDictionary[str, Lock] = WeakValueDictionary()

    async def run(self, party: str, work: Callable[[], Result]) -> Result:
        """Return the result of `work`, run in the thread. `work` must not use state that changes.

        A caller that is cancelled while `work` runs waits for its end and gets no result.
        """
        line = self._lines.get(party)
        if line is None:
            line = self._lines[party] = Lock()
        async with line:
            done = await to_thread.run_sync(_giving_way, work, limiter=self._turn)
        await checkpoint_if_cancelled()
        return done


def _giving_way(work: Callable[[], Result]) -> Result:
    # Not set for ever: then the thread that writes the audit log would slow down the loop.
    usual = sys.getswitchinterval()
    sys.setswitchinterval(GIVES_WAY)
    try:
        return work()
    finally:
        sys.setswitchinterval(usual)


def in_daemon_thread(
    work: Callable[[], Result], name: str, ended: Callable[[Callable[[], Result]], object]
) -> None:
    """Do work in a new thread, which keeps no process alive.

    `ended` is called there with a function that returns what the work has returned, or raises what
    it has raised. Raises: RuntimeError if no thread can be started.
    """

    def run() -> None:
        try:
            result = work()
        except BaseException as exc:  # noqa: BLE001 - raised again where it is waited for
            ended(partial(_raise, exc))
        else:
            ended(lambda: result)

    Thread(target=run, name=name, daemon=True).start()


def _raise(error: BaseException) -> NoReturn:
    raise error


class OwnThread(Generic[Result]):
    """Work under way in a thread that takes no place of a shared pool and keeps no process alive.

    Several may wait for its result; what it does when nobody waits any more is lost. `when_done` is
    called in the event loop before they go on. Raises: RuntimeError if no thread can be started.
    """

    def __init__(
        self, work: Callable[[], Result], name: str, when_done: Callable[[], object] = lambda: None
    ) -> None:
        self._when_done = when_done
        self._ended = Event()
        self._outcomes: list[Callable[[], Result]] = []
        loop = asyncio.get_running_loop()

        def ended(outcome: Callable[[], Result]) -> None:
            with suppress(RuntimeError):  # the loop is closed already
                loop.call_soon_threadsafe(self._end, outcome)

        in_daemon_thread(work, name, ended)

    async def result(self) -> Result:
        """Return what the work returns, or raise what it raises."""
        await self._ended.wait()
        return self._outcomes[0]()

    def _end(self, outcome: Callable[[], Result]) -> None:
        self._outcomes.append(outcome)
        self._when_done()
        self._ended.set()


async def in_own_thread(work: Callable[[], Result], name: str) -> Result:
    """Return what `work` returns in a thread of its own, or raise what it raises."""
    return await OwnThread(work, name).result()
