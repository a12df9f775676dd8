"""Counts the small mistakes in a package that its tests would not notice.

`python -m tests.mutation hub/guard hub/roots --sample 150 --seed 1` changes one place at a time in
the functions of a package, runs the tests in the folder of tests with the same name, and those that
`--tests` names, and prints for each module how many changes failed a test, made the tests hang, or
survived; then each survivor.

The tests are imported and run once; then one process is forked for each change, in which the
changed functions replace the imported ones, and only the tests run that call them. No file is
written. What a module computes while it is imported is not changed. Left out are tests marked
`live` or `long`.
"""

from __future__ import annotations

import argparse
import functools
import gc
import io
import os
import pickle
import random
import resource
import select
import signal
import sys
import threading
import time
import types
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, cast

import pytest
from _pytest.runner import runtestprotocol

from tests.kit.mutants import Mutant, Place, mutants_of, mutated

PROJECT = Path(__file__).parent.parent
SECONDS = 10.0
MEMORY = 4 << 30
"""What a changed function may allocate: a loop without end takes this before its time is over."""
KILLED, TIMED_OUT, SURVIVED = "killed", "timed out", "survived"

Outcome: TypeAlias = str
_CACHED = type(functools.cache(len))


class Tested(NamedTuple):
    """What one test did when nothing was changed."""

    seconds: float
    calls: frozenset[Place]
    failure: str


