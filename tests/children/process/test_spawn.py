from __future__ import annotations

import asyncio  # noqa: TID251 - what is tested runs in its loops
import os
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from hub.children.process.process_tree import ProcessSupervisor, ProcessTree
from hub.children.process.supervised import ChildPipes, End, Spawned, Start, Started, popen, spawn
from hub.children.process.watchdog import HAS_PROC
from hub.system.shutdown import Shutdown
from tests.kit.fakes import no_descriptor_free
from tests.kit.loops import BOTH, all_tasks_blocked

live = pytest.mark.live
LISTS = "import os; print(sorted(map(int, os.listdir('/proc/self/fd'))))"


@pytest.fixture(params=BOTH)
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    return request.param


def is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


async def ours(
    argv: Sequence[str], env: Mapping[str, str], cwd: str | None, streams: ChildPipes
) -> Started:
    """Start a child of this process."""
    return popen(argv, env, cwd, streams)


@pytest.fixture(params=["child of ours", "below a subreaper"])
async def start(request: pytest.FixtureRequest) -> AsyncGenerator[Start]:
    if request.param == "child of ours":
        yield ours
    elif not HAS_PROC:
        pytest.skip("only Linux has subreapers")
    else:
        async with ProcessSupervisor(Shutdown()) as supervisor:
            tree = ProcessTree(supervisor)
            yield tree.start
            await tree.end()


async def python(start: Start, code: str, **env: str) -> Spawned:
    return await spawn([sys.executable, "-I", "-S", "-c", code], env=env, cwd="/", start=start)


def said(spawned: Spawned) -> bytes:
    """Return all that a process writes, and let it end."""
    text = b""
    while part := os.read(spawned.stdout.fileno(), 65536):
        text += part
    spawned.popen.wait()
    spawned.close()
    return text


@live
async def test_a_process_speaks_and_listens_through_pipes(start: Start) -> None:
    kinds = "import os, stat; print([stat.S_ISFIFO(os.fstat(fd).st_mode) for fd in (0, 1, 2)])"
    assert said(await python(start, kinds)) == b"[True, True, True]\n"


@live
async def test_what_it_says_can_be_written_by_name_too(start: Start) -> None:
    by_name = "for name in ('out', 'err'): open(f'/dev/std{name}', 'w').write(name)"
    spawned = await python(start, by_name)
    assert os.read(spawned.stderr.fileno(), 10) == b"err"
    assert said(spawned) == b"out"


@live
async def test_a_process_inherits_no_other_descriptor(start: Start) -> None:
    read, write = os.pipe()
    os.set_inheritable(read, True)
    assert said(await python(start, LISTS)) in {
        b"[0, 1, 2, 3]\n",  # the last one is the directory that it lists
    }
    os.close(read)
    os.close(write)


@live
async def test_a_process_has_its_own_session_directory_and_environment(start: Start) -> None:
    code = "import os; print(os.getsid(0) == os.getpid(), os.getcwd(), os.environ['OWN'])"
    assert said(await python(start, code, OWN="mine")) == b"True / mine\n"


async def test_a_process_that_cannot_start_leaves_nothing_open(start: Start) -> None:
    assert said(await python(start, "")) == b""
    before = [number for number in range(256) if is_open(number)]
    with pytest.raises(FileNotFoundError):
        await spawn(["/no/such/command"], env={}, cwd="/", start=start)
    assert [number for number in range(256) if is_open(number)] == before


def test_a_pipe_end_without_a_transport_is_closed_once() -> None:
    read, write = os.pipe()
    os.close(write)
    end = End(read)
    end.close()
    assert not is_open(read)
    other, write = os.pipe()
    assert other == read, "the number is somebody else's now"
    end.close()
    assert is_open(other)
    os.close(other)
    os.close(write)


@pytest.mark.parametrize("route", ["read", "write"])
async def test_a_pipe_end_of_a_transport_is_closed_by_the_transport_only(route: str) -> None:
    loop, (read, write) = asyncio.get_running_loop(), os.pipe()
    number, other = (read, write) if route == "read" else (write, read)
    end = End(number)
    lost = asyncio.Event()

    class Told(asyncio.Protocol):
        def connection_lost(self, exc: Exception | None) -> None:
            lost.set()

    connect = loop.connect_read_pipe if route == "read" else loop.connect_write_pipe
    transport, _ = await connect(Told, end.taken(loop))
    transport.close()
    await lost.wait()
    await all_tasks_blocked()
    took = os.dup(other)
    assert took == number
    end.close()
    assert is_open(took)
    os.close(took)
    os.close(other)


def open_descriptors() -> list[Path]:
    return sorted(Path("/proc/self/fd").iterdir())


async def test_no_descriptor_leaks_when_the_limit_is_reached() -> None:
    before = open_descriptors()
    for free in range(1, 6):
        with no_descriptor_free(but=free), pytest.raises(OSError, match="Too many open files"):
            await python(ours, "")
    assert open_descriptors() == before
