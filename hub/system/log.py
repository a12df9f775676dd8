"""Configure the hub's own log: to stderr, as text for people or as JSON lines."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from io import StringIO
from typing import Literal, TextIO, cast

import structlog
from msgspec import Struct
from structlog.typing import EventDict, ExcInfo, Processor, WrappedLogger

from hub.legible import on_one_line, shortened

BACKLOG = 10_000
"""How many lines may wait to be written to stderr. Further lines are counted and dropped."""
PAUSE = 0.02
"""Seconds after a line in which further lines are collected before they are written."""
TEXTLESS = 256
"""How many lines may wait without a text, which takes less memory than what it is made of."""
LONGEST_VALUE = 10_000
"""Characters of a field that are written: what clients and servers sent may be of any length."""
LAST_LINES = 1.0
"""Seconds to wait for the last lines to be written when the hub ends."""


class Later(Struct, eq=False):
    """The value of a field whose text is made when its line is written, outside of the loop.

    `make` must not use state that changes. Its text is kept for the other places of the log.
    """

    make: Callable[[], str]
    _text: str | None = None

    def __str__(self) -> str:
        if self._text is None:
            self._text = self.make()
        return self._text


class ThreadedLog(logging.Handler):
    """Writes to stderr in a thread of its own: if nobody reads it, the hub goes on.

    A line is written at once; lines that come within `pause` after it are written together, so
    that many lines do not wake the thread each. The thread makes the text of the hub's own lines,
    too. `write`, for another place than stderr, may block, and may raise OSError. `backlog` lines
    may wait for it, and at the end the hub waits `patience` seconds for it.
    """

    def __init__(
        self,
        write: Callable[[str], None] | None = None,
        *,
        backlog: int = BACKLOG,
        patience: float = LAST_LINES,
        pause: float = PAUSE,
    ) -> None:
        super().__init__()
        self._write = write or _write
        self._patience = patience
        self._pause = pause
        self._backlog = backlog
        self._records: deque[logging.LogRecord | str] = deque()
        self._lost = 0
        self._is_called = self._is_writing = False
        self._call = threading.Event()
        self._hurry = threading.Event()
        threading.Thread(target=self._run, name="log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        if len(self._records) >= self._backlog:
            self._lost += 1
            return
        line = cast("str | dict[str, object]", record.msg)
        # A line of the hub's has its time. What a library logs may be changed before it is written.
        can_wait = isinstance(line, dict) and len(self._records) < TEXTLESS
        if isinstance(line, dict) and line.get("exc_info") is True:
            line["exc_info"] = sys.exc_info()  # the thread handles no error
        self._records.append(record if can_wait else self.format(record))
        if not self._is_called:
            self._is_called = True
            self._call.set()

    def _run(self) -> None:
        while True:
            self._call.wait()
            self._call.clear()
            while self._records:
                self._write_all()
                self._hurry.wait(self._pause)
            # Before the last look: a record that comes later wakes the thread again.
            self._is_called = False
            self._write_all()

    def _write_all(self) -> None:
        self._is_writing = True
        while self._records:
            record = self._records.popleft()
            lost, self._lost = self._lost, 0
            note = f"({lost} lines of the log were lost: stderr was not read)\n" if lost else ""
            try:
                line = record if isinstance(record, str) else self.format(record)
            except Exception as exc:  # noqa: BLE001 - the thread has to go on
                line = f"a line of the log could not be written: {exc!r}"
            with suppress(OSError):
                self._write(f"{note}{line}\n")
        self._is_writing = False

    def flush(self) -> None:
        """Wait until all lines are written, at most `patience` seconds. Called at exit."""
        deadline = time.monotonic() + self._patience
        self._hurry.set()
        while (self._records or self._is_writing) and time.monotonic() < deadline:
            time.sleep(0.005)
        self._hurry.clear()


def _write(text: str) -> None:
    try:
        descriptor = sys.stderr.fileno()
    except (OSError, ValueError):  # not a real file, as in tests
        sys.stderr.write(text)
        return
    # Not through `sys.stderr`: a blocked write would hold its lock, and the program could not exit.
    rest = text.encode("utf-8", "replace")
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def configure_logs(
    form: Literal["text", "json"],
    level: str = "info",
    handler: logging.Handler | None = None,
    file: logging.Handler | None = None,
) -> None:
    """Send the log and warnings of libraries to stderr. Stdout is reserved for the protocol.

    `handler` stands in for stderr. `file` gets the same lines.
    """
    shared: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(
            fmt="iso" if form == "json" else "%Y-%m-%dT%H:%M:%S.%f%z", utc=form == "json"
        ),
    ]
    _configure_own(shared)
    handler = handler or ThreadedLog()
    remove = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    handlers = [handler] if file is None else [handler, file]
    for one in handlers:
        colors = one is handler and shows_colours(sys.stderr)
        renderers = _renderers(form, colors=colors)
        one.setFormatter(
            structlog.stdlib.ProcessorFormatter(
                foreign_pre_chain=shared, processors=[remove, *renderers]
            )
        )
    # No line says these, so they need not be found out for each.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    root = logging.getLogger()
    root.handlers[:] = handlers
    root.setLevel(logging.WARNING)
    logging.getLogger("hub").setLevel(level.upper())


def _configure_own(shared: Sequence[Processor]) -> None:
    """Have the hub's own lines made by the processors `shared`, and handed to the handlers."""
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


def is_logged(level: str) -> bool:
    """Return whether lines of this level are written: some cost too much to be made in vain."""
    return logging.getLogger("hub").isEnabledFor(logging.getLevelNamesMapping()[level.upper()])


def note_in_file(text: str) -> None:
    """Write a line that stderr has already to the log's file, if there is one."""
    for handler in logging.getLogger().handlers[1:]:
        record = {"name": "hub", "levelname": "ERROR", "levelno": logging.ERROR, "msg": "%s"}
        handler.handle(logging.makeLogRecord({**record, "args": (text,)}))


def _renderers(form: Literal["text", "json"], *, colors: bool) -> list[Processor]:
    if form == "json":
        exception = structlog.processors.ExceptionRenderer()
        return [_completing(str), exception, structlog.processors.JSONRenderer()]
    renderer = structlog.dev.ConsoleRenderer(
        colors=colors, pad_event_to=0, exception_formatter=_traceback
    )
    # Clients and servers may have sent line ends and control characters.
    return [_completing(on_one_line), renderer]


def _traceback(lines: TextIO, error: ExcInfo) -> None:
    """Write an indented traceback, so that no line of an error's text looks like a log line.

    It has no local variables, as they may hold what clients sent.
    """
    made = StringIO()
    structlog.dev.plain_traceback(made, error)
    for line in made.getvalue().strip("\n").split("\n"):
        lines.write(f"\n  {on_one_line(line)}")


def _completing(spelled: Callable[[str], str]) -> Processor:
    """Return what makes the texts of a line: cut if they are long, and then `spelled`."""

    def complete(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        for name, value in event.items():
            text = str(value) if isinstance(value, Later) else value
            if isinstance(text, str):
                event[name] = spelled(shortened(text, LONGEST_VALUE))
        return event

    return complete


def shows_colours(stream: TextIO) -> bool:
    """Return whether colours are wanted there (https://no-color.org: NO_COLOR, unless empty)."""
    return (
        stream.isatty()
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM", "") not in {"", "dumb", "unknown"}
    )
