"""Work that may hang, as on a disk that does not answer, in a thread of its own."""

from __future__ import annotations

import asyncio  # noqa: TID251 - a thread wakes the loop
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import TypeVar

import anyio

T = TypeVar("T")


async def in_own_thread(work: Callable[[], T], name: str) -> T:
    """Return what `work` returns, or raise what it raises.

    The thread takes no place of a shared pool and keeps no process alive. Who is cancelled does not
    wait for it any more; what it does then is lost.
    """
    loop, ended = asyncio.get_running_loop(), anyio.Event()
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as exc:  # noqa: BLE001 - raised again where it is waited for
            errors.append(exc)
        with suppress(RuntimeError):  # the loop is closed already
            loop.call_soon_threadsafe(ended.set)

    Thread(target=run, name=name, daemon=True).start()
    await ended.wait()
    if errors:
        raise errors[0]
    return results[0]
