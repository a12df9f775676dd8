from __future__ import annotations

import json
import os
import resource
import signal
import stat
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest
from msgspec.structs import asdict, replace
from structlog.testing import capture_logs

from hub.audit import log_file as log_file_module
from hub.audit.log_file import BATCH, MAX_FILE_BYTES, PAUSE, AuditRecord, NoAudit, audit_log
from hub.jsonrpc import exact_json
from tests.audit.test_record import REFUSAL
from tests.kit.fakes import no_descriptor_free
from tests.kit.trees import Renamed

Writer = log_file_module._Writer  # pyright: ignore[reportPrivateUsage] - its thread is watched
RECORD = replace(REFUSAL, path="/etc/pässwd\n")


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def numbered(count: int) -> list[AuditRecord]:
    return [replace(RECORD, tool=f"t{number}") for number in range(count)]


def test_every_record_is_a_line_and_all_are_written_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    with audit_log(path) as audit:
        for record in numbered(1000):
            audit.write(record)
    assert [line["tool"] for line in lines(path)] == [f"t{number}" for number in range(1000)]
    assert lines(path)[0] == {**asdict(RECORD), "tool": "t0"}


def test_a_log_is_continued(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    for record in numbered(2):
        with audit_log(path) as audit:
            audit.write(record)
    assert [line["tool"] for line in lines(path)] == ["t0", "t1"]


def test_a_log_that_has_grown_large_is_put_aside_before_more_is_written(tmp_path: Path) -> None:
    path, rotated = tmp_path / "audit.jsonl", tmp_path / "audit.jsonl.1"
    with closing(Writer(path, max_bytes=1)) as writer:
        for record in numbered(3):
            writer._append(exact_json.encode(record) + b"\n")  # pyright: ignore[reportPrivateUsage] - to know when
            assert [line["tool"] for line in lines(path)] == [record.tool]
    assert [line["tool"] for line in lines(rotated)] == ["t1"]


def test_a_log_is_opened_anew_only_if_the_file_is_not_as_it_was(tmp_path: Path) -> None:
    path, moved = tmp_path / "audit.jsonl", tmp_path / "moved.jsonl"
    with closing(Writer(path)) as writer:
        opened: list[object] = []

        def append() -> None:
            writer._append(b"{}\n")  # pyright: ignore[reportPrivateUsage] - to know when
            opened.append(writer._file)  # pyright: ignore[reportPrivateUsage] - to know which

        append()
        append()
        assert opened[0] is opened[1]
        path.rename(moved)
        append()
        assert (len(lines(moved)), len(lines(path))) == (2, 1)
        path.chmod(0o644)
        append()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        moved.unlink()
        moved.hardlink_to(path)
        with capture_logs() as logs:
            append()
    assert [entry["event"] for entry in logs] == ["audit lines lost"]


@pytest.mark.long
def test_of_several_hubs_one_puts_a_large_log_aside(
    tmp_path: Path, renamed: Sequence[Renamed]
) -> None:
    path = tmp_path / "audit.jsonl"

    def write_much(writer: Writer) -> None:
        with closing(writer):
            for _ in range(3000):
                writer._append(b"{}\n")  # pyright: ignore[reportPrivateUsage] - as fast as it can be

    threads = [
        threading.Thread(target=write_much, args=(Writer(path, max_bytes=30),)) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # A log that is put aside again at once takes the place of the large one.
    assert min(len(one.content) for one in renamed) >= 30
    assert len(renamed) > 100


class CountingWriter(Writer):
    """Counts what is encoded and what is written together; `meanwhile` comes in between."""

    def __init__(
        self, path: Path, *, max_bytes: int = MAX_FILE_BYTES, pause: float = PAUSE
    ) -> None:
        super().__init__(path, max_bytes=max_bytes, pause=pause)
        self.encoded: list[int] = []
        self.written: list[int] = []
        self.happened = threading.Semaphore(0)
        self.meanwhile: AuditRecord | None = None

    def _batch(self, most: int) -> list[AuditRecord]:
        batch = super()._batch(most)
        self.encoded.append(len(batch))
        if self.meanwhile is not None and batch != [self.meanwhile]:
            self.write(self.meanwhile)
        return batch

    def _append(self, lines: bytes) -> None:
        super()._append(lines)
        self.written.append(lines.count(b"\n"))
        self.happened.release()


@contextmanager
def running(writer: CountingWriter) -> Generator[CountingWriter]:
    writer.thread.start()
    try:
        yield writer
    finally:
        writer.finish()


def test_records_that_arrive_during_a_write_are_written_together(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    with running(CountingWriter(path)) as audit:
        for record in numbered(BATCH + 5):
            audit.write(record)
    assert audit.written == [BATCH + 5]
    assert len(lines(path)) == BATCH + 5


def test_records_that_arrive_during_formatting_wait_for_the_next_write(tmp_path: Path) -> None:
    first, second, third, later = numbered(4)
    writer = CountingWriter(tmp_path / "audit.jsonl")
    writer.meanwhile = later
    for record in (first, second, third):
        writer.write(record)
    with closing(writer):
        for _ in range(2):
            writer._write_all()  # pyright: ignore[reportPrivateUsage] - its thread would choose when
    assert writer.written == [3, 3]


def test_one_batch_formats_few_records_and_at_most_one_path(tmp_path: Path) -> None:
    path, plain = tmp_path / "audit.jsonl", replace(RECORD, path=None)
    every = [*[plain] * (BATCH + 1), *numbered(2), plain]
    with running(CountingWriter(path)) as audit:
        for record in every:
            audit.write(record)
    assert audit.encoded == [BATCH, 2, 1, 1]
    assert [line["tool"] for line in lines(path)] == [record.tool for record in every]


def test_records_are_on_the_disk_soon_without_more_of_them(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    with running(CountingWriter(path, pause=0.001)) as audit:
        for number, record in enumerate(numbered(3), 1):
            audit.write(record)
            assert audit.happened.acquire(timeout=60)
            assert len(lines(path)) == number


def test_the_thread_is_called_once_for_all_that_it_collects(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "audit.jsonl")
    calls: list[bool] = []
    writer._call.set = lambda: calls.append(True)  # pyright: ignore[reportPrivateUsage] - to count
    for record in numbered(1000):
        writer.write(record)
    assert calls == [True]


def until_ended(thread: threading.Thread) -> None:
    thread.join(60)
    assert not thread.is_alive()


def test_a_log_that_gets_nothing_keeps_no_thread_and_goes_on_with_the_next_record(
    tmp_path: Path,
) -> None:
    path = tmp_path / "audit.jsonl"
    writer = Writer(path, pause=0.05, backlog=1, idle=0.01)
    with capture_logs() as logs:
        writer.thread.start()
        for number in range(3):
            until_ended(writer.thread)
            for record in numbered(2):
                writer.write(record)
            until_ended(writer.thread)
            assert len(lines(path)) == number + 1
        writer.write(RECORD)
        writer.finish()
    assert len(lines(path)) == 4
    assert [one["lines"] for one in logs] == [1, 1, 1], "each lost line is told once"


def test_a_thread_that_cannot_be_started_is_tried_again_at_the_next_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.jsonl"
    writer = Writer(path, pause=0, idle=0.01)
    writer.thread.start()
    until_ended(writer.thread)
    with monkeypatch.context() as scarce:
        scarce.setattr(threading.Thread, "start", no_thread)
        writer.write(RECORD)
    writer.write(RECORD)
    writer.finish()
    assert len(lines(path)) == 2


def test_a_log_ends_where_no_thread_can_be_started_for_its_last_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.jsonl"
    writer = Writer(path, pause=0, idle=0.01)
    writer.thread.start()
    until_ended(writer.thread)
    monkeypatch.setattr(threading.Thread, "start", no_thread)
    writer.write(RECORD)
    writer.finish()
    assert len(lines(path)) == 1


def no_thread(_thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_a_name_that_is_not_unicode_is_written_with_replacements(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    with audit_log(path) as audit:
        audit.write(replace(RECORD, path=os.fsdecode(b"/caf\xe9")))
    assert lines(path)[0]["path"] == "/caf\\udce9"


def test_a_log_that_was_moved_away_is_created_again(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    with audit_log(path) as audit:
        path.unlink()
        audit.write(RECORD)
    assert len(lines(path)) == 1


def test_a_log_that_cannot_be_opened_is_an_error_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file or directory"):
        audit_log(tmp_path / "none" / "audit.jsonl")


def test_a_pipe_without_a_reader_is_an_error_at_once(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(OSError, match="No such device or address"):
        audit_log(path)


def test_a_pipe_can_be_a_log(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with audit_log(path) as audit:
        audit.write(RECORD)
    assert json.loads(os.read(reading, 10_000)) == asdict(RECORD)
    os.close(reading)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_path_that_is_not_a_file_fails_with_the_systems_error() -> None:
    with capture_logs() as logs, audit_log(Path("/dev/full")) as audit:
        audit.write(RECORD)
    assert [entry["error"] for entry in logs] == ["[Errno 28] No space left on device"]


def test_records_over_the_queue_limit_are_dropped_and_their_number_is_logged(
    tmp_path: Path,
) -> None:
    path = tmp_path / "audit.jsonl"
    path.touch(0o600)
    writer = Writer(path, backlog=2)
    for record in numbered(5):
        writer.write(record)
    with capture_logs() as logs:
        writer.thread.start()
        writer.finish()
    assert [line["tool"] for line in lines(path)] == ["t0", "t1"]
    assert [entry["lines"] for entry in logs] == [3]


class BusyWriter(Writer):
    """Gets two records, with room for one, just when its thread first looks how many are lost."""

    looked = False

    def __getattribute__(self, name: str) -> object:
        found = super().__getattribute__(name)
        if name == "_lost" and threading.current_thread() is self.thread and not self.looked:
            self.looked = True
            for record in numbered(2):
                self.write(record)
        return found


def test_records_that_are_dropped_while_the_thread_counts_are_counted_too(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.touch(0o600)
    writer = BusyWriter(path, backlog=1, pause=0)
    with capture_logs() as logs:
        for record in numbered(3):
            writer.write(record)
        writer.thread.start()
        deadline = time.monotonic() + 60
        while len(logs) < 2 and time.monotonic() < deadline:
            time.sleep(0.001)
        writer.finish()
    assert [entry["lines"] for entry in logs] == [2, 1]


def test_a_disk_that_fails_loses_lines_says_so_and_may_recover(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    writer = Writer(path)
    path.mkdir()
    for record in numbered(2):
        writer.write(record)
    with capture_logs() as logs:
        writer.thread.start()
        writer.finish()
    assert {entry["event"] for entry in logs} == {"audit lines lost"}
    assert sum(entry["lines"] for entry in logs) == 2
    path.rmdir()
    with audit_log(path) as audit:
        audit.write(RECORD)
    assert len(lines(path)) == 1


def test_a_file_that_fails_to_be_closed_is_opened_anew(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    with closing(Writer(path)) as writer:
        os.close(writer.open().fileno())  # so that writing and closing it fail
        with capture_logs() as logs:
            writer._append(b"{}\n")  # pyright: ignore[reportPrivateUsage] - to know when
            writer._append(b"{}\n")  # pyright: ignore[reportPrivateUsage] - see above
    assert [(entry["event"], entry["lines"]) for entry in logs] == [("audit lines lost", 1)]
    assert lines(path) == [{}]


def test_lines_wait_for_a_free_descriptor_until_the_log_ends(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    writer = Writer(path)
    with ExitStack() as scarce, closing(writer):
        scarce.enter_context(no_descriptor_free())
        writer._end.wait = lambda _: bool(scarce.close())  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue] - one is free by then
        writer._append(b"{}\n")  # pyright: ignore[reportPrivateUsage] - its thread would choose when
    assert lines(path) == [{}]
    with capture_logs() as logs, no_descriptor_free():
        writer._end.wait = lambda _: True  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue] - the log ends
        writer._append(b"{}\n")  # pyright: ignore[reportPrivateUsage] - see above
    assert [(entry["event"], entry["lines"]) for entry in logs] == [("audit lines lost", 1)]


@contextmanager
def files_end_at(size: int) -> Generator[None]:
    """Let the system write no file beyond a size, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_disk_that_is_full_gets_no_half_line(tmp_path: Path) -> None:
    path, every = tmp_path / "audit.jsonl", numbered(100)
    with capture_logs() as logs, files_end_at(10_000), audit_log(path) as audit:
        for record in every:
            audit.write(record)
    kept = len(lines(path))
    assert 0 < kept < 100
    assert [(entry["event"], entry["lines"]) for entry in logs] == [
        ("audit lines lost", 100 - kept)
    ]
    with audit_log(path) as audit:
        audit.write(replace(RECORD, tool="after"))
    written = [line["tool"] for line in lines(path)]
    assert written == [*(record.tool for record in every[:kept]), "after"]


def test_a_full_disk_takes_no_line_of_another_hub(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"

    def add_theirs(*_: object) -> None:  # between the write that fails and what follows it
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        with path.open("ab") as others:
            others.write(b'{"tool": "theirs"}\n')

    before = signal.signal(signal.SIGXFSZ, add_theirs)
    try:
        with capture_logs() as logs, files_end_at(1), closing(Writer(path)) as writer:
            writer._append(b"{}\n")  # pyright: ignore[reportPrivateUsage] - at this moment
    finally:
        signal.signal(signal.SIGXFSZ, before)
    assert [entry["lines"] for entry in logs] == [1]
    assert path.read_bytes() == b'{{"tool": "theirs"}\n'


def test_many_long_lines_are_not_collected_and_a_log_is_put_aside_between_them(
    tmp_path: Path,
) -> None:
    path, limit = tmp_path / "audit.jsonl", 3 * 1024 * 1024
    with running(CountingWriter(path, max_bytes=limit)) as audit:
        for record in numbered(50):
            audit.write(replace(record, path="x" * 100_000))
    assert max(audit.written) == 11
    assert sum(audit.written) == 50
    aside = lines(path.with_name("audit.jsonl.1"))
    assert [line["tool"] for line in (*aside, *lines(path))] == [f"t{n}" for n in range(50)]
    assert path.stat().st_size < limit


def test_a_record_that_cannot_be_made_stops_no_other(tmp_path: Path) -> None:
    class Unmade:
        def record(self) -> AuditRecord:
            raise ValueError("no such principal")

    path = tmp_path / "audit.jsonl"
    with capture_logs() as logs, audit_log(path) as audit:
        for end in (RECORD, Unmade(), replace(RECORD, tool="after")):
            audit.write(end)
    assert [line["tool"] for line in lines(path)] == [RECORD.tool, "after"]
    assert [entry["event"] for entry in logs] == ["audit lines lost"]


def test_no_audit_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Unasked:
        def record(self) -> AuditRecord:
            raise AssertionError("nobody wants it")

    monkeypatch.chdir(tmp_path)
    with capture_logs() as logs:
        NoAudit().write(Unasked())
    assert logs == [*tmp_path.iterdir()] == []
