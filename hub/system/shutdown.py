"""How soon a hub must have ended: when it wants to, and when somebody insists."""

from __future__ import annotations

import signal
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskStatus


class Shutdown:
    """Begins once; whoever asks again waits for nobody."""

    def __init__(self) -> None:
        self.begun = anyio.Event()
        self.pressed = anyio.Event()

    def begin(self) -> None:
        """Let every wait of the ending be a brief one."""
        self.begun.set()

    def hurry(self) -> None:
        """Let no wait of the ending take any time."""
        self.begun.set()
        self.pressed.set()

    async def until(
        self, reached: Callable[[], Awaitable[object]], usual: float, brief: float
    ) -> bool:
        """Wait until `reached` returns; return whether it did in time.

        There are `usual` seconds for it, `brief` ones when the hub ends, none when it is pressed.
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
    """Have the first SIGTERM, SIGINT or SIGHUP begin the ending, and each further one press it.

    None of them ends this process as long as the context lasts. A SIGHUP that was ignored, as
    `nohup` has it, stays so.
    """
    shutdown = Shutdown()
    async with anyio.create_task_group() as tasks:
        await tasks.start(_listen, shutdown)
        yield shutdown
        tasks.cancel_scope.cancel()


def ignore_ending_signals() -> None:
    """Let none of them end this process any more: all that it had is ended, and so is it soon."""
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
    hangup = getattr(signal, "SIGHUP", None)  # which Windows does not have
    if hangup is None or signal.getsignal(hangup) is signal.SIG_IGN:
        return [signal.SIGTERM, signal.SIGINT]
    return [signal.SIGTERM, signal.SIGINT, hangup]
