"""The hub's end of a lifeline: lines of the log and the exit code for an attached process."""

from __future__ import annotations

import logging
import socket
import threading
from contextvars import ContextVar
from typing import Final

import anyio

from hub.attach.frames import END, GO, LOG, frame

MOST_WAITING: Final = 64 * 1024
"""Bytes of log lines that may wait for a process that does not read; more are dropped."""
LAST_WORDS: Final = 1.0
"""Seconds for the exit code to be accepted."""
_RELAYED: Final = ("hub.server.", "hub.calls.", "hub.sessions.", "hub.guard.", "hub.audit.")
"""Loggers whose lines are about one client. Those of children, which several may share, are not."""

# A module-level variable, as the logging package knows no other way to say what a line is about.
_current: ContextVar[LifelineEnd | None] = ContextVar("lifeline", default=None)


class LifelineEnd:
    """Sends frames to an attached process without ever waiting for it, and notices its end."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._waiting = b""
        self._turn = threading.Lock()

    async def goes_on(self) -> bool:
        """Return whether the client lets the hub read now; it has closed the connection if not."""
        return await self._heard() == GO

    async def ended(self) -> None:
        """Return once the attached process is gone."""
        while await self._heard():
            pass

    async def _heard(self) -> bytes:
        while True:
            await anyio.wait_readable(self._connection)
            try:
                return self._connection.recv(1)
            except BlockingIOError:
                continue
            except OSError:
                return b""

    def tell(self, line: str) -> None:
        """Send a line of the log, unless too much waits already. May be called by any thread."""
        with self._turn:
            if len(self._waiting) < MOST_WAITING:
                self._send(frame(LOG, line.encode("utf-8", "replace") + b"\n"))

    def send(self, content: bytes) -> bool:
        """Send a frame; return whether the process has accepted all that was sent."""
        with self._turn:
            return self._send(content)

    def _send(self, content: bytes) -> bool:
        self._waiting += content
        try:
            sent = self._connection.send(self._waiting)
        except OSError:  # full, or gone, which `ended` shows
            return False
        self._waiting = self._waiting[sent:]
        return not self._waiting

    async def end(self, code: int) -> None:
        """Send the exit code; a process that reads nothing gets none."""
        with anyio.move_on_after(LAST_WORDS, shield=True):
            is_sent = self.send(frame(END, bytes([code])))
            while not is_sent:
                await anyio.wait_writable(self._connection)
                is_sent = self.send(b"")


def relay_to(lifeline: LifelineEnd) -> None:
    """Send the log of what this task and its tasks do to an attached process, too."""
    _current.set(lifeline)


class RelayedLog(logging.Handler):
    """Sends each line about an attached client to its process."""

    def emit(self, record: logging.LogRecord) -> None:
        lifeline = _current.get()
        if lifeline is not None and record.name.startswith(_RELAYED):
            lifeline.tell(self.format(record))
