import pytest

from hub.config.source.places import Path
from hub.config.suggestions import (
    all_keys,
    example_at,
    keys_at,
    likely_key,
    likely_value,
    seconds_in,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5 minutes", 300),
        ("5m", 300),
        ("300s", 300),
        ("300", 300),
        ("1h30m", 5400),
        ("1 hour and 30 minutes", 5400),
        ("500ms", 0.5),
        ("1.5 min", 90),
        ("1,5 min", 90),
        ("2 days", 172800),
        ("10 Secs.", 10),
        ("five", None),
        ("5 parsecs", None),
        ("-5s", None),
        ("", None),
    ],
)
def test_a_time_in_words_is_a_number_of_seconds(text: str, seconds: float | None) -> None:
    assert seconds_in(text) == seconds


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("comand", "command"),
        ("Command", "command"),
        ("cmd", "command"),
        ("startTimeout", "start_timeout"),
        ("idle-stop", "idle_stop"),
        ("evn", "env"),
        ("uri", "url"),
        ("working_dir", "cwd"),
        ("dev", None),
        ("nonsense", None),
    ],
)
def test_a_key_is_recognised_by_likeness_or_as_another_programs(
    key: str, meant: str | None
) -> None:
    known = ("command", "env", "url", "cwd", "start_timeout", "idle_stop")
    assert likely_key(key, known) == meant


@pytest.mark.parametrize(
    ("value", "choices", "meant"),
    [
        ("enforced", ["enforce", "report", "off"], "enforce"),
        ("streamable-http", ["auto", "http", "sse"], "http"),
        (False, ["auto", "off"], "off"),
        (True, ["auto", "off"], None),
        (7, ["auto", "off"], None),
        ("nothing", ["auto", "always"], None),
    ],
)
def test_a_value_is_recognised_by_likeness(
    value: object, choices: list[str], meant: str | None
) -> None:
    assert likely_value(value, choices) == meant


@pytest.mark.parametrize(
    ("path", "some"),
    [
        ((), {"version", "servers"}),
        (("roots",), {"fallback"}),
        (("servers", "a"), {"command", "url"}),
        (("servers", "a", "tools", "overrides", "t"), {"arguments"}),
        (("roots", "fallback", 0), {"path", "name"}),
        (("nowhere",), set[str]()),
    ],
)
def test_the_keys_at_a_place_are_known(path: Path, some: set[str]) -> None:
    assert some <= {*keys_at(path)}
    assert bool(some) is bool(keys_at(path))


def test_keys_know_their_places_and_their_defaults() -> None:
    assert all_keys()["describe_roots"] == ["servers.NAME"]
    assert example_at(("servers", "a", "timeout")) == 300
    assert example_at(("roots", "timeout")) == 10
    assert example_at(("listen", "max_result")) == 1024
    assert example_at(("listen", "limits", "calls_per_second")) == 1
    assert example_at(("nonsense",)) == 1
