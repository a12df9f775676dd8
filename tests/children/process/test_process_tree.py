from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from structlog.testing import capture_logs

from hub.children.process import watchdog
from hub.children.process.process_tree import EndGraces, ProcessSupervisor, ProcessTree
from hub.children.process.supervised import ForkServerClient
from hub.children.process.watchdog import HAS_PROC, Table, child_of, start_of
from hub.system.shutdown import Shutdown
from tests.kit.fakes import no_descriptor_free

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not HAS_PROC, reason="processes are told by /proc"),
]

ASLEEP = "import signal, time; signal.signal(signal.SIGTERM, {}); time.sleep(60)"
SLEEPS = "import time; print(flush=True); time.sleep(60)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEPS}"
STARTS = """
import subprocess, sys, time
for env in None, {}:
    for own in False, True:
        command = [sys.executable, "-I", "-S", "-c", sys.argv[1]]
        if own and env is not None:  # one that has lost its parent and everything else
            code = "import subprocess, sys; print(subprocess.Popen(sys.argv[1:], stdout=-3, "
            command = [sys.executable, "-c", code + "start_new_session=True).pid)", *command]
            subprocess.run(command, env=env)
        else:
            print(subprocess.Popen(command, env=env, start_new_session=own, stdout=-3).pid)
        sys.stdout.flush()
print(flush=True)
time.sleep(60)
"""


def begin(tree: ProcessTree, *arguments: str) -> list[int]:
    """Start a Python program in `tree`; return its id and those of the processes it started."""
    argv = [sys.executable, "-I", "-S", "-c", *arguments]
    streams = (subprocess.DEVNULL, subprocess.PIPE, 2)
    process = tree.start_here(argv, {"PATH": os.environ["PATH"]}, None, streams)
    assert process.stdout is not None
    with process.stdout:
        lines = iter(process.stdout.readline, b"")
        found = [int(line) for line in iter(lines.__next__, b"\n")]
    process.returncode = 0  # nobody waits for it, so that its id stays its own
    return [process.pid, *found]


def starts(tree: ProcessTree, sign: str = "signal.SIG_DFL") -> list[int]:
    return begin(tree, STARTS, ASLEEP.format(sign))


def there(pids: list[int]) -> list[int]:
    return [pid for pid in pids if start_of(pid) is not None]


@asynccontextmanager
async def kept(
    shutdown: Shutdown | None = None,
    graces: EndGraces | None = None,
    looks: Callable[[int, int], Table] = watchdog.look,
) -> AsyncGenerator[ProcessSupervisor]:
    with anyio.fail_after(20):
        async with ProcessSupervisor(
            shutdown or Shutdown(), graces, read_table=looks
        ) as supervisor:
            yield supervisor


def watchdogs() -> list[int]:
    """Return the processes of this one that are watchdogs."""
    found: list[int] = []
    for folder in Path("/proc").iterdir():
        pid = int(folder.name) if folder.name.isdecimal() else 0
        words = ""
        # What has begun a moment ago has no words yet.
        while not words and (row := watchdog.row(pid)) is not None and row.parent == os.getpid():
            words = (folder / "cmdline").read_text()
        found += [pid] * (ForkServerClient.program in words.split("\0"))
    return found


async def test_a_process_tree_is_ended_with_all_its_descendants() -> None:
    async with kept() as supervisor:
        one, other = ProcessTree(supervisor), ProcessTree(supervisor)
        ours, theirs = starts(one), starts(other)
        assert there(ours) == ours
        assert len(ours) == 5
        await one.end()
        assert there(ours) == []
        assert there(theirs) == theirs
        assert set(supervisor.leaders) == {theirs[0]}
        await other.end()
        assert there(theirs) == []
        assert supervisor.leaders == {}


