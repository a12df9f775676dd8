"""The log lines about clients: each principal has a limited share of the log."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from hub.jsonrpc.rated_log import RatedLog

MAX_LOGS: Final = 1024
"""Principals whose shares are remembered; the one that came first is forgotten first."""


class ClientLogs:
    """The log of each principal; all sessions of a principal share it. `clock` is in seconds."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, *, max_logs: int = MAX_LOGS
    ) -> None:
        self._clock = clock
        self._max_logs = max_logs
        self._logs: dict[str, RatedLog] = {}

    def of(self, principal: str) -> RatedLog:
        """Return the log for lines about the clients of a principal."""
        found = self._logs.get(principal)
        if found is not None:
            return found
        if len(self._logs) >= self._max_logs:
            self._logs.pop(next(iter(self._logs))).finish()
        made = self._logs[principal] = RatedLog({"principal": principal}, self._clock)
        return made
