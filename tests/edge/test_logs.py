import json
import logging
from typing import Any

import pytest
import structlog

from hub.edge.logs import configure_logs


def a_logger() -> Any:
    return structlog.stdlib.get_logger("hub.tried")


def test_text_goes_to_stderr_and_nothing_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("text")
    a_logger().warning("something happened", server="files", argument="/path")
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    assert "something happened" in line
    assert "server=files" in line
    assert "\x1b[" not in line


def test_json_is_one_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("json")
    a_logger().warning("two\nlines", server="files")
    (line,) = capsys.readouterr().err.splitlines()
    logged = json.loads(line)
    assert logged.pop("timestamp").endswith("Z")
    assert logged == {"event": "two\nlines", "level": "warning", "server": "files"}


def test_an_exception_is_told_in_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("json")
    try:
        raise ValueError("why")  # noqa: TRY301 - there is to be one
    except ValueError:
        a_logger().exception("it failed")
    logged = json.loads(capsys.readouterr().err)
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
    lines = capsys.readouterr().err.splitlines()
    assert [json.loads(line)["event"][0] for line in lines] == list(seen)


def test_libraries_are_heard_from_warnings_on(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("json", "debug")
    library = logging.getLogger("uvicorn.error")
    library.info("started")
    library.warning("slow: %d", 7)
    (line,) = capsys.readouterr().err.splitlines()
    logged = json.loads(line)
    assert (logged["event"], logged["level"]) == ("slow: 7", "warning")


def test_configuring_twice_says_nothing_twice(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("text")
    configure_logs("json")
    a_logger().warning("once")
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_an_unknown_level_is_our_own_mistake() -> None:
    with pytest.raises(KeyError):
        configure_logs("text", "loud")
