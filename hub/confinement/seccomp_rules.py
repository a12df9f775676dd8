"""System calls that a confined child is refused, and the compiler of the seccomp filter.

The list has refused calls, not allowed ones: Node, Python and browsers make new system calls with
each version, and Landlock restricts file access. Refused are calls that reach other processes or
the whole machine, and kernel features that no server needs and that often had security bugs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from hub.specs import Allowance

Architecture: TypeAlias = Literal["x86_64", "aarch64"]

_EPERM: Final = 1
_ENOSYS: Final = 38

PARENT: Final = 0x7F5A_0001
"""Placeholder for the process id of the parent when the filter is loaded."""
PARENTS_GROUP: Final = 0x7F5A_0002
"""Placeholder for the parent's process group, negative as in `kill`."""


class ArgumentCondition(Struct, frozen=True):
    """A condition on one argument of a call. Only the lower 32 bits are compared."""

    argument: int
    how: Literal["is", "is not", "has any of"]
    value: int


class Rule(Struct, frozen=True):
    """Calls that are refused: always, or if any condition in `when` holds."""

    reason: str
    calls: Mapping[str, tuple[int | None, int | None]]
    """Call numbers by name, on x86_64 and aarch64; None if the architecture has no such call."""
    when: tuple[ArgumentCondition, ...] = ()
    error: int = _EPERM
    unless: Allowance | None = None


_NAMESPACES: Final = 0x7E02_0000
"""CLONE_NEWNS, -CGROUP, -UTS, -IPC, -USER, -PID and -NET."""
_NEW_TIME: Final = 0x80
"""CLONE_NEWTIME: only `unshare` accepts it."""

RULES: Final = (
    Rule(
        "reads and changes other processes' memory, descriptors and execution",
        {
            "ptrace": (101, 117),
            "process_vm_readv": (310, 270),
            "process_vm_writev": (311, 271),
            "process_madvise": (440, 440),
            "pidfd_getfd": (438, 438),
            "kcmp": (312, 272),
        },
    ),
    Rule(
        "sets limits of other processes: a limit of CPU time ends the hub",
        {"prlimit64": (302, 261)},
        (ArgumentCondition(0, "is not", 0),),
    ),
    Rule(
        "changes on which processors, and how soon, other processes run",
        {
            "sched_setaffinity": (203, 122),
            "sched_setattr": (314, 274),
            "sched_setparam": (142, 118),
            "sched_setscheduler": (144, 119),
            "migrate_pages": (256, 238),
            "move_pages": (279, 239),
        },
        (ArgumentCondition(0, "is not", 0),),
    ),
    Rule(
        "renices other processes, or all of the user's",
        {"setpriority": (141, 140)},
        (ArgumentCondition(0, "is", 2), ArgumentCondition(1, "is not", 0)),
    ),
    Rule(
        "makes other processes wait for the disk, or all of the user's",
        {"ioprio_set": (251, 30)},
        (ArgumentCondition(0, "is", 3), ArgumentCondition(1, "is not", 0)),
    ),
    Rule(
        "the user's keyring holds credentials",
        {"add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219)},
    ),
    Rule(
        "does files and network past this filter, and has had many faults; libraries do without",
        {
            "io_uring_setup": (425, 425),
            "io_uring_enter": (426, 426),
            "io_uring_register": (427, 427),
        },
        error=_ENOSYS,
    ),
    Rule(
        "has its flags in memory, where no filter sees them; C libraries fall back to clone",
        {"clone3": (435, 435)},
        error=_ENOSYS,
        unless="userns",
    ),
    Rule(
        "a user namespace opens most of the kernel to whoever makes one",
        {"clone": (56, 220)},
        (ArgumentCondition(0, "has any of", _NAMESPACES),),
        unless="userns",
    ),
    Rule(
        "a user namespace opens most of the kernel to whoever makes one",
        {"unshare": (272, 97)},
        (ArgumentCondition(0, "has any of", _NAMESPACES | _NEW_TIME),),
        unless="userns",
    ),
    Rule(
        "enters namespaces of other processes",
        {"setns": (308, 268)},
    ),
    Rule(
        "changes what lies where in the tree of files",
        {
            "mount": (165, 40),
            "umount2": (166, 39),
            "pivot_root": (155, 41),
            "open_tree": (428, 428),
            "open_tree_attr": (467, 467),
            "move_mount": (429, 429),
            "fsopen": (430, 430),
            "fsconfig": (431, 431),
            "fsmount": (432, 432),
            "fspick": (433, 433),
            "mount_setattr": (442, 442),
        },
    ),
    Rule(
        "changes what lies where in the tree of files; a browser's own sandbox uses it",
        {"chroot": (161, 51)},
        unless="userns",
    ),
    Rule(
        "opens a file by a number instead of a path, past the directories on its way",
        {"open_by_handle_at": (304, 265)},
    ),
    Rule(
        "watches what others do with files anywhere",
        {"fanotify_init": (300, 262)},
    ),
    Rule(
        "runs code in the kernel, or watches the machine from there",
        {"bpf": (321, 280), "perf_event_open": (298, 241), "lookup_dcookie": (212, 18)},
    ),
    Rule(
        "makes the kernel wait for a process at its weakest moments: a step of many attacks",
        {"userfaultfd": (323, 282)},
    ),
    Rule(
        "loads code into the kernel, or another kernel",
        {
            "init_module": (175, 105),
            "finit_module": (313, 273),
            "delete_module": (176, 106),
            "create_module": (174, None),
            "kexec_load": (246, 104),
            "kexec_file_load": (320, 294),
        },
    ),
    Rule(
        "types into a terminal that others read from, or into the console",
        {"ioctl": (16, 29)},
        (
            ArgumentCondition(1, "is", 0x5412),
            ArgumentCondition(1, "is", 0x541C),
        ),  # TIOCSTI, TIOCLINUX
    ),
    Rule(
        "is about the machine: its clock, names, swap, log, quotas, power, hardware",
        {
            "acct": (163, 89),
            "clock_settime": (227, 112),
            "ioperm": (173, None),
            "iopl": (172, None),
            "modify_ldt": (154, None),
            "nfsservctl": (180, 42),
            "quotactl": (179, 60),
            "quotactl_fd": (443, 443),
            "reboot": (169, 142),
            "setdomainname": (171, 162),
            "sethostname": (170, 161),
            "settimeofday": (164, 170),
            "swapoff": (168, 225),
            "swapon": (167, 224),
            "syslog": (103, 116),
            "uselib": (134, None),
            "vhangup": (153, 58),
        },
    ),
)
_SIGNALS: Final = {
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_open": (434, 434),
}
_EVERYBODY: Final = -1


def rules(allowed: frozenset[Allowance], spared: tuple[int, ...]) -> tuple[Rule, ...]:
    """Return the rules without those `allowed`. `spared`: process ids, or groups, not to signal."""
    signals = Rule(
        "ends the hub, or the parent that keeps this child's processes together",
        _SIGNALS,
        tuple(
            ArgumentCondition(0, "is", one) for one in (PARENT, PARENTS_GROUP, _EVERYBODY, *spared)
        ),
    )
    return *(rule for rule in RULES if rule.unless not in allowed), signals


# The filter is classic BPF. Each instruction: an operation, two jumps and a number.

_LOAD, _RETURN = 0x20, 0x06
_IF_EQUAL, _IF_AT_LEAST, _IF_ANY_BIT = 0x15, 0x35, 0x45
_ALLOW, _REFUSE = 0x7FFF_0000, 0x0005_0000
_NUMBER_AT, _MACHINE_AT, _ARGUMENTS_AT = 0, 4, 16
_MACHINES: Final = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}
_X32: Final = 0x4000_0000
_X32_ALONE: Final = (512, 548)
"""Call numbers of x32 that kernels before 5.4 accept from any program."""


