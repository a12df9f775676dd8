"""A child below a subreaper: it is the same child, and nothing that it starts gets away."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Timer
from typing import cast

import anyio
import anyio.to_thread
import pytest

from hub.children.process import subreaper
from hub.children.process.process import when_ended
from hub.children.process.process_tree import EndGraces, ProcessSupervisor, ProcessTree
from hub.children.process.subreaper import children_of, encode
from hub.children.process.supervised import (
    ForkServerClient,
    LostForkServerError,
    Spawned,
    Supervised,
    spawn,
)
from hub.children.process.watchdog import HAS_PROC, child_of, row, start_of
from hub.system.shutdown import Shutdown

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not HAS_PROC, reason="only Linux has subreapers"),
]

SLEEPS = "import time; print(flush=True); time.sleep(60)"
EVADES = """
import os, resource, signal, sys, time
if sys.argv[1:]:
    code = sys.orig_argv[sys.orig_argv.index("-c") + 1]
    os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", code], {"how": sys.argv[1]})
resource.setrlimit(resource.RLIMIT_RTTIME, (10**9, 10**9))
for _ in range(2):
    if os.fork():
        if os.environ["how"] == "leaves":
            os._exit(7)
        time.sleep(60)
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(os.getpid(), flush=True)
time.sleep(60)
"""
"""Loses its session, its environment and its limits, and its parents if it `leaves`: no mark is
left."""
HOPS = """
import os, sys, time
print(flush=True)
while time.monotonic() < float(sys.argv[1]):
    if os.fork():
        os._exit(0)
    os.setsid()
"""
"""Is another process every moment."""


CANNOT_FORK = f"""
import errno, os, runpy
def fork():
    raise OSError(errno.EAGAIN, "")
