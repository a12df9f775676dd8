from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from hub.errors import ConfigError
from hub.roots.effective import EffectiveRoots
from hub.roots.roots import EMPTY, Root, RootSet
from hub.sessions.services import KEPT, LaunchPlanCache
from tests.kit.rigs import launched, remote, roots_at
from tests.kit.trees import plant


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return plant(tmp_path, "a/", "b/")


def at(*paths: object) -> EffectiveRoots:
    return EffectiveRoots(roots_at(*paths), "client")


UNBOUNDED = EffectiveRoots(EMPTY, "none", enforcing=False)


def test_a_server_has_one_plan_for_the_same_roots(top: Path) -> None:
    known, spec = LaunchPlanCache({}, "/hub"), launched("files", "${roots}")
    found = known.of(spec, at(top / "a"))
    assert found is not None
    assert (found.argv, found.cwd) == (("server", f"{top}/a"), f"{top}/a")
    assert known.of(spec, at(top / "a")) is found
    other = known.of(spec, at(top / "b"))
    assert other is not None
    assert other.argv == ("server", f"{top}/b")
    changed = known.of(launched("files", "x"), at(top / "a"))
    assert changed is not None
    assert changed.argv == ("server", "x")


def test_a_remote_server_has_none() -> None:
    assert LaunchPlanCache({}, "/hub").of(remote(), UNBOUNDED) is None


@pytest.mark.parametrize(
    ("share", "here", "cwd"),
    [
        ("roots", EffectiveRoots(EMPTY, "none"), None),
        ("roots", UNBOUNDED, "/hub"),
        ("all", EffectiveRoots(EMPTY, "none"), "/hub"),
    ],
)
def test_the_child_of_an_unrestricted_client_runs_in_the_hubs_directory(
    share: str, here: EffectiveRoots, cwd: str | None
) -> None:
    known = LaunchPlanCache({}, "/hub")
    for _ in range(2):
        found = known.of(launched(share=share), here)
        assert found is not None
        assert found.cwd == cwd


def test_a_variable_that_is_not_set_is_said_each_time() -> None:
    known = LaunchPlanCache({}, "/hub")
    for _ in range(2):
        with pytest.raises(ConfigError):
            known.of(launched("files", "${NOT_SET}"), UNBOUNDED)


def test_only_so_many_plans_are_kept(top: Path) -> None:
    known, spec = LaunchPlanCache({}, "/hub", max_bytes=1), launched("files")
    first = known.of(spec, at(top / "a"))
    known.of(spec, at(top / "b"))
    again = known.of(spec, at(top / "a"))
    assert again == first
    assert again is not first


def long_roots(number: int) -> RootSet:
    def root(one: int) -> Root:
        parts = (f"{number}", f"{one}", *(f"folder-{level}" for level in range(100)))
        path = "/" + "/".join(parts)
        return Root(f"file://{path}", path, "", False, parts, 1, number * 1000 + one)

    return RootSet(tuple(map(root, range(64))))


@pytest.mark.long
def test_many_long_roots_take_no_more_memory_than_short_ones(top: Path) -> None:
    known, spec = LaunchPlanCache({}, "/hub"), launched("files", "${roots}")
    short = known.of(spec, at(top / "a"))
    for _ in range(3):
        assert known.of(spec, at(top / "a")) is short
    tracemalloc.start()
    try:
        for number in range(40):
            known.of(spec, EffectiveRoots(long_roots(number), "client"))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 2 * KEPT
    assert known.of(spec, at(top / "a")) is not short