def _step(operation: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    parts = ((operation, 2), (then, 1), (otherwise, 1), (value & 0xFFFF_FFFF, 4))
    return b"".join(number.to_bytes(size, "little") for number, size in parts)


def compiled(
    machine: Architecture, allowed: frozenset[Allowance] = frozenset(), spared: tuple[int, ...] = ()
) -> bytes:
    """Return the filter for a machine. It refuses all calls of 32 bit and x32 programs."""
    missing = _step(_RETURN, _REFUSE | _ENOSYS)
    steps = [_step(_LOAD, _MACHINE_AT), _step(_IF_EQUAL, _MACHINES[machine], 1), missing]
    steps.append(_step(_LOAD, _NUMBER_AT))
    if machine == "x86_64":
        first, end = _X32_ALONE
        steps += (_step(_IF_AT_LEAST, _X32, 0, 1), missing)
        steps += (_step(_IF_AT_LEAST, end, 2), _step(_IF_AT_LEAST, first, 0, 1), missing)
    for rule in rules(allowed, spared):
        refused = _refusal(rule)
        for numbers in rule.calls.values():
            number = numbers[0 if machine == "x86_64" else 1]
            if number is not None:
                steps += (_step(_IF_EQUAL, number, 0, len(refused)), *refused)
    return b"".join((*steps, _step(_RETURN, _ALLOW)))


def _refusal(rule: Rule) -> list[bytes]:
    """Return the instructions for a call of `rule`."""
    refuse = _step(_RETURN, _REFUSE | rule.error)
    if not rule.when:
        return [refuse]
    steps: list[bytes] = []
    for condition in rule.when:
        jumps = (1, 0) if condition.how == "is not" else (0, 1)
        operation = _IF_ANY_BIT if condition.how == "has any of" else _IF_EQUAL
        steps.append(_step(_LOAD, _ARGUMENTS_AT + 8 * condition.argument))
        steps += (_step(operation, condition.value, *jumps), refuse)
    return [*steps, _step(_RETURN, _ALLOW)]
