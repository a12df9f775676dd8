from pathlib import Path

import pytest

from hub.roots.effective import EffectiveRoots
from hub.roots.roots import EMPTY
from hub.sessions.leases import SessionChildren
from hub.values import JsonObject, SessionKey
from tests.kit.rigs import Rig, launched, rig, roots_at
from tests.kit.trees import plant


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return plant(tmp_path, "a/", "b/")


def at(*paths: object) -> EffectiveRoots:
    return EffectiveRoots(roots_at(*paths), "client")


def leases(on: Rig, session: str, **asks: JsonObject) -> SessionChildren:
    return SessionChildren(
        on.services, SessionKey(session), "alice", lambda: {**asks}, lambda: False
    )


async def test_one_place_is_held_of_each_server_while_the_roots_are_the_same(top: Path) -> None:
    spec = launched("files")
    async with rig({"files": spec}, {}) as on:
        mine, lessee = leases(on, "s1"), on.client().session
        place = mine.place(spec, at(top / "a"), lessee)
        assert mine.place(spec, at(top / "a"), lessee) is place
        other = mine.place(spec, at(top / "b"), lessee)
        assert mine.held == {"files": other}
        assert (list(place.lessees), list(other.lessees)) == ([], ["s1"])
        mine.release()
        assert (mine.held, list(other.lessees)) == ({}, [])


async def test_sessions_with_the_same_roots_share_a_place_unless_children_may_ask_other_things(
    top: Path,
) -> None:
    spec, own = launched("files"), launched("own", share="session")
    async with rig({"files": spec, "own": own}, {}) as on:
        one, two, asked = leases(on, "1"), leases(on, "2"), leases(on, "3", sampling={})
        lessee, here = on.client().session, at(top / "a")
        assert one.place(spec, here, lessee) is two.place(spec, here, lessee)
        assert asked.place(spec, here, lessee) is not one.held[spec.name]
        assert one.place(own, here, lessee) is not two.place(own, here, lessee)


async def test_a_child_for_all_knows_nothing_of_roots(top: Path) -> None:
    spec = launched("files", share="all")
    async with rig({"files": spec}, {}) as on:
        mine, lessee = leases(on, "1"), on.client().session
        place = mine.place(spec, at(top / "a"), lessee)
        assert mine.place(spec, at(top / "b"), lessee) is place
        assert (place.key.roots, place.key.plan and place.key.plan.cwd) == (EMPTY, "/")
