"""Tasks that serve different clients: what goes wrong in one ends none of the others."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVarTuple, final

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


async def _logging(
    func: Callable[..., Coroutine[Any, Any, object]], args: tuple[object, ...]
) -> None:
    try:
        await func(*args)
    except Exception:
        log.exception("a task failed", task=getattr(func, "__qualname__", repr(func)))
