from __future__ import annotations

from msgspec.structs import replace

from hub.catalog.merge import Listing
from hub.children.child import Ready
from hub.children.handshake import ServerHandshake
from hub.children.known.lists import KnownLists
from hub.children.slot import ClientOfKey, key_of
from hub.roots.roots import EMPTY
from hub.values import SessionKey
from tests.kit.rigs import remote

SPEC = remote("files", share="session")


def learned(known: KnownLists, principal: str) -> None:
    """Let a child of a principal run."""
    user = ClientOfKey(SessionKey("s"), SessionKey("s"), principal, {})
    said = ServerHandshake("legacy", "2025-11-25", {}, {}, f"for {principal}", {})
    known.remember(key_of(SPEC, None, EMPTY, user), Ready(said, Listing()))


def test_a_principal_gets_the_instructions_of_its_own_child() -> None:
    known = KnownLists(None, 2)
    for principal in ("alice", "bob"):
        learned(known, principal)
    assert [known.instructions_of(SPEC, one) for one in ("alice", "bob", "carol")] == [
        "for alice",
        "for bob",
        "",
    ]
    assert known.instructions_of(replace(SPEC, fingerprint="other"), "bob") == ""


def test_the_oldest_instructions_make_room() -> None:
    known = KnownLists(None, 2)
    for principal in ("alice", "bob", "alice", "carol"):
        learned(known, principal)
    assert [known.instructions_of(SPEC, one) for one in ("alice", "bob", "carol")] == [
        "for alice",
        "",
        "for carol",
    ]
