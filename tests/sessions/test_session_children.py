from pathlib import Path

import pytest

from hub.children.slot import ClientOfKey
from hub.roots.effective import EffectiveRoots
from hub.roots.roots import EMPTY
from hub.sessions.session_children import SessionChildren
from hub.values import JsonObject, SessionKey
from tests.kit.rigs import Rig, launched, rig, roots_at
from tests.kit.trees import plant


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return plant(tmp_path, "a/", "b/")


def at(*paths: object) -> EffectiveRoots:
    return EffectiveRoots(roots_at(*paths), "client")


def session_children(on: Rig, session: str, **asks: JsonObject) -> SessionChildren:
    key = SessionKey(session)
    client = ClientOfKey(key, key, "alice", {**asks})
    return SessionChildren(on.services, key, lambda: client)


async def test_a_session_keeps_one_slot_per_server_while_the_roots_are_the_same(top: Path) -> None:
    spec = launched("files")
    async with rig({"files": spec}, {}) as on:
        mine, user = session_children(on, "s1"), on.client().session
        slot = mine.slot_for(spec, at(top / "a"), user)
        assert mine.slot_for(spec, at(top / "a"), user) is slot
        other = mine.slot_for(spec, at(top / "b"), user)
        assert mine.held == {"files": other}
        assert (list(slot.users), list(other.users)) == ([], ["s1"])
        mine.release()
        assert (mine.held, list(other.users)) == ({}, [])


async def test_sessions_with_the_same_roots_share_a_place_unless_children_may_ask_other_things(
    top: Path,
) -> None:
    spec, own = launched("files"), launched("own", share="session")
    async with rig({"files": spec, "own": own}, {}) as on:
        one, two, asked = (
            session_children(on, "1"),
            session_children(on, "2"),
            session_children(on, "3", sampling={}),
        )
        user, here = on.client().session, at(top / "a")
        assert one.slot_for(spec, here, user) is two.slot_for(spec, here, user)
        assert asked.slot_for(spec, here, user) is not one.held[spec.name]
        assert one.slot_for(own, here, user) is not two.slot_for(own, here, user)


async def test_a_child_for_all_knows_nothing_of_roots(top: Path) -> None:
    spec = launched("files", share="all")
    async with rig({"files": spec}, {}) as on:
        mine, user = session_children(on, "1"), on.client().session
        slot = mine.slot_for(spec, at(top / "a"), user)
        assert mine.slot_for(spec, at(top / "b"), user) is slot
        assert (slot.key.roots, slot.key.plan and slot.key.plan.cwd) == (EMPTY, "/")
