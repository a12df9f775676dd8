"""Tasks that serve different clients: neither a failure in one nor its end reaches the others."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Protocol, TypeVarTuple, final

import anyio
import structlog
from anyio.abc import TaskGroup

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
