from decimal import Decimal

import pytest

from hub.core.sealed import digest, holds, seal
from hub.core.values import Json

KEY = b"k" * 32


def test_a_seal_holds_for_its_subject_until_it_expires() -> None:
    text = seal(KEY, ["a", 1], expires=100.5)
    assert holds(KEY, text, ["a", 1], now=99)
    assert holds(KEY, text, ["a", 1], now=100)
    assert not holds(KEY, text, ["a", 1], now=100.5)
    assert not holds(KEY, text, ["a", 2], now=0)
    assert not holds(b"x" * 32, text, ["a", 1], now=0)


def test_the_time_cannot_be_prolonged() -> None:
    text = seal(KEY, "a", expires=100)
    _, mac = text.split(".")
    assert not holds(KEY, f"999.{mac}", "a", now=0)


@pytest.mark.parametrize("text", [None, 7, [], "", ".", "100", "x.y", "1." + "0" * 64, "\ud800"])
def test_anything_else_is_no_seal(text: Json) -> None:
    assert not holds(KEY, text, "a", now=0)


def test_a_digest_is_of_the_value_not_of_its_spelling() -> None:
    assert digest({"a": 1, "b": [None]}) == digest({"b": [None], "a": 1})
    values: list[Json] = [{"a": 1}, {"a": "1"}, {"a": [1]}, Decimal("1e400"), "\ud800", "", None]
    assert len({digest(value) for value in values}) == len(values)
