"""Tells the event loop when a process has ended, whichever loop it is and without its help."""

from __future__ import annotations

import asyncio  # noqa: TID251 - the transport of a process needs what it watches and wakes
import os
from collections.abc import Callable
from contextlib import suppress
from threading import Thread

from hub.children.process.spawn import Started
from hub.children.process.supervised import Supervised


def when_ended(process: Started, told: Callable[[], None]) -> Callable[[], None]:
    """Call `told` in the running loop once `process` has ended and left its exit code.

    Return what ends the watch; calling it again does nothing.
    """
    loop = asyncio.get_running_loop()
    try:
        handle = _handle(process)
    except (AttributeError, OSError):  # not Linux, or before 5.3
        return _by_thread(process, told, loop)

    def stop() -> None:
        nonlocal handle
        if handle >= 0:
            loop.remove_reader(handle)
            os.close(handle)
            handle = -1

    def ended() -> None:
        if process.poll() is not None:
            stop()
            told()

    loop.add_reader(handle, ended)
    return stop


def _handle(process: Started) -> int:
    """Return a descriptor that can be read from once the process has ended.

    Who is not its parent learns how it ended from the one that is, a moment later.
    """
    return (
        os.dup(process.fileno()) if isinstance(process, Supervised) else os.pidfd_open(process.pid)
    )


def _by_thread(
    process: Started, told: Callable[[], None], loop: asyncio.AbstractEventLoop
) -> Callable[[], None]:
    is_watched = True

    def tell() -> None:
        if is_watched:
            told()

    def wait() -> None:
        process.wait()
        with suppress(RuntimeError):  # the loop has ended before
            loop.call_soon_threadsafe(tell)

    def stop() -> None:
        nonlocal is_watched
        is_watched = False

    Thread(target=wait, name=f"exit of {process.pid}", daemon=True).start()
    return stop
