"""Where audit records go: a file of JSON lines that is rotated. Writing never delays a call."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol, TextIO

import structlog

from hub.core.audit import AuditRecord
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
            self._lines.put_nowait(strict_json.encode(record.fields()))
        except queue.Full:
            self._lost += 1

    def finish(self) -> None:
        self._lines.put(None)
        self.thread.join(timeout=5)

    def _run(self) -> None:
        file = self._open()
        while (line := self._lines.get()) is not None:
            try:
                file.write(line.decode() + "\n")
                if self._lines.empty():
                    file.flush()
                    file = self._rotated(file)
            except OSError as exc:
                log.error("audit line lost", error=str(exc))  # noqa: TRY400 - the disk's word says it
            if self._lost:
                log.error("audit lines lost: the disk is too slow", lines=self._lost)
                self._lost = 0
        file.flush()

    def _open(self) -> TextIO:
        return self._path.open("a", encoding="utf-8")

    def _rotated(self, file: TextIO) -> TextIO:
        if file.tell() < MAX_FILE_BYTES:
            return file
        file.close()
        self._path.replace(self._path.with_name(self._path.name + ".1"))
        return self._open()


def audit_log(path: Path) -> AbstractContextManager[AuditSink]:
    """Write records to the file `path` until the context ends; then all of them are written.

    Raises: OSError if the file cannot be opened.
    """
    path.touch()
    return _writing(_Writer(path))


@contextmanager
def _writing(writer: _Writer) -> Generator[AuditSink]:
    writer.thread.start()
    try:
        yield writer
    finally:
        writer.finish()
