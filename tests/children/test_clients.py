from __future__ import annotations

from contextlib import ExitStack

import pytest

from hub.children.clients import MAX_LISTENERS, Caller, ChildUser, InputNeededError, Listeners
from hub.errors import ChildError
from hub.jsonrpc.messages import Notification
from hub.protocol.input_requests import CallState
from hub.specs import RemoteTarget, ServerSpec
from hub.values import JsonObject, ServerName, SessionKey
from tests.kit.fakes import ECHO, FakeChild, RecordingAsker, RecordingLessee, RecordingListener
from tests.kit.scripted import scripted
from tests.server.test_modern import envelope

SPEC = ServerSpec(ServerName("files"), RemoteTarget("https://example.com/mcp"))


async def test_anything_with_ask_and_tell_can_be_the_caller() -> None:
    made = RecordingAsker("a")
    caller: Caller = made
    assert caller.session == SessionKey("a")
    assert caller.progress is None
    assert await caller.ask("sampling/createMessage", {}) == {"answered": "a"}
    await caller.tell(SPEC, Notification("n", {}))
    assert made.told == [Notification("n", {})]


async def test_whoever_listens_can_use_a_child() -> None:
    made = RecordingLessee()
    user: ChildUser = made
    await user.told(SPEC, Notification("n", {}))
    await user.came(SPEC)
    assert (made.heard, made.arrivals) == ([Notification("n", {})], ["files"])


def test_an_input_needed_error_has_the_requests_and_the_state() -> None:
    requests: JsonObject = {"a": {"method": "m"}}
    needed = InputNeededError(requests, CallState(parked="p"), lasts=3.0)
    assert (needed.requests, needed.state.parked, needed.lasts) == (requests, "p", 3.0)


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


def test_not_more_listen_than_may_and_a_newcomer_finds_room() -> None:
    made = Listeners()
    with ExitStack() as others:

        def listen_on(whose: str) -> None:
            for number in range(MAX_LISTENERS):
                key = SessionKey(f"{whose} {number}")
                others.enter_context(made.listening(key, whose, RecordingListener()))

        for whose in ("ann", "ben", "cy"):
            with pytest.raises(ChildError, match="try again later"):
                listen_on(whose)
        assert len(made.of("")) < MAX_LISTENERS
        with made.listening(A, "alice", RecordingListener()):
            assert list(made.of("alice")) == [A]


def test_no_principal_takes_all_the_streams() -> None:
    made = Listeners()
    with ExitStack() as own:
        for number in range(MAX_LISTENERS // 2):
            key = SessionKey(f"own {number}")
            own.enter_context(made.listening(key, "alice", RecordingListener()))
        with (
            pytest.raises(ChildError, match="512 of them yours; try again later"),
            made.listening(A, "alice", RecordingListener()),
        ):
            pass
        with made.listening(B, "bob", RecordingListener()):
            assert list(made.of("bob")) == [B]


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
