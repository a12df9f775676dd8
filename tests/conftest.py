"""Fixtures and settings that all tests share.

Async tests need no marker: anyio runs them (`anyio_mode = "auto"`), on the loop that users get.
"""

import ctypes
import gc
import itertools
import logging
import os
import shutil
import signal
import stat
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

import httpcore2
import pytest
import structlog
from _pytest.runner import runtestprotocol
from hypothesis import HealthCheck, settings
from structlog.dev import ConsoleRenderer, plain_traceback

from hub.cli.main import main
from hub.paths.resolve import Flavour, parts_of
from hub.roots.roots import UnsafePaths
from tests.kit.hubs import CACHED_ROUTES
from tests.kit.loops import FAST, Backend
from tests.kit.trees import Renamed
from tests.kit.warm import WARM

PROJECT = Path(__file__).parent.parent
# By default `rich`, which is there for other tests, would take seconds to paint a traceback.
LOGS = [
    *structlog.get_config()["processors"][:-1],
    ConsoleRenderer(exception_formatter=plain_traceback),
]
structlog.configure(processors=LOGS)

LONGEST = (
    *("live/test_misbehaving.py", "live/test_eras.py", "live/test_clients.py"),
    *("live/test_orphans.py", "guard/test_decide.py", "live/test_remote_children.py"),
    *("live/test_transcripts.py", "live/test_standard_streams.py"),
    *("live/test_parallel_questions.py", "live/test_filesystem_server.py"),
    *("guard/test_commands_against_a_shell.py", "live/test_login_renewal.py"),
    *("live/test_logins_of_principals.py", "live/test_oauth.py", "live/test_logins.py"),
    *("live/test_remote_failures.py", "live/test_confinement.py", "live/test_harm.py"),
    *("live/test_typescript.py", "live/test_login_in_calls.py", "test_mutation.py"),
    *("guard/test_guard_against_the_kernel.py", "cli/doctor/test_faults.py"),
)
"""The files that take longest: tests that run side by side begin with them, not to wait for one."""

# Nothing fails for the time that it takes: that tells how busy the machine is.
UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
# `fast` tries the same examples each time: a build must not fail for what nobody changed.
settings.register_profile("fast", UNTIMED, derandomize=True, max_examples=100)
settings.register_profile("quick", settings.get_profile("fast"), max_examples=20)
settings.register_profile("deep", UNTIMED, max_examples=5000)
settings.load_profile("fast")


def pytest_configure(config: pytest.Config) -> None:
    """Say at once that no hub shares what is in the temporary folder, as with one in /dev/shm.

    Tests would wait for calls that are refused, some without a limit.
    """
    folder = os.path.realpath(config.getoption("basetemp") or tempfile.gettempdir())
    if UnsafePaths(None, Flavour.POSIX).refuses(parts_of(folder, Flavour.POSIX)):
        raise pytest.UsageError(f"{folder} is not safe for sharing: set TMPDIR to another folder")


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, Any, Any]:
    """Keep garbage collection off what is collected and imported: it stays, and there is much."""
    gc.disable()
    try:
        worker, source = os.environ.get("PYTEST_XDIST_WORKER"), session.config.args_source
        if worker is not None and source is pytest.Config.ArgsSource.TESTPATHS:
            _import_part(int(worker.removeprefix("gw")))
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def _import_part(number: int) -> None:
    """Begin, in each tester, with other modules: what one has compiled the others need not."""
    testers = int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    for file in sorted(Path(__file__).parent.rglob("test_*.py"))[number::testers]:
        name = file.relative_to(PROJECT).with_suffix("").as_posix().replace("/", ".")
        with suppress(Exception, pytest.skip.Exception):  # which its collection tells
            import_module(name)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let long files come first, then the other live ones."""
    ranks = {PROJECT / "tests" / file: rank for rank, file in enumerate(LONGEST)}
    live = PROJECT / "tests/live"

    @cache
    def rank(file: Path) -> int:
        return ranks.get(file, len(ranks) + (live not in file.parents))

    items.sort(key=lambda item: rank(item.path))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Tell once of a test that passes, where another process is told of it.

    Six messages for each take as long as most tests do. With -n0 `--durations` shows the setups.
    """
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return None
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    has_passed = all(report.passed for report in reports)
    for report in reports:
        if report.when == "call" or not has_passed:
            item.ihook.pytest_runtest_logreport(report=report)
    return True


@pytest.fixture(scope="session")
def anyio_backend() -> Backend:
    return FAST


