from __future__ import annotations

import asyncio  # noqa: TID251 - to tell which loop it is
import platform
import subprocess
import sys
from typing import Any

import pytest

from hub.system.this_process import keep_for_large_messages, most_files, run_loop


async def loop_and(*values: int) -> tuple[str, tuple[int, ...]]:
    return type(asyncio.get_running_loop()).__module__.partition(".")[0], values


@pytest.mark.skipif(sys.platform == "win32", reason="uvloop is not for Windows")
def test_commands_run_on_uvloop() -> None:
    assert run_loop(loop_and, 1, 2) == ("uvloop", (1, 2))


def test_commands_run_on_asyncio_where_uvloop_cannot_be_imported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert run_loop(loop_and) == ("asyncio", ())


FAULTS = """
import resource, sys
from hub.system.this_process import keep_for_large_messages

if sys.argv[1] == "kept":
    assert keep_for_large_messages()

def passed_on():
    read = [b"x" * (1 << 18) for _ in range(4)]
    whole = b"".join(read)
    return whole.decode().encode() == whole

for _ in range(5):
    passed_on()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(50):
    passed_on()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
is_glibc = platform.libc_ver()[0] == "glibc"


def faults(how: str) -> int:
    done = subprocess.run(  # noqa: S603 - this interpreter
        [sys.executable, "-c", FAULTS, how], capture_output=True, text=True, check=True
    )
    return int(done.stdout)


@pytest.mark.live
@pytest.mark.skipif(not is_glibc, reason="another allocator than glibc's")
def test_memory_of_large_messages_is_there_for_the_next_ones() -> None:
    assert faults("kept") < 0.1 * faults("given back")


@pytest.mark.parametrize("system", ["win32", "darwin"])
def test_other_systems_are_left_alone(system: str) -> None:
    assert not keep_for_large_messages(system)


def test_another_allocator_is_left_alone() -> None:
    assert not keep_for_large_messages("linux", object())


def test_no_more_files_are_allowed_than_are_wanted_and_the_system_lets_have() -> None:
    resource: Any = pytest.importorskip("resource")
    kind = resource.RLIMIT_NOFILE
    before = resource.getrlimit(kind)
    few = 300
    try:
        resource.setrlimit(kind, (few, before[1]))
        assert most_files() == most_files(few - 1) == few
        assert most_files(few + 1) == few + 1
        if before[1] != resource.RLIM_INFINITY:
            assert most_files(before[1] + 1) == before[1]
    finally:
        resource.setrlimit(kind, before)