os.fork = fork
runpy.run_path({ForkServerClient.program!r}, run_name="__main__")
"""


@asynccontextmanager
async def kept(
    graces: EndGraces | None = None, fork_server: type[ForkServerClient] = ForkServerClient
) -> AsyncGenerator[ProcessSupervisor]:
    with anyio.fail_after(20):
        async with ProcessSupervisor(Shutdown(), graces, fork_server=fork_server) as supervisor:
            yield supervisor


async def begin(tree: ProcessTree, *arguments: str) -> Spawned:
    command = [sys.executable, "-I", "-S", "-c", *arguments]
    env = {"PATH": os.environ["PATH"], "OWN": "mine"}
    return await spawn(command, env=env, cwd="/tmp", start=tree.start)  # noqa: S108 - it is there


async def line(spawned: Spawned) -> str:
    """Return the next line that a process says."""
    text = b""
    while not text.endswith(b"\n"):
        await anyio.wait_readable(cast("socket.socket", spawned.stdout))
        more = os.read(spawned.stdout.fileno(), 1)
        assert more, text
        text += more
    return text.decode().strip()


def parent_of(spawned: Spawned) -> int:
    assert isinstance(spawned.popen, Supervised)
    return spawned.popen.subreaper


async def forks(program: str = ForkServerClient.program) -> int:
    """Return the process that forks for this one, which may have to become it first."""
    with anyio.fail_after(20):
        while not (found := [pid for pid in children_of(os.getpid()) if runs(pid, program)]):  # noqa: ASYNC110 - nothing says when
            await anyio.sleep(0.01)
    return found[0]


def runs(pid: int, program: str) -> bool:
    return program in Path(f"/proc/{pid}/cmdline").read_text().split("\0")


async def gone(*pids: int) -> None:
    while any(start_of(pid) is not None for pid in pids):  # noqa: ASYNC110 - nothing says when
        await anyio.sleep(0.01)


def can_open_nothing(pid: int) -> tuple[int, int]:
    """Let a process open no further file; return its limit before."""
    hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]
    return resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, hard))


async def test_a_child_has_a_parent_of_its_own_and_is_marked_and_its_parent_is_not() -> None:
    async with kept() as supervisor:
        tree = ProcessTree(supervisor)
        spawned = await begin(tree, SLEEPS)
        await line(spawned)
        found = row(spawned.popen.pid)
        assert found is not None
        assert found.parent == parent_of(spawned)
        assert found.session == spawned.popen.pid
        hub = supervisor.next_mark().hub
        assert child_of(spawned.popen.pid, hub)
        assert not child_of(parent_of(spawned), hub)
        await tree.end()
        spawned.close()
        with anyio.fail_after(20):
            await gone(spawned.popen.pid, parent_of(spawned))


@pytest.mark.parametrize(
    ("code", "ended"),
    [("import sys; sys.exit(7)", 7), ("import os; os.kill(os.getpid(), 9)", -9)],
)
async def test_the_exit_code_is_reported(code: str, ended: int) -> None:
    async with kept() as supervisor:
        tree, told = ProcessTree(supervisor), anyio.Event()
        spawned = await begin(tree, code)
        stop = when_ended(spawned.popen, told.set)
        await told.wait()
        assert spawned.popen.returncode == ended
        stop()
        await tree.end()
        spawned.close()


async def test_signals_and_limits_are_those_that_the_hub_would_give() -> None:
    code = (
        "import resource, signal as s; print([s.getsignal(n) == s.SIG_DFL for n in "
        "(s.SIGTERM, s.SIGHUP, s.SIGUSR1)], resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    async with kept() as supervisor:
        tree = ProcessTree(supervisor)
        spawned = await begin(tree, code)
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        # What ignores a signal has its programs ignore it: whoever runs tests under nohup does.
        kept_as_is = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
        usual = [signal.getsignal(number) is not signal.SIG_IGN for number in kept_as_is]
        assert await line(spawned) == f"{usual} {limit}"
        await tree.end()
        spawned.close()


@pytest.mark.parametrize(
    ("command", "cwd", "error"),
    [
        ("/no/such/command", "/", errno.ENOENT),
        ("no-such-command", "/", errno.ENOENT),
        ("/etc/passwd", "/", errno.EACCES),
        (sys.executable, "/no/such/place", errno.ENOENT),
    ],
)
async def test_a_command_that_cannot_be_run_says_why(command: str, cwd: str, error: int) -> None:
    async with kept() as supervisor:
        tree = ProcessTree(supervisor)
        with pytest.raises(OSError) as caught:  # noqa: PT011 - its number is looked at
            await spawn([command], env={"PATH": "/bin:/usr/bin"}, cwd=cwd, start=tree.start)
        assert caught.value.errno == error
        await tree.end()


@pytest.mark.parametrize(("word", "variable"), [("a\0", "A"), ("a", "A\0"), ("a", "A=B")])
def test_impossible_arguments_and_variables_are_refused(word: str, variable: str) -> None:
    with pytest.raises(ValueError, match=r"null byte|variable name"):
        encode(["x", word], [(variable, "")], "/", (0, 0))


async def test_a_large_environment_arrives() -> None:
    async with kept() as supervisor:
        tree = ProcessTree(supervisor)
        code = "import os; print(sum(len(v) for k, v in os.environ.items() if k[0] == 'X'))"
        env = {f"X{number}": "x" * 100_000 for number in range(10)}
        command = [sys.executable, "-I", "-S", "-c", code]
        spawned = await spawn(command, env=env, cwd="/", start=tree.start)
        assert await line(spawned) == "1000000"
        await tree.end()
        spawned.close()


# Who tries to get away


@pytest.mark.parametrize("route", ["stays", "leaves"])
async def test_no_descendant_gets_away_without_any_mark(route: str) -> None:
    async with kept(EndGraces(term=0.05)) as supervisor:
        tree = ProcessTree(supervisor)
        spawned = await begin(tree, EVADES, route)
        evader = int(await line(spawned))
        assert child_of(evader, supervisor.next_mark().hub) == 0
        await tree.end()
        assert start_of(evader) is None
        spawned.close()


async def test_a_process_that_forks_again_and_again_is_ended() -> None:
    async with kept(EndGraces(term=0.05, kill=0.2)) as supervisor:
        tree = ProcessTree(supervisor)
        spawned = await begin(tree, HOPS, str(time.monotonic() + 15))
        await line(spawned)
        parent = parent_of(spawned)
        await tree.end()
        await gone(parent)  # which it is only once nobody is left below it
        assert os.read(spawned.stdout.fileno(), 1) == b"", "nobody has its stdout any more"
        spawned.close()


async def test_a_subreaper_that_is_killed_takes_its_child_along() -> None:
    async with kept() as supervisor:
        tree, told = ProcessTree(supervisor), anyio.Event()
        spawned = await begin(tree, EVADES, "stays")
        when_ended(spawned.popen, told.set)
        evader = int(await line(spawned))
        os.kill(parent_of(spawned), signal.SIGKILL)
        await told.wait()
        assert spawned.popen.returncode == -signal.SIGKILL
        await gone(spawned.popen.pid, evader)
        await tree.end()
        spawned.close()


async def test_a_subreaper_that_fails_takes_its_child_along() -> None:
    async with kept() as supervisor:
        spawned = await begin(ProcessTree(supervisor), EVADES, "leaves")
        evader = int(await line(spawned))
        can_open_nothing(parent_of(spawned))
        assert isinstance(spawned.popen, Supervised)
        await spawned.popen.finish()
        await gone(evader)
        spawned.close()


async def test_a_fork_server_ends_orphans_once_a_descriptor_to_find_them_is_free() -> None:
    async with kept() as supervisor:
        tree = ProcessTree(supervisor)
        spawned = await begin(tree, EVADES, "stays")
        evader, server = int(await line(spawned)), await forks()
        before = can_open_nothing(server)
        os.kill(parent_of(spawned), signal.SIGKILL)
        while parent_of(spawned) in children_of(server):  # noqa: ASYNC110 - nothing says when
            await anyio.sleep(0.01)
        resource.prlimit(server, resource.RLIMIT_NOFILE, before)
        await gone(evader)
        await tree.end()
        spawned.close()
        assert await forks() == server


async def test_a_fork_that_failed_for_a_start_that_was_given_up_ends_nothing_else(
    tmp_path: Path,
) -> None:
    cannot_fork = tmp_path / "cannot_fork.py"
    cannot_fork.write_text(CANNOT_FORK)

    class CannotFork(ForkServerClient):
        program = str(cannot_fork)

        def go_on(self) -> None:
            """Leave it stopped: the start is to be given up before it is read."""

    async with kept(fork_server=CannotFork) as supervisor:
        tree = ProcessTree(supervisor)
        supervisor.next_mark()
        server = await forks(str(cannot_fork))
        os.kill(server, signal.SIGSTOP)
        with anyio.CancelScope() as given_up:
            given_up.cancel()
            await begin(tree, SLEEPS)
        os.kill(server, signal.SIGCONT)
        with pytest.raises(BlockingIOError):
            await begin(tree, SLEEPS)
        assert await forks(str(cannot_fork)) == server
        await tree.end()


async def test_a_killed_fork_server_is_replaced_and_its_subreapers_stay() -> None:
    async with kept(EndGraces(term=0.05)) as supervisor:
        one, other = ProcessTree(supervisor), ProcessTree(supervisor)
        first = await begin(one, EVADES, "stays")
        evader = int(await line(first))
        killed = await forks()
        os.kill(killed, signal.SIGKILL)
        await gone(killed)
        second = await begin(other, SLEEPS)
        await line(second)
        assert start_of(first.popen.pid) is not None
        for tree, spawned in ((one, first), (other, second)):
            await tree.end()
            spawned.close()
        assert start_of(evader) is None


async def test_without_a_fork_server_a_child_is_the_hubs_own() -> None:
    class EndingForkServer(ForkServerClient):
        program = os.devnull  # a program that ends at once

        @property
        def is_there(self) -> bool:
            self._popen.wait()
            return False

    async with kept(fork_server=EndingForkServer) as supervisor:
        tree = ProcessTree(supervisor)
        spawned = await begin(tree, SLEEPS)
        await line(spawned)
        found = row(spawned.popen.pid)
        assert found is not None
        assert found.parent == os.getpid()
        await tree.end()
        assert await anyio.to_thread.run_sync(spawned.popen.wait) == -signal.SIGTERM
        spawned.close()
        assert start_of(spawned.popen.pid) is None


async def test_a_fork_server_that_was_closed_meanwhile_is_lost() -> None:
    async with kept() as supervisor:
        supervisor.next_mark()
        server = supervisor.server
        assert isinstance(server, ForkServerClient)
        server.close()
        with pytest.raises(LostForkServerError):
            await server.start(b"", (0, 1, 2))


async def test_a_fork_server_that_does_not_answer_is_given_up(tmp_path: Path) -> None:
    deaf = tmp_path / "deaf.py"
    deaf.write_text("import os; os.read(0, 1); import time; time.sleep(60)")

    class Deaf(ForkServerClient):
        patience = 0.05
        program = str(deaf)

    async with kept(EndGraces(kill=0.05), Deaf) as supervisor:
        tree = ProcessTree(supervisor)
        supervisor.next_mark()
        server = await forks(str(deaf))
        with pytest.raises(TimeoutError):
            await begin(tree, SLEEPS)
        await tree.end()
    assert start_of(server) is None


async def test_those_that_a_child_has_stopped_go_on_when_they_are_needed() -> None:
    async with kept(EndGraces(term=0.05)) as supervisor:
        one, other = ProcessTree(supervisor), ProcessTree(supervisor)
        first = await begin(one, EVADES, "stays")
        evader = int(await line(first))
        server = await forks()
        os.kill(server, signal.SIGSTOP)
        second = await begin(other, SLEEPS)
        await line(second)
        for spawned in (first, second):
            os.kill(parent_of(spawned), signal.SIGSTOP)
        for tree, spawned in ((one, first), (other, second)):
            await tree.end()
            spawned.close()
            assert start_of(parent_of(spawned)) is None
        assert start_of(evader) is None
        os.kill(server, signal.SIGSTOP)
    assert start_of(server) is None


async def test_children_start_though_a_stopped_fork_server_has_its_queue_full() -> None:
    async with kept() as supervisor:
        trees = [ProcessTree(supervisor) for _ in range(2)]
        supervisor.next_mark()
        os.kill(await forks(), signal.SIGSTOP)
        for number in range(2000):
            supervisor.tell(f"- {number} 1\n")
        spawned: dict[ProcessTree, Spawned] = {}

        async def start(tree: ProcessTree) -> None:
            spawned[tree] = await begin(tree, SLEEPS)

        async with anyio.create_task_group() as tasks:
            for tree in trees:
                tasks.start_soon(start, tree)
        for tree, one in spawned.items():
            assert not await line(one)
            await tree.end()
            one.close()


def test_children_are_found_where_the_kernel_does_not_list_them() -> None:
    with subprocess.Popen(["/bin/sleep", "60"]) as process:
        assert process.pid in children_of(os.getpid())
        assert process.pid in subreaper.looked_for(os.getpid())
        process.kill()


async def test_an_exit_that_came_with_the_start_is_told_though_descendants_live_on() -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        process, told = Supervised(ours, 7, 8, b"ended 3\n"), anyio.Event()
        when_ended(process, told.set)
        with anyio.fail_after(20):
            await told.wait()
        assert process.returncode == 3


class ReadElsewhere(socket.socket):
    """A socket of which somebody else has just read what there was, the first time."""

    def __init__(self, fileno: int) -> None:
        super().__init__(fileno=fileno)
        self.was_read = anyio.Event()

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        if not self.was_read.is_set():
            self.was_read.set()
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return super().recv(size, flags)


@pytest.fixture
def many_descriptors() -> Generator[None]:
    """Let this process have descriptors of numbers that are too large for `select`."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, before[1]), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("many_descriptors")
def test_the_exit_is_waited_for_with_a_descriptor_of_any_number() -> None:
    ours, theirs = socket.socketpair()
    high = fcntl.fcntl(ours.fileno(), fcntl.F_DUPFD_CLOEXEC, 2000)
    with ours, theirs, socket.socket(fileno=high) as control:
        control.setblocking(False)
        Timer(0.05, theirs.send, [b"ended 7\n"]).start()
        assert Supervised(control, 1, 1, b"").wait() == 7


async def test_the_end_is_waited_for_though_who_watches_for_it_reads_what_is_said() -> None:
    pair, theirs = socket.socketpair()
    ours = ReadElsewhere(pair.detach())
    ours.setblocking(False)
    theirs.send(b"ended 3\n")
    process = Supervised(ours, 7, 8, b"")
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(process.finish)
            await ours.was_read.wait()
            theirs.close()
    assert process.poll() == 3
