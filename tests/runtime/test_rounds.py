from __future__ import annotations

from hub.core.request_state import Carried
from hub.runtime.rounds import InputNeededError


def test_what_is_needed_says_what_to_ask_and_what_to_carry() -> None:
    needed = InputNeededError({"a": {"method": "m"}}, Carried(parked="p"), lasts=3.0)
    assert (needed.requests, needed.carried.parked, needed.lasts) == (
        {"a": {"method": "m"}},
        "p",
        3,
    )
