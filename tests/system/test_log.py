import json
import logging
import threading
from datetime import datetime
from typing import Any

import pytest
import structlog

from hub.system.log import TEXTLESS, Later, ThreadedLog, configure_logs


def a_logger() -> Any:
    return structlog.stdlib.get_logger("hub.tried")


def flush() -> None:
    """Wait for the thread that writes the log."""
    logging.getLogger().handlers[0].flush()


def written(capsys: pytest.CaptureFixture[str]) -> str:
    """Return the text on stderr after all log lines are written."""
    flush()
    return capsys.readouterr().err


def test_text_goes_to_stderr_and_nothing_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("text")
    a_logger().warning("something happened", server="files", argument="/path")
    flush()
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    assert "something happened" in line
    assert "server=files" in line
    assert "\x1b[" not in line


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("plain", "plain"),
        ("two\nlines", r"two\nlines"),
        ("\x1b[2Jgone", r"\x1b[2Jgone"),
        (7, "7"),
        (None, "None"),
    ],
)
def test_a_field_stays_what_it_is_on_its_line(
    capsys: pytest.CaptureFixture[str], value: object, shown: str
) -> None:
    configure_logs("text")
    a_logger().warning("tried", field=value)
    (line,) = written(capsys).splitlines()
    assert line.endswith(f"field={shown}")


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_field_of_any_length_makes_a_line_of_limited_length(
    capsys: pytest.CaptureFixture[str], form: Any
) -> None:
    configure_logs(form)
    a_logger().warning("tried", field="x" * 10_000_000, later=Later(lambda: "y" * 10_000_000))
    line = written(capsys)
    assert "9,990,000 characters left out" in line
    assert len(line) < 25_000


def test_a_traceback_follows_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("text")
    try:
        raise ValueError("why")  # noqa: TRY301 - there is to be one
    except ValueError:
        a_logger().exception("it failed: 100 %", a=1)
    first, *rest = written(capsys).splitlines()
    assert "it failed: 100 %" in first
    assert [rest[0], rest[-1]] == ["  Traceback (most recent call last):", "  ValueError: why"]


