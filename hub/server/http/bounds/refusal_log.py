"""Logs refused clients: the first of a kind at once, further ones as a count every few seconds."""

from __future__ import annotations

import asyncio  # noqa: TID251 - a timer without a task
from typing import Final

import structlog

EVERY: Final = 10.0
"""Seconds between two lines of the same kind."""

log = structlog.stdlib.get_logger(__name__)


class RefusalLog:
    """The log of one endpoint's refusals; it stays short however many there are."""

    def __init__(self, every: float = EVERY) -> None:
        self._every = every
        self._further: dict[str, int] = {}

    def note(self, kind: str, address: str, text: str = "") -> None:
        """Log that a client was refused, or count it if a line of this kind was logged just now."""
        if kind in self._further:
            self._further[kind] += 1
            return
        more = {"reason": text} if text else {}
        log.warning(kind, client=address, **more)
        self._further[kind] = 0
        asyncio.get_running_loop().call_later(self._every, self._sum_up, kind)

    def _sum_up(self, kind: str) -> None:
        further = self._further.pop(kind)
        if not further:
            return
        log.warning(kind, further=further, seconds=self._every)
        self._further[kind] = 0
        asyncio.get_running_loop().call_later(self._every, self._sum_up, kind)
