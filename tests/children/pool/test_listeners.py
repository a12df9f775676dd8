from __future__ import annotations

from contextlib import ExitStack

import pytest

from hub.children.pool.listeners import MAX_LISTENERS, Listeners
from hub.errors import ChildError
from hub.values import ServerName, SessionKey
from tests.kit.fakes import ECHO, FakeChild, RecordingListener
from tests.kit.scripted import scripted
from tests.server.test_modern import envelope

A, B = SessionKey("a"), SessionKey("b")


def test_a_principals_children_are_heard_by_its_own() -> None:
    made, one, other = Listeners(), RecordingListener(), RecordingListener()
    with made.listening(A, "alice", one), made.listening(B, "bob", other):
        assert made.of("alice") == {A: one}
        assert made.of("bob") == {B: other}
        assert made.of("") == {A: one, B: other}, "a child of nobody's is everybody's"
        assert made.of("alice", A) == {A: one}
        assert made.of("alice", B) == {}, "a child that belongs to another client"
    assert made.of("") == {}


def test_not_more_listen_than_may() -> None:
    made = Listeners()
    with ExitStack() as others, made.listening(A, "alice", RecordingListener()):
        for number in range(MAX_LISTENERS - 1):
            key = SessionKey(f"other {number}")
            others.enter_context(made.listening(key, "bob", RecordingListener()))
        with (
            pytest.raises(ChildError, match="try again later"),
            made.listening(B, "alice", RecordingListener()),
        ):
            pass
        assert list(made.of("alice")) == [A]


def test_a_principal_that_was_shown_a_listing_without_a_server_knows_so() -> None:
    made, one, other = Listeners(), RecordingListener(), RecordingListener()
    with made.listening(A, "alice", one), made.listening(B, "bob", other):
        made.missed("alice", ServerName("files"))
    assert (one.unlisted, other.unlisted) == (["files"], [])


async def test_a_listing_that_goes_out_without_a_server_says_so() -> None:
    broken, heard = FakeChild(ECHO), RecordingListener()
    broken.refuses_to_open = OSError("not yet")
    async with scripted({"late": broken, "there": FakeChild(ECHO)}) as hub:
        with hub.services.children.listeners.listening(A, "test", heard):
            await hub.client().request("tools/list", {"_meta": envelope(None)})
    assert heard.unlisted == ["late"]
