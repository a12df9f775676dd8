from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import anyio
import pytest

from hub.children.process.process import when_ended
from hub.children.process.process_tree import inherits_orphans, reap_orphans
from tests.kit.loops import BOTH

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(sys.platform != "linux", reason="process 1 of a container runs Linux"),
]
PR_SET_CHILD_SUBREAPER = 36
OFTEN = (0.0, 0.01)
"""Seconds between looks, and for those who wait for a process of their own."""


@pytest.fixture(params=BOTH)
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def _inheriting() -> Generator[None]:
    """Let this process be given those that lose their parents, as process 1 is."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    assert prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    yield
    prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def orphan() -> int:
    """Start a process that ends as soon as its parent has."""
    # Its parent may take an earlier end away itself. In the background a shell has no stdin.
    shell = ["/bin/sh", "-c", "exec 3<&0; cat <&3 >/dev/null & echo $!"]
    with subprocess.Popen(shell, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:  # noqa: S603 - ours
        assert parent.stdout is not None
        started = int(parent.stdout.readline())
        parent.wait()
    return started


def is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_this_process_does_not_inherit_orphans() -> None:
    assert inherits_orphans() is (os.getpid() == 1)


@pytest.mark.usefixtures("_inheriting")
async def test_ended_orphans_are_taken_away() -> None:
    orphans = [orphan() for _ in range(5)]
    assert all(map(is_there, orphans))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(reap_orphans, *OFTEN)
        with anyio.fail_after(60):
            while any(map(is_there, orphans)):  # noqa: ASYNC110 - nothing says when one is reaped
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()


def exiting(code: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["/bin/sh", "-c", f"exit {code}"])  # noqa: S603 - ours


async def test_reaping_does_not_take_exit_codes_from_the_parent() -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(reap_orphans, *OFTEN)
        for code in range(1, 20):
            process, told = exiting(code), anyio.Event()
            when_ended(process, told.set)
            with anyio.fail_after(60):
                await told.wait()
            assert process.returncode == code
        tasks.cancel_scope.cancel()
