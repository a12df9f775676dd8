"""Where audit records go: a file of JSON lines that is rotated. Writing never delays a call."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Protocol

import structlog

from hub.core.audit import AuditRecord
from hub.core.values import JsonObject
from hub.runtime import strict_json

MAX_FILE_BYTES = 64 * 1024 * 1024
"""Size at which the file is renamed to `NAME.1`, in place of an older one."""
BACKLOG = 10_000
"""Records that may wait for the disk; more are dropped and counted, and the count is logged."""

log = structlog.stdlib.get_logger(__name__)


class AuditSink(Protocol):
    """Takes audit records."""

    def write(self, record: AuditRecord) -> None:
        """Take a record; returns at once."""
        ...


class NoAudit:
    """Keeps nothing: the operator asked for no audit log."""

    def write(self, record: AuditRecord) -> None:
        """Drop the record."""


class _Writer:
    """Hands lines to a thread of its own, so that a slow disk delays no call."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines: queue.Queue[bytes | None] = queue.Queue(BACKLOG)
        self._lost = 0
        self.thread = threading.Thread(target=self._run, name="audit", daemon=True)

    def write(self, record: AuditRecord) -> None:
        try:
            self._lines.put_nowait(strict_json.encode(_encodable(record.fields())))
        except queue.Full:
            self._lost += 1

    def finish(self) -> None:
        self._lines.put(None)
        self.thread.join(timeout=5)

    def _run(self) -> None:
        ended = False
        while not ended:
            lines, ended = self._taken()
            try:
                if lines:
                    self._append(lines)
            except OSError as exc:
                log.error("audit lines lost", lines=len(lines), error=str(exc))  # noqa: TRY400 - the disk's word says it
            if self._lost:
                log.error("audit lines lost: the disk is too slow", lines=self._lost)
                self._lost = 0

    def _taken(self) -> tuple[list[bytes], bool]:
        """Return the lines that wait, at least one, and whether there will be no more."""
        lines: list[bytes] = []
        line = self._lines.get()
        while line is not None:
            lines.append(line)
            if self._lines.empty():
                return lines, False
            line = self._lines.get()
        return lines, True

    def _append(self, lines: list[bytes]) -> None:
        if self._path.exists() and self._path.stat().st_size >= MAX_FILE_BYTES:
            with suppress(OSError):  # a log that grows on is better than one that loses lines
                self._path.replace(self._path.with_name(self._path.name + ".1"))
        with self._path.open("ab") as file:
            file.writelines(line + b"\n" for line in lines)


def _encodable(fields: JsonObject) -> JsonObject:
    """Return the record with file names that are no text made text."""
    return {
        key: value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
        for key, value in fields.items()
    }


def audit_log(path: Path) -> AbstractContextManager[AuditSink]:
    """Write records to the file `path` until the context ends; then all of them are written.

    Raises: OSError if the file cannot be opened.
    """
    with path.open("ab"):
        pass
    return _writing(_Writer(path))


@contextmanager
def _writing(writer: _Writer) -> Generator[AuditSink]:
    writer.thread.start()
    try:
        yield writer
    finally:
        writer.finish()
