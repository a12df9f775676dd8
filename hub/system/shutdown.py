"""Shutdown on signals: the first one shortens all waits, the second one ends them."""

from __future__ import annotations

import signal
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskStatus


class Shutdown:
    """The state of the hub's shutdown: `begun` (waits are brief), then `pressed` (no waits)."""

    def __init__(self) -> None:
        self.begun = anyio.Event()
        self.pressed = anyio.Event()

    def begin(self) -> None:
        """Start the shutdown: waits in `until` get their brief limit."""
        self.begun.set()

    def hurry(self) -> None:
        """Hurry the shutdown: waits in `until` end at once."""
        self.begun.set()
        self.pressed.set()

    async def until(
        self, reached: Callable[[], Awaitable[object]], usual: float, brief: float
    ) -> bool:
        """Wait until `reached` returns. Return whether it did in time, else cancel it.

        The limit is `usual` seconds; `brief` seconds once shutdown has begun; none once `pressed`.
        """
        async with anyio.create_task_group() as tasks:

            async def give_up() -> None:
                with anyio.move_on_after(usual):
                    await self.begun.wait()
                    with anyio.move_on_after(brief):
                        await self.pressed.wait()
                tasks.cancel_scope.cancel()

            tasks.start_soon(give_up)
            await reached()
            tasks.cancel_scope.cancel()
            return True
        return False


@asynccontextmanager
async def ended_by_signals() -> AsyncGenerator[Shutdown]:
    """Begin the shutdown at the first SIGTERM, SIGINT or SIGHUP, and hurry it at each further one.

    None of them ends this process while the context is open. A SIGHUP that is ignored (`nohup`)
    stays ignored.
    """
    shutdown = Shutdown()
    async with anyio.create_task_group() as tasks:
        await tasks.start(_listen, shutdown)
        yield shutdown
        tasks.cancel_scope.cancel()


def ignore_ending_signals() -> None:
    """Ignore SIGTERM, SIGINT and SIGHUP: the hub has cleaned up and is about to exit by itself."""
    for number in _ending_signals():
        signal.signal(number, signal.SIG_IGN)


async def _listen(shutdown: Shutdown, *, task_status: TaskStatus[None]) -> None:
    with anyio.open_signal_receiver(*_ending_signals()) as signals:
        task_status.started()
        async for _ in signals:
            if shutdown.begun.is_set():
                shutdown.hurry()
            shutdown.begin()


def _ending_signals() -> list[signal.Signals]:
    hangup = getattr(signal, "SIGHUP", None)  # not on Windows
    if hangup is None or signal.getsignal(hangup) is signal.SIG_IGN:
        return [signal.SIGTERM, signal.SIGINT]
    return [signal.SIGTERM, signal.SIGINT, hangup]
