from __future__ import annotations

import pytest
from msgspec import Raw

from hub.jsonrpc.messages import Failure, Payload, Response, size_of, size_of_answer
from hub.values import Json


@pytest.mark.parametrize(
    ("payload", "least", "most"),
    [
        (Raw(b'{"a":"x"}'), 9, 9),
        ({"a": "x" * 1000}, 1000, 1010),
        ({"a" * 1000: None}, 1000, 1010),
        ([["x" * 500], "x" * 500], 1000, 1010),
        ([1] * 1000, 1000, 5000),
        (10**1000, 1000, 1500),
        (1.5, 1, 10),
    ],
)
def test_the_size_of_a_payload_is_about_its_json_length(
    payload: Payload | Json, least: int, most: int
) -> None:
    assert least <= size_of(payload) <= most


@pytest.mark.parametrize(
    "answer",
    [Response(1, Raw(b"x" * 1000)), Failure(1, {"message": "x" * 1000})],
)
def test_the_size_of_a_response_is_that_of_its_content(answer: Response | Failure) -> None:
    assert 1000 <= size_of_answer(answer) <= 1010
