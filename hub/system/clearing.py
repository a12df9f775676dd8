"""Removes a child's directory, however much the child has put there, and holds up nobody by it."""

from __future__ import annotations

import asyncio  # noqa: TID251 - a thread of its own wakes the loop
import shutil
from contextlib import suppress
from threading import Thread
from typing import Final

import anyio

GRACE: Final = 0.2
"""Seconds that somebody waits for it. It goes on, but ends with the hub, wherever it is."""


async def cleared(directory: str) -> None:
    """Remove a directory with all that is in it; return when that is done, or will take longer."""
    loop, done = asyncio.get_running_loop(), anyio.Event()

    def clear() -> None:
        shutil.rmtree(directory, ignore_errors=True)
        with suppress(RuntimeError):  # the loop has ended before
            loop.call_soon_threadsafe(done.set)

    Thread(target=clear, name=f"clears {directory}", daemon=True).start()
    with anyio.move_on_after(GRACE, shield=True):
        await done.wait()
