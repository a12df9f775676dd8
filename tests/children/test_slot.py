from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from hub.catalog.merge import Listing
from hub.children.callbacks import ChildCallbacks
from hub.children.child import Child, Down, Ready
from hub.children.handshake import HubDeclaration, ServerHandshake
from hub.children.slot import ChildKey, ChildSlot, ClientOfKey, key_of, why_not_kept
from hub.launch.plan import LaunchTemplate, plan
from hub.launch.templates import parse_template
from hub.paths.resolve import Flavour
from hub.roots.roots import EMPTY
from hub.specs import ConfineSetting, ServerSpec, Share
from hub.values import SessionKey
from tests.kit.child_calls import in_flight
from tests.kit.fakes import ECHO, FakeChild, RecordingAsker
from tests.kit.rigs import INFO, launched, remote, roots_at
from tests.kit.trees import plant

ALICE, BOB = SessionKey("alice's"), SessionKey("bob's")
SPEC = remote()
OF_ALICE = ClientOfKey(ALICE, ALICE, "", {})
NEVER = FakeChild().connect
GREETING = ServerHandshake("legacy", "2025-11-25", {}, {}, "", {})


@pytest.mark.parametrize(
    ("share", "same_client", "other_client", "untold_clients"),
    [
        ("all", True, True, True),
        ("roots", True, True, True),
        ("auto", True, False, True),
        ("session", True, False, False),
    ],
)
def test_the_key_of_a_slot_follows_the_share_setting(
    share: Share, *, same_client: bool, other_client: bool, untold_clients: bool
) -> None:
    spec = replace(SPEC, share=share)

    def key(session: SessionKey, client: SessionKey | None, principal: str = "alice") -> ChildKey:
        return key_of(spec, None, EMPTY, ClientOfKey(session, client, principal, {"sampling": {}}))

    assert (key(ALICE, ALICE) == key(BOB, ALICE)) is same_client
    assert (key(ALICE, ALICE) == key(BOB, BOB)) is other_client
    assert (key(ALICE, None) == key(BOB, None)) is untold_clients
    assert (key(ALICE, None) == key(ALICE, None, "bob")) is (share == "all")


def slot_at(spec: ServerSpec, *paths: object) -> ChildSlot:
    """Return a slot whose child runs as planned for these roots."""
    key = key_at(spec, *paths)
    child = Child(ChildCallbacks(spec, key.roots, Flavour.POSIX), HubDeclaration(INFO, {}), NEVER)
    return ChildSlot(key, spec, child=child, launched=key.plan)


def key_at(spec: ServerSpec, *paths: object, user: ClientOfKey = OF_ALICE) -> ChildKey:
    roots = roots_at(*paths)
    planned = plan(spec.target, roots, {}) if isinstance(spec.target, LaunchTemplate) else None
    return key_of(spec, planned, roots, user)


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return plant(tmp_path, "a/b/", "c/")


def test_a_process_goes_on_with_other_roots_that_have_its_directory(top: Path) -> None:
    spec = launched(share="auto")
    slot = slot_at(spec, top / "a/b")
    for roots in ([top / "a/b", top / "c"], [top / "c", top / "a/b"], [top / "a"]):
        assert why_not_kept(slot, key_at(spec, *roots), Flavour.POSIX) is None, roots


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (launched(share="auto"), "it runs in a directory outside of the new roots"),
        (launched("files", "${roots}", share="auto"), "its roots are in its command"),
        (launched(share="auto", confine=ConfineSetting("auto")), "it is confined to its roots"),
    ],
)
def test_a_process_that_is_bound_to_its_roots_does_not(
    top: Path, spec: ServerSpec, reason: str
) -> None:
    found = why_not_kept(slot_at(spec, top / "a"), key_at(spec, top / "c"), Flavour.POSIX)
    assert found is not None
    assert found.startswith(reason)


def test_a_process_does_not_go_on_in_a_directory_that_another_one_replaced(top: Path) -> None:
    """It would open relative paths in the old one, which is in no root any more."""
    spec = launched(share="auto")
    slot = slot_at(spec, top / "c", top / "a")
    (top / "a").rename(top / "moved")
    (top / "a").mkdir()
    told = key_at(spec, top / "c", top / "a")
    assert why_not_kept(slot, told, Flavour.POSIX) is None
    (top / "c").rename(top / "gone")
    (top / "c").mkdir()
    found = why_not_kept(slot, key_at(spec, top / "c", top / "a"), Flavour.POSIX)
    assert found == "another directory is in the place of the one that it runs in"


def test_a_process_in_a_directory_of_its_own_goes_on_anywhere(top: Path) -> None:
    spec = launched(share="auto")
    assert isinstance(spec.target, LaunchTemplate)
    spec = replace(spec, target=replace(spec.target, cwd=parse_template("/")))
    assert why_not_kept(slot_at(spec, top / "a"), key_at(spec, top / "c"), Flavour.POSIX) is None


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [((), ("a",), "its client shared no roots before"), (("a",), (), "its client shares no roots")],
)
def test_a_process_does_not_go_on_without_roots(
    top: Path, before: tuple[str, ...], after: tuple[str, ...], why: str
) -> None:
    spec = launched(share="auto")
    slot = slot_at(spec, *(top / name for name in before))
    key = key_at(spec, *(top / name for name in after))
    assert why_not_kept(slot, key, Flavour.POSIX) == why


def test_a_child_never_goes_on_for_another_client(top: Path) -> None:
    spec = launched(share="auto")
    slot, bobs = slot_at(spec, top / "a"), ClientOfKey(BOB, BOB, "", {})
    key = key_at(spec, top / "a", top / "c", user=bobs)
    assert why_not_kept(slot, key, Flavour.POSIX) == "it belongs to another client"


def test_a_running_child_has_the_plan_that_it_was_launched_with(top: Path) -> None:
    spec = launched(share="auto")
    slot, key = slot_at(spec, top / "a"), key_at(spec, top / "a", top / "c")
    slot.key = key
    assert slot.plan is slot.launched is not key.plan
    assert slot.child is not None
    slot.child.state = Down("it crashed")
    assert slot.plan is key.plan, "it is started again for the new roots"


def test_a_place_says_how_its_child_is() -> None:
    key_ = key_of(SPEC, None, EMPTY, OF_ALICE)
    slot = ChildSlot(key_, SPEC)
    assert (slot.state, slot.trouble, slot.listing, slot.is_idle) == ("idle", None, None, False)
    answers = ChildCallbacks(SPEC, EMPTY, Flavour.POSIX)
    child = slot.child = Child(answers, HubDeclaration(INFO, {}), FakeChild().connect)
    assert (slot.state, slot.trouble, slot.is_idle) == ("starting", None, False)
    child.state = Ready(GREETING, Listing(tools=(ECHO,)))
    assert (slot.state, slot.listing, slot.is_idle) == ("ready", child.state.listing, True)
    with in_flight(answers, RecordingAsker()):
        assert not slot.is_idle
    child.state = Down("exited with code 1")
    assert (slot.state, slot.trouble, slot.is_idle) == ("down", "exited with code 1", False)
    assert slot.listing is None
