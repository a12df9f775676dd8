from __future__ import annotations

import gc
import json
import threading
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import TextIO

import pytest
from structlog.testing import capture_logs

from hub.core.audit import AuditRecord
from hub.core.values import SessionKey
from hub.runtime import audit_log as audit_module
from hub.runtime.audit_log import NoAudit, audit_log

# The writer leaves its file to be closed when it is collected.
pytestmark = pytest.mark.filterwarnings("ignore:.*FileIO:pytest.PytestUnraisableExceptionWarning")
Writer = audit_module._Writer  # pyright: ignore[reportPrivateUsage] - its thread is watched
RECORD = AuditRecord(
    time="2026-01-02T03:04:05.678+00:00",
    session=SessionKey("abc"),
    principal="alice",
    server="files",
    tool="read",
    verdict="refused",
    reason="outside",
    pointer="/path",
    path="/etc/pässwd\n",
    would_refuse=False,
    ms=1.5,
)


@pytest.fixture(autouse=True)
def collected() -> Generator[None]:
    """Let what a test leaves behind be collected within it."""
    yield
    gc.collect()


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
    assert lines(path)[0] == {**RECORD.fields(), "tool": "t0"}


def test_a_log_is_continued(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    for record in numbered(2):
        with audit_log(path) as audit:
            audit.write(record)
    assert [line["tool"] for line in lines(path)] == ["t0", "t1"]


def test_a_log_that_has_grown_large_is_put_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rotated, looked = Writer._rotated, threading.Event()  # pyright: ignore[reportPrivateUsage] - to know when

    def noted(writer: Writer, file: TextIO) -> TextIO:
        try:
            return rotated(writer, file)
        finally:
            looked.set()

    monkeypatch.setattr(audit_module, "MAX_FILE_BYTES", 1)
    monkeypatch.setattr(Writer, "_rotated", noted)
    path = tmp_path / "audit.jsonl"
    with audit_log(path) as audit:
        for record in numbered(3):
            looked.clear()
            audit.write(record)
            assert looked.wait(5)
    assert lines(path) == []
    assert [line["tool"] for line in lines(tmp_path / "audit.jsonl.1")] == ["t2"]


def test_a_log_that_cannot_be_opened_is_an_error_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file or directory"):
        audit_log(tmp_path / "none" / "audit.jsonl")


def test_records_beyond_what_may_wait_are_counted_and_the_count_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_module, "BACKLOG", 2)
    path = tmp_path / "audit.jsonl"
    path.touch()
    writer = Writer(path)
    for record in numbered(5):
        writer.write(record)
    with capture_logs() as logs:
        writer.thread.start()
        writer.finish()
    assert [line["tool"] for line in lines(path)] == ["t0", "t1"]
    assert [entry["lines"] for entry in logs] == [3]


def test_a_disk_that_fails_loses_lines_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full:
        def write(self, line: str) -> None:
            raise OSError(28, "No space left on device")

        def flush(self) -> None:
            """Do nothing."""

    def opened(_: Writer) -> Full:
        return Full()

    monkeypatch.setattr(Writer, "_open", opened)
    with capture_logs() as logs, audit_log(tmp_path / "audit.jsonl") as audit:
        audit.write(RECORD)
        audit.write(RECORD)
    assert [entry["event"] for entry in logs] == ["audit line lost"] * 2


def test_no_audit_keeps_nothing() -> None:
    NoAudit().write(RECORD)
