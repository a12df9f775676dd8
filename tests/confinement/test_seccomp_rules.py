"""The filter of system calls, run here instruction by instruction as a kernel would."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hub.confinement.seccomp_rules import (
    PARENT,
    PARENTS_GROUP,
    Architecture,
    ArgumentCondition,
    compiled,
    rules,
)
from hub.specs import Allowance

X86_64, AARCH64, I386, ARM = 0xC000_003E, 0xC000_00B7, 0x4000_0003, 0x4000_0028
MACHINES: tuple[tuple[Architecture, int], ...] = (("x86_64", X86_64), ("aarch64", AARCH64))
HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
ALLOW, EPERM, ENOSYS = 0, 1, 38
NOBODY: frozenset[Allowance] = frozenset()
GOOD_OPERATIONS = {0x20, 0x06, 0x15, 0x35, 0x45}


def answer(program: bytes, kind: int, number: int, *arguments: int) -> int:
    """Return the error that a call gets; 0 if it is let through."""
    padded = (*arguments, 0, 0, 0, 0, 0, 0)[:6]
    parts = ((number, 4), (kind, 4), (0, 8), *((one & (1 << 64) - 1, 8) for one in padded))
    data = b"".join(part.to_bytes(size, "little") for part, size in parts)
    at = value = 0
    while True:
        step = program[8 * at : 8 * at + 8]
        operation, number = int.from_bytes(step[:2], "little"), int.from_bytes(step[4:], "little")
        assert operation in GOOD_OPERATIONS
        at += 1
        if operation == 0x06:
            assert number == 0x7FFF_0000 or number >> 16 == 5
            return 0 if number == 0x7FFF_0000 else number & 0xFFFF
        if operation == 0x20:
            value = int.from_bytes(data[number : number + 4], "little")
            continue
        holds = {0x15: value == number, 0x35: value >= number, 0x45: bool(value & number)}
        at += step[2] if holds[operation] else step[3]


def matching(test: ArgumentCondition) -> tuple[int, ...]:
    value = test.value + 1 if test.how == "is not" else test.value
    return (*(0,) * test.argument, value)


@pytest.mark.parametrize(("machine", "kind"), MACHINES)
def test_each_call_is_refused_where_its_rule_says(machine: Architecture, kind: int) -> None:
    program = compiled(machine)
    for rule in rules(NOBODY, ()):
        assert rule.reason
        for numbers in rule.calls.values():
            number = numbers[machine == "aarch64"]
            if number is None:
                continue
            for test in rule.when:
                assert answer(program, kind, number, *matching(test)) == rule.error
                high = tuple(one | 7 << 32 for one in matching(test))
                assert answer(program, kind, number, *high) == rule.error, "the kernel sees half"
            assert answer(program, kind, number) == (0 if rule.when else rule.error)


@pytest.mark.parametrize(("machine", "kind"), MACHINES)
def test_all_other_calls_are_allowed(machine: Architecture, kind: int) -> None:
    named = {
        numbers[machine == "aarch64"]
        for rule in rules(NOBODY, ())
        for numbers in rule.calls.values()
    }
    program = compiled(machine)
    for number in set(range(480)) - named:
        assert answer(program, kind, number, 5, 5, 5) == ALLOW


@pytest.mark.parametrize(("machine", "kind"), MACHINES)
def test_no_other_kind_of_program_calls_anything(machine: Architecture, kind: int) -> None:
    program = compiled(machine)
    for other in {X86_64, AARCH64, I386, ARM, 0} - {kind}:
        assert answer(program, other, 39) == ENOSYS
    if machine == "x86_64":
        for number in (0x4000_0000 | 39, 0xFFFF_FFFF, 512, 521, 547):
            assert answer(program, kind, number) == ENOSYS
        assert answer(program, kind, 511) == answer(program, kind, 548) == ALLOW


@pytest.mark.parametrize(("machine", "kind"), MACHINES)
def test_user_namespaces_can_be_allowed_and_nothing_else_is_by_it(
    machine: Architecture, kind: int
) -> None:
    clone, unshare, clone3 = (56, 272, 435) if machine == "x86_64" else (220, 97, 435)
    shut, opened = compiled(machine), compiled(machine, frozenset({"userns"}))
    for flag in (0x10000000, 0x20000000, 0x40000000, 0x00020000, 0x7E020000):
        for call in (clone, unshare):
            assert answer(shut, kind, call, flag) == EPERM
            assert answer(opened, kind, call, flag) == ALLOW
    assert answer(shut, kind, clone, 0x00010F00) == ALLOW, "a thread"
    assert answer(shut, kind, clone3) == ENOSYS
    assert answer(opened, kind, clone3) == ALLOW
    for rule in rules(frozenset({"userns"}), ()):
        assert rule.unless is None


@pytest.mark.parametrize(("machine", "kind"), MACHINES)
def test_those_above_cannot_be_signalled(machine: Architecture, kind: int) -> None:
    kill = 62 if machine == "x86_64" else 129
    program = compiled(machine, spared=(4711, -4700))
    for one in (PARENT, PARENTS_GROUP, 4711, -4700, -1):
        assert answer(program, kind, kill, one, 9) == EPERM
    for one in (0, 4712, 4700, -4711):
        assert answer(program, kind, kill, one, 9) == ALLOW


@pytest.mark.parametrize(("machine", "kind"), MACHINES)
def test_the_numbers_are_those_of_the_kernels_headers(machine: Architecture, kind: int) -> None:
    del kind
    header = HEADERS[machine]
    if not header.exists():
        pytest.skip(f"{header} is not there: install linux-libc-dev (Debian)")
    known = dict(re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", header.read_text()))
    for rule in rules(NOBODY, ()):
        for name, numbers in rule.calls.items():
            number = numbers[machine == "aarch64"]
            if name != "open_tree_attr" or name in known:  # newer than most headers
                assert known.get(name) == (None if number is None else str(number)), name


def test_a_filter_is_not_longer_than_the_kernel_takes() -> None:
    assert len(compiled("x86_64", spared=(1, 2))) // 8 < 4096