@pytest.fixture(scope="session", autouse=True)
def state_of_the_tests(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:
    """Let no hub of a test use the directories of the user who runs the tests, or outlive them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        runtime = tmp_path_factory.mktemp("runtime")
        patch.setenv("XDG_RUNTIME_DIR", str(runtime))
        if sys.platform != "win32":
            _find_hubs_only_below(tmp_path_factory.getbasetemp(), patch)
        yield
        if (runtime / "roots-hub").is_dir():
            main(["stop", "--all"])
    WARM.end()


def _find_hubs_only_below(top: Path, patch: pytest.MonkeyPatch) -> None:
    """Hide the user's own hubs, which `status` and `stop --all` find in every directory."""
    from hub.attach.runtime_directory import RuntimeDirectory  # noqa: PLC0415 - not on Windows

    found = RuntimeDirectory.existing

    def existing(environment: Mapping[str, str]) -> list[RuntimeDirectory]:
        shown: list[RuntimeDirectory] = []
        for one in found(environment):
            if Path(one.path).is_relative_to(top):
                shown.append(one)
            else:
                one.close()
        return shown

    patch.setattr(RuntimeDirectory, "existing", existing)


@pytest.fixture(scope="session", autouse=True)
def certificates_read_once() -> Generator[None]:
    """Let the tests' own HTTP clients share what they trust: each would take 20 ms to read it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(httpcore2, "default_ssl_context", cache(httpcore2.default_ssl_context))
        yield


@pytest.fixture(scope="session", autouse=True)
def nothing_waits_for_the_disk() -> Generator[None]:
    """Leave out what holds files against a power cut: it takes milliseconds, thousands of times."""

    def keep_in_memory(file: int) -> None:
        os.fstat(file)  # what is no open file is an error still

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", keep_in_memory)
        yield


@pytest.fixture(scope="session", autouse=True)
def directories_without_links(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:
    """Let `mktemp`, and so `tmp_path`, make a directory and no more.

    It would renew a link to the last one of a name, too. Where that waits for the disk, as where
    ext4 discards what is free at once, it takes longer than most tests do.
    """
    top, numbers = tmp_path_factory.getbasetemp(), itertools.count()

    def make(name: str, **_: bool) -> Path:
        while True:
            # The number first: a1 with 2 and a with 12 differ. Some tests have a socket there.
            path = top / f"{next(numbers)}-{name[:25]}"
            # One that is there is of another run of the fixtures, as tests/mutation.py has many.
            with suppress(FileExistsError):
                path.mkdir(0o700)
                return path

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tmp_path_factory, "mktemp", make)
        yield


@pytest.fixture(scope="session")
def new_caches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Give ever new paths below one directory; a hub makes the one that it keeps something in."""
    top = tmp_path_factory.mktemp("caches")
    return (top / str(number) for number in itertools.count())


@pytest.fixture(scope="session", autouse=True)
def loggers_read_what_is_configured() -> Generator[None]:
    """Keep no logger from being used once more: it would keep what it was configured for."""
    configure = structlog.configure

    def uncached(**options: Any) -> None:
        options.pop("cache_logger_on_first_use", None)
        configure(**options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(structlog, "configure", uncached)
        yield


@pytest.fixture(autouse=True)
def own_cache_and_logs(new_caches: Iterator[Path]) -> Generator[None]:
    """Let no test see what the hub of another one has kept of its servers, or how it logs.

    One fixture for both, and no other: what each test has is what most tests take longest for.
    """
    os.environ["XDG_CACHE_HOME"] = str(next(new_caches))
    root, hub, configured = logging.getLogger(), logging.getLogger("hub"), structlog.get_config()
    handlers, levels = root.handlers[:], (root.level, hub.level)
    yield
    if structlog.get_config() != configured:
        structlog.reset_defaults()
        structlog.configure(processors=LOGS)
        root.handlers[:] = handlers
        root.setLevel(levels[0])
        hub.setLevel(levels[1])


@pytest.fixture(scope="session")
def npm_program() -> Callable[[str], str]:
    """Give the absolute path of a command of package.json; the test is skipped without npm."""

    def find(command: str) -> str:
        program = PROJECT / "node_modules" / ".bin" / command
        if shutil.which("node") is None or not program.exists():
            pytest.skip(f"npm packages are not installed: no {command}")
        return str(program)

    return find


@pytest.fixture(scope="session")
def npm_package() -> Callable[[str], str]:
    """Give the command that runs programs with a package in reach; skip the test without it."""

    def find(package: str) -> str:
        node = shutil.which("node")
        if node is None or not (PROJECT / "node_modules" / package / "package.json").exists():
            pytest.skip(f"npm packages are not installed: no {package}")
        return node

    return find


@pytest.fixture
def hangups() -> Generator[None]:
    """Let SIGHUP reach the programs that a test starts, even if the tests run under `nohup`.

    The run is still not ended by one: a signal that is caught has its default in new programs.
    """
    before = signal.getsignal(signal.SIGHUP)
    if before is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda _number, _frame: None)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let no test be skipped for want of npm where HUB_REQUIRE_NPM=1 says that npm is there."""
    report = yield
    reason = str(call.excinfo.value) if report.skipped and call.excinfo is not None else ""
    if "npm" in reason and os.environ.get("HUB_REQUIRE_NPM") == "1":
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid}: {reason} (HUB_REQUIRE_NPM=1)"
    return report


@pytest.fixture(params=[False, True], ids=["resolved", "by a cached route"])
def both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a test's calls go one way, and then the other."""
    if request.param:
        monkeypatch.setenv(CACHED_ROUTES, "1")


@pytest.fixture
def renamed(monkeypatch: pytest.MonkeyPatch) -> list[Renamed]:
    """Note the files that are renamed by `Path.replace`, before another line of the hub runs."""
    noted, replace = list[Renamed](), Path.replace

    def note(old: Path, new: Path) -> Path:
        made = replace(old, new)
        noted.append(Renamed(stat.S_IMODE(made.stat().st_mode), made.read_bytes()))
        return made

    monkeypatch.setattr(Path, "replace", note)
    return noted


@pytest.fixture
def platform(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Let a test run as on another system, by its name in `sys.platform`."""
    return partial(monkeypatch.setattr, sys, "platform")


@pytest.fixture
def libc(monkeypatch: pytest.MonkeyPatch) -> Callable[[object], None]:
    """Let a test give the C library, and so the answers of the kernel."""

    def give(made: object) -> None:
        def load(*_: object, **__: object) -> object:
            return made

        monkeypatch.setattr(ctypes, "CDLL", load)

    return give