class Looks:
    """Reads the table of processes, and counts how often."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, hub: int, since: int) -> Table:
        self.count += 1
        return watchdog.look(hub, since)


async def test_trees_that_end_together_share_one_scan_of_the_process_table() -> None:
    looks = Looks()
    async with kept(looks=looks) as supervisor:
        trees = [ProcessTree(supervisor) for _ in range(8)]
        pids = [pid for each in trees for pid in begin(each, SLEEPS)]
        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(supervisor.look)
        assert looks.count == 1
        async with anyio.create_task_group() as tasks:
            for each in trees:
                tasks.start_soon(each.end)
        assert there(pids) == []
    assert looks.count < 1 + len(trees)


async def test_a_process_that_ignores_sigterm_is_killed() -> None:
    async with kept(graces=EndGraces(term=0.05)) as supervisor:
        tree = ProcessTree(supervisor)
        pids = starts(tree, "signal.SIG_IGN")
        await tree.end()
        assert there(pids) == []


async def test_no_grace_is_given_after_a_second_signal() -> None:
    shutdown = Shutdown()
    async with kept(shutdown, EndGraces(term=3600.0, term_at_end=3600.0)) as supervisor:
        tree = ProcessTree(supervisor)
        pids = starts(tree, "signal.SIG_IGN")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(tree.end)
            await anyio.wait_all_tasks_blocked()
            shutdown.hurry()
        assert there(pids) == []


async def test_a_process_that_is_there_when_patience_ends_is_logged() -> None:
    async with kept(graces=EndGraces(term=0, kill=0)) as supervisor:
        tree = ProcessTree(supervisor)
        (pid,) = begin(tree, STUBBORN)
        with capture_logs() as logs:
            await tree.end()
        assert [(entry["event"], entry["pids"]) for entry in logs] == [
            ("processes that cannot be killed were left", [pid])
        ]


async def test_a_tree_is_ended_once_a_descriptor_for_scanning_is_free() -> None:
    looks = Looks()
    async with kept(graces=EndGraces(look_again=0.01), looks=looks) as supervisor:
        trees = [ProcessTree(supervisor) for _ in range(2)]
        pids = [pid for tree in trees for pid in starts(tree)]
        with capture_logs() as logs:
            async with anyio.create_task_group() as tasks:
                with no_descriptor_free():
                    for tree in trees:
                        tasks.start_soon(tree.end)
                    while looks.count < 6:
                        await anyio.lowlevel.checkpoint()
                assert there(pids) == pids
        assert there(pids) == []
    said = [(entry["log_level"], entry["event"]) for entry in logs]
    assert said == [
        ("error", "servers cannot be ended for now: raise `ulimit -n`"),
        ("info", "servers can be ended again"),
    ]


async def test_an_ending_hub_leaves_trees_that_it_cannot_scan_to_its_watchdog() -> None:
    async with kept() as supervisor:
        tree = ProcessTree(supervisor)
        pids = starts(tree)
        supervisor.shutdown.begin()
        with no_descriptor_free():
            await tree.end()
        assert there(pids) == pids
    assert there(pids) == []


class Unnoticed(ProcessTree):
    """Finds no free file descriptor when a process has been started."""

    def add_leader(self, pid: int) -> None:
        with no_descriptor_free():
            super().add_leader(pid)


async def test_a_process_started_without_free_descriptors_is_found_by_its_marks() -> None:
    async with kept() as supervisor:
        tree = Unnoticed(supervisor)
        pids = starts(tree)
        assert supervisor.leaders == {}
        await tree.end()
        assert there(pids) == []


@contextmanager
def with_limit_of_the_user() -> Generator[tuple[int, int]]:
    """Have a limit of real-time CPU time that is no mark, as a user may set one."""
    before = resource.getrlimit(resource.RLIMIT_RTTIME)
    users = (200_000, before[1])
    resource.setrlimit(resource.RLIMIT_RTTIME, users)
    try:
        yield users
    finally:
        resource.setrlimit(resource.RLIMIT_RTTIME, before)


async def test_the_environment_does_where_limits_cannot_be_set() -> None:
    with with_limit_of_the_user():
        async with kept() as supervisor:
            tree = Unnoticed(supervisor)
            pids = starts(tree)
            await tree.end()
            # Lost its parent, its session and its environment: only its limit would have told it.
            assert there(pids) == pids[-1:]
            os.kill(pids[-1], signal.SIGKILL)


async def test_the_hub_itself_carries_no_mark_of_a_child() -> None:
    async with kept() as supervisor:
        tree = ProcessTree(supervisor)
        (pid,) = begin(tree, SLEEPS)
        hub = supervisor.next_mark().hub
        assert child_of(pid, hub)
        assert not any(child_of(each, hub) for each in (os.getpid(), *watchdogs()))
        await tree.end()


async def test_a_limit_that_the_user_has_set_is_not_used_as_a_mark() -> None:
    with with_limit_of_the_user() as users:
        async with kept() as supervisor:
            tree = ProcessTree(supervisor)
            pids = begin(tree, SLEEPS)
            assert resource.getrlimit(resource.RLIMIT_RTTIME) == users
            await tree.end()
            assert there(pids) == []


async def test_a_tree_that_was_not_started_needs_no_end_and_no_watchdog() -> None:
    async with kept() as supervisor:
        await ProcessTree(supervisor).end()
        assert watchdogs() == []


async def test_a_watchdog_is_there_from_the_first_child_to_the_end_of_the_hub() -> None:
    async with kept() as supervisor:
        supervisor.next_mark()
        (one,) = watchdogs()
        supervisor.next_mark()
        assert watchdogs() == [one]
    assert watchdogs() == []


async def test_a_killed_watchdog_is_replaced_by_one_that_knows_all_children() -> None:
    async with kept() as supervisor:
        (pid,) = begin(ProcessTree(supervisor), SLEEPS)
        (killed,) = watchdogs()
        os.kill(killed, signal.SIGKILL)
        while watchdogs():  # noqa: ASYNC110 - nothing says when a process has ended
            await anyio.sleep(0.01)
        supervisor.tell("- 1 1\n")
        supervisor.next_mark()
        assert len(watchdogs()) == 1
    assert there([pid]) == [], "the new one ended what was left"


async def test_a_watchdog_that_cannot_be_started_is_logged() -> None:
    def refused(_hub: int, _since: int) -> ForkServerClient:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))

    async with ProcessSupervisor(Shutdown(), fork_server=refused) as supervisor:
        with capture_logs() as logs:
            supervisor.next_mark()
        supervisor.tell("- 1 1\n")
    assert [entry["event"] for entry in logs] == [
        "no watchdog: a hub that is killed may leave processes"
    ]


async def test_servers_may_open_as_many_files_as_the_hub_could_at_its_start() -> None:
    kind = resource.RLIMIT_NOFILE
    before = resource.getrlimit(kind)
    few = 300
    try:
        resource.setrlimit(kind, (few, before[1]))
        async with ProcessSupervisor(Shutdown()) as supervisor:
            resource.setrlimit(kind, (few + 1, before[1]))
            supervisor.prepare()
            assert supervisor.server is not None
            assert resource.prlimit(supervisor.server.pid, kind) == (few, before[1])
    finally:
        resource.setrlimit(kind, before)
