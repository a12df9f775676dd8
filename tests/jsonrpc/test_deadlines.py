from __future__ import annotations

import asyncio  # noqa: TID251 - who hears of what fails in a callback
import gc
from typing import Any

import anyio

from hub.jsonrpc.deadlines import Deadlines
from tests.kit.loops import virtual_time

pytestmark = virtual_time


class ExpiringEntry:
    """An entry that can end another entry when it expires."""

    def __init__(self, said: list[str], name: str) -> None:
        self._said = said
        self._name = name
        self.ends: tuple[Deadlines, ExpiringEntry] | None = None

    def expire(self) -> None:
        self._said.append(self._name)
        if self.ends is not None:
            deadlines, other = self.ends
            deadlines.end(other)


class ExpiringEntries:
    """Named entries, and a record of those that expired."""

    def __init__(self) -> None:
        self.expired: list[str] = []

    def begin(self, deadlines: Deadlines, name: str) -> ExpiringEntry:
        call = ExpiringEntry(self.expired, name)
        deadlines.begin(call)
        return call


async def test_entries_expire_once_in_the_order_of_their_start() -> None:
    calls, deadlines = ExpiringEntries(), Deadlines(1)
    for name in ("a", "b", "c"):
        calls.begin(deadlines, name)
    await anyio.sleep(10)
    calls.begin(deadlines, "d")
    assert calls.expired == ["a", "b", "c"]
    await anyio.sleep(10)
    assert calls.expired == ["a", "b", "c", "d"]


async def test_an_ended_entry_does_not_expire() -> None:
    calls, deadlines = ExpiringEntries(), Deadlines(1)
    first = calls.begin(deadlines, "a")
    calls.begin(deadlines, "b")
    third = calls.begin(deadlines, "c")
    deadlines.end(first)
    deadlines.end(third)
    deadlines.end(third)
    await anyio.sleep(10)
    assert calls.expired == ["b"]


async def test_a_later_entry_has_its_full_time() -> None:
    calls, deadlines = ExpiringEntries(), Deadlines(5)
    calls.begin(deadlines, "a")
    await anyio.sleep(2)
    calls.begin(deadlines, "b")
    await anyio.sleep(4.5)
    assert calls.expired == ["a"]
    await anyio.sleep(1)
    assert calls.expired == ["a", "b"]


async def test_one_that_expires_may_end_another() -> None:
    calls, deadlines = ExpiringEntries(), Deadlines(1)
    first, second = calls.begin(deadlines, "a"), calls.begin(deadlines, "b")
    first.ends = (deadlines, second)
    calls.begin(deadlines, "c")
    await anyio.sleep(10)
    assert calls.expired == ["a", "c"]


async def test_an_entry_added_during_an_expiry_delays_no_earlier_one() -> None:
    class Following:
        def expire(self) -> None:
            calls.expired.append("a")
            calls.begin(deadlines, "c")

    calls, deadlines = ExpiringEntries(), Deadlines(5)
    deadlines.begin(Following())
    await anyio.sleep(2)
    calls.begin(deadlines, "b")
    await anyio.sleep(5.5)
    assert calls.expired == ["a", "b"]
    await anyio.sleep(5)
    assert calls.expired == ["a", "b", "c"]


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
        await anyio.sleep(1)
    finally:
        loop.set_exception_handler(None)
    assert calls.expired == ["a"]
    assert [str(one["exception"]) for one in told] == ["failing"]


async def test_a_shorter_time_counts_for_what_begins_later_and_for_nothing_else() -> None:
    calls, deadlines = ExpiringEntries(), Deadlines(60)
    calls.begin(deadlines, "long")
    deadlines.allow(1)
    for name in ("a", "b"):
        calls.begin(deadlines, name)
    await anyio.sleep(2)
    calls.begin(deadlines, "c")
    await anyio.sleep(2)
    assert calls.expired == ["a", "b", "c"]
    assert len(deadlines) == 1


def timers() -> list[asyncio.TimerHandle]:
    """Return the timers that are set, of all loops."""
    found = (one for one in gc.get_objects() if isinstance(one, asyncio.TimerHandle))
    return [one for one in found if not one.cancelled()]


async def test_a_shorter_time_leaves_no_timer_behind() -> None:
    calls, deadlines, before = ExpiringEntries(), Deadlines(3600), timers()
    for allowed in range(3000, 1000, -200):
        deadlines.allow(allowed)
        calls.begin(deadlines, str(allowed))
    assert len([one for one in timers() if one not in before]) == 1