def functions_in(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yield the functions that a piece of code defines, and those inside of them."""
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield inner
            yield from functions_in(inner)


def place_of(code: types.CodeType) -> Place:
    return code.co_qualname, code.co_firstlineno


def imported_functions(file: Path) -> Iterator[types.FunctionType]:
    """Yield all functions of a module, also those that decorators and classes hold."""
    for one in gc.get_objects():
        if isinstance(one, types.FunctionType) and one.__code__.co_filename == str(file):
            yield one


def put_in_place(code: types.CodeType, file: Path) -> None:
    """Give the imported functions of a module the code of another version of it."""
    codes = {place_of(one): one for one in functions_in(code)}
    for function in list(imported_functions(file)):
        function.__code__ = codes[place_of(function.__code__)]


def caches_of(modules: frozenset[str]) -> list[Callable[[], None]]:
    """List what makes functions of these modules forget the results that they keep."""
    kept = (cast("Any", one) for one in gc.get_objects() if isinstance(one, _CACHED))
    return [one.cache_clear for one in kept if one.__module__ in modules]


class Mutating:
    """A plugin of pytest that runs the collected tests once for each mutant."""

    def __init__(self, project: Path, mutants: Sequence[Mutant], seconds: float) -> None:
        self._project = project
        self._mutants = mutants
        self._seconds = seconds
        self._modules = sorted({mutant.module for mutant in mutants})
        self.failures: list[str] = []
        self.outcomes: dict[Mutant, Outcome] = {}
        self.uncalled: set[Mutant] = set()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [
            item
            for item in items
            if item.get_closest_marker("live") is None and item.get_closest_marker("long") is None
        ]

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            self.failures.append("not all tests could be collected")
            return True
        gc.unfreeze()  # what the project's tests have frozen is searched for functions
        tested = _in_a_fork(lambda: self._observe(session.items), None)
        if not isinstance(tested, list):
            self.failures.append(f"the tests could not be run: {tested}")
            return True
        tested = cast("list[Tested]", tested)
        self.failures += [one.failure for one in tested if one.failure]
        if not self.failures:
            for n, mutant in enumerate(self._mutants, 1):
                self.outcomes[mutant] = self._outcome_of(mutant, session.items, tested)
                report(f"{n}/{len(self._mutants)} {self.outcomes[mutant]}: {mutant}")
        return True

    def _observe(self, items: list[pytest.Item]) -> list[Tested]:
        """Run all tests, and note which functions of the package each of them calls."""
        places: dict[int, list[Place]] = {}
        for module in self._modules:
            for function in imported_functions(self._project / module):
                own = place_of(function.__code__)
                places.setdefault(id(function.__code__), []).append(own)
                for inner in functions_in(function.__code__):
                    places.setdefault(id(inner), []).extend((own, place_of(inner)))
        called: set[int] = set()

        def note(frame: types.FrameType, _event: str, _arg: object) -> None:
            called.add(id(frame.f_code))

        clear = caches_of(frozenset(map(_dotted, self._modules)))
        tested: list[Tested] = []
        for item in items:
            for forget in clear:
                forget()
            called.clear()
            began = time.monotonic()
            threading.settrace(note)
            sys.settrace(note)
            failure = _failure_of(item, None)
            sys.settrace(None)
            seconds = time.monotonic() - began
            # A thread of the test may still run, and add to them.
            calls = frozenset(place for one in called.copy() for place in places.get(one, ()))
            tested.append(Tested(seconds, calls, failure))
        return tested

    def _outcome_of(
        self, mutant: Mutant, items: list[pytest.Item], tested: list[Tested]
    ) -> Outcome:
        source = (self._project / mutant.module).read_text(encoding="utf-8")
        code = mutated(mutant, source)
        mirrored = f"test_{Path(mutant.module).name}"
        chosen = sorted(
            (item.path.name != mirrored, one.seconds, n)
            for n, (item, one) in enumerate(zip(items, tested, strict=True))
            if mutant.function in one.calls
        )
        if not chosen:
            self.uncalled.add(mutant)
            return SURVIVED
        run = [items[n] for _, _, n in chosen]
        # The tests run slower while they are observed, if at all.
        limit = self._seconds + 2 * sum(tested[n].seconds for *_, n in chosen)
        noticed = _in_a_fork(lambda: self._is_noticed(mutant, code, run), limit)
        if isinstance(noticed, _Broken):
            self.failures.append(f"{mutant}: {noticed.error}")
        if isinstance(noticed, _TimeIsOver):
            return TIMED_OUT
        return SURVIVED if noticed is False else KILLED

    def _is_noticed(self, mutant: Mutant, code: types.CodeType, items: list[pytest.Item]) -> bool:
        for forget in caches_of(frozenset(map(_dotted, self._modules))):
            forget()
        put_in_place(code, self._project / mutant.module)
        following = [*items[1:], None]
        return any(_failure_of(item, after) for item, after in zip(items, following, strict=True))


def _failure_of(item: pytest.Item, following: pytest.Item | None) -> str:
    """Run a test; returns what failed, or nothing."""
    reports = runtestprotocol(item, log=False, nextitem=following)
    return "\n".join(f"{item.nodeid}: {one.longreprtext}" for one in reports if one.failed)


def _dotted(module: str) -> str:
    return module.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


class _TimeIsOver(NamedTuple):
    """A process was ended because it took too long."""


class _EndedEarly(NamedTuple):
    """A process ended without a result: it crashed, or a test ended it."""


class _Broken(NamedTuple):
    """The fault is here, not in a test or in what is tested."""

    error: str


def _in_a_fork(result_of: Callable[[], object], seconds: float | None) -> object:
    """Return what a function returns in a process of its own, which leaves nothing behind."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _answer(result_of, writing)
    os.close(writing)
    ends = None if seconds is None else time.monotonic() + seconds
    data = bytearray()
    try:
        while True:
            left = None if ends is None else max(0.0, ends - time.monotonic())
            if not select.select([reading], [], [], left)[0]:
                return _TimeIsOver()
            piece = os.read(reading, 1 << 16)
            if not piece:
                return pickle.loads(data) if data else _EndedEarly()  # noqa: S301 - our own child's
            data += piece
    finally:
        os.close(reading)
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _answer(result_of: Callable[[], object], writing: int) -> None:
    try:
        os.setpgid(0, 0)
        silent = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(silent, stream)
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        try:
            result = result_of()
        except Exception as exc:  # noqa: BLE001 - where a process ends
            result = _Broken(repr(exc))
        data = pickle.dumps(result)
        with open(writing, "wb") as pipe:
            pipe.write(data)
    finally:
        os._exit(0)


def say(text: str) -> None:
    """Show a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def report(text: str) -> None:
    """Show a line of progress apart from the result, while pytest has the standard output."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def modules_below(project: Path, package: str) -> list[str]:
    """List the modules of a package, or the one module that is named."""
    place = project / package
    files = [place] if place.is_file() else sorted(place.rglob("*.py"))
    return [file.relative_to(project).as_posix() for file in files]


def chosen_mutants(project: Path, package: str, sample: int | None, seed: int) -> list[Mutant]:
    """List the changes to try: all, or as many as asked for, the same for the same seed."""
    found = [
        mutant
        for module in modules_below(project, package)
        for mutant in mutants_of(module, (project / module).read_text(encoding="utf-8"))
    ]
    if sample is None or sample >= len(found):
        return found
    return sorted(random.Random(seed).sample(found, sample))  # noqa: S311 - to be the same again


def table_of(outcomes: dict[Mutant, Outcome]) -> str:
    """Write how many changes of each module were killed, timed out and survived."""
    modules = sorted({mutant.module for mutant in outcomes})
    width = max(map(len, (*modules, "module")))
    lines = [f"{'module':{width}}  mutants  killed  timed out  survived"]
    for module in (*modules, "all"):
        counts = Counter(
            outcome for mutant, outcome in outcomes.items() if module in {mutant.module, "all"}
        )
        lines.append(
            f"{module:{width}}  {counts.total():7}  {counts[KILLED]:6}  {counts[TIMED_OUT]:9}"
            f"  {counts[SURVIVED]:8}"
        )
    return "\n".join(lines)


def score(package: str, given: argparse.Namespace) -> int:
    """Try the changes of one package and print what became of them; 1 if no test could judge."""
    project = given.project.resolve()
    mutants = chosen_mutants(project, package, given.sample, given.seed)
    mutating = Mutating(project, mutants, given.seconds)
    within = Path(*Path(package).parts[1:])
    own = project / "tests" / (within.parent if within.suffix else within)
    folders = [str(own), *(str(project / folder) for folder in given.tests)]
    options = ["--quiet", "--capture=no", "-p", "no:cacheprovider", "-ofaulthandler_timeout=0"]
    shown = io.StringIO()
    with redirect_stdout(shown):
        pytest.main(
            [*options, "--hypothesis-profile=quick", f"--rootdir={project}", *folders],
            plugins=[mutating],
        )
    if mutating.failures or len(mutating.outcomes) < len(mutants):
        say("\n".join((shown.getvalue(), *mutating.failures)))
        say(f"mutation: the tests of {package} could not judge its changes")
        return 1
    say(f"\n{table_of(mutating.outcomes)}\n")
    for mutant, outcome in mutating.outcomes.items():
        if outcome == SURVIVED:
            say(f"{mutant}{' (no test calls it)' if mutant in mutating.uncalled else ''}")
    return 0


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutation", description="Count what tests miss."
    )
    parser.add_argument("packages", nargs="+", metavar="PACKAGE", help="such as hub/guard")
    parser.add_argument("--sample", type=int, metavar="N", help="try N changes, not all")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="which are tried")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help="for a change, beside twice its tests' time"
    )
    parser.add_argument("--project", type=Path, default=PROJECT, help="where hub and tests are")
    parser.add_argument(
        "--tests", nargs="+", default=[], metavar="FOLDER", help="run these too: tests/flow"
    )
    given = parser.parse_args(arguments)
    sys.path.insert(0, str(given.project.resolve()))
    return max(score(package, given) for package in given.packages)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
