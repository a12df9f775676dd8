from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from hub.system.this_process import keep_for_large_messages

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
