from __future__ import annotations

from msgspec.structs import replace

from hub.catalog.merge import Listing
from hub.children.callbacks import ChildCallbacks
from hub.children.child import Child, Down, Ready
from hub.children.handshake import HubIdentity, ServerHandshake
from hub.children.slot import ChildKey, ChildSlot, key_of
from hub.paths.resolve import Flavour
from hub.roots.roots import EMPTY
from hub.specs import ServerSpec
from hub.values import SessionKey
from tests.kit.child_calls import in_flight
from tests.kit.fakes import ECHO, FakeChild, RecordingAsker
from tests.kit.rigs import INFO, remote

ALICE, BOB = SessionKey("alice's"), SessionKey("bob's")
SPEC = remote()
GREETING = ServerHandshake("legacy", "2025-11-25", {}, {}, "", {})


def test_the_key_of_a_slot_follows_the_share_setting() -> None:
    def key(spec: ServerSpec, session: SessionKey, principal: str) -> ChildKey:
        return key_of(
            spec, None, EMPTY, principal=principal, asks={"sampling": {}}, session=session
        )

    everyone = replace(SPEC, share="all")
    assert key(everyone, ALICE, "alice") == key(everyone, BOB, "bob")
    own = replace(SPEC, share="session")
    assert key(own, ALICE, "alice") != key(own, BOB, "alice")
    assert key(SPEC, ALICE, "alice") == key(SPEC, BOB, "alice")
    assert key(SPEC, ALICE, "alice") != key(SPEC, ALICE, "bob")


def test_a_place_says_how_its_child_is() -> None:
    key_ = key_of(SPEC, None, EMPTY, principal="", asks={}, session=ALICE)
    slot = ChildSlot(key_, SPEC)
    assert (slot.state, slot.trouble, slot.listing, slot.is_idle) == ("idle", None, None, False)
    answers = ChildCallbacks(SPEC, EMPTY, Flavour.POSIX)
    child = slot.child = Child(answers, HubIdentity(INFO, {}), FakeChild().connect)
    assert (slot.state, slot.trouble, slot.is_idle) == ("starting", None, False)
    child.state = Ready(GREETING, Listing(tools=(ECHO,)))
    assert (slot.state, slot.listing, slot.is_idle) == ("ready", child.state.listing, True)
    with in_flight(answers, RecordingAsker()):
        assert not slot.is_idle
    child.state = Down("exited with code 1")
    assert (slot.state, slot.trouble, slot.is_idle) == ("down", "exited with code 1", False)
    assert slot.listing is None