def test_the_text_of_an_error_is_escaped_in_the_log(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logs("text")
    try:
        raise ValueError("\x1b[2Jgone\nas if")  # noqa: TRY301 - there is to be one
    except ValueError:
        a_logger().exception("it failed")
    _, *rest = written(capsys).splitlines()
    assert rest[-2:] == ["  ValueError: \\x1b[2Jgone", "  as if"]


def test_text_has_the_local_time_with_its_offset(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("text")
    a_logger().warning("told")
    time = written(capsys).split()[0]
    assert datetime.fromisoformat(time).utcoffset() == datetime.now().astimezone().utcoffset()


def test_json_is_one_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("json")
    a_logger().warning("two\nlines", server="files")
    (line,) = written(capsys).splitlines()
    logged = json.loads(line)
    assert logged.pop("timestamp").endswith("Z")
    assert logged == {"event": "two\nlines", "level": "warning", "server": "files"}


def test_an_exception_is_logged_in_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("json")
    try:
        raise ValueError("why")  # noqa: TRY301 - there is to be one
    except ValueError:
        a_logger().exception("it failed")
    logged = json.loads(written(capsys))
    assert logged["exception"].endswith("ValueError: why")
    assert logged["level"] == "error"


@pytest.mark.parametrize(
    ("level", "seen"),
    [("debug", "diwe"), ("info", "iwe"), ("warning", "we"), ("error", "e")],
)
def test_less_than_the_level_is_not_logged(
    capsys: pytest.CaptureFixture[str], level: str, seen: str
) -> None:
    configure_logs("json", level)
    logger = a_logger()
    for method in ("debug", "info", "warning", "error"):
        getattr(logger, method)(method)
    lines = written(capsys).splitlines()
    assert [json.loads(line)["event"][0] for line in lines] == list(seen)


def test_libraries_are_heard_from_warnings_on(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("json", "debug")
    library = logging.getLogger("uvicorn.error")
    library.info("started")
    library.warning("slow: %d", 7)
    (line,) = written(capsys).splitlines()
    logged = json.loads(line)
    assert (logged["event"], logged["level"]) == ("slow: 7", "warning")


def test_configuring_twice_says_nothing_twice(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("text")
    configure_logs("json")
    a_logger().warning("once")
    assert len(written(capsys).splitlines()) == 1


def test_an_unknown_level_is_our_own_mistake() -> None:
    with pytest.raises(ValueError, match="LOUD"):
        configure_logs("text", "loud")


class Unread:
    """A stderr whose reader waits for the test."""

    def __init__(self) -> None:
        self.read = threading.Event()
        self.began = threading.Event()
        self.lines: list[str] = []

    def write(self, text: str) -> None:
        self.began.set()
        self.read.wait(20)
        self.lines.append(text)


def test_unread_log_lines_delay_no_writer_and_are_counted() -> None:
    unread = Unread()
    configure_logs("text", handler=ThreadedLog(unread.write, backlog=2))
    a_logger().warning("one")
    assert unread.began.wait(20)
    for event in ("two", "three", "four", "five"):
        a_logger().warning(event)
    unread.read.set()
    flush()
    assert ["one" in unread.lines[0], "three" in unread.lines[2]] == [True, True]
    assert unread.lines[1].startswith("(2 lines of the log were lost: stderr was not read)\n")
    assert "two" in unread.lines[1]
    a_logger().warning("six")
    flush()
    assert [len(unread.lines), unread.lines[3].count("lost")] == [4, 0]


def test_a_hub_that_ends_does_not_wait_for_ever_for_a_reader() -> None:
    unread = Unread()
    configure_logs("text", handler=ThreadedLog(unread.write, patience=0.01))
    a_logger().warning("one")
    flush()
    assert unread.lines == []
    unread.read.set()


def test_a_log_that_cannot_be_written_ends_nothing() -> None:
    written: list[str] = []

    def broken(text: str) -> None:
        written.append(text)
        raise BrokenPipeError

    configure_logs("text", handler=ThreadedLog(broken))
    for event in ("one", "two"):
        a_logger().warning(event)
    flush()
    assert len(written) == 2


def test_lines_that_come_together_are_all_written_in_their_order() -> None:
    written: list[str] = []
    configure_logs("json", handler=ThreadedLog(written.append, pause=60))
    for number in range(50):
        a_logger().warning("one of many", number=number)
    flush()
    assert [json.loads(line)["number"] for line in written] == list(range(50))


def test_a_library_s_line_says_what_was_true_when_it_was_logged() -> None:
    unread, seen = Unread(), ["first"]
    configure_logs("text", handler=ThreadedLog(unread.write))
    a_logger().warning("one")
    assert unread.began.wait(20)
    logging.getLogger("library").warning("seen: %s", seen)
    seen.append("second")
    unread.read.set()
    flush()
    assert "seen: ['first']" in unread.lines[1]


def test_a_line_without_a_text_is_replaced_and_the_log_goes_on() -> None:
    class Wordless:
        def __repr__(self) -> str:
            raise ValueError("no text")

    written: list[str] = []
    configure_logs("text", handler=ThreadedLog(written.append))
    a_logger().warning("one", field=Wordless())
    a_logger().warning("two")
    flush()
    assert ["could not be written" in written[0], "two" in written[1]] == [True, True]


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_field_can_be_made_when_its_line_is_written(form: Any) -> None:
    makers: list[str] = []

    def made() -> str:
        makers.append(threading.current_thread().name)
        return "two\nlines"

    written: list[str] = []
    configure_logs(
        form,
        handler=ThreadedLog(written.append),
        file=ThreadedLog(written.append),
    )
    a_logger().warning("tried", field=Later(made))
    a_logger().debug("not logged", field=Later(made))
    for handler in logging.getLogger().handlers:
        handler.flush()
    assert [r"two\nlines" in line for line in written] == [True, True]
    assert set(makers) == {"log"}


def test_few_lines_wait_without_a_text_for_a_log_that_nobody_reads() -> None:
    unread, makers = Unread(), list[str]()
    configure_logs("text", handler=ThreadedLog(unread.write))

    def made() -> str:
        makers.append(threading.current_thread().name)
        return "text"

    a_logger().warning("one")
    assert unread.began.wait(20)
    for _ in range(TEXTLESS + 10):
        a_logger().warning("tried", field=Later(made))
    assert len(makers) == 10
    unread.read.set()
    flush()
    assert len(unread.lines) == TEXTLESS + 11
    assert len(makers) == TEXTLESS + 10
