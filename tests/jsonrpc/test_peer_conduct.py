from __future__ import annotations

import pytest

from hub.jsonrpc.errors import GoneError
from hub.jsonrpc.peer_conduct import FORGIVEN, MAX_STRAYS, MAX_WASTE, WINDOW, PeerConduct
from tests.kit.fakes import FakeClock


def strays(conduct: PeerConduct, number: int) -> None:
    for _ in range(number):
        conduct.count("it prints", 1)


def test_one_stray_over_the_limit_ends_the_child_with_the_reason() -> None:
    clock = FakeClock()
    conduct = PeerConduct("files", clock=clock)
    strays(conduct, MAX_STRAYS)
    clock.now += 2
    with pytest.raises(GoneError) as caught:
        conduct.count("it prints", 1)
    said = "the hub ended it because it misbehaved: it prints, over 10,000 times within 2.0 s"
    assert str(caught.value) == said


def test_as_many_strays_in_a_longer_time_are_tolerated() -> None:
    clock = FakeClock()
    conduct = PeerConduct("files", clock=clock)
    for _ in range(5):
        strays(conduct, MAX_STRAYS)
        clock.now += WINDOW
    with pytest.raises(GoneError):
        strays(conduct, MAX_STRAYS + 1)


def test_an_answer_makes_up_for_some() -> None:
    conduct = PeerConduct("files", clock=FakeClock())
    conduct.answers += 1
    for _ in range(5):
        strays(conduct, MAX_STRAYS)
        for _ in range(MAX_STRAYS // FORGIVEN):
            conduct.answers += 1
    strays(conduct, MAX_STRAYS)
    conduct.answers += 1
    with pytest.raises(GoneError):
        strays(conduct, FORGIVEN + 1)


def test_bytes_are_counted_too() -> None:
    conduct = PeerConduct("files", clock=FakeClock())
    assert conduct.verdict("no end", MAX_WASTE) is None
    assert conduct.verdict("no end", 1) == (
        "the hub ended it because it misbehaved: no end, over 128 MiB within 0.1 s"
    )
