"""What a confined program is refused by seccomp and without capabilities, on this machine."""

from __future__ import annotations

import ctypes
import errno
import os
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from hub.confinement import landlock, launcher
from hub.confinement.seccomp_rules import PARENT, PARENTS_GROUP, compiled, rules
from hub.specs import Allowance
from tests.conftest import PROJECT
from tests.kit.confinement import SYSTEM_READ, RefusingLibc, needs_landlock

pytestmark = [
    needs_landlock,
    pytest.mark.live,
    pytest.mark.skipif(
        bool(launcher.why_no_seccomp()),
        reason=f"no system call is filtered here: {launcher.why_no_seccomp()}",
    ),
]
needs_root = pytest.mark.skipif(
    not hasattr(os, "getuid") or os.getuid() != 0, reason="only root has rights: run it as root"
)

PYTHON = [sys.executable, "-I", "-S", "-B"]
LINUX_32 = 8
CALL = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    ctypes.set_errno(0)
    wide = [ctypes.c_long(one) for one in (*arguments, 0, 0, 0, 0, 0, 0)[:6]]
    found = libc.syscall(ctypes.c_long(number), *wide)
    return -ctypes.get_errno() if found == -1 else found
"""


def begin(
    code: str,
    *arguments: object,
    allowed: frozenset[Allowance] = frozenset(),
    filtered: bool = True,
    write: tuple[Path, ...] = (),
) -> subprocess.CompletedProcess[str]:
    """Run Python code as a confined child is run, or the same without."""
    machine = launcher.architecture()
    assert machine is not None
    file_grants: list[tuple[str, str, tuple[int, int] | None]] = [
        ("r", place, None)
        for place in (*SYSTEM_READ, "/proc", "/tmp")  # noqa: S108 - read
    ]
    file_grants += [("w", str(place), None) for place in write]
    kept = launcher.FILES_OF_ANY_OWNER if "any_owner" in allowed else ()
    above = (PARENT, PARENTS_GROUP)
    refused = compiled(machine, allowed)
    held = launcher.encode(landlock.encode(file_grants), refused, above, kept)
    before = [*PYTHON, launcher.__file__, held, sys.executable] if filtered else []
    return subprocess.run(  # noqa: S603 - our own program
        [*before, *PYTHON, "-c", CALL + code, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        start_new_session=True,
        env={"PATH": os.environ["PATH"]},
    )


def numbers(*names: str) -> list[int]:
    """Return the numbers of calls on this machine."""
    at = ["x86_64", "aarch64"].index(str(launcher.architecture()))
    all_calls = {name: both for rule in rules(frozenset(), ()) for name, both in rule.calls.items()}
    found = [all_calls[name][at] for name in names]
    return [one for one in found if one is not None]


def test_every_call_of_the_list_is_refused_here() -> None:
    at = ["x86_64", "aarch64"].index(str(launcher.architecture()))
    tried: list[tuple[str, int, list[int], int]] = []
    for rule in rules(frozenset(), ()):
        for name, both in rule.calls.items():
            number = both[at]
            for test in rule.when or (None,):
                arguments = [0] * 6
                if test is not None:
                    # A process that there is not, so that a call let through by mistake harms none.
                    there_is_none = (1 << 22) + 5
                    arguments[test.argument] = there_is_none if test.how == "is not" else test.value
                if number is not None and (
                    test is None or test.value not in {PARENT, PARENTS_GROUP}
                ):
                    tried.append((name, number, arguments, rule.error))
    code = "for n, a in eval(sys.argv[1]): print(call(n, *a))"
    found = begin(code, [(number, arguments) for _, number, arguments, _ in tried])
    assert found.stderr == ""
    refused = dict.fromkeys((name for name, *_ in tried), 0)
    for (name, _, _, error), said in zip(tried, found.stdout.split(), strict=True):
        assert int(said) == -error, name
        refused[name] += 1
    assert len(refused) > 60


HARMS = {
    "limits of its parent": ("prlimit64", "resource.prlimit(above, resource.RLIMIT_CORE)"),
    "its parent's niceness": ("setpriority", "os.setpriority(0, above, os.getpriority(0, above))"),
    "its parent's processors": (
        "sched_setaffinity",
        "os.sched_setaffinity(above, os.sched_getaffinity(above))",
    ),
    "its parent's end": ("kill", "os.kill(above, 0)"),
    "its parent's group's end": ("kill", "os.kill(-os.getpgid(above), 0)"),
    "a handle of its parent": ("pidfd_open", "os.pidfd_open(above)"),
}


@pytest.mark.parametrize("what", HARMS)
def test_its_parent_is_out_of_reach(what: str) -> None:
    code = f"import resource; above = os.getppid(); {HARMS[what][1]}; print('HARM')"
    assert begin(code, filtered=False).stdout == "HARM\n"
    found = begin(code)
    assert found.stdout == ""
    assert "PermissionError" in found.stderr or "ProcessLookupError" in found.stderr


ALONE = """
import os, sys
sys.path.append(sys.argv[1])
from hub.confinement.launcher import filled_in, load
above, other = os.getppid(), int(sys.argv[5])
numbers = {int(sys.argv[3]): above, int(sys.argv[4]): -os.getpgid(above)}
load(filled_in(bytes.fromhex(sys.argv[2]), numbers))
for one in above, -os.getpgid(above), -1, other:
    try:
        os.kill(one, 0)
        print("HARM")
    except PermissionError:
        print("refused")
