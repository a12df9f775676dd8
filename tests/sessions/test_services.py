from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from hub.errors import ConfigError
from hub.guard.decide import Refused
from hub.jsonrpc.rated_log import BYTES, LINES, TOLD_EVERY
from hub.paths.resolve import Flavour
from hub.roots.effective import EffectiveRoots, OperatorRoots
from hub.roots.roots import EMPTY, Root, RootSet
from hub.sessions.client import Client
from hub.sessions.operator import MAX_WARNED, MAX_WARNED_OF_ONE, Operator
from hub.sessions.services import KEPT, ClientLogs, LaunchPlanCache
from hub.sessions.session import Session
from hub.system.machine import Machine, OsDisk
from hub.values import Call, ServerName
from tests.kit.fakes import FakeClock
from tests.kit.rigs import Rig, launched, remote, rig, roots_at
from tests.kit.trees import plant


def machine() -> Machine:
    return Machine(
        links=OsDisk(),
        flavour=Flavour.POSIX,
        environment={},
        directory="/",
        clock=FakeClock(1000.0),
        wall_clock=FakeClock(1_700_000_000.0),
    )


def test_a_moment_of_the_hubs_clock_is_one_of_the_walls() -> None:
    assert machine().wall_time(1000.0) == 1_700_000_000.0
    assert machine().wall_time(990.0005) == pytest.approx(1_699_999_990.0)


def test_the_operators_folders_grant_nothing_while_they_are_gone(tmp_path: Path) -> None:
    top = plant(tmp_path, "fallback/", "ceiling/")
    given = OperatorRoots(
        fallback=roots_at(top / "fallback"),
        fallback_source="--root",
        ceiling=roots_at(top / "ceiling"),
        strict=True,
    )
    operator = Operator(given, {}, machine())
    assert operator.roots() == given
    for name in ("fallback", "ceiling"):
        (top / name).rename(top / f"no {name}")
    gone = operator.roots()
    assert gone.fallback is not None
    assert gone.ceiling is not None
    assert gone.fallback.roots == gone.ceiling.roots == ()
    assert gone.strict
    for name in ("fallback", "ceiling"):
        (top / f"no {name}").rename(top / name)
    back = operator.roots()
    assert back.fallback is not None
    assert back.fallback.paths == (str(top / "fallback"),)


def test_what_the_operator_did_not_set_stays_unset() -> None:
    operator = Operator(OperatorRoots(), {}, machine())
    assert operator.roots() == OperatorRoots()


def test_a_servers_own_folders_grant_nothing_while_they_are_gone(tmp_path: Path) -> None:
    top = plant(tmp_path, "own/")
    servers = {
        ServerName("files"): launched("files", ceiling=roots_at(top / "own")),
        ServerName("other"): launched("other"),
    }
    operator = Operator(OperatorRoots(), servers, machine())
    assert operator.ceiling_of(ServerName("other")) is None
    assert operator.ceiling_of(ServerName("files")) == servers[ServerName("files")].ceiling
    (top / "own").rmdir()
    found = operator.ceiling_of(ServerName("files"))
    assert found is not None
    assert found.roots == ()


def test_an_unrestricted_client_is_warned_about_once_and_again_after_new_roots() -> None:
    operator = Operator(OperatorRoots(), {}, machine())
    assert [operator.is_first_warning("local", "code", "x") for _ in range(2)] == [True, False]
    assert operator.is_first_warning("token", "code", "x")
    operator.take(OperatorRoots(strict=True))
    assert operator.is_first_warning("local", "code", "x")


def test_a_client_with_ever_new_names_takes_no_warning_away_from_others() -> None:
    operator = Operator(OperatorRoots(), {}, machine())
    told = [
        operator.is_first_warning("eve", f"name {n}", "x") for n in range(MAX_WARNED_OF_ONE + 1)
    ]
    assert told == [True] * MAX_WARNED_OF_ONE + [False]
    assert operator.is_first_warning("alice", "code", "x")
    for number in range(MAX_WARNED):
        assert operator.is_first_warning(f"other {number}", "code", "x")
    assert operator.is_first_warning("alice", "code", "x"), "those warned first are forgotten"


