from __future__ import annotations

import os
import signal
import subprocess
import sys

import anyio
import pytest

from hub.system.shutdown import ended_by_signals

pytestmark = pytest.mark.usefixtures("hangups")
SIGNALS = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]


@pytest.mark.parametrize("number", SIGNALS)
async def test_the_first_signal_starts_the_shutdown_and_the_second_hurries_it(
    number: signal.Signals,
) -> None:
    before = signal.getsignal(number)
    with anyio.fail_after(5):
        async with ended_by_signals() as shutdown:
            os.kill(os.getpid(), number)
            await shutdown.begun.wait()
            assert not shutdown.pressed.is_set()
            os.kill(os.getpid(), number)
            await shutdown.pressed.wait()
            os.kill(os.getpid(), number)  # and none of them does anything else
            await anyio.wait_all_tasks_blocked()
    assert signal.getsignal(number) in {before, signal.SIG_DFL}, "loops know what is usual alone"


async def test_a_signal_hurries_a_shutdown_that_has_already_started() -> None:
    with anyio.fail_after(5):
        async with ended_by_signals() as shutdown:
            shutdown.begin()
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