"""


def test_without_landlocks_scopes_its_parent_is_out_of_reach_and_others_are_not() -> None:
    machine = launcher.architecture()
    assert machine is not None
    with subprocess.Popen(["/bin/sleep", "60"]) as other:
        numbers = (PARENT, PARENTS_GROUP, other.pid)
        filtered = compiled(machine).hex()
        command = [*PYTHON, "-c", ALONE, str(PROJECT), filtered, *map(str, numbers)]
        found = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - ours
        other.kill()
    assert found.stdout.split() == ["refused", "refused", "refused", "HARM"], found.stderr


def test_a_limit_that_would_end_the_hub_is_not_set() -> None:
    code = (
        "import resource, subprocess, sys, time\n"
        "def probe():\n"
        "    try: resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (1, 1))\n"
        "    except PermissionError: print('refused')\n"
        "    else: print('HARM')\n"
        "probe()\n"
    )
    wrapped = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)"
    machine = launcher.architecture()
    assert machine is not None
    file_grants = landlock.encode([("r", place, None) for place in SYSTEM_READ])
    held = launcher.encode(file_grants, compiled(machine), (PARENT, PARENTS_GROUP))
    bare = [*PYTHON, "-c", CALL + code]
    confined = [*PYTHON, launcher.__file__, held, sys.executable, *bare]
    # The parent is one of the test's own, which a limit may end.
    for command, said in ((bare, "HARM"), (confined, "refused")):
        between = [*PYTHON, "-c", wrapped, *command]
        found = subprocess.run(between, capture_output=True, text=True, check=False)  # noqa: S603 - ours
        assert found.stdout.strip() == said, found.stderr


def test_system_calls_on_the_process_itself_are_allowed() -> None:
    prlimit, unshare = numbers("prlimit64", "unshare")
    code = f"""
