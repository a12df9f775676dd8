"""Audit records, and the file that has them: JSON lines, which a thread writes and rotates."""

from __future__ import annotations

import errno
import operator
import os
import stat
import threading
import time
from collections import deque
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime
from functools import lru_cache
from io import FileIO
from pathlib import Path
from typing import Final, Literal, Protocol, TypeAlias

import structlog
from msgspec import Struct
from msgspec.structs import asdict

from hub.audit.open_file import open_to_add
from hub.guard.consent import Consent
from hub.jsonrpc import exact_json
from hub.system.atomic_file import alone_in
from hub.values import JsonObject, SessionKey

MAX_FILE_BYTES = 64 * 1024 * 1024
"""Size at which the file is renamed to `NAME.1`, replacing an older one."""
BACKLOG = 20_000
"""Records that may wait for the disk; more are dropped, and their number is logged."""
PAUSE = 0.1
"""Seconds in which records are collected before they are written."""
IDLE = 60.0
"""Seconds without records after which a log's thread ends; the next record starts another one."""
BATCH = 64
"""Most records encoded without a pause of the thread: more would delay calls."""
MAX_WRITTEN = 1024 * 1024
"""Bytes of encoded lines above which they are written before more records are encoded."""
_NONE_FREE = (errno.EMFILE, errno.ENFILE)
_STAYS_OPEN: Final = os.name == "posix"
"""Elsewhere another hub could not put a file aside that is open here."""
_marks = operator.attrgetter("st_dev", "st_ino", "st_mode", "st_nlink", "st_uid")
"""What tells a file from another one, and from itself as one that is not fit any more."""

CallOutcome: TypeAlias = Literal["admitted", "refused", "failed", "cancelled"]

log = structlog.stdlib.get_logger(__name__)


class Recordable(Protocol):
    """The end of a call, of which the audit log makes the record when it writes it."""

    def record(self) -> AuditRecord:
        """Return the record."""
        ...


class AuditRecord(Struct, frozen=True, gc=False):
    """One call, as the JSON object of its log line.

    `time` is ISO 8601 in UTC; `ms` is the time in milliseconds until the response, the child's time
    included. `consent` is the user's answer about a path outside the roots; `session` may come from
    an earlier call. `pointer` and `path` then name that path, in an admitted call, too.
    """

    time: str
    session: SessionKey
    principal: str
    server: str
    tool: str
    verdict: CallOutcome
    reason: str | None = None
    pointer: str | None = None
    path: str | None = None
    would_refuse: bool = False
    ms: float = 0.0
    consent: Consent | None = None
    profile: str | None = None

    def record(self) -> AuditRecord:
        return self


def moment(at: float) -> str:
    """Return a time (seconds since 1970) as ISO 8601 text in UTC, to the millisecond."""
    second, milliseconds = divmod(int(at * 1000), 1000)
    return f"{_second(second)}.{milliseconds:03}+00:00"