def test_a_follower_is_called_on_new_roots_until_it_ends(
    tmp_path: Path,
) -> None:
    top = plant(tmp_path, "new/")
    operator = Operator(OperatorRoots(), {}, machine())
    told: list[str] = []
    leave = operator.follow(lambda: told.append("a"))
    operator.follow(lambda: told.append("b"))
    other = OperatorRoots(fallback=roots_at(top / "new"), fallback_source="config")
    operator.take(other)
    assert operator.roots() == other
    assert told == ["a", "b"]
    leave()
    leave()
    operator.take(OperatorRoots())
    assert told == ["a", "b", "b"]


def test_the_bounds_of_a_server_are_its_ceilings_and_the_clients_roots(
    tmp_path: Path,
) -> None:
    top = plant(tmp_path, "fallback/", "ceiling/", "own/", "shared/")
    files = launched(ceiling=roots_at(top / "own"))
    given = OperatorRoots(fallback=roots_at(top / "fallback"), ceiling=roots_at(top / "ceiling"))
    operator = Operator(given, {files.name: files}, machine())
    for shared, last in ((None, "fallback"), (roots_at(top / "shared"), "shared")):
        bounds = operator.bounds(files.name, shared)
        assert bounds is not None
        assert [root.path for root in bounds] == [str(top / n) for n in ("ceiling", "own", last)]
    (top / "own").rmdir()
    operator.ceiling_of(files.name)
    assert operator.bounds(files.name, None) is None


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


LEFT_OUT = "not all of it is logged"
CALL = Call("tools/call", "read", {}, {})


def greeted(at: Rig, principal: str, name: str = "test") -> Session:
    session = Session(at.services, at.tasks, principal=principal)
    session.greeted(Client("legacy", "2025-11-25", {}, {"name": name}))
    return session


def refuse(at: Rig, principal: str) -> None:
    greeted(at, principal).refusals.add(
        remote("files"), CALL, Refused("/path", "/etc/x", "no", ()), told={"client": "test"}
    )


async def test_sessions_that_one_principal_opens_without_end_leave_the_log_short() -> None:
    clock = FakeClock(100.0)
    async with rig({}, {}) as at:
        at.services.client_logs = ClientLogs(clock)
        with capture_logs() as logs:
            for _ in range(10 * LINES):
                greeted(at, "alice").close()
            greeted(at, "bob")
            clock.now += TOLD_EVERY
            greeted(at, "alice").close()
    said = [entry for entry in logs if entry["event"] == "client"]
    (left_out,) = [entry for entry in logs if entry["event"] == LEFT_OUT]
    assert len(said) + left_out["lines"] == 10 * LINES + 2
    assert len(said) <= LINES + 2
    assert left_out["principal"] == "alice"


@pytest.mark.parametrize("flood", ["long names", "refused calls"])
async def test_a_client_that_is_named_at_length_or_refused_often_has_the_same_share(
    flood: str,
) -> None:
    async with rig({}, {}) as at:
        at.services.client_logs = ClientLogs(FakeClock())
        with capture_logs() as logs:
            for _ in range(10 * LINES):
                if flood == "long names":
                    greeted(at, "alice", "x" * 1000)
                else:
                    refuse(at, "alice")
    assert 0 < len(str(logs)) < 2 * BYTES


async def test_the_end_of_a_session_says_what_was_left_out_before() -> None:
    clock = FakeClock(100.0)
    logs: list[Any]
    async with rig({}, {}) as at:
        at.services.client_logs = ClientLogs(clock)
        sessions = [greeted(at, "alice") for _ in range(2 * LINES)]
        clock.now += TOLD_EVERY
        with capture_logs() as logs:
            for session in sessions:
                session.close()
    assert [(entry["event"], entry["principal"]) for entry in logs] == [(LEFT_OUT, "alice")]


def test_a_principal_whose_log_is_forgotten_is_told_of_first() -> None:
    made = ClientLogs(FakeClock(), max_logs=2)
    with capture_logs() as logs:
        for _ in range(LINES + 1):
            made.of("alice").info("said")
        made.of("bob")
        assert made.of("alice") is made.of("alice")
        made.of("carol")
    assert logs[-1]["event"] == LEFT_OUT
    assert logs[-1]["lines"] == 1