import resource, signal, socket, subprocess, threading
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
assert call({prlimit}, 0, 4, 0, 0) == 0
os.setpriority(os.PRIO_PROCESS, 0, 19)
os.sched_setaffinity(0, os.sched_getaffinity(0))
os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
assert call({unshare}, 0x400) == 0  # CLONE_FILES
thread = threading.Thread(target=lambda: None); thread.start(); thread.join()
assert subprocess.run(["/bin/sh", "-c", "exit 7"]).returncode == 7
if os.fork() == 0: os._exit(0)
os.wait()
child = subprocess.Popen(["/bin/sleep", "60"]); os.kill(child.pid, signal.SIGTERM)
assert child.wait() == -signal.SIGTERM
os.kill(os.getpid(), 0); os.killpg(0, 0)
socket.create_server(("127.0.0.1", 0)).close()
print("done")
"""
    found = begin(code)
    assert (found.stdout, found.stderr) == ("done\n", "")


def test_a_user_namespace_is_made_only_where_it_is_allowed() -> None:
    (unshare,) = numbers("unshare")
    code = f"print(call({unshare}, 0x10000000))"
    if begin(code, filtered=False).stdout != "0\n":
        pytest.skip("this machine lets nobody make user namespaces: see its sysctl settings")
    assert begin(code).stdout == f"-{errno.EPERM}\n"
    assert begin(code, allowed=frozenset({"userns"})).stdout == "0\n"


INTO_32_BIT = """
import mmap
code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(bytes.fromhex("b814000000cd80c3"))  # mov eax, 20 (getpid); int 0x80; ret
address = ctypes.addressof(ctypes.c_char.from_buffer(code))
print(ctypes.CFUNCTYPE(ctypes.c_int)(address)())
"""


@pytest.mark.skipif(launcher.architecture() != "x86_64", reason="only x86_64 has such calls")
def test_calls_of_other_kinds_of_programs_are_refused() -> None:
    assert begin("print(call(0x40000000 | 39))").stdout == f"-{errno.ENOSYS}\n"
    bare = begin(INTO_32_BIT, filtered=False)
    if bare.returncode or int(bare.stdout) <= 0:
        pytest.skip("this kernel was built without calls of 32 bit (IA32_EMULATION)")
    assert begin(INTO_32_BIT).stdout == f"-{errno.ENOSYS}\n"


STATUS = """
said = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(*(said[name].strip() for name in
        ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")))
"""


def test_no_capabilities_are_left_and_none_can_be_gained() -> None:
    *rights, no_new, mode = begin(STATUS).stdout.split()
    bounding = rights.pop(3)
    assert {int(one, 16) for one in rights} == {0}
    assert (no_new, mode) == ("1", "2")
    if os.getuid() == 0:
        assert int(bounding, 16) == 0


@needs_root
def test_roots_rights_to_files_can_be_kept_and_no_others() -> None:
    _, permitted, effective, bounding, *_ = begin(
        STATUS, allowed=frozenset({"any_owner"})
    ).stdout.split()
    wanted = sum(1 << number for number in launcher.FILES_OF_ANY_OWNER)
    assert {int(one, 16) for one in (permitted, effective, bounding)} == {wanted}


@needs_root
@pytest.mark.parametrize("allowed", [frozenset[Allowance](), frozenset[Allowance]({"any_owner"})])
def test_files_of_other_owners_are_as_for_anybody_unless_that_is_allowed(
    allowed: frozenset[Allowance], tmp_path: Path
) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    file = inside / "file"
    file.write_text("theirs")
    file.chmod(0o600)
    os.chown(file, 4711, 4711)
    found = begin("print(open(sys.argv[1]).read())", file, allowed=allowed, write=(inside,))
    assert (found.stdout == "theirs\n") == bool(allowed)
    assert ("PermissionError" in found.stderr) == (not allowed)


# A machine without


@pytest.mark.parametrize(
    ("error", "says"),
    [(errno.EFAULT, ""), (errno.EINVAL, "SECCOMP_FILTER"), (errno.EPERM, "a container forbids")],
)
def test_a_machine_that_cannot_filter_says_why(
    error: int, says: str, libc: Callable[[object], None]
) -> None:
    libc(RefusingLibc(error))
    assert (says in launcher.why_no_seccomp()) if says else launcher.why_no_seccomp() == ""
    with pytest.raises(launcher.SeccompError, match="filter of system calls cannot be loaded"):
        launcher.load(b"")


@pytest.fixture
def in_32_bits() -> Generator[None]:
    """Let the kernel name the machine as `setarch linux32` has it, to this thread."""
    personality, machine = ctypes.CDLL(None).personality, os.uname().machine
    before = personality(LINUX_32)
    try:
        if os.uname().machine == machine:
            pytest.skip("this kernel has no other name for the machine")
        yield
    finally:
        personality(before)


@pytest.mark.usefixtures("in_32_bits")
def test_a_machine_of_another_kind_has_no_filter() -> None:
    assert launcher.architecture() is None
    assert "x86_64 and aarch64" in launcher.why_no_seccomp()


def test_another_system_has_no_filter(platform: Callable[[str], None]) -> None:
    platform("darwin")
    assert launcher.why_no_seccomp() == "only Linux has seccomp"


def test_a_filter_that_the_kernel_does_not_take_runs_nothing() -> None:
    held = launcher.encode(landlock.encode([]), b"\0" * 8)
    command = [*PYTHON, launcher.__file__, held, "/bin/echo", "echo", "ran"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - ours
    assert (found.returncode, found.stdout) == (launcher.FAILED, "")
    assert "filter of system calls cannot be loaded" in found.stderr
