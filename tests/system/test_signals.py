from __future__ import annotations

import os
import signal
import subprocess
import sys

import anyio
import pytest

from hub.system.shutdown import ended_by_signals
from tests.kit.terminal import controlling_terminal

pytestmark = pytest.mark.usefixtures("hangups")
SIGNALS = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]


@pytest.mark.parametrize("number", SIGNALS)
async def test_the_first_signal_starts_the_shutdown_and_the_second_hurries_it(
    number: signal.Signals,
) -> None:
    before = signal.getsignal(number)
    with anyio.fail_after(20):
        async with ended_by_signals(reloads=False) as shutdown:
            os.kill(os.getpid(), number)
            await shutdown.begun.wait()
            assert not shutdown.pressed.is_set()
            os.kill(os.getpid(), number)
            await shutdown.pressed.wait()
            os.kill(os.getpid(), number)  # and none of them does anything else
            await anyio.wait_all_tasks_blocked()
    assert signal.getsignal(number) in {before, signal.SIG_DFL}, "loops know what is usual alone"


async def test_a_signal_hurries_a_shutdown_that_has_already_started() -> None:
    with anyio.fail_after(20):
        async with ended_by_signals() as shutdown:
            shutdown.begin()
            await anyio.wait_all_tasks_blocked()
            assert not shutdown.pressed.is_set()
            os.kill(os.getpid(), signal.SIGTERM)
            await shutdown.pressed.wait()


async def test_a_hangup_that_was_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        async with ended_by_signals() as shutdown:
            os.kill(os.getpid(), signal.SIGHUP)
            await anyio.wait_all_tasks_blocked()
            assert not shutdown.begun.is_set()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


async def test_a_hangup_without_a_terminal_asks_to_reload_and_ends_nothing() -> None:
    with anyio.fail_after(20):
        async with ended_by_signals(reloads=True) as shutdown, anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(shutdown.asked_to_reload)
                await anyio.wait_all_tasks_blocked()
                os.kill(os.getpid(), signal.SIGHUP)
            tasks.start_soon(shutdown.asked_to_reload)
            await anyio.wait_all_tasks_blocked()
            assert not shutdown.begun.is_set()
            os.kill(os.getpid(), signal.SIGHUP)


@pytest.mark.live
def test_a_terminal_is_found_where_there_is_one() -> None:
    code = "from hub.system.shutdown import has_terminal; print(has_terminal())"
    command = [sys.executable, "-c", code]
    with controlling_terminal() as terminal:
        ways = ((terminal.command(command), "True"), (command, "False"))
        for way, there in ways:
            ran = subprocess.run(  # noqa: S603 - this Python
                way,
                capture_output=True,
                text=True,
                check=True,
                start_new_session=way is command,
                pass_fds=terminal.files,
            )
            assert ran.stdout.strip() == there


@pytest.mark.live
def test_a_process_that_has_ended_its_own_is_ended_by_no_signal() -> None:
    code = """
import os, signal
from hub.system.shutdown import ignore_ending_signals
ignore_ending_signals()
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    os.kill(os.getpid(), number)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0  # noqa: S603 - this Python
