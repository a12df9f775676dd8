"""Where the hub's own log goes: stderr, as text for people or as JSON lines."""

from __future__ import annotations

import logging
import os
import queue
import sys
import threading
import time
from contextlib import suppress
from io import StringIO
from typing import Literal, TextIO

import structlog
from structlog.typing import EventDict, ExcInfo, Processor, WrappedLogger

from hub.legible import on_one_line

BACKLOG = 10_000
"""How many lines may wait for stderr; further ones are counted and lost."""
LAST_LINES = 1.0
"""Seconds that the last lines may take when the hub ends."""


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


def configure_logs(form: Literal["text", "json"], level: str = "info") -> None:
    """Send the log, and libraries' warnings, to stderr; stdout belongs to the protocol."""
    shared: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=form == "json"),
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = _Stderr()
    remove = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared, processors=[remove, *_renderers(form)]
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("hub").setLevel(level.upper())


def _renderers(form: Literal["text", "json"]) -> list[Processor]:
    if form == "json":
        return [structlog.processors.ExceptionRenderer(), structlog.processors.JSONRenderer()]
    colors = sys.stderr.isatty()
    renderer = structlog.dev.ConsoleRenderer(
        colors=colors, pad_event_to=0, exception_formatter=_traceback
    )
    return [_printable, renderer]


def _traceback(lines: TextIO, error: ExcInfo) -> None:
    """Write a traceback, indented: no line that an error brings with it passes for the log's own.

    It is no pretty one: those show local variables, and with them what clients sent.
    """
    made = StringIO()
    structlog.dev.plain_traceback(made, error)
    for line in made.getvalue().strip("\n").split("\n"):
        lines.write(f"\n  {on_one_line(line)}")


def _printable(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Write out what could end a line or move a terminal: clients and servers said it."""
    for name, value in event.items():
        if isinstance(value, str):
            event[name] = on_one_line(value)
    return event
