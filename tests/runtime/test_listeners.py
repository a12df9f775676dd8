from __future__ import annotations

import pytest

from hub.core.errors import ChildError
from hub.core.values import SessionKey
from hub.runtime import listeners
from hub.runtime.listeners import Listeners
from tests.fakes import RecordingLessee

A, B = SessionKey("a"), SessionKey("b")


def test_a_principals_children_are_heard_by_its_own() -> None:
    made, one, other = Listeners(), RecordingLessee(), RecordingLessee()
    with made.listening(A, "alice", one), made.listening(B, "bob", other):
        assert made.of("alice") == {A: one}
        assert made.of("bob") == {B: other}
        assert made.of("") == {A: one, B: other}, "a child of nobody's is everybody's"
    assert made.of("") == {}


def test_not_more_listen_than_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listeners, "MAX_LISTENERS", 1)
    made = Listeners()
    with made.listening(A, "alice", RecordingLessee()):
        with (
            pytest.raises(ChildError, match="try again later"),
            made.listening(B, "alice", RecordingLessee()),
        ):
            pass
        assert list(made.of("alice")) == [A]
