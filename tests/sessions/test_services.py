from pathlib import Path

import pytest

from hub.paths.resolve import Flavour
from hub.roots.effective import OperatorRoots
from hub.sessions.operator_roots import MAX_WARNED, MAX_WARNED_OF_ONE, Operator
from hub.system.machine import Machine, OsDisk
from hub.values import ServerName
from tests.kit.fakes import FakeClock
from tests.kit.rigs import launched, roots_at
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
        (top / name).rmdir()
    gone = operator.roots()
    assert gone.fallback is not None
    assert gone.ceiling is not None
    assert gone.fallback.roots == gone.ceiling.roots == ()
    assert gone.strict
    for name in ("fallback", "ceiling"):
        (top / name).mkdir()
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
