"""How soon a hub must have ended: when it wants to, and when somebody insists."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio


class Ending:
    """Begins once; whoever asks again waits for nobody."""

    def __init__(self) -> None:
        self.begun = anyio.Event()
        self.pressed = anyio.Event()

    def begin(self) -> None:
        """Let every wait of the ending be a brief one."""
        self.begun.set()

    def press(self) -> None:
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
