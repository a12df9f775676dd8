"""Work that may hang, as on a disk that does not answer, in a thread of its own."""

from __future__ import annotations

import asyncio  # noqa: TID251 - a thread wakes the loop
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import Generic, TypeVar

import anyio

T = TypeVar("T")


class OwnThread(Generic[T]):
    """Work under way in a thread that takes no place of a shared pool and keeps no process alive.

    Several may wait for its result; what it does when nobody waits any more is lost. `when_done` is
    called in the event loop before they go on.

    Raises: RuntimeError if no thread can be started.
    """

    def __init__(
        self, work: Callable[[], T], name: str, when_done: Callable[[], object] = lambda: None
    ) -> None:
        self._when_done = when_done
        self._ended = anyio.Event()
        self._results: list[T] = []
        self._errors: list[BaseException] = []
        loop = asyncio.get_running_loop()

        def run() -> None:
            try:
                self._results.append(work())
            except BaseException as exc:  # noqa: BLE001 - raised again where it is waited for
                self._errors.append(exc)
            with suppress(RuntimeError):  # the loop is closed already
                loop.call_soon_threadsafe(self._end)

        Thread(target=run, name=name, daemon=True).start()

    async def result(self) -> T:
        """Return what the work returns, or raise what it raises."""
        await self._ended.wait()
        if self._errors:
            raise self._errors[0]
        return self._results[0]

    def _end(self) -> None:
        self._when_done()
        self._ended.set()


async def in_own_thread(work: Callable[[], T], name: str) -> T:
    """Return what `work` returns in a thread of its own, or raise what it raises."""
    return await OwnThread(work, name).result()
