"""Where audit records go: a file of JSON lines that is rotated. Writing never delays a call."""

from __future__ import annotations

import errno
import stat
import threading
import time
from collections import deque
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Protocol

import structlog
from msgspec.structs import asdict

from hub.audit.open_file import open_to_add
from hub.audit.record import AuditRecord
from hub.jsonrpc import exact_json
from hub.values import JsonObject

MAX_FILE_BYTES = 64 * 1024 * 1024
"""Size at which the file is renamed to `NAME.1`, in place of an older one."""
BACKLOG = 20_000
"""Records that may wait for the disk; more are dropped and counted, and the count is logged."""
PAUSE = 0.1
"""Seconds for which records are collected before they are written."""
BATCH = 64
"""Records that are put into words at once, at most: more would hold calls up."""
MAX_WRITTEN = 1024 * 1024
"""Bytes from which on lines are not kept back for others to be written with them."""
_NONE_FREE = (errno.EMFILE, errno.ENFILE)

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


def put_aside(path: Path) -> Path:
    """Return what the file is renamed to when it has grown large."""
    return path.with_name(path.name + ".1")


class _Writer:
    """Collects records for a thread of its own: no slow disk delays a call, nor do many records.

    The thread is woken once for all that come within `PAUSE`. It gives way after each `BATCH`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._records: deque[AuditRecord] = deque()
        self._lost = 0
        self._is_called = False
        self._call = threading.Event()
        self._end = threading.Event()
        self.thread = threading.Thread(target=self._run, name="audit", daemon=True)

    def write(self, record: AuditRecord) -> None:
        if len(self._records) >= BACKLOG:
            self._lost += 1
            return
        self._records.append(record)
        if not self._is_called:
            self._is_called = True
            self._call.set()

    def finish(self) -> None:
        self._end.set()
        self._call.set()
        self.thread.join(timeout=5)

    def _run(self) -> None:
        is_ending = False
        while not is_ending:
            self._call.wait()
            self._call.clear()
            is_ending = self._end.wait(PAUSE)
            # Before all is taken: what comes after this calls again.
            self._is_called = False
            self._write_all()
            lost, self._lost = self._lost, 0
            if lost:
                log.error("audit lines lost: the disk is too slow", lines=lost)

    def _write_all(self) -> None:
        lines: list[bytes] = []
        size, left = 0, len(self._records)  # what comes meanwhile waits: the backlog bounds it
        while left:
            batch = self._batch(left)
            left -= len(batch)
            lines.append(_lines(batch))
            size += len(lines[-1])
            if left:
                time.sleep(0)
            if size > MAX_WRITTEN:
                self._append(b"".join(lines))
                lines, size = [], 0
        if lines:
            self._append(b"".join(lines))

    def _batch(self, most: int) -> list[AuditRecord]:
        """Take records to be put into words at once: one with a path, however long, ends them."""
        batch: list[AuditRecord] = []
        for _ in range(min(most, BATCH)):
            record = self._records.popleft()
            batch.append(record)
            if record.path is not None:
                break
        return batch

    def _append(self, lines: bytes) -> None:
        written = 0
        try:
            with self._opened() as file:
                try:
                    while written < len(lines):
                        written += file.write(memoryview(lines)[written:])
                except OSError:
                    # Half a line would spoil the next one too.
                    half = written - lines.rfind(b"\n", 0, written) - 1
                    with suppress(OSError):  # what cannot be seen again cannot be cut off
                        file.truncate(file.tell() - half)
                    raise
        except OSError as exc:
            log.error("audit lines lost", lines=lines.count(b"\n", written), error=str(exc))  # noqa: TRY400 - the disk's word says it

    def _opened(self) -> FileIO:
        """Open the file: as soon as a descriptor is free, or the log ends."""
        while True:
            try:
                self._make_room()
                return open_to_add(self._path)
            except OSError as exc:
                if exc.errno not in _NONE_FREE or self._end.wait(PAUSE):
                    raise

    def _make_room(self) -> None:
        with suppress(OSError):  # a log that grows on is better than one that loses lines
            found = self._path.lstat()
            if stat.S_ISREG(found.st_mode) and found.st_size >= MAX_FILE_BYTES:
                self._path.replace(put_aside(self._path))


def _lines(records: list[AuditRecord]) -> bytes:
    try:
        return exact_json.encode_lines(records)
    except exact_json.WireError:  # a file name that is no text
        return exact_json.encode_lines([_encodable(record) for record in records])


def _encodable(record: AuditRecord) -> JsonObject:
    """Return the fields of a record, what is no text made text."""
    return {
        key: value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
        for key, value in asdict(record).items()
    }


def audit_log(path: Path) -> AbstractContextManager[AuditSink]:
    """Write records to the file `path` until the context ends; then all of them are written.

    Raises: OSError if the file cannot be opened; UnfitFileError, which is one, if it may not be.
    """
    open_to_add(path).close()
    return _writing(_Writer(path))


@contextmanager
def _writing(writer: _Writer) -> Generator[AuditSink]:
    writer.thread.start()
    try:
        yield writer
    finally:
        writer.finish()
