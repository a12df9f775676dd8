from __future__ import annotations

from structlog.testing import capture_logs
from structlog.typing import EventDict

from hub.jsonrpc.rated_log import BYTES, BYTES_A_SECOND, LINES, LINES_A_SECOND, TOLD_EVERY, ChildLog
from tests.kit.fakes import FakeClock

LEFT_OUT = "not all of it is logged"


def of(logs: list[EventDict], event: str) -> list[EventDict]:
    return [entry for entry in logs if entry["event"] == event]


def test_some_lines_are_logged_at_once_and_then_so_many_a_second() -> None:
    clock = FakeClock()
    log = ChildLog("files", clock)
    with capture_logs() as logs:
        for _ in range(LINES + 10):
            log.info("said", line="x")
        assert len(of(logs, "said")) == LINES
        assert log.is_full
        clock.now += 1
        assert not log.is_full
        for _ in range(LINES):
            log.warning("said", line="x")
        assert len(of(logs, "said")) == LINES + LINES_A_SECOND
        log.finish()
        log.finish()
    assert [entry["lines"] for entry in of(logs, LEFT_OUT)] == [10 + LINES - LINES_A_SECOND]
    assert {entry["server"] for entry in logs} == {"files"}


def test_hidden_characters_count_as_they_are_written() -> None:
    log = ChildLog("files", FakeClock())
    with capture_logs() as logs:
        for _ in range(100):
            log.info("said", line="\0" * 200)
    assert 0 < len(of(logs, "said")) <= BYTES // 1000


def test_few_long_lines_are_too_much_as_well() -> None:
    clock = FakeClock()
    log = ChildLog("files", clock)
    with capture_logs() as logs:
        for _ in range(100):
            log.info("said", line="x" * 1000)
        assert 0 < len(of(logs, "said")) <= BYTES // 1000
        clock.now += 1
        log.info("said", line="x" * (BYTES_A_SECOND // 2))
        log.finish()
    assert len(of(logs, LEFT_OUT)) == 1
    assert of(logs, LEFT_OUT)[0]["bytes"] > 60_000


def test_the_number_of_omitted_lines_is_logged_from_time_to_time() -> None:
    clock = FakeClock()
    log = ChildLog("files", clock)
    with capture_logs() as logs:
        for _ in range(60):
            for _ in range(LINES):
                log.info("said", line="x")
            clock.now += 1
    told = of(logs, LEFT_OUT)
    assert 60 // TOLD_EVERY - 2 <= len(told) <= 60 // TOLD_EVERY
    assert len(of(logs, "said")) <= LINES + 60 * LINES_A_SECOND
