from __future__ import annotations

from decimal import Decimal

from hub.protocol.input_requests import digest
from hub.values import Json


def test_a_digest_is_of_the_value_not_of_its_spelling() -> None:
    assert digest({"a": 1, "b": [None]}) == digest({"b": [None], "a": 1})
    values: list[Json] = [
        {"a": 1},
        {"a": "1"},
        {"a": [1]},
        Decimal("1e400"),
        "Decimal('1E+400')",
        "\ud800",
        "",
        None,
    ]
    assert len({digest(value) for value in values}) == len(values)
