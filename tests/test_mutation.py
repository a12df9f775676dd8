"""`make mutation` must find what a weak test misses, and nothing that a good one notices."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.mutants import mutants_of, mutated
from tests.mutation import PROJECT, chosen_mutants

TILL = """\
from functools import cache

class Till:
    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.coins = 0

    def take(self, coins: int) -> None:
        if coins > self.limit:
            raise ValueError(coins)
        self.coins += coins

@cache
def steps(left: int) -> int:
    taken = 0
    while left > 0:
        left -= 1
        taken += 1
    return taken

def unused() -> bool:
    return True
"""
WEAK = """\
import pytest
from shop.till import Till, steps

def test_coins_are_kept():
    till = Till(3)
    till.take(2)
    assert till.coins == 2
    with pytest.raises(ValueError):
        till.take(4)

def test_steps_are_counted():
    assert steps(2) == 2
"""
STRONG = """
def test_as_much_as_the_limit_is_taken():
    till = Till(3)
    till.take(1)
    till.take(3)
    assert till.coins == 4

def test_nothing_takes_no_steps():
    assert steps(0) == 0
"""
PROFILES = 'from hypothesis import settings\nsettings.register_profile("quick")\n'


def plant_shop(top: Path, tests: str) -> Path:
    files = {
        "shop/__init__.py": "",
        "shop/sold/__init__.py": "",
        "shop/sold/till.py": TILL,
        "tests/conftest.py": PROFILES,
        "tests/sold/test_till.py": tests.replace("shop.till", "shop.sold.till"),
    }
    for name, text in files.items():
        place = top / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return top


def score(project: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = (sys.executable, "-m", "tests.mutation", "shop/sold", f"--project={project}", *more)
    return subprocess.run(  # noqa: S603 - our own command
        (*command, "--seconds=1"), cwd=PROJECT, capture_output=True, text=True, check=False
    )


def survivors(output: str) -> list[str]:
    return [line for line in output.splitlines() if line.startswith("shop/sold/till.py:")]


UNUSED = [
    "shop/sold/till.py:22: dropped return True (no test calls it)",
    "shop/sold/till.py:22: return True -> return False (no test calls it)",
]


@pytest.mark.live
def test_what_a_weak_test_misses_survives(tmp_path: Path) -> None:
    done = score(plant_shop(tmp_path, WEAK))
    assert done.returncode == 0, done.stdout + done.stderr
    assert survivors(done.stdout) == [
        "shop/sold/till.py:9: coins > self.limit -> coins >= self.limit",
        *UNUSED,
    ]
    row = next(line for line in done.stdout.splitlines() if line.startswith("all"))
    mutants, killed, timed_out, survived = map(int, row.split()[1:])
    assert (killed + timed_out + survived, survived) == (mutants, 3)
    assert timed_out, "a loop without end is ended"
    assert (tmp_path / "shop/sold/till.py").read_text() == TILL


@pytest.mark.live
def test_what_a_good_test_notices_does_not_though_it_is_elsewhere(tmp_path: Path) -> None:
    project = plant_shop(tmp_path, WEAK)
    imports = "import pytest\nfrom shop.sold.till import Till, steps\n"
    (project / "tests/more").mkdir()
    (project / "tests/more/test_more.py").write_text(imports + STRONG)
    assert survivors(score(project, "--tests", "tests/more").stdout) == UNUSED


@pytest.mark.live
def test_tests_that_fail_anyway_judge_nothing(tmp_path: Path) -> None:
    done = score(plant_shop(tmp_path, WEAK + "\ndef test_wrong():\n    assert steps(1) == 2\n"))
    assert done.returncode == 1
    assert "test_wrong" in done.stdout
    assert "could not judge" in done.stdout


def changes(*lines: str) -> list[str]:
    source = "\n".join(("def f(a, b):", *(f"    {line}" for line in lines)))
    return [mutant.what for mutant in mutants_of("m.py", source)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("x = a < b <= 3", ["a <= b <= 3", "a < b < 3", "a < b <= 4"]),
        ("x = a and not b", ["a or not b", "b"]),
        ("x = a + b", ["a - b"]),
        ("x = [c for c in b if c]", ["if not c"]),
        ("x = a if a is b else b", ["a is not b"]),
        ("x = a if b else 0", ["a if not b else 0"]),
        ("a.b = 1", ["dropped a.b = 1"]),
        ("a.append(b)", ["dropped a.append(b)"]),
        ("raise a", ["dropped raise a"]),
        ("return 'x'", ["dropped return 'x'", "return ''"]),
        ("return None", ["return True"]),
        ("'Not code.'", []),
        ("x: 'a < b' = 1", []),
    ],
)
def test_small_mistakes(line: str, expected: list[str]) -> None:
    assert [what.rpartition(" -> ")[2] for what in sorted(changes(line))] == sorted(expected)


def test_only_functions_are_changed() -> None:
    source = "X = 1 < 2\nclass C:\n    y = 1 < 2\n    def f(self, a=1 < 2): ...\n"
    assert mutants_of("m.py", source) == []


def test_each_change_is_one_that_python_can_run() -> None:
    module = "hub/guard/judge.py"
    source = (PROJECT / module).read_text(encoding="utf-8")
    whole = {mutated(mutant, source) for mutant in mutants_of(module, source)[::25]}
    assert compile(source, module, "exec", dont_inherit=True) not in whole


def test_the_same_seed_chooses_the_same_changes() -> None:
    one, again, other = (chosen_mutants(PROJECT, "hub/roots", 20, seed) for seed in (1, 1, 2))
    assert one == again != other
    assert len(one) == 20


def test_processes_that_are_forked_from_one_get_directories_of_their_own(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    first = tmp_path_factory.mktemp("d")
    number = int(first.name.removesuffix("-d"))
    (first.parent / f"{number + 1}-d").mkdir()
    assert tmp_path_factory.mktemp("d").name == f"{number + 2}-d"
