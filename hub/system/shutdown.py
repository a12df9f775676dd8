"""Shutdown on signals: the first one shortens all waits, the second one ends them.

A SIGHUP to a process without a terminal is no shutdown: it asks to load the config again.
"""

from __future__ import annotations

import os
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
        self._reload = anyio.Event()

    def begin(self) -> None:
        """Start the shutdown: waits in `until` get their brief limit."""
        self.begun.set()

    def hurry(self) -> None:
        """Hurry the shutdown: waits in `until` end at once."""
        self.begun.set()
        self.pressed.set()

    def ask_to_reload(self) -> None:
        """Let all that wait in `asked_to_reload` go on."""
        asked, self._reload = self._reload, anyio.Event()
        asked.set()

    async def asked_to_reload(self) -> None:
        """Wait until this process is asked to load its config again."""
        await self._reload.wait()

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
async def ended_by_signals(*, reloads: bool | None = None) -> AsyncGenerator[Shutdown]:
    """Begin the shutdown at the first SIGTERM, SIGINT or SIGHUP, and hurry it at each further one.

    None of them ends this process while the context is open. A SIGHUP that is ignored (`nohup`)
    stays ignored. Without a terminal (`reloads`, default: as it is now) nobody hangs up: a SIGHUP
    asks to reload instead.
    """
    shutdown = Shutdown()
    async with anyio.create_task_group() as tasks:
        # Asked now: when the signal comes, the terminal may be gone.
        await tasks.start(_listen, shutdown, not has_terminal() if reloads is None else reloads)
        yield shutdown
        tasks.cancel_scope.cancel()


def ignore_ending_signals() -> None:
    """Ignore SIGTERM, SIGINT and SIGHUP: the hub has cleaned up and is about to exit by itself."""
    for number in _ending_signals():
        signal.signal(number, signal.SIG_IGN)


def has_terminal() -> bool:
    """Return whether this process has a controlling terminal."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | getattr(os, "O_NOCTTY", 0)))
    except OSError:
        return False
    return True


async def _listen(shutdown: Shutdown, reloads: bool, *, task_status: TaskStatus[None]) -> None:
    with anyio.open_signal_receiver(*_ending_signals()) as signals:
        task_status.started()
        async for number in signals:
            if reloads and number == getattr(signal, "SIGHUP", None):
                shutdown.ask_to_reload()
                continue
            if shutdown.begun.is_set():
                shutdown.hurry()
            shutdown.begin()


def _ending_signals() -> list[signal.Signals]:
    hangup = getattr(signal, "SIGHUP", None)  # not on Windows
    if hangup is None or signal.getsignal(hangup) is signal.SIG_IGN:
        return [signal.SIGTERM, signal.SIGINT]
    return [signal.SIGTERM, signal.SIGINT, hangup]
