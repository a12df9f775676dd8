from __future__ import annotations

import asyncio  # noqa: TID251 - who hears of what fails in a callback
import gc
from typing import Any

import anyio

from hub.jsonrpc.deadlines import Deadlines
from tests.kit.fakes import Signals
from tests.kit.loops import virtual_time


class ExpiringEntry:
    """An entry that can end another entry when it expires."""

    def __init__(self, said: list[str], name: str, signals: Signals) -> None:
        self._said = said
        self._name = name
        self._signals = signals
        self.ends: tuple[Deadlines, ExpiringEntry] | None = None

    def expire(self) -> None:
        self._said.append(self._name)
        if self.ends is not None:
            deadlines, other = self.ends
            deadlines.end(other)
        self._signals.moved()


class ExpiringEntries:
    """Named entries, and a record of those that expired."""

    def __init__(self) -> None:
        self.expired: list[str] = []
        self.signals = Signals()

    def begin(self, deadlines: Deadlines, name: str) -> ExpiringEntry:
        call = ExpiringEntry(self.expired, name, self.signals)
        deadlines.begin(call)
        return call

    async def until(self, *names: str) -> None:
        await self.signals.until(lambda: self.expired == list(names))


async def test_entries_expire_once_in_the_order_of_their_start() -> None:
    calls, deadlines = ExpiringEntries(), Deadlines(0.01)
    for name in ("a", "b", "c"):
        calls.begin(deadlines, name)
    await calls.until("a", "b", "c")
    calls.begin(deadlines, "d")
    await calls.until("a", "b", "c", "d")


async def test_an_ended_entry_does_not_expire() -> None:
    calls, deadlines = ExpiringEntries(), Deadlines(0.01)
    first = calls.begin(deadlines, "a")
    calls.begin(deadlines, "b")
    third = calls.begin(deadlines, "c")
    deadlines.end(first)
    deadlines.end(third)
    deadlines.end(third)
    await calls.until("b")


async def test_a_later_entry_has_its_full_time() -> None:
    calls, deadlines = ExpiringEntries(), Deadlines(0.05)
    calls.begin(deadlines, "a")
    await anyio.sleep(0.02)
    began = anyio.current_time()
    calls.begin(deadlines, "b")
    await calls.until("a", "b")
    # A loop's clock may count in milliseconds, which are no exact fractions.
    assert round((anyio.current_time() - began) * 1000) >= 50


async def test_one_that_expires_may_end_another() -> None:
    calls, deadlines = ExpiringEntries(), Deadlines(0.01)
    first, second = calls.begin(deadlines, "a"), calls.begin(deadlines, "b")
    first.ends = (deadlines, second)
    calls.begin(deadlines, "c")
    await calls.until("a", "c")


@virtual_time
async def test_an_entry_added_during_an_expiry_delays_no_earlier_one() -> None:
    class Following:
        def expire(self) -> None:
            calls.expired.append("a")
            calls.begin(deadlines, "c")

    calls, deadlines = ExpiringEntries(), Deadlines(0.05)
    deadlines.begin(Following())
    await anyio.sleep(0.02)
    calls.begin(deadlines, "b")
    await calls.until("a", "b")
    await calls.until("a", "b", "c")


async def test_an_error_during_an_expiry_does_not_stop_the_others() -> None:
    class Failing:
        def expire(self) -> None:
            raise RuntimeError("failing")

    calls, deadlines, loop = ExpiringEntries(), Deadlines(0.01), asyncio.get_running_loop()
    told: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: told.append(context))
    try:
        deadlines.begin(Failing())
        calls.begin(deadlines, "a")
        with anyio.fail_after(20):
            await calls.until("a")
    finally:
        loop.set_exception_handler(None)
    assert [str(one["exception"]) for one in told] == ["failing"]


async def test_a_shorter_time_counts_for_what_begins_later_and_for_nothing_else() -> None:
    calls, deadlines = ExpiringEntries(), Deadlines(60)
    calls.begin(deadlines, "long")
    deadlines.allow(0.01)
    for name in ("a", "b"):
        calls.begin(deadlines, name)
    await calls.until("a", "b")
    calls.begin(deadlines, "c")
    await calls.until("a", "b", "c")
    assert len(deadlines) == 1


def timers() -> list[asyncio.TimerHandle]:
    """Return the timers that are set, of all loops."""
    found = (one for one in gc.get_objects() if isinstance(one, asyncio.TimerHandle))
    return [one for one in found if not one.cancelled()]


@virtual_time
async def test_a_shorter_time_leaves_no_timer_behind() -> None:
    calls, deadlines, before = ExpiringEntries(), Deadlines(3600), timers()
    for allowed in range(3000, 1000, -200):
        deadlines.allow(allowed)
        calls.begin(deadlines, str(allowed))
    assert len([one for one in timers() if one not in before]) == 1
