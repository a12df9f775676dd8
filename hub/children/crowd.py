"""What calls at one child take from each other, and who gives way to whom.

A call that waits for a client who has gone away holds a slot. It also leaves it open whose call it
is that the child asks within. When its client has been away for long, it gives way to others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final

import anyio
from msgspec import Struct, field

from hub.children.clients import Asker
from hub.values import SessionKey

PATIENCE: Final = 60.0
"""Seconds after which a call whose client has not come back gives way to who needs its place."""
LAST_WORDS: Final = 5.0
"""Seconds in which the child may then answer it."""
LINGER: Final = 0.5
"""Seconds in which a child may not have read yet that a call was given up, and asks on within it.

Not more: until then other clients' calls cannot be asked anything, the next ones of a modern client
among them, whose requests have nothing in common.
"""


class _Held(Struct, eq=False):
    """A question that waits until it is plain whose it is: until the child answers these calls."""

    calls: set[Asker]
    is_over: anyio.Event = field(default_factory=anyio.Event)


class Crowd:
    """The calls under way at one child, which are `calls`; `waiting` counts those in line."""

    def __init__(self, calls: Collection[Asker], *, waiting: Callable[[], int]) -> None:
        self._calls = calls
        self._waiting = waiting
        self._leaving: set[Asker] = set()
        self._held: list[_Held] = []
        self._given_up: dict[SessionKey, float] = {}

    def must_leave(self, call: Asker) -> bool:
        """Return whether others need what a call holds; it has to end then."""
        self._leaving.intersection_update(self._calls)
        others = len(self._leaving - {call})
        is_needed = self._waiting() > others or any(call in held.calls for held in self._held)
        if is_needed and call in self._calls:
            self._leaving.add(call)
        return is_needed

    async def until_answered(self, calls: Iterable[Asker]) -> bool:
        """Return once the child has answered calls whose clients are away, and whether it has.

        They give way. Who is still served then, or was given up, may ask on; who was answered not.
        """
        held = _Held(set(calls))
        self._held.append(held)
        try:
            with anyio.move_on_after(PATIENCE + LAST_WORDS):
                await held.is_over.wait()
        finally:
            self._held.remove(held)
        return not held.calls

    def ended(self, call: Asker, *, is_answered: bool) -> None:
        """Take note that a call is over, and whether that was the child's word."""
        for held in self._held:
            if call in held.calls:
                if is_answered:
                    held.calls.remove(call)
                if not is_answered or not held.calls:
                    held.is_over.set()

    def gave_up(self, call: Asker) -> None:
        """Take note that nobody waits for a call any more: its child may not know, or not care."""
        self._given_up.pop(call.party, None)
        self._given_up[call.party] = anyio.current_time() + LINGER

    def lingering(self) -> set[SessionKey]:
        """Return whose calls were given up not long ago."""
        now = anyio.current_time()
        while self._given_up and self._given_up[party := next(iter(self._given_up))] <= now:
            del self._given_up[party]
        return set(self._given_up)
