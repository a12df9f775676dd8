from __future__ import annotations

from itertools import pairwise

import pytest

from hub.children.log_levels import LogLevels, reaches
from hub.protocol.constants import LOG_LEVELS
from hub.values import Json, SessionKey

A, B, C = SessionKey("a"), SessionKey("b"), SessionKey("c")


@pytest.mark.parametrize(("least", "level"), list(pairwise(LOG_LEVELS)))
def test_a_level_reaches_itself_and_all_below(level: str, least: str) -> None:
    assert reaches(level, least)
    assert reaches(least, least)
    assert not reaches(least, level)


@pytest.mark.parametrize("level", ["trace", "", None, 7, []])
def test_messages_of_an_unknown_level_are_sent_to_everyone(level: Json) -> None:
    assert reaches(level, "emergency")


def test_a_child_gets_the_lowest_level_that_a_session_wants() -> None:
    levels = LogLevels()
    assert levels.told is None
    assert levels.of_session(A, "warning") == "warning"
    levels.confirm("warning")
    assert levels.of_session(B, "error") is None
    assert levels.of_session(B, "debug") == "debug"
    levels.leave(B)
    assert levels.of_session(A, "warning") == "warning"
    assert levels.told == "warning"


def test_a_failure_says_nothing_of_a_level_that_was_set_otherwise() -> None:
    levels = LogLevels()
    levels.of_session(A, "debug")
    levels.of_session(B, "debug")
    levels.confirm("debug")
    levels.forget("debug")
    assert levels.of_session(C, "debug") is None
    levels.leave(A)
    levels.leave(B)
    assert levels.of_session(C, "info") == "info"
    levels.confirm("debug")
    levels.forget("debug")
    assert levels.told == "info"
    assert levels.of_session(C, "info") == "info"


def test_a_call_lowers_the_level_and_never_raises_it() -> None:
    levels = LogLevels()
    assert levels.of_call("warning") == "warning"
    assert levels.of_call("error") is None
    assert levels.of_call("debug") == "debug"
    assert levels.of_call("debug") is None


def test_a_level_that_could_not_be_set_is_set_again() -> None:
    levels = LogLevels()
    levels.of_call("info")
    levels.forget("info")
    assert levels.of_call("info") == "info"


def test_a_session_without_a_level_does_not_get_what_others_want() -> None:
    levels = LogLevels()
    assert not levels.is_filtered(C, "debug")
    levels.of_session(A, "debug")
    assert levels.is_filtered(C, "debug")
    assert not levels.is_filtered(C, "info")
    assert not levels.is_filtered(A, "debug")
