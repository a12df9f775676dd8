"""Log lines about one child or client, at a limited rate; says how many were left out."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Final

import structlog

from hub.legible import on_one_line
from hub.system.log import Later

LINES, LINES_A_SECOND = 200, 20
"""Lines about one of them that may be logged at once, and then in each second."""
BYTES, BYTES_A_SECOND = 32 * 1024, 4 * 1024
"""The same in bytes."""
BESIDE: Final = 100
"""Bytes that a log line has besides its fields (time, level, names), approximately.

A field whose text is made later counts as much."""
TOLD_EVERY: Final = 5.0
"""Seconds between two lines that report how much was left out."""

log = structlog.stdlib.get_logger(__name__)


class RatedLog:
    """The log of one child or client, which `whose` names as fields; `clock` is in seconds."""

    def __init__(
        self, whose: Mapping[str, str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._whose = whose
        self._clock = clock
        self._lines, self._bytes = float(LINES), float(BYTES)
        self._at = self._told_at = clock()
        self._left_out = self._bytes_left_out = 0

    def debug(self, event: str, **fields: object) -> None:
        """Log a detail for debugging."""
        self._log(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: object) -> None:
        """Log a normal event."""
        self._log(logging.INFO, event, fields)

    def warning(self, event: str, **fields: object) -> None:
        """Log something that is wrong."""
        self._log(logging.WARNING, event, fields)

    def _log(self, level: int, event: str, fields: dict[str, object]) -> None:
        if not log.is_enabled_for(level):
            return
        size = BESIDE + sum(
            # Hidden characters are escaped there.
            BESIDE if isinstance(value, Later) else len(repr(on_one_line(str(value))))
            for value in fields.values()
        )
        self._fill()
        if self._lines < 1 or self._bytes < size:
            self.leave_out(1, size)
        else:
            self._lines -= 1
            self._bytes -= size
            log.log(level, event, **fields)
        if self._left_out:
            self.look()

    def look(self) -> None:
        """Log how much was left out, if that is due."""
        self._fill()
        if self._left_out and self._at - self._told_at >= TOLD_EVERY:
            self.finish()

    def _fill(self) -> None:
        now = self._clock()
        passed, self._at = now - self._at, now
        self._lines = min(LINES, self._lines + passed * LINES_A_SECOND)
        self._bytes = min(BYTES, self._bytes + passed * BYTES_A_SECOND)

    @property
    def is_full(self) -> bool:
        """Whether the next line would be left out."""
        self._fill()
        return self._lines < 1 or self._bytes < BESIDE

    def leave_out(self, lines: int, size: int) -> None:
        """Count `lines` of together `size` bytes as left out."""
        if lines and not self._left_out:
            self._told_at = self._at
        self._left_out += lines
        self._bytes_left_out += size

    def finish(self) -> None:
        """Log how much was left out, if anything was."""
        if self._left_out:
            log.warning(
                "not all of it is logged",
                **self._whose,
                lines=self._left_out,
                bytes=self._bytes_left_out,
            )
        self._left_out = self._bytes_left_out = 0
        self._told_at = self._at


class ChildLog(RatedLog):
    """The log of one child; each line names its server."""

    def __init__(self, server: str, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__({"server": server}, clock)

    def _log(self, level: int, event: str, fields: dict[str, object]) -> None:
        super()._log(level, event, {**self._whose, **fields})