@lru_cache(maxsize=4)  # many calls end in the same second
def _second(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S")


class AuditSink(Protocol):
    """Receives the ends of calls."""

    def write(self, end: Recordable) -> None:
        """Accept the end of a call; returns at once."""
        ...


class NoAudit:
    """Makes no record: the operator wants no audit log."""

    def write(self, end: Recordable) -> None:
        """Do nothing."""


class LoggedAudit:
    """Writes a line to the hub's log for each record, and passes the end of the call on."""

    def __init__(self, sink: AuditSink) -> None:
        self._sink = sink

    def write(self, end: Recordable) -> None:
        """Log the record without its empty fields, and pass it on."""
        told = {key: value for key, value in asdict(end.record()).items() if value}
        del told["time"]
        log.debug("call", **told)
        self._sink.write(end)


def put_aside(path: Path) -> Path:
    """Return the name that the file gets when it is rotated."""
    return path.with_name(path.name + ".1")


class _Writer:
    """Queues the ends of calls for a thread, so that neither a slow disk nor many delay calls.

    The thread makes the records: one after the other it does so several times as fast as one
    between two calls. It is woken once for all within `pause`, and yields after each `BATCH`. It
    ends while nothing comes: a log is closed with the hub only, also one that no config names any
    more.
    """

    def __init__(
        self,
        path: Path,
        *,
        max_bytes: int = MAX_FILE_BYTES,
        backlog: int = BACKLOG,
        pause: float = PAUSE,
        idle: float = IDLE,
    ) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._backlog = backlog
        self._pause = pause
        self._idle = idle
        self._ends: deque[Recordable] = deque()
        self._lost = 0  # only grows, and only `write` changes it: the thread runs at the same time
        self._told = 0
        self._is_called = False
        self._call = threading.Event()
        self._end = threading.Event()
        self._going = threading.Lock()
        self._is_gone = False
        self._file: FileIO | None = None
        self._file_marks: object = None
        self.thread = self._new_thread()

    def _new_thread(self) -> threading.Thread:
        return threading.Thread(target=self._run, name="audit", daemon=True)

    def write(self, end: Recordable) -> None:
        if len(self._ends) >= self._backlog:
            self._lost += 1
            return
        self._ends.append(end)
        if not self._is_called:
            self._is_called = True
            self._wake()

    def finish(self) -> None:
        self._end.set()
        self._wake()
        if self._is_gone:
            self._run()  # no thread can be started
        else:
            self.thread.join(timeout=5)

    def _wake(self) -> None:
        self._call.set()
        with self._going:
            if not self._is_gone:
                return
            self.thread = self._new_thread()
            try:
                self.thread.start()
                self._is_gone = False
            except RuntimeError as exc:
                self._is_called = False  # the next record tries again
                log.error("audit lines wait: no thread can be started", error=str(exc))  # noqa: TRY400 - the text is enough

    def _may_go(self) -> bool:
        """Return whether the thread, which is not called any more, is to end."""
        with self._going:
            self._is_gone = not self._call.is_set()
            if self._is_gone:
                self.close()
            return self._is_gone

    def _run(self) -> None:
        is_ending = False
        while not is_ending:
            if not self._call.wait(self._idle) and self._may_go():
                return
            self._call.clear()
            is_ending = self._end.wait(self._pause)
            # Before the records are taken: a record that comes later wakes the thread again.
            self._is_called = False
            is_written = False
            while not is_written:
                try:
                    self._write_all()
                    is_written = True
                except Exception:  # the thread has to go on, without what it failed at
                    log.exception("audit lines lost")
            lost = self._lost
            if lost > self._told:
                log.error("audit lines lost: the disk is too slow", lines=lost - self._told)
            self._told = lost
        self.close()

    def _write_all(self) -> None:
        """Write the records that came so far, up to a failure."""
        lines: list[bytes] = []
        size, left = 0, len(self._ends)  # later ones wait; the backlog bounds them
        try:
            while left:
                batch = self._batch(left)
                left -= len(batch)
                try:
                    lines.append(exact_json.encoder.encode_lines(batch))
                except exact_json.UNWRITABLE:  # a file name with bytes that are not UTF-8
                    lines.append(exact_json.encoder.encode_lines([*map(_encodable, batch)]))
                size += len(lines[-1])
                if left:
                    time.sleep(0)
                if size > MAX_WRITTEN:
                    self._append(b"".join(lines))
                    lines, size = [], 0
        finally:
            if lines:
                self._append(b"".join(lines))

    def _batch(self, most: int) -> list[AuditRecord]:
        """Make records to encode together; one with a path ends the batch, as it may be long."""
        batch: list[AuditRecord] = []
        for _ in range(min(most, BATCH)):
            record = self._ends.popleft().record()
            batch.append(record)
            if record.path is not None:
                break
        return batch

    def _append(self, lines: bytes) -> None:
        written = 0
        try:
            file = self._opened()
            try:
                while written < len(lines):
                    written += file.write(memoryview(lines)[written:])
            except OSError:
                # A partial line would make the next line unreadable, too.
                half = written - lines.rfind(b"\n", 0, written) - 1
                with suppress(OSError):  # a pipe or device cannot be truncated
                    # Another hub may have added lines meanwhile.
                    if half and os.fstat(file.fileno()).st_size == file.tell():
                        file.truncate(file.tell() - half)
                self.close()
                raise
        except OSError as exc:
            lost = lines.count(b"\n", written)
            log.error("audit lines lost", file=str(self._path), lines=lost, error=str(exc))  # noqa: TRY400 - the text of the OSError is enough
        if not _STAYS_OPEN:
            self.close()

    def _opened(self) -> FileIO:
        """Return the file; it is opened anew if it is full, or not the one that it was.

        Waits while no file descriptor is free, until the log ends.
        """
        with suppress(OSError):
            found = self._path.lstat()
            is_same = stat.S_ISREG(found.st_mode) and _marks(found) == self._file_marks
            if self._file is not None and is_same and found.st_size < self._max_bytes:
                return self._file
        self.close()
        while True:
            try:
                self._make_room()
                return self.open()
            except OSError as exc:
                if exc.errno not in _NONE_FREE or self._end.wait(self._pause):
                    raise

    def open(self) -> FileIO:
        """Open the file, which must not be open.

        Raises: OSError.
        """
        file = self._file = open_to_add(self._path)
        self._file_marks = _marks(os.fstat(file.fileno()))
        return file

    def close(self) -> None:
        """Close the file, if it is open."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _make_room(self) -> None:
        with suppress(OSError):  # a log that grows is better than a log that loses lines
            if self._is_full():
                # Another hub may have put it aside meanwhile: the new one has but a few lines.
                with alone_in(self._path.parent):
                    if self._is_full():
                        self._path.replace(put_aside(self._path))

    def _is_full(self) -> bool:
        found = self._path.lstat()
        return stat.S_ISREG(found.st_mode) and found.st_size >= self._max_bytes


def _encodable(record: AuditRecord) -> JsonObject:
    """Return the fields of a record, with lone surrogates replaced by backslash escapes."""
    return {
        key: value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
        for key, value in asdict(record).items()
    }


def audit_log(
    path: Path, *, max_bytes: int = MAX_FILE_BYTES, pause: float = PAUSE
) -> AbstractContextManager[AuditSink]:
    """Write records to the file `path` until the context ends; rotate it at `max_bytes`.

    The end of the context waits at most 5 seconds for the remaining records to be written.

    Raises: OSError if the file cannot be opened; its subclass UnfitFileError if it is not safe.
    """
    writer = _Writer(path, max_bytes=max_bytes, pause=pause)
    writer.open()
    return _writing(writer)


@contextmanager
def _writing(writer: _Writer) -> Generator[AuditSink]:
    writer.thread.start()
    try:
        yield writer
    finally:
        writer.finish()
