"""Logs who is turned away: the first of a kind at once, further ones as a number now and then."""

from __future__ import annotations

import asyncio  # noqa: TID251 - a timer without a task
from typing import Final

import structlog

EVERY: Final = 10.0
"""Seconds between two lines about the same kind."""

log = structlog.stdlib.get_logger(__name__)


class RefusalLog:
    """What is logged about one endpoint's clients; however many there are, the log stays short."""

    def __init__(self, every: float = EVERY) -> None:
        self._every = every
        self._further: dict[str, int] = {}

    def note(self, kind: str, address: str, text: str = "") -> None:
        """Log that a client was turned away, or count it if that was logged just now."""
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
