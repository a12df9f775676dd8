import logging
from typing import Any

import pytest

from hub.runtime.logger import Logger, fields_of


@pytest.fixture
def heard(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "hub.tried")
    return caplog


@pytest.mark.parametrize("level", ["info", "warning", "error"])
def test_an_event_has_its_level_its_module_and_its_fields(
    heard: pytest.LogCaptureFixture, level: str
) -> None:
    say: Any = getattr(Logger("hub.tried"), level)
    say("100 % done", server="files", name="kept")
    assert heard.record_tuples == [
        ("hub.tried", logging.getLevelNamesMapping()[level.upper()], "100 % done")
    ]
    assert fields_of(heard.records[0]) == {"server": "files", "name": "kept"}


def test_less_than_the_level_is_not_logged(heard: pytest.LogCaptureFixture) -> None:
    Logger("hub.tried").debug("hidden")
    assert heard.records == []
    heard.set_level(logging.DEBUG, "hub.tried")
    Logger("hub.tried").debug("seen", exc_info=ValueError("why"))
    (record,) = heard.records
    assert record.exc_info is not None
    assert record.exc_info[0] is ValueError


def test_an_exception_is_the_one_being_handled(heard: pytest.LogCaptureFixture) -> None:
    try:
        raise ValueError("why")  # noqa: TRY301 - there is to be one
    except ValueError:
        Logger("hub.tried").exception("it failed", server="files")
    (record,) = heard.records
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "why"
    assert (record.levelname, fields_of(record)) == ("ERROR", {"server": "files"})


def test_a_record_of_a_library_has_no_fields(heard: pytest.LogCaptureFixture) -> None:
    logging.getLogger("hub.tried").info("said %s", "it")
    assert fields_of(heard.records[0]) == {}
