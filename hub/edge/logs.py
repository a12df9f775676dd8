"""Where the hub's own log goes: stderr, as text for people or as JSON lines."""

from __future__ import annotations

import json
import logging
import os
import queue
import sys
import threading
import time
from contextlib import suppress
from typing import Final, Literal

from hub.runtime.logger import fields_of

BACKLOG = 10_000
"""How many lines may wait for stderr; further ones are counted and lost."""
LAST_LINES = 1.0
"""Seconds that the last lines may take when the hub ends."""
_COLORS: Final = {logging.INFO: 32, logging.WARNING: 33, logging.ERROR: 31}
_UNCLEAR: Final = frozenset(" =\"'")
"""What a value is quoted for."""


class _Stderr(logging.Handler):
    """Writes to stderr by a thread of its own: a reader that has stopped reading stops nobody."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: queue.Queue[str] = queue.Queue(BACKLOG)
        self._lost = 0
        threading.Thread(target=self._run, name="log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._lines.put_nowait(self.format(record))
        except queue.Full:
            self._lost += 1

    def _run(self) -> None:
        while True:
            line = self._lines.get()
            lost, self._lost = self._lost, 0
            note = f"({lost} lines of the log were lost: nobody read it)\n" if lost else ""
            with suppress(OSError):
                _write(f"{note}{line}\n")
            self._lines.task_done()

    def flush(self) -> None:
        """Wait until all is written, but not for ever; called when the program ends."""
        deadline = time.monotonic() + LAST_LINES
        while self._lines.unfinished_tasks and time.monotonic() < deadline:
            time.sleep(0.005)


def _write(text: str) -> None:
    try:
        descriptor = sys.stderr.fileno()
    except (OSError, ValueError):  # not a file, as in a test
        sys.stderr.write(text)
        return
    # Not by the stream: its lock, held by a write that never ends, would keep the program alive.
    rest = text.encode("utf-8", "replace")
    while rest:
        rest = rest[os.write(descriptor, rest) :]


class _Form(logging.Formatter):
    """Dates lines as ISO 8601 does."""

    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03d"


class _Text(_Form):
    """One line for people, and a traceback below it, without variables: clients sent those."""

    def __init__(self, *, colors: bool) -> None:
        super().__init__()
        self._colors = _COLORS if colors else {}

    def format(self, record: logging.LogRecord) -> str:
        level = f"{record.levelname.lower():<8}"
        if color := self._colors.get(record.levelno):
            level = f"\x1b[{color}m{level}\x1b[0m"
        fields = "".join(
            f" {name}={_shown(value)}" for name, value in sorted(fields_of(record).items())
        )
        line = f"{self.formatTime(record)} [{level}] {record.getMessage()}{fields}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class _Json(_Form):
    """One object a line, its time in UTC."""

    default_msec_format = "%s.%03dZ"
    converter = time.gmtime

    def format(self, record: logging.LogRecord) -> str:
        said: dict[str, object] = {
            **fields_of(record),
            "event": record.getMessage(),
            "level": record.levelname.lower(),
            "timestamp": self.formatTime(record),
        }
        if record.exc_info:
            said["exception"] = self.formatException(record.exc_info)
        return json.dumps(said, default=repr)


def _shown(value: object) -> str:
    """Return a value so that it ends where the next blank is, and moves no terminal."""
    if isinstance(value, str) and value.isprintable() and not _UNCLEAR & {*value}:
        return value
    return repr(value)


def configure_logs(form: Literal["text", "json"], level: str = "info") -> None:
    """Send the log, and libraries' warnings, to stderr; stdout belongs to the protocol."""
    handler = _Stderr()
    handler.setFormatter(_Json() if form == "json" else _Text(colors=sys.stderr.isatty()))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("hub").setLevel(level.upper())
