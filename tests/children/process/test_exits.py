from __future__ import annotations

import asyncio  # noqa: TID251 - what is tested runs in its loops
import os
import subprocess
import sys
from typing import Any

import anyio
import pytest

from hub.children.process.process import when_ended
from tests.kit.loops import BOTH, all_tasks_blocked

pytestmark = pytest.mark.live

WAITS = "import sys; sys.stdin.read(); sys.exit(7)"


@pytest.fixture(params=BOTH)
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(params=["by handle", "by thread"], autouse=True)
def route(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "by thread":
        monkeypatch.delattr(os, "pidfd_open", raising=False)


def waiting() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", WAITS], stdin=subprocess.PIPE)  # noqa: S603 - this Python


def go_on(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()


async def test_a_watcher_gets_the_exit_code_of_a_process() -> None:
    process, told = waiting(), anyio.Event()
    stop = when_ended(process, told.set)
    go_on(process)
    with anyio.fail_after(60):
        await told.wait()
    assert process.returncode == 7
    stop()


async def test_a_watcher_that_has_stopped_gets_nothing() -> None:
    process, told = waiting(), anyio.Event()
    stop = when_ended(process, told.set)
    stop()
    stop()
    go_on(process)
    await anyio.to_thread.run_sync(process.wait)
    await all_tasks_blocked()
    assert not told.is_set()


def test_an_event_loop_that_has_ended_gets_nothing(
    anyio_backend: tuple[str, dict[str, bool]],
) -> None:
    process = waiting()

    async def watch() -> None:
        when_ended(process, lambda: pytest.fail("it was told"))
        await asyncio.sleep(0)

    anyio.run(watch, backend_options=anyio_backend[1])
    go_on(process)
    assert process.wait() == 7
